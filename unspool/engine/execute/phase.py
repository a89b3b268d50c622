"""One direction of a loop, forward or adjoint: its split, and what runs it."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence

import torch
from torch import Tensor, fx

from unspool.engine.emit.cpp.loop import Compiled
from unspool.engine.emit.cpp.module import Module
from unspool.engine.emit.graphs.graphed import Graphed
from unspool.engine.emit.interpreted import Interpreted
from unspool.engine.emit.protocol import Loop
from unspool.engine.emit.reasons import CannotEmitError
from unspool.engine.emit.stages.lowering import has_form, is_row_sum
from unspool.engine.execute.counts import Counts
from unspool.engine.execute.parts import Parts, Shared, Values
from unspool.engine.ir.core import lower_core
from unspool.engine.partition.fold import fold
from unspool.engine.partition.split import Split
from unspool.engine.reasons import CannotPlanError, Code, Reason
from unspool.engine.rows.labels import SUMMED, Label
from unspool.engine.trace.trace import Trace


class Phase:
    """Runs the parts of a split.

    shared = phase.begin(weights, rows a step)
    for chunk in chunks:
        carried, values = phase.run(chunk's rows, shared, known, carried)
    results = phase.finish(shared, sums over the chunks)
    """

    def __init__(self, split: Split, trace: Trace, labels: dict[fx.Node, Label]) -> None:
        self.split = split
        self.core = lower_core(split, labels)
        self.passed_over: dict[str, Reason] = {}
        """Emitters that do not run the core, each with the reason."""
        self._labels, self._device = labels, trace.inputs[0].meta["val"].device
        self._near = sum(node.meta["val"].nbytes for node in trace.weights) <= NEAR
        parts = (split.before, split.core, split.after)
        self.sums = [node for part in parts for node in part.outputs if labels[node] == SUMMED]
        self._parts: dict[bool, Parts] = {}

    def parts(self, rows: float) -> Parts:
        """What runs a call with so many rows a step."""
        wide = self._device.type == "cpu" and (self._near or rows >= WIDE * torch.get_num_threads())
        with _choosing:
            if wide not in self._parts:
                self._parts[wide] = self._choose(wide)
            return self._parts[wide]

    def wait(self, rows: float) -> Parts:
        """`parts`, once it is known that they can run."""
        parts = self.parts(rows)
        try:
            parts.loop.wait()
        except CannotEmitError as reason:  # known only now, since compilers work in the background
            with _choosing:
                self._parts = dict.fromkeys((False, True), self._interpreted(reason.reason))
            return self._parts[False]
        return parts

    def begin(self, weights: Values, rows: float) -> Shared:
        """What is the same for all steps of a call with so many rows a step, weights included."""
        return self.wait(rows).begin(weights)

    def run(
        self,
        counts: Counts,
        shared: Shared,
        known: Values,
        carried: Sequence[Tensor],
        *,
        reverse: bool = False,
        into: Values | None = None,
        owned: bool = False,
    ) -> tuple[list[Tensor], Values]:
        """A chunk of steps: what is carried after them, and the values of all parts.

        Args:
            counts: the rows of each step.
            shared: what `begin` returned.
            known: what is given for every row and step.
            carried: what the first step run takes over.
            reverse: whether time runs backwards.
            into: tensors for values of the core to be written to.
            owned: whether what is carried may be changed in place, because nobody else looks at it.
        """
        return shared.parts.run(counts, shared, known, carried, reverse=reverse, into=into, owned=owned)

    def finish(self, shared: Shared, sums: Values) -> Values:
        """Everything that is the same for all rows: what depends on sums over all chunks, and what does not."""
        return shared.parts.finish(shared, sums)

    # -- which emitter -------------------------------------------------------------------------------------------------

    def _choose(self, wide: bool) -> Parts:
        if self._device.type == "cuda":
            return self._by(Graphed(Interpreted(self.core, self._device)), self.split)
        message = f"it needs a GPU, and the tensors are on {self._device.type}"
        self.passed_over[Graphed.name] = Reason(Code.DEVICES, message)
        try:
            _check_allowed(self._device)
            return self._compiled(self._folded(wide))
        except CannotEmitError as reason:
            return self._interpreted(reason.reason)

    def _by(self, loop: Loop, split: Split) -> Parts:
        return Parts(split, self._labels, loop, self._device)

    def _compiled(self, split: Split) -> Parts:
        module = Module()
        loop = Compiled(lower_core(split, self._labels), module)
        parts = Parts(split, self._labels, loop, self._device, module)
        module.start()
        return parts

    @property
    def interpreted(self) -> Reason | None:
        """Why the core is not compiled, if it is not."""
        return self.passed_over.get(Compiled.name)

    def _interpreted(self, reason: Reason) -> Parts:
        self.passed_over[Compiled.name] = reason
        return self._by(Interpreted(self.core, self._device), self.split)

    def _folded(self, wide: bool) -> Split:
        split = fold(self.split, self._labels, has_form, is_row_sum, products=wide)
        try:
            lower_core(split, self._labels)
        except CannotPlanError:  # rows that can be told apart at one border cannot at another
            return self.split
        return split


_choosing = threading.Lock()


def _after_fork() -> None:
    """Whoever held a lock is not in this process."""
    global _choosing
    _choosing = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

WIDE = 8
"""Rows a thread with which products are as fast at every step as for many steps at once."""
NEAR = 1 << 19
"""Bytes of weights that stay in a processor's own cache, so that products are so with any number of rows."""


def _check_allowed(device: torch.device) -> None:
    wanted = os.environ.get("UNSPOOL_EMIT") or Compiled.name
    if wanted not in (Compiled.name, Interpreted.name):
        raise ValueError(f"UNSPOOL_EMIT is {wanted!r}, but expected {Compiled.name!r} or {Interpreted.name!r}")
    if wanted == Interpreted.name:
        raise CannotEmitError(f"the environment says UNSPOOL_EMIT={wanted}", Code.ASKED)
    if device.type != "cpu":
        raise CannotEmitError(f"it runs on CPUs, and the tensors are on {device.type}", Code.ASKED)


def add_sums(total: Values, phase: Phase, values: Values) -> None:
    """Adds a chunk's sums over rows to those of the chunks before it."""
    for node in phase.sums:
        if node in total:
            total[node] = total[node].add_(values[node])
        else:
            # A view, as a sum over rows can be, may share its memory with something else.
            total[node] = values[node].clone() if values[node]._base is not None else values[node]
