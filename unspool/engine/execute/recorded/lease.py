"""What a backward pass needs stays where the recorded forward pass has written it; a lease says for whom.

The next forward pass copies it for the call before it if that one's backward pass is still to come, which in a training
loop it is not.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch
from torch import Tensor

from unspool.engine.execute.call import Call
from unspool.engine.execute.layout import Layout

if TYPE_CHECKING:
    from unspool.engine.execute.recorded.recorded_call import RecordedCall

Gradients = Sequence[Tensor | None]

_autograd = cast(Any, torch)._C._autograd
_keeps_graph: Callable[[], bool] = getattr(_autograd, "_get_current_graph_task_keep_graph", lambda: True)
"""Whether what autograd has saved stays after the backward pass that runs now; to ask it afterwards takes longer."""


class Needed(NamedTuple):
    """What a backward pass needs of a forward pass.

    Args:
        residuals: those of all chunks.
        layout: the rows.
    """

    residuals: list[Tensor]
    layout: Layout


class Lease:
    """What the backward pass of one call needs, in memory that later calls write to.

    Args:
        recording: whose memory it is.
        context: what autograd keeps of the call; None if there will be no backward pass.
    """

    def __init__(self, recording: RecordedCall, context: Any) -> None:
        self._recording = recording
        self._own: Needed | None = None
        self._context = None if context is None else weakref.ref(context)

    @property
    def lengths(self) -> list[int]:
        """How many residuals each chunk has."""
        return self._recording.lengths

    @contextmanager
    def needed(self) -> Generator[Needed]:
        """What it is; while somebody works with it, no other call writes to it."""
        if self._own is not None:
            yield self._own
            return
        with self._recording.lock.own:
            yield self._recording.needed() if self._own is None else self._own

    def backward(self, call: Call, weights: Sequence[Tensor], gradients: Gradients, wanted: Sequence[bool]) -> Any:
        """Gradients of the operands, None where they are not wanted; None if nothing like this has been recorded."""
        with self._recording.lock.own:
            if self._own is not None:
                return None
            found = self._recording.backward(call, weights, gradients, wanted)
            if found is not None and not _keeps_graph():
                self._context = None
            return found

    def end(self) -> bool:
        """Somebody else is about to write to the memory: whether something is still needed, and has been copied."""
        if not self._is_needed():
            return False
        self._own = self._recording.needed_later()
        return True

    def give_back(self) -> bool:
        """Whether nothing is needed any more, and the copies have been given back: autograd may keep the context."""
        if self._is_needed():
            return False
        self._own = None
        return True

    def _is_needed(self) -> bool:
        context = None if self._context is None else self._context()
        if context is None:
            return False
        try:
            context.saved_tensors  # noqa: B018  # raises if backward has been and will not come again
        except RuntimeError:
            return False
        return True
