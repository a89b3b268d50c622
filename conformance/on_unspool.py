"""unspool as a `Library`, and cells of our own as its users write them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

import unspool
from conformance.library import StateSaver
from conformance.structures import pack
from unspool.dtypes import as_dtype
from unspool.structure import flatten, unflatten_as


class Unspool:
    """`Library` for unspool."""

    cpu = "cpu"

    def loop(self, name: str) -> Callable[..., Any]:
        """The loop of that name."""
        return getattr(unspool, name)

    def cell(self, kind: str) -> Callable[..., Any]:
        """The cell class of that name."""
        return _CELLS.get(kind) or getattr(unspool, kind)

    def activation(self, name: str) -> Callable[[Any], Any]:
        """The function of that name in torch, so that unspool's own table of names is not in question."""
        return getattr(torch, name, None) or getattr(nn.functional, name)

    def keep_all(self, dtype: str) -> Tensor:
        """A keep probability of 1 that is known only at run time."""
        return torch.tensor(1.0, dtype=as_dtype(dtype))

    def flatten(self, structure: Any) -> list[Any]:
        """The leaves of a structure."""
        return flatten(structure)

    def pack_as(self, structure: Any, leaves: Sequence[Any]) -> Any:
        """The leaves in the containers of a structure."""
        return unflatten_as(structure, list(leaves))

    def stack(self, tensors: Sequence[Any], axis: int) -> Tensor:
        """Tensors along a new axis."""
        return torch.stack(list(tensors), axis)

    def unstack(self, tensor: Any, axis: int) -> Sequence[Any]:
        """A tensor's slices along an axis."""
        return tensor.unbind(axis)

    def at(self, tensor: Any, index: Any) -> Any:
        """`tensor[index]`, or its last element where the index is past the end."""
        return tensor[min(index, tensor.shape[0] - 1)]

    def sum_of_rows(self, tensor: Any) -> Any:
        """The sum of each row of a matrix."""
        return tensor.sum(1)

    def constant(self, values: Any, dtype: str) -> Tensor:
        """A tensor of these values."""
        return torch.tensor(values, dtype=as_dtype(dtype))

    def is_floating(self, tensor: Any) -> bool:
        """Whether a tensor can have a gradient."""
        return tensor.is_floating_point()

    def tensor_array(self, dtype: str) -> unspool.TensorArray:
        """An empty TensorArray that grows."""
        return unspool.TensorArray(dtype)

    def state_saver(self, states: dict[str, Any]) -> _StateSaver:
        """A state saver that starts from `states`; what it is given it keeps in `saved`, by name."""
        return _StateSaver(states)


class _StateSaver(StateSaver):
    def save_state(self, name: str, value: Any) -> None:
        self.saved[name] = value


# -- cells of our own; `on_tensorflow.py` has their twins ------------------------------------------------------------


class NestedCell(unspool.RNNCell):
    """A cell with three inputs, of rank 2, rank 3 and integers, two states and one or two outputs.

    h' = tanh(matrix @ w + h @ u + table[tokens])
    s' = s / 2 + tanh(einsum("bdk,dn->bnk", cube, w)) * h'
    """

    w: Tensor
    u: Tensor
    table: Tensor

    def __init__(self, num_units: int, outputs: str, states: str, name: str | None = None) -> None:
        super().__init__(name=name)
        self._units, self._outputs, self._states = num_units, outputs, states
        sizes = [num_units, torch.Size([num_units, 2])]
        self.state_size = pack(states, sizes)
        self.output_size = pack(outputs, sizes[:1] if outputs == "leaf" else sizes)

    def build(self, input_size: Any, **where: Any) -> None:
        """Makes the weights."""
        depth = flatten(input_size)[0]
        self.add_weight("w", (depth, self._units), nn.init.zeros_, **where)
        self.add_weight("u", (self._units, self._units), nn.init.zeros_, **where)
        self.add_weight("table", (3, self._units), nn.init.zeros_, **where)

    def forward(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """One step."""
        (matrix, cube, tokens), (h, s) = flatten(inputs), flatten(state)
        h = torch.tanh(matrix @ self.w + h @ self.u + self.table[tokens[:, 0]])
        s = s / 2 + torch.tanh(torch.einsum("bdk,dn->bnk", cube, self.w)) * h[:, :, None]
        output = [h] if self._outputs == "leaf" else [h, s]
        return pack(self._outputs, output), pack(self._states, [h, s])


class CountingCell(unspool.RNNCell):
    """A cell whose state has several dtypes and ranks: a vector, an integer a row, and an integer for the whole batch.

    h' = tanh(x @ kernel + h / 2 + cos(count)); the row's count and the batch's clock go up by one.
    """

    kernel: Tensor

    def __init__(self, num_units: int, name: str | None = None) -> None:
        super().__init__(name=name)
        self.output_size = num_units
        self.state_size = (num_units, torch.Size([]), torch.Size([]))

    def build(self, input_size: Any, **where: Any) -> None:
        """Makes the weight."""
        self.add_weight("kernel", (input_size, self.output_size), nn.init.zeros_, **where)

    def zero_state(self, batch_size: int | Tensor, dtype: Any, device: Any = None) -> Any:
        """Zeros, each in its own dtype."""
        h = torch.zeros(int(batch_size), self.output_size, dtype=as_dtype(dtype), device=device)
        return h, h.new_zeros(int(batch_size), dtype=torch.int32), h.new_zeros((), dtype=torch.int32)

    def forward(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """One step."""
        h, count, clock = state
        h = torch.tanh(inputs @ self.kernel + h / 2 + torch.cos(count.to(h.dtype))[:, None])
        return h, (h, count + 1, clock + 1)


_CELLS: dict[str, Callable[..., Any]] = {"NestedCell": NestedCell, "CountingCell": CountingCell}
