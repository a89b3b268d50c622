"""Running a cell on a device of its own."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from unspool.cells.like import zero_state_of
from unspool.cells.wrappers.wrapper import RNNCellWrapper
from unspool.dtypes import as_dtype
from unspool.structure import Structure, map_structure


class DeviceWrapper(RNNCellWrapper):
    """The wrapped cell, its weights, states and outputs, on one device, wherever its inputs come from.

    Layers of a `MultiRNNCell` can so live on different devices.

    Args:
        cell: the cell to wrap; if it is a module, it is moved to `device`.
        device: the device, as `torch.device` takes it.

    >>> from unspool import GRUCell
    >>> cell = DeviceWrapper(GRUCell(3), "cpu")
    >>> cell.zero_state(2, torch.float32).device
    device(type='cpu')
    """

    def __init__(self, cell: Any, device: Any) -> None:
        super().__init__(cell)
        self.device = torch.device(device)
        if isinstance(cell, nn.Module):
            cell.to(self.device)

    def build(self, input_size: Any, **where: Any) -> None:
        """Builds the wrapped cell on the device."""
        self.build_cell(input_size, **{**where, "device": self.device})

    def zero_state(self, batch_size: int | Tensor, dtype: Any, device: Any = None) -> Structure:
        """The wrapped cell's own, on the wrapper's device."""
        return zero_state_of(self.cell, batch_size, as_dtype(dtype), self.device)

    def forward(self, inputs: Structure, state: Structure) -> tuple[Structure, Structure]:
        """One step of the cell, with everything brought to its device."""
        return self.cell(*map_structure(self._bring, (inputs, state)))

    def _bring(self, leaf: Any) -> Any:
        return leaf.to(self.device) if isinstance(leaf, Tensor) else leaf
