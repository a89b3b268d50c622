"""One direction of a loop, forward or adjoint: its parts, made runnable."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor, fx

from unspool.engine.core import lower_core
from unspool.engine.emit import emit
from unspool.engine.emit.python import as_python
from unspool.engine.graph import aten
from unspool.engine.labels import SHARED, SUMMED, Label
from unspool.engine.program import lower
from unspool.engine.split import Part, Split
from unspool.engine.trace import Trace

Values = dict[fx.Node, Tensor]
"""Tensors by the node of the plan's graph that they are values of."""


class Phase:
    """Runs the parts of a split.

    shared = phase.begin(weights)
    for chunk in chunks:
        carried, values = phase.run(chunk's rows, shared, known, carried)
    results = phase.finish(shared, sums over the chunks)
    """

    def __init__(self, split: Split, trace: Trace, labels: dict[fx.Node, Label]) -> None:
        self.split = split
        self.core = lower_core(split, labels)
        device = trace.inputs[0].meta["val"].device
        self.loop = emit(self.core, device)
        self._invariant, self._before, self._after, self._total = (
            as_python(lower(getattr(split, name), labels), name, device)[0]
            for name in ("invariant", "before", "after", "total")
        )
        outside = [node for node in split.core.inputs if node not in split.carried]
        self._shared = [node for node in outside if labels[node] == SHARED]
        self._streamed = [node for node in outside if labels[node] != SHARED]
        factors = {node.args[1] for node in split.core.nodes if node.target is aten.mm.default}
        self._matrices = [node for node in self._shared if node in factors] if device.type == "cpu" else []
        self.sums = [
            node for part in (split.before, split.core, split.after) for node in part.outputs if labels[node] == SUMMED
        ]

    def begin(self, weights: Values) -> Values:
        """What is the same for all steps, weights included."""
        shared = {**weights, **_run(self.split.invariant, self._invariant, 0, weights)}
        # Copied once, read at every step.
        laid_out = {node: _laid_out(shared[node]) for node in self._matrices}
        return {**shared, **laid_out}

    def run(
        self,
        counts: Sequence[int],
        shared: Values,
        known: Values,
        carried: Sequence[Tensor],
        *,
        reverse: bool = False,
        into: Values | None = None,
    ) -> tuple[list[Tensor], Values]:
        """A chunk of steps: what is carried after them, and the values of all parts.

        Args:
            counts: the rows of each step.
            shared: what `begin` returned.
            known: what is given for every row and step.
            carried: what the first step run takes over.
            reverse: whether time runs backwards.
            into: tensors for values of the core to be written to.
        """
        rows = sum(counts)
        values = {**shared, **known}
        values.update(_run(self.split.before, self._before, rows, values))
        streamed = [values[node] for node in self._streamed]
        targets = None if into is None else [into.get(node) for node in self.split.core.outputs]
        new, emitted = self.loop(
            counts, [values[node] for node in self._shared], streamed, carried, reverse=reverse, into=targets
        )
        values.update(zip(self.split.core.outputs, emitted, strict=True))
        values.update(_run(self.split.after, self._after, rows, values))
        return new, values

    def finish(self, shared: Values, sums: Values) -> Values:
        """Everything that is the same for all rows: what depends on sums over all chunks, and what does not."""
        values = {**shared, **sums}
        return {**values, **_run(self.split.total, self._total, 0, values)}


def _laid_out(matrix: Tensor) -> Tensor:
    """A matrix as a CPU multiplies few rows with it fastest: along its longer side, measured with MKL."""
    wide = matrix.shape[1] > matrix.shape[0]
    return matrix.t().contiguous().t() if wide else matrix.contiguous()


def _run(part: Part, function: Callable[..., tuple[Tensor, ...]], rows: int, values: Values) -> Values:
    if not part.outputs:
        return {}
    results = function(rows, *(values[node] for node in part.inputs))
    return dict(zip(part.outputs, results, strict=True))


def add_sums(total: Values, phase: Phase, values: Values) -> None:
    """Adds a chunk's sums over rows to those of the chunks before it."""
    for node in phase.sums:
        if node in total:
            total[node] = total[node].add_(values[node])
        else:
            # A view, as a sum over rows can be, may share its memory with something else.
            total[node] = values[node].clone() if values[node]._base is not None else values[node]
