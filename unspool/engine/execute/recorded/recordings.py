"""Calls that are repeated, recorded: a pass over one is then a single launch, between copies of what goes in and out.

On a GPU the host takes longer over a short call than the device does: a pass is a dozen launches and as many
allocations, each of which costs the host some microseconds, whatever it computes. What an emitter can record is
therefore recorded at the second of two calls that are alike: weights in the same places, same shapes, same stream.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Hashable, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import torch
from torch import Tensor
from torch._ops import OpOverload

from unspool.engine.emit.protocol import Recorder
from unspool.engine.emit.sharing import loops_at_once
from unspool.engine.execute.call import Call
from unspool.engine.execute.recorded.lease import Lease
from unspool.engine.execute.recorded.recorded_call import RecordedCall, addresses, forms, moving, recorded_or_none
from unspool.engine.execute.recorded.zeros import Operand, made
from unspool.engine.memory.budget import Budget, Item
from unspool.engine.memory.policies import device_bytes
from unspool.engine.ops.table import op_of
from unspool.engine.plans.plan import Plan
from unspool.engine.trace.graph import aten
from unspool.forking import ForkSafeLock
from unspool.tracers import hooks_see_saved

Result = TypeVar("Result")

TRIES = 8
"""How often calls of some steps and rows are recorded: where addresses keep changing, it costs more than it saves."""
PART = 64
"""What a call may take that is recorded, as a part of the device's memory: a larger one takes the device longer than
the host, and would gain nothing."""
LEAST = 64 << 20
"""The same in bytes, where that is a smaller part."""
SEGMENTS = 24 << 20
"""Bytes that torch takes for a few small values, or for one of a mebibyte: a recording has memory of its own."""
MOST_AT_ONCE = 2
"""How many of the largest calls all recordings of a device may hold; those that were used longest ago make room."""

NEVER_WAIT: set[Any] = {aten._weight_norm_interface.default, aten._weight_norm_interface_backward.default}
"""Operations that the engine's table does not have, because they see weights alone, and that are kernels."""

_budgets: dict[torch.device, Budget] = {}
_thread = threading.local()


@contextmanager
def unrecorded() -> Generator[None]:
    """Calls in here are not recorded: somebody else has a say in where memory comes from."""
    before = getattr(_thread, "unrecorded", False)
    _thread.unrecorded = True
    try:
        yield
    finally:
        _thread.unrecorded = before


def with_room(device: torch.device, run: Callable[[], Result]) -> Result:
    """What `run()` returns; without memory for it, it is run once more, after all recordings have given theirs back."""
    try:
        return run()
    except torch.OutOfMemoryError:
        budget = _budgets.get(device)
        if budget is None or not budget.empty():
            raise
    return run()  # out here, where the error holds nothing any more


def recordings_of(call: Call) -> Recordings | None:
    """Where to record calls like this one; None if they cannot be, or are too large to be kept in memory."""
    layout, plan, parts = call.layout, call.plan, call.start()
    emitters = {each.emitter for each in parts}
    if (layout.sorted and not layout.on_device) or call.swap or len(emitters) != 1 or not _can_be_repeated(plan):
        return None
    recorder = emitters.pop().recorder(layout.device, [each.core for each in parts])
    if recorder is None:
        return None
    total = layout.rows(0, layout.steps) * sum(each.crossing for each in parts)
    if call.memory is not None:  # gradients of weights are made by every repetition, and copied
        total += 2 * plan.row_bytes(plan.trace.weights)
    most = max(LEAST, device_bytes(layout.device) // PART) if layout.device.type == "cuda" else LEAST
    if total > most:
        return None
    return Recordings(recorder, max(total, SEGMENTS), _budgets.setdefault(layout.device, Budget(MOST_AT_ONCE * most)))


def _can_be_repeated(plan: Plan) -> bool:
    """Whether a plan does the same at every call, and nothing in it may wait for the device, as `matrix_exp` does."""
    targets: set[Any] = {node.target for node in plan.trace.graph.nodes}
    known = all(op_of(each) is not None for each in targets - NEVER_WAIT if isinstance(each, OpOverload))
    return known and not plan.is_random and not plan.elsewhere


class Recordings(Item):
    """What is recorded of the calls of one plan that have as many steps and rows.

    Args:
        recorder: the emitter's.
        size: about how many bytes a recording takes.
        budget: what all of them may take.
    """

    def __init__(self, recorder: Recorder, size: int, budget: Budget) -> None:
        super().__init__(size)
        self._recorder, self._budget = recorder, budget
        self._lock = ForkSafeLock()
        self._like: Hashable = None
        self._recording: RecordedCall | None = None
        self._tries = 0

    def forward(
        self, call: Call, operands: Sequence[Operand], context: Any = None
    ) -> tuple[list[Tensor], Lease] | None:
        """Results of a call, and what its backward pass needs; None if nothing like it has been recorded.

        Args:
            call: the call.
            operands: its operands, flat.
            context: what autograd keeps of it until its backward pass, if there will be one.
        """
        place = self._recorder.place()
        if place is None or hooks_see_saved() or getattr(_thread, "unrecorded", False):
            return None  # who sees what is saved is to have it
        given = moving(call, operands)
        weights = cast("Sequence[Tensor]", call.operands(operands).weights)  # zeros stand for states alone
        like = place, call.ends, loops_at_once(), addresses(call, weights), forms(given)
        with self._lock.own:
            if like != self._like:
                self._like, self._recording = like, None
                return None
            if self._recording is None:
                self._recording = self._record(call, made(operands), place)
            recording = self._recording
        if recording is None:
            return None
        self._budget.use(self)
        return recording.forward(call, given, context)

    @property
    def holds(self) -> bool:
        """Whether there is a recording now."""
        return self._recording is not None

    def release(self) -> None:
        """Forgets the recording; whoever still needs its memory holds it."""
        with self._lock.own:
            self._recording = None

    def _record(self, call: Call, tensors: Sequence[Tensor], place: Hashable) -> RecordedCall | None:
        if self._tries == TRIES:
            return None
        # Of its own, since who waits for the backward pass of an earlier recording repeats that one whenever it likes.
        recorder = self._recorder.apart()
        found = recorded_or_none(lambda: RecordedCall(recorder, place, call, tensors))
        self._tries = TRIES if found is None else self._tries + 1  # what cannot be recorded is not tried again
        return found
