"""Calls that are repeated, recorded: a pass over one is then a single launch, between copies of what goes in and out.

On a GPU the host takes longer over a short call than the device does: a pass is a dozen launches and as many
allocations, each of which costs the host some microseconds, whatever it computes. What an emitter can record is
therefore recorded at the second of two calls that are alike: weights in the same places, same shapes, same stream.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import torch
from torch import Tensor

from unspool.engine.emit.protocol import Recorder
from unspool.engine.emit.sharing import loops_at_once
from unspool.engine.execute.call import Call
from unspool.engine.execute.recorded.lease import Lease
from unspool.engine.execute.recorded.passes import Recording, addresses, forms, moving, recorded
from unspool.engine.memory.budget import Budget, Item
from unspool.engine.memory.policies import device_bytes
from unspool.forking import ForkSafeLock
from unspool.tracers import hooks_see_saved

TRIES = 8
"""How often calls of some steps and rows are recorded: where addresses keep changing, it costs more than it saves."""
PART = 256
"""What a call may take that is recorded, as a part of the device's memory: a larger one takes the device longer than
the host, and would gain nothing."""
LEAST = 64 << 20
"""The same in bytes, where that is a smaller part."""
MOST_AT_ONCE = 8
"""How many of the largest calls all recordings of a device may hold; those that were used longest ago make room."""

_budgets: dict[torch.device, Budget] = {}


def recorded_of(call: Call) -> Recorded | None:
    """Where to record calls like this one; None if they cannot be, or are too large to be kept in memory."""
    layout, parts = call.layout, call.start()
    emitters = {each.emitter for each in parts}
    if (layout.sorted and not layout.on_device) or call.swap or call.plan.is_random or len(emitters) != 1:
        return None
    recorder = emitters.pop().recorder(layout.device, [each.core for each in parts])
    if recorder is None:
        return None
    total = layout.rows(0, layout.steps) * sum(each.crossing for each in parts)
    most = max(LEAST, device_bytes(layout.device) // PART) if layout.device.type == "cuda" else LEAST
    if total > most:
        return None
    return Recorded(recorder, total, _budgets.setdefault(layout.device, Budget(MOST_AT_ONCE * most)))


class Recorded(Item):
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
        self._recording: Recording | None = None
        self._tries = 0

    def forward(self, call: Call, tensors: Sequence[Tensor]) -> tuple[list[Tensor], Lease] | None:
        """Results of a call, and what its backward pass needs; None if nothing like it has been recorded.

        Args:
            call: the call.
            tensors: its operands, flat.
        """
        place = self._recorder.place()
        if place is None or hooks_see_saved():  # who sees what is saved is to have it
            return None
        like = place, call.ends, loops_at_once(), addresses(call, tensors), forms(moving(call, tensors))
        with self._lock.own:
            if like != self._like:
                self._like, self._recording = like, None
                return None
            if self._recording is None:
                self._recording = self._record(call, tensors, place)
            recording = self._recording
        if recording is None:
            return None
        self._budget.use(self)
        return recording.forward(call, tensors)

    @property
    def holds(self) -> bool:
        """Whether there is a recording now."""
        return self._recording is not None

    def release(self) -> None:
        """Forgets the recording; whoever still needs its memory holds it."""
        with self._lock.own:
            self._recording = None

    def _record(self, call: Call, tensors: Sequence[Tensor], place: Hashable) -> Recording | None:
        if self._tries == TRIES:
            return None
        self._tries += 1
        # Of its own, since who waits for the backward pass of an earlier recording repeats that one whenever it likes.
        recorder = self._recorder.apart()
        return recorded(lambda: Recording(recorder, place, call, tensors))
