"""Sums over rows and steps, such as a bias's gradient: each row carries its own, and rows are added up at the end.

What is summed is at hand when a step has computed it, and a block has time while it waits for others. To read it again
after the loop takes as long as a large product does.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import fx

from unspool.engine.emit.cuda.loop.rewrites.at_hand import computable, lowered, only_for
from unspool.engine.emit.protocol import Chunk, Results
from unspool.engine.emit.stages.dtypes import computed
from unspool.engine.emit.stages.lowering import is_row_sum
from unspool.engine.ir.core import Core
from unspool.engine.ir.program import Instruction, Kind, Value
from unspool.engine.partition.split import Split, regroup
from unspool.engine.rows.labels import SUMMED, Label
from unspool.engine.trace.graph import aten


def with_row_sums(split: Split, labels: dict[fx.Node, Label]) -> Split:
    """`split` with the sums over rows in its core that need nothing but what a step has anyway.

    What is summed may be computed for that alone, element by element: it is then never written.
    """
    known = {*split.core.nodes, *split.core.inputs}
    sums = {node for node in split.after.nodes if _is_sum(node, labels)}
    later = {user for node in sums for user in node.users}
    found = computable(sums | only_for(sums, split.after.nodes, labels), later, known.__contains__)
    rest = [node for node in split.after.nodes if node not in found]
    own = [node for node in split.after.nodes if node in found]
    return regroup(split, split.before.nodes, [*split.core.nodes, *own], rest) if own else split


def _is_sum(node: fx.Node, labels: dict[fx.Node, Label]) -> bool:
    over_rows = labels[node] == SUMMED and node.target is aten.sum.dim_IntList
    return over_rows and all(map(is_row_sum, lowered(node, labels)))


class RowSums:
    """The sums over rows of a core, as something that rows carry.

    Args:
        core: the core.
    """

    def __init__(self, core: Core) -> None:
        sums = [each for each in core.instructions if is_row_sum(each)]
        self._totals = [each.results[0] for each in sums]
        self._before = [_carried(each, "before") for each in sums]
        now = [_carried(each, "now") for each in sums]
        adds = [_add(*each) for each in zip(sums, self._before, now, strict=True)]
        self._places = [k for k, each in enumerate(core.emitted) if each not in self._totals]
        emitted = [core.emitted[k] for k in self._places]
        self._order = [[*emitted, *self._totals].index(each) for each in core.emitted]
        self._carried = len(core.carried)
        self.core = replace(
            core,
            carried=(*core.carried, *self._before),
            instructions=(*(each for each in core.instructions if each not in sums), *adds),
            new_carried=(*core.new_carried, *now),
            emitted=tuple(emitted),
        )
        """The core that carries them."""

    def __bool__(self) -> bool:
        return bool(self._totals)

    def begin(self, chunk: Chunk, device: torch.device) -> Chunk:
        """The chunk for the core that carries them: they begin with zeros."""
        rows, into, padding = chunk.counts[0], chunk.into, chunk.padding
        zeros = [torch.zeros((rows, *each.shape), dtype=each.dtype, device=device) for each in self._before]
        return chunk._replace(
            carried=[*chunk.carried, *zeros],
            into=None if into is None else [into[k] for k in self._places],
            padding=None if padding is None else [padding[k] for k in self._places],
        )

    def finish(self, results: Results) -> Results:
        """What the core returns, of what the one that carries them does."""
        carried, emitted = results
        pairs = zip(carried[self._carried :], self._totals, strict=True)
        sums = [own.sum(0, keepdim=len(like.shape) == own.dim()).to(like.dtype) for own, like in pairs]
        found = [*emitted, *sums]
        return carried[: self._carried], [found[k] for k in self._order]


def _carried(row_sum: Instruction, when: str) -> Value:
    """What a row has of a sum: there may be many terms, so halves are added up as wider numbers."""
    term = row_sum.arguments[0]
    return Value(f"{row_sum.results[0].name}_{when}", term.shape, computed(term.dtype))


def _add(row_sum: Instruction, before: Value, now: Value) -> Instruction:
    term = row_sum.arguments[0]
    return Instruction(Kind.POINTWISE, aten.add.Tensor, (before, term), {}, (now,), row_sum.source)
