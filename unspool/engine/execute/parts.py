"""The parts of an emitted split, and what binds them to the weights of a call."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, fx

from unspool.engine.emit.protocol import Beside, Chunk, Emitted, Emitter, Group, Padding
from unspool.engine.emit.python import as_python
from unspool.engine.execute.counts import Counts
from unspool.engine.ir.program import lower_part
from unspool.engine.memory.gathering import gather
from unspool.engine.partition.padding import Needs
from unspool.engine.partition.residuals import row_bytes
from unspool.engine.partition.split import Part
from unspool.engine.rows.labels import SHARED, Axis, Label
from unspool.profiling import profiled

Values = dict[fx.Node, Tensor]
"""Tensors by the node of the plan's graph that they are values of."""


class Parts:
    """An emitted split as functions: *invariant*, *before*, the core, *after* and *total*.

    Args:
        emitter: the emitter.
        emitted: what it made of the split.
        labels: where the rows are in each node.
        device: where all that is.
    """

    def __init__(self, emitter: Emitter, emitted: Emitted, labels: dict[fx.Node, Label], device: torch.device) -> None:
        split = emitted.split
        self.emitter, self.split, self.core = emitter, split, emitted.core
        invariant, total = (Beside(lower_part(part, labels)) for part in (split.invariant, split.total))
        self.invariant = _Function("invariant", split.invariant, invariant, device)
        self.before = _Function("before", split.before, emitted.before, device)
        self.after = _Function("after", split.after, emitted.after, device)
        self.total = _Function("total", split.total, total, device)
        beside = [node for node in (*split.before.nodes, *split.after.nodes) if isinstance(labels[node], Axis)]
        tensors = [node for node in beside if isinstance(node.meta["val"], Tensor)]
        self.largest_beside = max((row_bytes(node, labels) for node in tensors), default=0)
        """Bytes of one row of the largest value that is computed beside the core."""
        self.needs = Needs.of(split, labels)
        """Of rows that have ended."""
        crossing = dict.fromkeys([*split.core.inputs, *split.core.outputs])
        by_row = [node for node in crossing if isinstance(labels[node], Axis)]
        self.crossing = sum(row_bytes(node, labels) for node in by_row)
        """Bytes of one row of all that the core reads and writes."""
        outside = [node for node in split.core.inputs if node not in split.carried]
        self.shared = [node for node in outside if labels[node] == SHARED]
        self.streamed = [node for node in outside if labels[node] != SHARED]

    def bind(self, weights: Values) -> Bound:
        """The parts with the weights of a call: what is the same for all its steps is computed here."""
        values = {**weights, **self.invariant(0, weights)}
        return Bound(
            self,
            values,
            self.core.prepare(list(map(values.__getitem__, self.shared))),
            self.before.prepare(values),
            self.after.prepare(values),
        )


class Steps(NamedTuple):
    """A chunk of steps.

    Args:
        counts: the rows of each step.
        reverse: whether time runs backwards.
        into: tensors for values of the core to be written to.
        owned: whether what is carried may be changed in place, because nobody else looks at it.
        scope: the name of the loop, for a profiler.
        running: how many rows run at each step, on the device, if `counts` do not say so.
        lent: for each row of these steps, then, the one whose values it has in all that is known, and in `lending`.
        lending: values in which rows that have ended are to have those of others.
        zeros: values that are to be zero there, if the core emits them.
    """

    counts: Counts
    reverse: bool = False
    into: Values | None = None
    owned: bool = False
    scope: str = "step"
    running: Tensor | None = None
    lent: Tensor | None = None
    lending: Collection[fx.Node] = ()
    zeros: Collection[fx.Node] = ()


class Bound(NamedTuple):
    """Parts with the weights of one call.

    bound = parts.bind(weights)
    for chunk in chunks:
        carried, values = bound.run(known, carried, chunk)
    results = bound.finish(sums over the chunks)

    Args:
        parts: the parts.
        values: weights, and what depends on them alone.
        prepared: those that the core takes, as it takes them.
        before, after: those that the compiled groups of these parts take.
    """

    parts: Parts
    values: Values
    prepared: Sequence[Tensor]
    before: Sequence[Sequence[Tensor]]
    after: Sequence[Sequence[Tensor]]

    def run(self, known: Values, carried: Sequence[Tensor], steps: Steps) -> tuple[list[Tensor], Values]:
        """A chunk of steps: what is carried after them, and the values of all parts.

        Args:
            known: what is given for every row and step.
            carried: what the first step run takes over.
            steps: the chunk.
        """
        parts, rows, core = self.parts, steps.counts.total, self.parts.split.core
        values = {**self.values, **known}
        values.update(parts.before(rows, values, self.before))
        streamed = list(map(values.__getitem__, parts.streamed))
        targets = list(map(steps.into.get, core.outputs)) if steps.into else None
        chunk = Chunk(steps.counts, streamed, carried, steps.reverse, targets, steps.owned, steps.running)
        if steps.running is not None:
            chunk = chunk._replace(padding=[self.padding(node, steps) for node in core.outputs], lent=steps.lent)
        with profiled(steps.scope, "adjoint core" if steps.reverse else "core", parts.emitter.name):
            new, emitted = parts.core(self.prepared, chunk)
        values.update(zip(core.outputs, emitted, strict=True))
        later = parts.after(rows, values, self.after)
        values.update(later)
        if steps.lent is not None:
            values.update({k: gather(own.contiguous(), steps.lent) for k, own in later.items() if k in steps.lending})
        return new, values

    def padding(self, node: fx.Node, steps: Steps) -> Padding:
        """What a value that the core emits holds of rows that have ended."""
        if node in steps.lending:
            return Padding.LENT
        zeros = node in steps.zeros or node in self.parts.needs.finite
        return Padding.ZEROS if zeros else Padding.ANYTHING

    def is_zero(self, node: fx.Node, steps: Steps) -> bool:
        """Whether a value of a chunk is known to be zero for rows that do not run."""
        return node in self.parts.split.core.outputs and self.padding(node, steps) is Padding.ZEROS

    def finish(self, sums: Values) -> Values:
        """Everything that is the same for all rows: what depends on sums over all chunks, and what does not."""
        values = {**self.values, **sums}
        return {**values, **self.parts.total(0, values)}


class _Function:
    """A part beside the core: `values of its outputs = function(rows, values of its inputs)`."""

    def __init__(self, name: str, part: Part, beside: Beside, device: torch.device) -> None:
        self._part = part
        run, _ = as_python(beside.program, name, device)
        self._run: Callable[..., tuple[Tensor, ...]] = run
        named = {node.name: node for node in part.inputs}
        self._groups: list[tuple[Group, list[fx.Node]]] = [
            (group, [named[value.name] for value in group.shared]) for group in beside.groups
        ]

    def prepare(self, values: Values) -> list[Sequence[Tensor]]:
        """What its compiled groups take of what is the same for all rows."""
        return [group.prepare([values[node] for node in nodes]) for group, nodes in self._groups]

    def __call__(self, rows: int, values: Values, prepared: Sequence[Sequence[Tensor]] = ()) -> Values:
        if not self._part.outputs:
            return {}
        results = self._run(rows, *map(values.__getitem__, self._part.inputs), *prepared)
        return dict(zip(self._part.outputs, results, strict=True))
