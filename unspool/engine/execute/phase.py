"""One direction of a loop, forward or adjoint: its split, and the emitter that runs it."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, fx

from unspool.engine.emit import registry
from unspool.engine.emit.errors import CannotEmitError
from unspool.engine.emit.protocol import Emitter, Load
from unspool.engine.execute.parts import Bound, Parts, Values
from unspool.engine.ir.core import lower_core
from unspool.engine.partition.split import Split
from unspool.engine.reasons import Reason
from unspool.engine.rows.labels import SUMMED, Label
from unspool.engine.trace.trace import Trace
from unspool.forking import ForkSafeLock


class Phase:
    """A split that some emitter makes runnable, the first one that can.

    Args:
        split: the parts.
        trace: the step that they are parts of.
        labels: where the rows are in each node.
    """

    def __init__(self, split: Split, trace: Trace, labels: dict[fx.Node, Label]) -> None:
        self.split = split
        self.core = lower_core(split, labels)
        self._labels, self._device = labels, trace.inputs[0].meta["val"].device
        self._weight_bytes = sum(node.meta["val"].nbytes for node in trace.weights)
        parts = (split.before, split.core, split.after)
        self._sums = [node for part in parts for node in part.outputs if labels[node] == SUMMED]
        self._failed: dict[Emitter, Reason] = {}
        """Emitters that turned out to have no form for it."""
        self._emitted: dict[tuple[Emitter, object], Parts] = {}
        self._chosen: dict[tuple[int, str | None], Emitter] = {}
        """The first candidate that can, by the state of the registry and what was wanted."""
        self._latest: tuple[tuple[float, str | None, int], Parts] | None = None
        """What ran last, by these and the rows of a step."""

    def parts(self, rows: float, wanted: str | None) -> Parts:
        """What runs a call with so many rows a step, by the wanted emitter if any is; compilers may still work."""
        latest = self._latest
        if latest is not None and latest[0] == (rows, wanted, registry.generation):
            return latest[1]
        found = self._found(Load(rows, self._weight_bytes), wanted)
        self._latest = (rows, wanted, registry.generation), found
        return found

    def _found(self, load: Load, wanted: str | None) -> Parts:
        chosen = self._chosen.get((registry.generation, wanted))
        if chosen is not None and (found := self._emitted.get((chosen, chosen.variant(load)))) is not None:
            return found
        with _choosing.own:
            candidates, _ = registry.candidates(self.core, self._device, wanted)
            for emitter in candidates:
                if emitter not in self._failed:
                    try:
                        found = self._by(emitter, load)
                    except CannotEmitError as error:
                        self._failed[emitter] = error.reason
                        continue
                    self._chosen[registry.generation, wanted] = emitter
                    return found
        raise AssertionError("the interpreter runs every core")

    def wait(self, rows: float, wanted: str | None) -> Parts:
        """`parts`, once it is known that they can run."""
        while True:
            parts = self.parts(rows, wanted)
            try:
                parts.core.wait()
            except CannotEmitError as error:  # known only now, since compilers work in the background
                with _choosing.own:
                    self._failed[parts.emitter] = error.reason
                    self._chosen.clear()
                    self._latest = None
            else:
                return parts

    def begin(self, weights: Values, rows: float, wanted: str | None) -> Bound:
        """The parts for a call with so many rows a step, with its weights."""
        return self.wait(rows, wanted).bind(weights)

    def passed_over(self, wanted: str | None) -> dict[str, Reason]:
        """Emitters that do not run it, each with the reason."""
        _, refused = registry.candidates(self.core, self._device, wanted)
        return {**refused, **{emitter.name: reason for emitter, reason in self._failed.items()}}

    def slowed_by(self, wanted: str | None) -> Reason | None:
        """Why it is interpreted although there is an emitter for its device, unless that was asked for."""
        if not self._failed or wanted == registry.LAST.name:
            return None
        candidates, _ = registry.candidates(self.core, self._device, wanted)
        served = [each for each in candidates if each is not registry.LAST]
        return self._failed[served[0]] if served and all(each in self._failed for each in served) else None

    def add_sums(self, total: Values, values: Values, summed: Callable[[Tensor], Tensor]) -> None:
        """Adds a chunk's sums over rows to those of the chunks before it.

        Args:
            total: those.
            values: the chunk's.
            summed: what a sum is, if there are rows in it.
        """
        for node in self._sums:
            own = summed(values[node])
            if node in total:
                total[node] = total[node].add_(own)
            else:
                # A view, as a sum over rows can be, may share its memory with something else.
                total[node] = own.clone() if own._base is not None else own

    def _by(self, emitter: Emitter, load: Load) -> Parts:
        variant = emitter.variant(load)
        found = self._emitted.get((emitter, variant))
        if found is None:
            split = emitter.fold(self.split, self._labels, variant)
            emitted = emitter.emit(split, self._labels, self._device, variant)
            found = Parts(emitter, emitted, self._labels, self._device)
            self._emitted[(emitter, variant)] = found
        return found


_choosing = ForkSafeLock()
