"""A cell that looks back at its own last outputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from unspool.cells.layer import check_units, check_width, glorot_uniform
from unspool.cells.like import variables_of
from unspool.cells.wrappers.wrapper import RNNCellWrapper
from unspool.flags import checks_flags
from unspool.sizes import shape_of
from unspool.structure import Structure, flatten, is_leaf


class AttentionCellWrapper(RNNCellWrapper):
    """A cell with attention over its last outputs (Bahdanau, Cho & Bengio, 2015, "Neural Machine Translation by Jointly
    Learning to Align and Translate", ICLR).

        y, s'   = cell([x, a] @ kernel + bias, s)
        score_k = attn_v . tanh(m_k @ attn_w + s' @ query_kernel + query_bias)       for the last outputs m_1 .. m_L
        a'      = sum over k of softmax(score)_k m_k
        output  = [y, a'] @ output_kernel + output_bias
        m'      = m_2 .. m_L, output

    The state is `(s, a, m)`, the last as one row.

    Args:
        cell: the cell to wrap.
        attn_length: the number L of outputs that are seen.
        attn_size: the width of an output; the cell's by default.
        attn_vec_size: the width of what the score is computed from; `attn_size` by default.
        input_size: the width of what the cell reads; that of the inputs by default.
        state_is_tuple: whether the state is a tuple or one tensor, for cells whose state is one.
        reuse: only None or False; a cell owns its weights.

    >>> from unspool import GRUCell
    >>> cell = AttentionCellWrapper(GRUCell(3), attn_length=4)
    >>> output, (state, attention, memory) = cell(torch.zeros(2, 5), cell.zero_state(2, torch.float32))
    >>> output.shape, memory.shape
    (torch.Size([2, 3]), torch.Size([2, 12]))
    """

    kernel: Tensor
    bias: Tensor
    attn_w: Tensor
    attn_v: Tensor
    query_kernel: Tensor
    query_bias: Tensor
    output_kernel: Tensor
    output_bias: Tensor

    @checks_flags
    def __init__(
        self,
        cell: Any,
        attn_length: int,
        attn_size: int | None = None,
        attn_vec_size: int | None = None,
        input_size: int | None = None,
        state_is_tuple: bool = True,
        reuse: bool | None = None,
    ) -> None:
        super().__init__(cell)
        if not is_leaf(self.cell.state_size) and not state_is_tuple:
            raise ValueError(
                "Cell returns tuple of states, but the flag state_is_tuple is not set. State size is: "
                f"{self.cell.state_size}"
            )
        if attn_length <= 0:
            raise ValueError(f"attn_length should be greater than zero, got {attn_length}")
        self.attn_length = check_units("attn_length", attn_length)
        self.attn_size = check_units("attn_size", self.cell.output_size if attn_size is None else attn_size)
        self.attn_vec_size = check_units("attn_vec_size", self.attn_size if attn_vec_size is None else attn_vec_size)
        self.input_size, self.state_is_tuple, self.reuse = input_size, state_is_tuple, reuse
        self.declare_weights("kernel", "bias", "attn_w", "attn_v", "query_kernel", "query_bias")
        self.declare_weights("output_kernel", "output_bias")

    @property
    def state_size(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The cell's, the width of what was seen, and that of all outputs that can be."""
        sizes = self.cell.state_size, self.attn_size, self.attn_size * self.attn_length
        return sizes if self.state_is_tuple else sum(sizes)

    @property
    def output_size(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The width of an output."""
        return self.attn_size

    def zero_state(self, batch_size: int | Tensor, dtype: Any, device: Any = None) -> Structure:
        """Zeros: nothing was put out yet."""
        return super(RNNCellWrapper, self).zero_state(batch_size, dtype, device)

    def build(self, input_size: Any, **where: Any) -> None:
        """Builds the cell, and makes the attention's weights."""
        depth, seen, width = check_width(input_size, self.name), self.attn_size, self.attn_vec_size
        inside = depth if self.input_size is None else check_units("input_size", self.input_size)
        self.build_cell(inside, **where)
        state = sum(int(torch.Size(shape_of(each)).numel()) for each in flatten(self.cell.state_size))
        output = check_width(self.cell.output_size, self.name)
        shapes = {
            "kernel": (depth + seen, inside),
            "attn_w": (1, 1, seen, width),
            "attn_v": (width,),
            "query_kernel": (state, width),
            "output_kernel": (output + seen, seen),
        }
        for name, shape in shapes.items():
            self.add_weight(name, shape, glorot_uniform, **where)
            if name.endswith("kernel"):
                self.add_weight(f"{name[:-6]}bias", (shape[-1],), nn.init.zeros_, **where)

    def forward(self, inputs: Tensor, state: Any) -> tuple[Tensor, Any]:
        """One step of the cell, and a look at its last outputs."""
        if self.state_is_tuple:
            inner, seen, memory = state
        else:
            inner, seen, memory = state.split(
                [self.cell.state_size, self.attn_size, self.attn_size * self.attn_length], 1
            )
        read = torch.addmm(self.bias, torch.cat([inputs, seen], 1), self.kernel)
        output, inner = self.cell(read, inner)
        query = torch.addmm(self.query_bias, torch.cat(flatten(inner), 1), self.query_kernel)
        rows = memory.reshape(-1, self.attn_length, self.attn_size)
        features = torch.tanh(rows @ self.attn_w[0, 0] + query.unsqueeze(1))
        weights = torch.softmax((features * self.attn_v).sum(2), 1)
        seen = (weights.unsqueeze(2) * rows).sum(1)
        output = torch.addmm(self.output_bias, torch.cat([output, seen], 1), self.output_kernel)
        memory = torch.cat([memory[:, self.attn_size :], output], 1)
        new = (inner, seen, memory)
        return output, new if self.state_is_tuple else torch.cat(new, 1)

    def variables(self) -> Iterator[tuple[str, Tensor]]:
        """The wrapper's and the cell's, below the wrapper's name, in the order TensorFlow makes them."""
        own = {"attn_w": "attention/attn_w", "attn_v": "attention/attn_v"}
        own.update({f"query_{each}": f"attention/{each}" for each in ("kernel", "bias")})
        own.update({f"output_{each}": f"attn_output_projection/{each}" for each in ("kernel", "bias")})
        yield f"{self.name}/kernel", self.kernel
        yield f"{self.name}/bias", self.bias
        for name, weight in variables_of(self.cell):
            yield f"{self.name}/{name}", weight
        for name, path in own.items():
            yield f"{self.name}/{path}", getattr(self, name)
