"""The parts of a split, made runnable by one emitter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, fx

from unspool.engine.emit.cpp.module import Module
from unspool.engine.emit.cpp.part import Group, fuse_part
from unspool.engine.emit.protocol import Chunk, Loop
from unspool.engine.emit.python import as_python
from unspool.engine.execute.counts import Counts
from unspool.engine.ir.program import lower
from unspool.engine.partition.split import Part, Split
from unspool.engine.rows.labels import SHARED, Label

Values = dict[fx.Node, Tensor]
"""Tensors by the node of the plan's graph that they are values of."""


@dataclass(frozen=True)
class Shared:
    """What is the same for all steps of a call.

    Args:
        values: weights, and what depends on them alone.
        prepared: those that the core takes, as it takes them.
        before, after: the same for the compiled groups of these parts.
        parts: what they are for.
    """

    values: Values
    prepared: Sequence[Tensor]
    before: Sequence[Sequence[Tensor]]
    after: Sequence[Sequence[Tensor]]
    parts: Parts


class Parts:
    """Runs the parts of a split, with `loop` for its core.

    Args:
        split: the parts.
        labels: where the rows are in each node.
        loop: what runs the core.
        device: where all that is.
        module: what the parts beside the core are compiled with; without it, torch runs them.
    """

    def __init__(
        self,
        split: Split,
        labels: dict[fx.Node, Label],
        loop: Loop,
        device: torch.device,
        module: Module | None = None,
    ) -> None:
        self.split, self.loop = split, loop
        programs = {name: lower(getattr(split, name), labels) for name in ("invariant", "before", "after", "total")}
        self._groups: dict[str, list[tuple[Group, list[fx.Node]]]] = {"before": [], "after": []}
        if module is not None:
            for name, groups in self._groups.items():
                fused = fuse_part(programs[name], module, name)
                named = {node.name: node for node in getattr(split, name).inputs}
                programs[name] = fused.program
                groups += [(group, [named[value.name] for value in group.shared]) for group in fused.groups]
        self._invariant, self._before, self._after, self._total = (
            as_python(program, name, device)[0] for name, program in programs.items()
        )
        outside = [node for node in split.core.inputs if node not in split.carried]
        self._shared = [node for node in outside if labels[node] == SHARED]
        self._streamed = [node for node in outside if labels[node] != SHARED]

    def begin(self, weights: Values) -> Shared:
        """What is the same for all steps, weights included."""
        values = {**weights, **_run(self.split.invariant, self._invariant, 0, weights)}
        before, after = (
            [group.prepare([values[node] for node in nodes]) for group, nodes in self._groups[name]]
            for name in ("before", "after")
        )
        return Shared(values, self.loop.prepare([values[node] for node in self._shared]), before, after, self)

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
        """A chunk of steps: what is carried after them, and the values of all parts."""
        rows = counts.total
        values = {**shared.values, **known}
        values.update(_run(self.split.before, self._before, rows, values, shared.before))
        streamed = [values[node] for node in self._streamed]
        targets = None if into is None else [into.get(node) for node in self.split.core.outputs]
        new, emitted = self.loop(shared.prepared, Chunk(counts, streamed, carried, reverse, targets, owned))
        values.update(zip(self.split.core.outputs, emitted, strict=True))
        values.update(_run(self.split.after, self._after, rows, values, shared.after))
        return new, values

    def finish(self, shared: Shared, sums: Values) -> Values:
        """What depends on sums over all chunks, and what is the same for all rows anyway."""
        values = {**shared.values, **sums}
        return {**values, **_run(self.split.total, self._total, 0, values)}


def _run(
    part: Part,
    function: Callable[..., tuple[Tensor, ...]],
    rows: int,
    values: Values,
    prepared: Sequence[Sequence[Tensor]] = (),
) -> Values:
    if not part.outputs:
        return {}
    results = function(rows, *(values[node] for node in part.inputs), *prepared)
    return dict(zip(part.outputs, results, strict=True))
