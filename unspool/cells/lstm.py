"""Long short-term memory, plain and with everything TensorFlow's cell can add to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from unspool.cells.activations import as_activation
from unspool.cells.building import Initializer
from unspool.cells.layer import LayerRNNCell, check_initializer, check_units, glorot_uniform
from unspool.flags import check_flag, checks_flags
from unspool.structure import check_same_structure, describe, is_leaf


class LSTMStateTuple(NamedTuple):
    """The state of an LSTM: the memory `c` first, then the output `h` (`torch.nn.LSTM` has them the other way).

    >>> LSTMStateTuple(c=torch.zeros(2, 3), h=torch.ones(2, 3)).dtype
    torch.float32
    """

    c: Any
    h: Any

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of both; `TypeError` if they differ."""
        if self.c.dtype != self.h.dtype:
            raise TypeError(f"the dtypes of an LSTM state must agree, but c is {self.c.dtype} and h is {self.h.dtype}")
        return self.c.dtype


class BasicLSTMCell(LayerRNNCell):
    """An LSTM without options; the same numbers as `LSTMCell`, under TensorFlow's older name.

        i, j, f, o = split([x, h] @ kernel + bias, 4)
        c' = c * sigmoid(f + forget_bias) + sigmoid(i) * activation(j)
        h' = activation(c') * sigmoid(o)

    Args:
        num_units: the width N of memory and output.
        forget_bias: added to the forget gate at run time; it is not part of `bias`.
        state_is_tuple: whether the state is an `LSTMStateTuple` or one tensor `[c, h]` of width 2 N.
        activation: a function or its name; tanh by default.
        reuse: only None or False; a cell owns its weights.
        name: the cell's name among TensorFlow's variables.
        dtype: the dtype of the weights; by default that of the first inputs.
        trainable: whether the weights require gradients.
        input_size: the depth D of the inputs, to build the weights at once.

    Weights: `kernel [D + N, 4 N]` with gates in the order i, j, f, o, and `bias [4 N]`.

    >>> cell = BasicLSTMCell(3)
    >>> output, (c, h) = cell(torch.zeros(2, 5), cell.zero_state(2, torch.float32))
    >>> output is h, cell.kernel.shape
    (True, torch.Size([8, 12]))
    """

    kernel: Tensor
    bias: Tensor

    @checks_flags
    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Any = None,
        reuse: bool | None = None,
        name: str | None = None,
        dtype: Any = None,
        *,
        trainable: bool = True,
        input_size: int | None = None,
    ) -> None:
        super().__init__(name, dtype, reuse, trainable)
        self.num_units = units = check_units("num_units", num_units)
        self.forget_bias = forget_bias
        self.state_is_tuple = state_is_tuple
        self.activation = as_activation(activation)
        self.state_size = LSTMStateTuple(units, units) if state_is_tuple else 2 * units
        self.output_size = units
        self.declare(input_size)

    def shapes(self, depth: int) -> dict[str, tuple[int, ...]]:
        """The shapes of the weights."""
        return {"kernel": (depth + self.num_units, 4 * self.num_units), "bias": (4 * self.num_units,)}

    def forward(self, inputs: Tensor, state: Any) -> tuple[Tensor, Any]:
        """One step; the output is `h'`."""
        units = self.num_units
        c, h = two_states(state, self.name) if self.state_is_tuple else one_tensor(state, self.name).chunk(2, 1)
        kernel = self.kernel
        self.check_step(inputs, kernel, c=(c, units), h=(h, units))
        i, j, f, o = torch.addmm(self.bias, torch.cat([inputs, h], 1), kernel).chunk(4, 1)
        c = c * torch.sigmoid(f + self.forget_bias) + torch.sigmoid(i) * self.activation(j)
        h = self.activation(c) * torch.sigmoid(o)
        return h, LSTMStateTuple(c, h) if self.state_is_tuple else torch.cat([c, h], 1)


class LSTMCell(LayerRNNCell):
    """An LSTM with peepholes, clipping and a projection (Sak et al., 2014), each optional.

        i, j, f, o = split([x, h] @ kernel + bias, 4)
        c' = c * sigmoid(f + forget_bias + w_f * c) + sigmoid(i + w_i * c) * activation(j)
        c' = clip(c', cell_clip)
        h' = clip((sigmoid(o + w_o * c') * activation(c')) @ projection, proj_clip)

    The weights `w` are there with `use_peepholes`, the projection with `num_proj`.

    Args:
        num_units: the width N of the memory.
        use_peepholes: whether the gates see the memory, unit by unit.
        cell_clip: bound of the memory's absolute value; None for none (0.0 clips to zero).
        initializer: fills the kernel, the peepholes (vectors) and the projection; Glorot's uniform by default.
        num_proj: the width P of output and `h`; None for N, without a projection.
        proj_clip: bound of the projection's absolute value; without `num_proj` it does nothing.
        num_unit_shards, num_proj_shards: in how many pieces a TensorFlow checkpoint holds kernel and projection;
            they change names only (see `tf_variables`).
        forget_bias: added to the forget gate at run time; it is not part of `bias`.
        state_is_tuple: whether the state is an `LSTMStateTuple` or one tensor `[c, h]` of width N + P.
        activation: a function or its name; tanh by default.
        reuse: only None or False; a cell owns its weights.
        name: the cell's name among TensorFlow's variables.
        dtype: the dtype of the weights; by default that of the first inputs.
        trainable: whether the weights require gradients.
        input_size: the depth D of the inputs, to build the weights at once. Only by keyword: TensorFlow's second
            positional argument is `use_peepholes`.

    Weights: `kernel [D + P, 4 N]` with gates in the order i, j, f, o; `bias [4 N]`; `w_f_diag`, `w_i_diag`,
    `w_o_diag` `[N]`; `projection_kernel [N, P]`.

    >>> cell = LSTMCell(4, use_peepholes=True, num_proj=3)
    >>> output, state = cell(torch.zeros(2, 5), cell.zero_state(2, torch.float32))
    >>> output.shape, state.c.shape, state.h.shape
    (torch.Size([2, 3]), torch.Size([2, 4]), torch.Size([2, 3]))
    """

    kernel: Tensor
    bias: Tensor
    w_f_diag: Tensor
    w_i_diag: Tensor
    w_o_diag: Tensor
    projection_kernel: Tensor
    variable_names = {"projection_kernel": "projection/kernel"}

    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        cell_clip: float | None = None,
        initializer: Any = None,
        num_proj: int | None = None,
        proj_clip: float | None = None,
        num_unit_shards: int | None = None,
        num_proj_shards: int | None = None,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Any = None,
        reuse: bool | None = None,
        name: str | None = None,
        dtype: Any = None,
        *,
        trainable: bool = True,
        input_size: int | None = None,
    ) -> None:
        check_flag("use_peepholes", use_peepholes, _input_size_hint(num_units, use_peepholes))
        check_flag("state_is_tuple", state_is_tuple)
        super().__init__(name, dtype, reuse, trainable)
        self.num_units = units = check_units("num_units", num_units)
        self.use_peepholes = use_peepholes
        self.cell_clip = cell_clip
        self.initializer = check_initializer("initializer", initializer)
        self.num_proj = None if num_proj is None else check_units("num_proj", num_proj)
        self.proj_clip = proj_clip
        self.num_unit_shards = None if num_unit_shards is None else check_units("num_unit_shards", num_unit_shards)
        self.num_proj_shards = None if num_proj_shards is None else check_units("num_proj_shards", num_proj_shards)
        self.forget_bias = forget_bias
        self.state_is_tuple = state_is_tuple
        self.activation = as_activation(activation)
        self.output_size = width = self.num_proj or units
        self.state_size = LSTMStateTuple(units, width) if state_is_tuple else units + width
        self.declare(input_size)

    def shapes(self, depth: int) -> dict[str, tuple[int, ...]]:
        """The shapes of the weights."""
        units, width = self.num_units, self.output_size
        shapes: dict[str, tuple[int, ...]] = {"kernel": (depth + width, 4 * units), "bias": (4 * units,)}
        if self.use_peepholes:
            shapes.update(w_f_diag=(units,), w_i_diag=(units,), w_o_diag=(units,))
        if self.num_proj:
            shapes.update(projection_kernel=(units, width))
        return shapes

    def initializer_of(self, weight: str) -> Initializer:
        """What fills a weight."""
        return nn.init.zeros_ if weight == "bias" else self.initializer or glorot_uniform

    def forward(self, inputs: Tensor, state: Any) -> tuple[Tensor, Any]:
        """One step; the output is `h'`."""
        units, width = self.num_units, self.output_size
        if self.state_is_tuple:
            c, h = two_states(state, self.name)
        else:
            # TensorFlow slices here, so a state that is too wide is cut, unlike in BasicLSTMCell.
            state = one_tensor(state, self.name)
            c, h = state[:, :units], state[:, units : units + width]
        kernel = self.kernel
        self.check_step(inputs, kernel, c=(c, units), h=(h, width))
        i, j, f, o = torch.addmm(self.bias, torch.cat([inputs, h], 1), kernel).chunk(4, 1)
        f = f + self.forget_bias
        if self.use_peepholes:
            f, i = f + self.w_f_diag * c, i + self.w_i_diag * c
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * self.activation(j)
        if self.cell_clip is not None:
            c = c.clamp(-self.cell_clip, self.cell_clip)
        if self.use_peepholes:
            o = o + self.w_o_diag * c
        h = torch.sigmoid(o) * self.activation(c)
        if self.num_proj:
            h = h @ self.projection_kernel
            if self.proj_clip is not None:
                h = h.clamp(-self.proj_clip, self.proj_clip)
        return h, LSTMStateTuple(c, h) if self.state_is_tuple else torch.cat([c, h], 1)

    def variables(self) -> Iterator[tuple[str, Tensor]]:
        """The weights by TensorFlow's names; a sharded kernel as its pieces, which are views into it."""
        shards = {f"{self.name}/kernel": self.num_unit_shards, f"{self.name}/projection/kernel": self.num_proj_shards}
        for name, weight in super().variables():
            if pieces := shards.get(name):
                with torch.no_grad():
                    parts = weight.tensor_split(min(pieces, len(weight)))
                yield from ((f"{name}/part_{k}", part) for k, part in enumerate(parts))
            else:
                yield name, weight


def two_states(state: Any, name: str) -> tuple[Tensor, Tensor]:
    """`c` and `h` of an `LSTMStateTuple`: those of a plain tuple may stand in torch's order, (h, c)."""
    if not isinstance(state, LSTMStateTuple):
        if is_leaf(state) or len(state) != 2:
            raise ValueError(f"{name}: state must be an LSTMStateTuple(c=..., h=...), but is {describe(state)}")
        check_same_structure(LSTMStateTuple(0, 0), state, name="state", like="cell.state_size")
    c, h = state
    return c, h


def _input_size_hint(num_units: Any, use_peepholes: Any) -> str:
    """What to write instead of torch's (input size, hidden size)."""
    sizes = all(isinstance(each, int) and not isinstance(each, bool) for each in (num_units, use_peepholes))
    if not sizes or use_peepholes < 2:
        return ""
    return (
        f"; for {use_peepholes} units and inputs of {num_units} write LSTMCell({use_peepholes}, input_size={num_units})"
    )


def one_tensor(state: Any, name: str) -> Tensor:
    """`state`, if it is one matrix."""
    if not isinstance(state, Tensor) or state.dim() != 2:
        what = list(state.shape) if isinstance(state, Tensor) else describe(state)
        raise ValueError(f"{name}: with state_is_tuple=False, state must be one tensor [batch, width], but is {what}")
    return state
