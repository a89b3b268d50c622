"""A forward pass over a call and the backward passes that go with it, recorded.

A recording reads and writes memory of its own. Inputs are copied there, results are copied from there. What backward
needs is neither: it stays where the forward pass has written it, under a `Lease`.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from unspool.engine.emit.protocol import Made, Recorder
from unspool.engine.execute.backward import Backward
from unspool.engine.execute.call import Call
from unspool.engine.execute.device_layout import DeviceLayout
from unspool.engine.execute.forward import forward
from unspool.engine.execute.recorded.lease import Gradients, Lease, Needed
from unspool.engine.execute.recorded.zeros import Operand, Zeros
from unspool.engine.memory.copying import copies, copy_all
from unspool.engine.memory.residual_store import ResidualStore
from unspool.forking import ForkSafeLock
from unspool.profiling import profiled

log = logging.getLogger("unspool")
T = TypeVar("T")

MOST_GRADIENTS = 4
"""How many backward passes one forward pass may have: which gradients come, and which are wanted."""
ALIGNED = 16
"""Bytes of the widest read."""


class _Pass:
    """A pass that is recorded.

    Args:
        given: the memory from which it reads what differs from call to call.
        replay: runs it.
        results: the memory that it writes to.
    """

    def __init__(self, given: Sequence[Tensor], replay: Callable[[], None], results: Sequence[Tensor | None]) -> None:
        self._given, self._replay, self._results = given, replay, results
        self._zero: set[int] = set()
        """The numbers of those that are given, of which it is known that they are zero."""

    def __call__(self, given: Sequence[Operand]) -> list[Tensor | None]:
        """Runs it on these operands: copies of its results."""
        self._take(given)
        self._replay()
        found = iter(copies([each for each in self._results if each is not None]))
        return [None if each is None else next(found) for each in self._results]

    def _take(self, given: Sequence[Operand]) -> None:
        """Copies what there is to copy, and lets zeros be where there are zeros already.

        What is known to be zero is so at any time: an interrupt may come between any two of these lines.
        """
        targets, sources = list[Tensor](), list[Tensor]()
        for number, (own, each) in enumerate(zip(self._given, given, strict=True)):
            if not isinstance(each, Zeros):
                self._zero.discard(number)
                targets.append(own)
                sources.append(each)
            elif number not in self._zero:
                own.zero_()
                self._zero.add(number)
        copy_all(targets, sources)


class RecordedCall:
    """A forward pass, and the backward passes that go with it, over calls that are alike.

    Args:
        recorder: the emitter's, for these passes alone.
        place: where calls run.
        call: one of the calls.
        tensors: its operands, flat.
    """

    def __init__(self, recorder: Recorder, place: Hashable, call: Call, tensors: Sequence[Tensor]) -> None:
        self._recorder, self._place, self.lock = recorder, place, ForkSafeLock()
        self._given = copies(moving(call, tensors))
        weights = call.operands(tensors).weights
        self._addresses = addresses(call, weights)
        store = None if call.memory is None else ResidualStore()
        layout = self._layout = call.layout
        if isinstance(layout, DeviceLayout):
            self._layout = layout.with_lengths(self._given[-1])
        own, on_own = self._own(weights), call._replace(layout=self._layout)
        replay, results = recorder.record(lambda: forward(on_own, own, store))
        self._outputs = results
        self._forward = _Pass(self._given, replay, [*results])
        self._residuals = [] if store is None else store.saved()
        self.lengths = [] if store is None else store.lengths
        self._backward: dict[Hashable, _Pass | None] = {}
        """By which gradients come, and which are wanted; None if a pass cannot be recorded."""
        self._seen: set[Hashable] = set()
        self._holder: weakref.ref[Lease] | None = None
        self._ended: weakref.WeakSet[Lease] = weakref.WeakSet()
        """Those that have copies of what they need."""

    def forward(self, call: Call, given: Sequence[Operand], context: Any) -> tuple[list[Tensor], Lease]:
        """Results of a call, and what its backward pass needs, which is lent to autograd's `context`.

        Args:
            call: the call.
            given: what differs from call to call, which is `moving`.
            context: what autograd keeps of it; None if there will be no backward pass.
        """
        with self.lock.own:
            for each in list(self._ended):
                if each.give_back():
                    self._ended.discard(each)
            holder = None if self._holder is None else self._holder()
            if holder is not None and holder.end():
                self._ended.add(holder)
            lease = Lease(self, context)
            self._holder = weakref.ref(lease)
            with profiled(call.scope, "recorded"):
                results = self._forward(given)
        return cast("list[Tensor]", results), lease

    def needed(self) -> Needed:
        """What the backward pass of the last call needs, as long as there is no other call."""
        layout = self._layout
        return Needed(self._residuals, layout.apart() if isinstance(layout, DeviceLayout) else layout)

    def needed_later(self) -> Needed:
        """The same, after other calls too."""
        layout = self._layout
        if not isinstance(layout, DeviceLayout):
            return Needed(copies(self._residuals), layout)
        *own, lengths = copies([*self._residuals, layout.lengths])
        return Needed(own, layout.with_lengths(lengths))

    def backward(
        self, call: Call, weights: Sequence[Tensor], gradients: Gradients, wanted: Sequence[bool]
    ) -> list[Tensor | None] | None:
        """Gradients of the operands of the last call, whose weights lie here; None if nothing like it is recorded."""
        if self._recorder.place() != self._place or addresses(call, weights) != self._addresses:
            return None
        like = tuple(wanted), tuple(None if each is None else _form(each) for each in gradients)
        if like not in self._backward:
            if like not in self._seen:
                self._seen.add(like)
                return None
            if len(self._backward) == MOST_GRADIENTS:
                return None
            self._backward[like] = recorded_or_none(lambda: self._record_backward(call, weights, gradients, wanted))
        found = self._backward[like]
        if found is None:
            return None
        with profiled(call.scope, "recorded adjoint"):
            return found([each for each in gradients if each is not None])

    def _record_backward(
        self, call: Call, weights: Sequence[Tensor], gradients: Gradients, wanted: Sequence[bool]
    ) -> _Pass:
        given = [None if each is None else copies([each])[0] for each in gradients]
        outputs = {number: self._outputs[number] for number in call.schedule.used_outputs}
        residuals, layout = self.needed()
        store = ResidualStore.reading(self.lengths, residuals)
        own, on_own = self._own(weights), call._replace(layout=layout)
        replay, results = self._recorder.record(lambda: Backward(on_own, own, outputs, store, given, wanted).run())
        return _Pass([each for each in given if each is not None], replay, results)

    def _own(self, weights: Sequence[Tensor]) -> list[Tensor]:
        """The operands of a call, those that differ from call to call in memory of its own."""
        return [*weights, *self._given[: len(self._given) - isinstance(self._layout, DeviceLayout)]]


def recorded_or_none(record: Callable[[], Made]) -> Made | None:
    """What was recorded; None where it could not be, and the call runs as it would without."""
    try:
        with torch.inference_mode(False), torch.no_grad():  # memory that is written by calls in other modes too
            return record()
    except torch.OutOfMemoryError:
        log.info("a call is not recorded: there is not enough memory")
    except RuntimeError as error:
        log.info("a call is not recorded: %s", error)
    return None


def moving(call: Call, tensors: Sequence[T]) -> Sequence[T | Tensor]:
    """What differs from call to call: operands that are no weights, and lengths if the device alone knows them."""
    found, layout = tensors[len(call.plan.trace.operands.weights) :], call.layout
    return [*found, layout.lengths] if isinstance(layout, DeviceLayout) else found


def addresses(call: Call, weights: Sequence[Tensor]) -> tuple[Hashable, ...]:
    """Where weights and constants are, which are read where they lie."""
    return tuple([(each.data_ptr(), each.stride()) for each in (*weights, *call.constants.values())])


def forms(operands: Sequence[Operand]) -> tuple[Hashable, ...]:
    """What decides which kernels run on operands whose kinds are known."""
    return tuple([_form(each) for each in operands])


def _form(operand: Operand) -> Hashable:
    """How it lies, and whether vectors may be read."""
    if isinstance(operand, Zeros):
        return operand.shape, operand.strides, operand.dtype, True  # as torch allocates them
    return operand.shape, operand.stride(), operand.dtype, operand.data_ptr() % ALIGNED == 0
