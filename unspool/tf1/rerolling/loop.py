"""A chain of calls as one loop of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from unspool.engine import StrictError, strict
from unspool.layers.steps import Showing
from unspool.structure import flatten, unflatten_as
from unspool.tf1.rerolling.chains import CellCall
from unspool.tf1.rerolling.sequences import stacked
from unspool.tf1.rnn.running import Looped

if TYPE_CHECKING:
    from unspool.tf1.session import Run


class Loop:
    """Runs calls as a loop of the engine; one by one where the engine has no plan for their cell.

    Args:
        calls: each starts from the state that the last one left.
        shows: whether the state after every step is wanted, besides the outputs and the final state.
    """

    def __init__(self, calls: Sequence[CellCall], *, shows: bool) -> None:
        self._count, self._shows, call = len(calls), shows, calls[0]
        self._bound, self._inputs, self._state = call.bound, call.inputs, call.state
        self._variables = call.bound.variables
        self._fixed = call.bound.fixed
        self._loop = Looped(call.puts_out[0].dtype, True, "rnn")
        self._widths = len(call.reads), len(call.starts)

    def __call__(self, run: Run, *values: Any) -> list[Any]:
        """The outputs of all steps, the states if they are wanted, and the final state."""
        for variable in self._variables:
            run.state.value_of(variable)  # or an error that names it
        first, last = self._widths[0], sum(self._widths)
        sequences, state = values[:first], unflatten_as(self._state, values[first:last])
        module = run.module(self._bound, values[last:])
        unplanned: list[bool] = run.state.kept((self, "unplanned"), list)
        if not unplanned and all(isinstance(each, torch.Tensor) for each in sequences):
            try:
                return self._looped(run, module, sequences, state)
            except StrictError:
                unplanned.append(True)
            except (RuntimeError, ValueError, IndexError, TypeError):
                pass  # the calls will tell
        return self._called(module, sequences, state)

    def _looped(self, run: Run, module: Any, sequences: Sequence[torch.Tensor], state: Any) -> list[Any]:
        runs = run.state.kept((self, "showing"), lambda: Showing(module)) if self._shows else module
        with strict():
            outputs, end = self._loop(runs, unflatten_as(self._inputs, sequences), None, state, fixed=self._fixed)
        return [*flatten(outputs), *flatten(end)]

    def _called(self, module: Any, sequences: Sequence[Any], state: Any) -> list[Any]:
        made: list[list[Any]] = []
        for number in range(self._count):
            output, state = module(unflatten_as(self._inputs, [each[number] for each in sequences]), state)
            made.append([*flatten(output), *(flatten(state) if self._shows else ())])
        return [*(stacked(*each) for each in zip(*made, strict=True)), *flatten(state)]
