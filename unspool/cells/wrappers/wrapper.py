"""What all wrappers share: a cell inside, whose sizes and states are theirs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

from unspool.cells.cell import RNNCell
from unspool.cells.like import (
    assert_like_rnncell,
    check_inputs_of,
    ensure_built_for,
    start_sequence,
    variables_of,
    zero_state_of,
)
from unspool.cells.torch_cells import as_cell
from unspool.dtypes import as_dtype
from unspool.structure import Structure


class RNNCellWrapper(RNNCell):
    """A cell around a cell. By itself it changes nothing; a wrapper overrides what it changes.

    As in TensorFlow, wrapping adds no level to the names of the weights inside.
    """

    cell: Any

    def __init__(self, cell: Any) -> None:
        super().__init__()
        self.cell = as_cell("cell", cell)

    @property
    def wrapped_cell(self) -> Any:
        """The cell inside."""
        return self.cell

    @property
    def state_size(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The wrapped cell's."""
        return self.cell.state_size

    @property
    def output_size(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The wrapped cell's."""
        return self.cell.output_size

    @property
    def batch_axis(self) -> Any:
        """The wrapped cell's: which axis of its state's tensors has the rows."""
        return getattr(self.cell, "batch_axis", 0)

    def build(self, input_size: Any, **where: Any) -> None:
        """Builds the wrapped cell."""
        self.build_cell(input_size, **where)

    def build_cell(self, input_size: Any, **where: Any) -> None:
        """Builds the wrapped cell for `input_size`, if it can be built and is not yet."""
        ensure_built_for(self.cell, input_size, **where)

    def check_inputs(self, inputs: Structure, state: Structure) -> None:
        """The wrapped cell's check."""
        check_inputs_of(self.cell, inputs, state)

    def start_sequence(self) -> None:
        """Passes it on to a cell that is no module, which a walk through the modules does not find."""
        if not isinstance(self.cell, nn.Module):
            start_sequence(self.cell)

    def zero_state(self, batch_size: int | Tensor, dtype: Any, device: Any = None) -> Structure:
        """The wrapped cell's own."""
        return zero_state_of(self.cell, batch_size, as_dtype(dtype), device)

    def forward(self, inputs: Structure, state: Structure) -> tuple[Structure, Structure]:
        """The wrapped cell's step."""
        return self.cell(inputs, state)

    def variables(self) -> Iterator[tuple[str, Tensor]]:
        """The wrapped cell's."""
        yield from variables_of(self.cell)

    def get_config(self) -> dict[str, Any]:
        """The arguments that make another wrapper like this one; the cell as its class and arguments."""
        cell = {"class_name": type(self.cell).__name__, "config": self.cell.get_config()}
        return {**super().get_config(), "cell": cell}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> RNNCellWrapper:
        """A new wrapper from what `get_config` returned, once a cell has been put at `config["cell"]`."""
        try:
            assert_like_rnncell("cell", config["cell"])
        except TypeError as error:
            raise ValueError(
                f"{cls.__name__} cannot make its cell from a config: put an RNNCell at config['cell'] first"
            ) from error
        return cls(**config)
