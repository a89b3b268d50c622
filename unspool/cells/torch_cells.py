"""torch's own cells as cells: `nn.LSTMCell`, `nn.GRUCell` and `nn.RNNCell`."""

from __future__ import annotations

from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn

from unspool.cells.cell import RNNCell
from unspool.cells.fresh import reset_modules
from unspool.cells.like import assert_like_rnncell
from unspool.structure import Structure, describe

Made = TypeVar("Made", bound=RNNCell)
_STEPS = {nn.LSTMCell.forward, nn.GRUCell.forward, nn.RNNCell.forward}


def as_cell(name: str, cell: Any, *, starts: bool = True, kept: bool = True) -> Any:
    """`cell` (the argument `name`), or a cell of it, if it is one of torch's.

    `starts` says that its initial state is needed, since the caller has none; `kept` that the caller keeps it.

    Raises:
        TypeError: if it is neither; for what can be called it says how to make a cell of it.
    """
    if is_torch_cell(cell):
        return TorchCell(cell) if kept else made_for_a_call(TorchCell, cell)
    try:
        assert_like_rnncell(name, cell, starts=starts)
    except TypeError as error:
        if isinstance(cell, nn.RNNBase):
            kind = type(cell).__name__
            raise TypeError(
                f"The argument {name!r} ({cell!r}) is a layer over whole sequences, not one step: unspool.nn.{kind} is "
                f"the same layer on this engine, and unspool.replace_ puts it into a model; nn.{kind}Cell is its step"
            ) from None
        if isinstance(cell, type) or not callable(cell):
            raise
        raise TypeError(f"{error}; if it is one step, unspool.cell makes a cell of it") from None
    return cell


_shells: dict[type, dict[str, Any]] = {}
"""What all cells of a class that are made for a call have in common: nobody else sees them, or changes any of it."""


def made_for_a_call(kind: type[Made], cell: Any) -> Made:
    """`kind(cell)` around a cell that is built, for a call and not to be kept: in a tenth of the time of a module."""
    shell = _shells.get(kind)
    if shell is None:
        like = cast("dict[str, Any]", vars(cast(Any, kind)(cell)))
        shell = _shells[kind] = {name: value for name, value in like.items() if name not in ("cell", "_modules")}
    made = kind.__new__(kind)
    vars(made).update(shell, _modules={}, training=getattr(cell, "training", True))
    (vars(made)["_modules"] if isinstance(cell, nn.Module) else vars(made))["cell"] = cell
    return made


def is_torch_cell(cell: Any) -> bool:
    """Whether it is an `nn.LSTMCell`, `nn.GRUCell` or `nn.RNNCell`, with torch's own step, and not a cell already."""
    # A subclass with a step of its own may take and return anything.
    return isinstance(cell, nn.RNNCellBase) and type(cell).forward in _STEPS and not hasattr(cell, "state_size")


class TorchCell(RNNCell):
    """One of torch's cells: its state is as torch has it, `(h, c)` of an `nn.LSTMCell`, its output is `h`.

    >>> from unspool import dynamic_rnn
    >>> outputs, (h, c) = dynamic_rnn(nn.LSTMCell(3, 4), torch.randn(2, 5, 3), [5, 2])
    >>> outputs.shape, bool((outputs[1, 1] == h[1]).all())
    (torch.Size([2, 5, 4]), True)
    """

    def __init__(self, cell: nn.RNNCellBase, name: str | None = None) -> None:
        super().__init__(name=name)
        self.cell = cell
        self.has_nothing_to_build()

    @property
    def state_size(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The sizes of h and c, or of h."""
        return (self.cell.hidden_size,) * 2 if isinstance(self.cell, nn.LSTMCell) else self.cell.hidden_size

    @property
    def output_size(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The size of h."""
        return self.cell.hidden_size

    @property
    def plan_owner(self) -> Any:
        """Who keeps the plans: torch's cell, around which every loop makes another of these."""
        return self.cell

    @property
    def default_dtype(self) -> torch.dtype:
        """The dtype of a zero state, if a loop is not told one: that of the weights."""
        return self.cell.weight_hh.dtype

    def reset_parameters(self) -> None:
        """Lets torch's cell draw its weights anew."""
        reset_modules(self)

    def forward(self, inputs: Structure, state: Structure) -> tuple[Structure, Structure]:
        """One step of torch's cell."""
        kind = type(self.cell).__name__
        if not isinstance(inputs, Tensor) or inputs.dim() != 2:
            what = f"have shape {list(inputs.shape)}" if isinstance(inputs, Tensor) else f"are {describe(inputs)}"
            raise ValueError(f"{kind}: inputs {what}, but expected ndim=2: [batch, depth]")
        # An LSTMStateTuple has another order.
        if isinstance(self.cell, nn.LSTMCell) and type(state) is not tuple:
            raise TypeError(f"{kind}: the state must be a tuple (h, c), as torch has it, but is {describe(state)}")
        new_state: Any = self.cell(inputs, state)
        return new_state[0] if isinstance(self.cell, nn.LSTMCell) else new_state, new_state
