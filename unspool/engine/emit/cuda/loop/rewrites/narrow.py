"""Wide values that one part hands to another are computed again where they are read, if what that takes is narrower.

A normalised value is float32, and follows from a half, a mean and a root: to compute it twice costs two operations, to
hand it on costs memory eight bytes for each element, written and read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from torch import fx

from unspool.engine.emit.cuda.loop.rewrites.at_hand import lowered
from unspool.engine.emit.stages.lowering import has_form
from unspool.engine.partition.residuals import row_bytes
from unspool.engine.partition.split import Part, Split, regroup
from unspool.engine.rows.labels import SHARED, Label
from unspool.engine.trace.graph import ancestors, aten, is_size

CHEAP = {aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.neg.default, aten._to_copy.default}
MOST = 4
"""Operations that are done again for a value."""
WORTH = 1.25
"""How many times as many bytes of memory it has to spare as it takes."""


def with_narrow_reads(split: Split, labels: dict[fx.Node, Label]) -> Split:
    """`split` with less memory between its parts; some nodes are in two of them."""
    core = _again(split, split.core, split.before.nodes, labels)
    after = _again(split, split.after, [*split.before.nodes, *split.core.nodes], labels)
    if not core and not after:
        return split
    order = [*split.before.nodes, *split.core.nodes, *split.after.nodes]
    inside = [{*part.nodes, *again} for part, again in ((split.core, core), (split.after, after))]
    given = [each for own in inside for node in own for each in node.all_input_nodes if each not in own]
    handed_on = [node for node in split.new_carried if node not in inside[0]]
    needed = ancestors([*given, *split.total.inputs, *handed_on, *split.wanted], stop={*split.core.nodes})
    before = [node for node in split.before.nodes if node in needed]
    return regroup(split, before, *([node for node in order if node in own] for own in inside))


def _again(split: Split, part: Part, earlier: Sequence[fx.Node], labels: dict[fx.Node, Label]) -> set[fx.Node]:
    """What a part computes again of what earlier ones have made."""
    made, handed_on = {*earlier}, {*split.before.outputs, *split.core.outputs}
    reads, found = {*part.inputs}, set[fx.Node]()
    for wide in part.inputs:
        way = _way(wide, made, labels) if wide in made else set[fx.Node]()
        if not way:
            continue
        new = {each for each in _needs(way) if labels[each] != SHARED} - reads
        # What a part makes is written and read; what is there anyway, or stays there for others, is only read.
        taken = sum(row_bytes(each, labels) * (1 if each in handed_on or each not in made else 2) for each in new)
        spared = row_bytes(wide, labels) * (1 if _is_read_elsewhere(split, wide, part) else 2)
        if WORTH * taken < spared:
            found |= way
            reads |= new
    return found


def _way(wide: fx.Node, made: Collection[fx.Node], labels: dict[fx.Node, Label]) -> set[fx.Node]:
    """What computes a value of narrower ones; nothing if that is too much, or others are as wide."""
    way, left = set[fx.Node](), [wide]
    while left and len(way) <= MOST:
        node = left.pop()
        if node not in made or node.target not in CHEAP or not all(map(has_form, lowered(node, labels))):
            return set()
        way.add(node)
        by_row = [each for each in node.all_input_nodes if not is_size(each) and labels[each] != SHARED]
        left += [each for each in by_row if row_bytes(each, labels) >= row_bytes(wide, labels)]
    return set() if left else way


def _needs(way: Collection[fx.Node]) -> Iterator[fx.Node]:
    return (each for node in way for each in node.all_input_nodes if each not in way and not is_size(each))


def _is_read_elsewhere(split: Split, node: fx.Node, part: Part) -> bool:
    """Whether somebody else needs it, who did not make it."""
    others = [each for each in (split.core, split.after) if each is not part and node not in each.nodes]
    readers = {each for other in others for each in other.inputs}
    handed_on = (*split.total.inputs, *split.wanted, *split.new_carried)
    return node in readers or node in handed_on
