"""`unspool.cell`: a cell from a function or a module that somebody has already."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import lru_cache
from types import MethodType
from typing import Any, cast

from torch import Tensor, nn

from unspool import sizes
from unspool.cells.cell import RNNCell
from unspool.cells.fresh import reset_modules
from unspool.cells.rows_first import check_axes, own_layout, rows_first
from unspool.cells.torch_cells import TorchCell, is_torch_cell
from unspool.structure import Structure, describe, flatten, is_leaf

INPUT_STATE, OUTPUT_STATE = "input, state", "output, state"


def cell(
    step: Callable[..., Any],
    state_size: Any = None,
    output_size: Any = None,
    *,
    takes: str = INPUT_STATE,
    returns: str = OUTPUT_STATE,
    batch_axis: Any = 0,
    start_sequence: Callable[[], Any] | None = None,
    name: str | None = None,
) -> RNNCell:
    """Makes a cell of a step: a function or a module `step(input, state) -> (output, state)`, in any order.

    No sizes are needed: the state is what a loop gets as its `initial_state`, and what the step puts out is found by
    looking at it, with the dtype of each tensor. An output may be any structure, also None where only the state is
    wanted.

    A module is a part of the cell: `parameters()`, `.to()` and `state_dict()` find its weights. Weights that a function
    reads are trained too, but stay where they are.

    | a step such as                    | is told by                                          |
    |-----------------------------------|-----------------------------------------------------|
    | `(x, s) -> (output, s)`           | nothing                                             |
    | `(x, h) -> h`                     | `returns="state"`                                   |
    | `(x, (h, c)) -> (h, c)`           | `returns="state"`                                   |
    | `(h, x) -> h`                     | `takes="state, input", returns="state"`             |
    | `(x, h) -> (h, output)`           | `returns="state, output"`                           |
    | `(x, h, c) -> (h, c)`             | `takes="input, *state", returns="state"`            |
    | `(x, h, c) -> (output, h, c)`     | `takes="input, *state", returns="output, *state"`   |
    | `(x, dt, h) -> (output, h)`       | `takes="*input, state"`                             |

    Args:
        step: a function or a module.
        state_size: the size of one row of the state, for loops that are given no `initial_state`.
        output_size: the size of one row of the output, if it is to be checked; all outputs then have the loop's dtype.
        takes: the order of the arguments, `"input, state"` or `"state, input"`. A star spreads a tuple: `"input,
            *state"` calls `step(x, *state)`.
        returns: what comes back, `"output, state"`, `"state, output"`, or `"state"` alone, whose first tensor is then
            the output. A star gathers what is left: `"output, *state"` takes the state from `output, h, c`.
        batch_axis: the axis of the state's tensors that has the rows: an int, or ints in the structure of the state.
            States of shape `[layers, batch, units]` have 1. Initial and final states of loops are in this layout, and
            so are those of the step. An output that is taken from the state has its rows first, as all outputs.
        start_sequence: called before the first step of every loop, for weights that are drawn, masked or computed once
            a sequence; a method of the module under any name.
        name: the cell's name among TensorFlow's variables.

    Raises:
        TypeError: if `step` cannot be called, is a class or is a cell already, or `start_sequence` cannot be called.
        ValueError: if `takes` or `returns` is none of these, or a size or an axis is not one.

    >>> import torch
    >>> from unspool import cell, dynamic_rnn
    >>> net = torch.nn.Linear(3 + 4, 4)
    >>> def step(x, h):
    ...     h = torch.tanh(net(torch.cat([x, h], 1)))
    ...     return {"h": h, "active": h > 0}, h
    >>> outputs, state = dynamic_rnn(cell(step), torch.randn(2, 5, 3), [5, 2], torch.zeros(2, 4))
    >>> outputs["active"].shape, outputs["active"].dtype, bool(outputs["active"][1, 2:].any())
    (torch.Size([2, 5, 4]), torch.bool, False)

    A layer of torch as a step, with a state of its own layout:

    >>> gru = torch.nn.GRU(3, 4, num_layers=2)
    >>> def one(x, h):
    ...     output, h = gru(x[None], h)
    ...     return output[0], h
    >>> outputs, state = dynamic_rnn(cell(one, batch_axis=1), torch.randn(5, 6, 3), None, torch.zeros(2, 5, 4))
    >>> outputs.shape, state.shape
    (torch.Size([5, 6, 4]), torch.Size([2, 5, 4]))
    """
    plain = (state_size, output_size, start_sequence) == (None, None, None) and (takes, returns, batch_axis) == (
        INPUT_STATE,
        OUTPUT_STATE,
        0,
    )
    if plain and is_torch_cell(step):
        return TorchCell(cast(nn.RNNCellBase, step), name)
    return StepCell(
        step,
        state_size,
        output_size,
        takes=takes,
        returns=returns,
        batch_axis=batch_axis,
        start_sequence=start_sequence,
        name=name,
    )


class StepCell(RNNCell):
    """A cell around a function or a module; `unspool.cell` makes it and says what the arguments are."""

    def __init__(
        self,
        step: Callable[..., Any],
        state_size: Any = None,
        output_size: Any = None,
        *,
        takes: str = INPUT_STATE,
        returns: str = OUTPUT_STATE,
        batch_axis: Any = 0,
        start_sequence: Callable[[], Any] | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name)
        if isinstance(step, type):
            raise TypeError(f"step is the class {step.__name__}, not a module made from it")
        if isinstance(step, RNNCell):
            raise TypeError(f"step is a cell already: {step!r}")
        if not callable(step):
            raise TypeError(f"step must be a function or a module, but is {step!r}")
        self.state_size = _as_size(state_size, "state_size")
        self.output_size = _as_size(output_size, "output_size")
        self.takes, self.returns = takes, returns
        if not (isinstance(takes, str) and isinstance(returns, str)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"takes and returns must be strings, but are {takes!r} and {returns!r}")
        self._takes = _parts("takes", takes, ("input", "state"))
        self._returns = _parts("returns", returns, ("output", "state"), alone="state")
        if not (start_sequence is None or callable(start_sequence)):
            raise TypeError(f"start_sequence must be a function, but is {start_sequence!r}")
        check_axes(batch_axis)
        self.batch_axis = batch_axis
        self._start = start_sequence
        self.step = step
        self.has_nothing_to_build()

    @property
    def plan_owner(self) -> Any:
        """Who keeps the plans, so that another cell around the same step finds them: the step, or who has it."""
        owner = self.step.__self__ if isinstance(self.step, MethodType) else self.step
        try:
            weakref.ref(owner)
        except TypeError:
            return None
        return owner

    def forward(self, inputs: Structure, state: Structure) -> tuple[Structure, Structure]:
        """One step."""
        arguments: list[Any] = []
        for part, starred in self._takes:
            value = inputs if part == "input" else state
            if starred and not isinstance(value, tuple | list):
                raise TypeError(f"takes={self.takes!r} spreads the {part}, but it is {describe(value)}, not a tuple")
            arguments += value if starred else [value]
        returned = self.step(*arguments)
        if len(self._returns) == 1:
            new_state = _gathered(returned, state) if self._returns[0][1] else returned
            leaves = flatten(new_state)
            if not leaves:
                raise ValueError(f"returns={self.returns!r} takes the output from the state, which is empty")
            return flatten(rows_first(new_state, self.batch_axis))[0], new_state
        found = self._split(returned)
        output, new_state = found["output"], found["state"]
        return output, _gathered(new_state, state) if ("state", True) in self._returns else new_state

    def reset_parameters(self) -> None:
        """Lets every part of the module draw its weights anew, as torch's modules do."""
        reset_modules(self)

    @property
    def starts(self) -> bool:
        """Whether something is to be called before the first step of a loop."""
        return self._start is not None

    def start_sequence(self) -> None:
        """Calls what is to be called before the first step of a loop."""
        if self._start is not None:
            self._start()

    def _split(self, returned: Any) -> dict[str, Any]:
        """What a step returned, by the names in `returns`."""
        starred = [star for _, star in self._returns]
        parts: Any = tuple(returned) if issubclass(type(returned), tuple | list) else ()
        if not parts or (len(parts) != 2 and not any(starred)):
            hint = "; if that is the state alone, write returns='state'" if isinstance(returned, Tensor) else ""
            raise TypeError(f"step returned {describe(returned)}, but returns={self.returns!r}{hint}")
        if starred[0]:
            parts = (parts[:-1], parts[-1])
        elif starred[1]:
            parts = (parts[0], parts[1:])
        return dict(zip((name for name, _ in self._returns), parts, strict=True))

    def zero_state(self, batch_size: int | Tensor, dtype: Any, device: Any = None) -> Structure:
        """Zeros of `state_size`, with the rows on their own axes.

        Raises:
            ValueError: if the cell was not told its `state_size`.
        """
        return own_layout(super().zero_state(batch_size, dtype, device), self.batch_axis)


def _as_size(size: Any, name: str) -> Any:
    if size is None or size is sizes.UNKNOWN:
        return sizes.UNKNOWN
    sizes.check_sizes(size, name)
    return size


@lru_cache
def _parts(name: str, text: str, words: tuple[str, str], alone: str = "") -> tuple[tuple[str, bool], ...]:
    """The parts of `takes` or `returns`, each with whether it has a star; always the same objects, for guards."""
    parts = [part.strip() for part in text.split(",")]
    found = tuple((part.removeprefix("*"), part.startswith("*")) for part in parts)
    named = [part for part, _ in found]
    both_starred = name == "returns" and len(found) == 2 and all(starred for _, starred in found)
    if both_starred or not (sorted(named) == sorted(words) or named == [alone]):
        one, other = words
        forms = [f"'{one}, {other}'", f"'{other}, {one}'", *([f"'{alone}'"] if alone else [])]
        most = "one of them" if name == "returns" else "each"
        raise ValueError(f"{name} must be {' or '.join(forms)}, with a star before {most} or none, but is {text!r}")
    return found


def _gathered(parts: Any, state: Structure) -> Structure:
    """The parts of a state, in its container."""
    found: tuple[Any, ...] = tuple(parts) if issubclass(type(parts), tuple | list) else (parts,)
    kind: Any = cast(Any, tuple if is_leaf(state) else type(state))
    return kind._make(found) if hasattr(kind, "_make") else kind(found)
