"""What a call has found out that others like it would find again: its plan, its chunks, who runs it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from unspool.engine.emit.registry import asked
from unspool.engine.execute.autograd import run_call
from unspool.engine.execute.call import Call
from unspool.engine.execute.device_layout import DeviceLayout
from unspool.engine.execute.double_backward import Replay
from unspool.engine.execute.parts import Parts
from unspool.engine.execute.recorded.zeros import Zeros
from unspool.engine.plans.cache import circumstances, latest_of
from unspool.engine.plans.checks import check_circumstances
from unspool.engine.plans.fast_path import Known, Latest, Ready
from unspool.engine.reasons import CannotPlanError
from unspool.engine.request import Request
from unspool.profiling import profiled
from unspool.structure import Structure, flatten, map_structure, unflatten_as


@dataclass(frozen=True)
class GuardedCall:
    """A call by a plan, whose guard tells whether the cell is as it was.

    Args:
        latest: what guards the plan.
        known: where the guard lists the weights and constants.
        looks: what the tensors looked like that it lists.
        how: what the plan depends on besides.
        parts: what the emitter had made.
        call: the call, without anything of the cell's.
        replay: how it is done again, without the cell.
        output_dtype: that of the outputs.
        zeros: the leaves of a first state of zeros, to be made if anybody needs them; none if the state is given.
        containers: those of the state, around numbers.
    """

    latest: Latest
    known: Known
    looks: Hashable
    how: tuple[Any, ...]
    parts: Sequence[Parts]
    call: Call
    replay: Replay | None
    output_dtype: torch.dtype | None
    zeros: Sequence[Zeros]
    containers: Structure

    @classmethod
    def of(cls, request: Request, ready: Ready, call: Call) -> GuardedCall | None:
        """What is known after a call; None where the values of tensors decide how it runs, or nobody guards it."""
        latest = latest_of(request.cell)
        if call.plan.asks_for_values or latest is None or request.owner is not None or request.counts is not None:
            return None
        known = next((each for each in latest.known.values() if each.calls is ready.calls), None)
        listed = latest.guard.check(request.cell)
        if known is None or listed is None:
            return None
        return cls(
            latest,
            known,
            latest.looks_of(listed),
            circumstances(request.output_dtype, call.layout.device),
            call.start(),
            call._replace(constants={}, replay=None),
            None if call.replay is None else call.replay._replace(cell=None),
            request.output_dtype,
            [Zeros.like(leaf) for leaf in flatten(request.state)] if request.starts_with_zeros else (),
            map_structure(lambda leaf: 0, request.state),
        )

    def __call__(
        self, cell: Any, inputs: Tensor, lengths: Tensor | None, state: Structure, *, time_major: bool
    ) -> tuple[Structure, Structure] | None:
        """Outputs, time-major, and the final state of a call that looks like it.

        Args:
            cell: the cell.
            inputs: its inputs.
            lengths: the length of each row; None for full length.
            state: the initial state; None for zeros.
            time_major: whether the steps are the first axis of the inputs.

        Returns:
            None if something is not as it was, or does not go as it should: then the call is to be made as the first.
        """
        found = self._again(cell, lengths)
        if found is None:
            return None
        call, weights = found
        first = self.zeros if state is None else flatten(state)
        try:
            with profiled(call.scope):
                results = run_call(call, [*weights, inputs if time_major else inputs.transpose(0, 1), *first])
        except torch.OutOfMemoryError:
            raise
        except (IndexError, RuntimeError, ValueError):
            return None
        kind = call.plan.trace.output_kind
        outputs = len(kind.leaves)
        return kind.unflatten(results[:outputs]), unflatten_as(self.containers, results[outputs:])

    def _again(self, cell: Any, lengths: Tensor | None) -> tuple[Call, Sequence[Tensor]] | None:
        """The call, and the weights, if everything is as it was."""
        call, known = self.call, self.known
        try:
            check_circumstances(call.layout.device)
        except CannotPlanError:
            return None
        if circumstances(self.output_dtype, call.layout.device) != self.how or asked() != call.emitter:
            return None
        listed = self.latest.guard.check(cell)
        if listed is None or self.latest.looks_of(listed) != self.looks or call.start() != self.parts:
            return None
        weights = [listed[probe][k] for probe, k in known.weights.values()]
        if any(each.grad_fn is not None for each in weights):
            return None
        constants = {node: listed[probe][k] for node, (probe, k) in known.constants.items()}
        layout = call.layout
        if isinstance(layout, DeviceLayout):
            assert lengths is not None
            layout = layout.with_lengths(lengths)
        replay = None if self.replay is None else self.replay._replace(cell=cell, layout=layout)
        constants = {**call.plan.trace.literals, **constants} if constants else call.plan.trace.literals
        return call._replace(layout=layout, constants=constants, replay=replay), weights
