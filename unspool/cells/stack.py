"""Cells on top of one another."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from unspool.cells.cell import RNNCell
from unspool.cells.like import (
    check_inputs_of,
    ensure_built_for,
    start_sequence,
    variables_of,
    zero_state_of,
)
from unspool.cells.torch_cells import as_cell
from unspool.dtypes import as_dtype
from unspool.flags import checks_flags
from unspool.structure import Structure, describe, is_leaf
from unspool.tracers import static_shape


class MultiRNNCell(RNNCell):
    """Cells on top of one another: the output of each is the input of the next.

        for k, cell in enumerate(cells):
            inputs, states[k] = cell(inputs, states[k])

    Args:
        cells: the cells, from the inputs upwards. The same cell twice is one cell with shared weights.
        state_is_tuple: whether the state is a tuple of the cells' states or all of them in one tensor.

    >>> from unspool import LSTMCell, GRUCell
    >>> stack = MultiRNNCell([LSTMCell(4), GRUCell(3)])
    >>> stack.state_size, stack.output_size
    ((LSTMStateTuple(c=4, h=4), 3), 3)
    """

    @checks_flags
    def __init__(self, cells: Sequence[Any], state_is_tuple: bool = True) -> None:
        super().__init__()
        cells = list(cells) if isinstance(cells, nn.ModuleList) else cells
        if is_leaf(cells) or isinstance(cells, dict):
            raise TypeError(f"cells must be a list or tuple of cells, but is {describe(cells)}")
        if not cells:
            raise ValueError("cells is empty: MultiRNNCell needs at least one cell")
        made = {id(cell): as_cell(f"cells[{k}]", cell) for k, cell in enumerate(cells)}
        cells = [made[id(cell)] for cell in cells]
        if len({id(cell) for cell in cells}) < len(cells):
            warnings.warn(
                "MultiRNNCell was given the same cell object more than once: those layers share their weights. "
                "For layers of their own, make a cell for each.",
                stacklevel=3,
            )
        if not state_is_tuple and any(not is_leaf(cell.state_size) for cell in cells):
            raise ValueError(
                "state_is_tuple=False needs cells whose states are single tensors, but their state sizes are "
                f"{[cell.state_size for cell in cells]}"
            )
        self.state_is_tuple = state_is_tuple
        # TensorFlow's names, so that the keys of a state_dict and of a checkpoint correspond.
        self._layers = tuple(f"cell_{k}" for k in range(len(cells)))
        for layer, cell in zip(self._layers, cells, strict=True):
            setattr(self, layer, cell)
        states = tuple(cell.state_size for cell in cells)
        self.state_size = states if state_is_tuple else sum(states)
        self.output_size = cells[-1].output_size

    @property
    def cells(self) -> list[Any]:
        """The cells, from the inputs upwards."""
        return [getattr(self, layer) for layer in self._layers]

    @property
    def batch_axis(self) -> Any:
        """Each cell's: which axis of its state's tensors has the rows."""
        return 0 if not self.state_is_tuple else tuple(getattr(cell, "batch_axis", 0) for cell in self.cells)

    def build(self, input_size: Any, **where: Any) -> None:
        """Builds every cell for the output of the one below it."""
        for cell in self.cells:
            ensure_built_for(cell, input_size, **where)
            input_size = cell.output_size

    def check_inputs(self, inputs: Structure, state: Structure) -> None:
        """The lowest cell's check."""
        lowest = state[0] if self.state_is_tuple and not is_leaf(state) and len(state) else ()
        check_inputs_of(self.cells[0], inputs, lowest)

    def start_sequence(self) -> None:
        """Passes it on to cells that are no modules, which a walk through the modules does not find."""
        for cell in self.cells:
            if not isinstance(cell, nn.Module):
                start_sequence(cell)

    def zero_state(self, batch_size: int | Tensor, dtype: Any, device: Any = None) -> Structure:
        """A tuple of each cell's own zero state, or one tensor of zeros."""
        if not self.state_is_tuple:
            return super().zero_state(batch_size, dtype, device)
        return tuple(zero_state_of(cell, batch_size, as_dtype(dtype), device) for cell in self.cells)

    def forward(self, inputs: Structure, state: Structure) -> tuple[Structure, Structure]:
        """One step of every cell; the output is the last cell's."""
        cells = self.cells
        if self.state_is_tuple:
            if is_leaf(state):
                raise ValueError(f"Expected state to be a tuple of length {len(cells)}, but it is {describe(state)}")
            if len(state) < len(cells):
                raise IndexError(f"Expected state to be a tuple of length {len(cells)}, but it has {len(state)}")
            states = list(state)
        else:
            widths = [cell.state_size for cell in cells]
            if not isinstance(state, Tensor) or static_shape(state)[-1] != sum(widths):
                what = list(state.shape) if isinstance(state, Tensor) else describe(state)
                raise ValueError(f"Expected state to be one tensor of width {sum(widths)}, but it is {what}")
            states = list(torch.split(state, widths, 1))
        new_states: list[Any] = []
        for cell, cell_state in zip(cells, states, strict=False):  # as in TensorFlow, states to spare are ignored
            inputs, new_state = cell(inputs, cell_state)
            new_states.append(new_state)
        return inputs, tuple(new_states) if self.state_is_tuple else torch.cat(new_states, 1)

    def variables(self) -> Iterator[tuple[str, Tensor]]:
        """The cells' weights below `multi_rnn_cell/cell_<k>`; a shared cell's only once."""
        for layer, cell in zip(self._layers, self.cells, strict=True):
            for name, weight in variables_of(cell):
                yield f"{self.name}/{layer}/{name}", weight

    def get_config(self) -> dict[str, Any]:
        """The arguments that make another stack like this one, without its weights."""
        cells = [{"class_name": type(cell).__name__, "config": cell.get_config()} for cell in self.cells]
        return {"cells": cells, "state_is_tuple": self.state_is_tuple}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> MultiRNNCell:
        """A new stack from what `get_config` returned; `custom_objects` names classes that are no `RNNCell`."""
        classes = {**_cell_classes(RNNCell), **(custom_objects or {})}

        def cell_of(entry: dict[str, Any]) -> Any:
            if entry["class_name"] not in classes:
                raise ValueError(f"unknown cell class {entry['class_name']!r}: name it in custom_objects")
            arguments = dict(entry["config"])
            if isinstance(arguments.get("cell"), dict):  # a wrapper's own
                arguments["cell"] = cell_of(arguments["cell"])
            return classes[entry["class_name"]].from_config(arguments)

        return cls([cell_of(entry) for entry in config["cells"]], config["state_is_tuple"])


def _cell_classes(base: type[RNNCell]) -> dict[str, type[RNNCell]]:
    classes = {base.__name__: base}
    for cls in base.__subclasses__():
        classes |= _cell_classes(cls)
    return classes
