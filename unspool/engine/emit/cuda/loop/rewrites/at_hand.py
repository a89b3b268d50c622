"""Work of *before* that only another part needs, and that it can do with what it reads anyway, is done there.

A scaled copy of a streamed value, beside the value itself, is written and read for a single multiplication.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import fx

from unspool.engine.emit.stages.lowering import has_form
from unspool.engine.ir.program import Instruction, lower_part
from unspool.engine.ops import is_pointwise
from unspool.engine.partition.split import Part, Split, regroup
from unspool.engine.rows.labels import SHARED, Label


def with_reads_at_hand(split: Split, labels: dict[fx.Node, Label]) -> Split:
    """`split` with fewer values between its parts; none reads anything that it did not read before."""
    core, after = (_at_hand(split, part, labels) for part in (split.core, split.after))
    if not core and not after:
        return split
    before = [node for node in split.before.nodes if node not in core and node not in after]
    order = [*split.before.nodes, *split.core.nodes, *split.after.nodes]
    within = [{*part.nodes, *moved} for part, moved in ((split.core, core), (split.after, after))]
    return regroup(split, before, *([node for node in order if node in own] for own in within))


def lowered(node: fx.Node, labels: dict[fx.Node, Label]) -> Sequence[Instruction]:
    """A node by itself."""
    return lower_part(Part((node,), tuple(node.all_input_nodes), (node,)), labels).instructions


def _at_hand(split: Split, part: Part, labels: dict[fx.Node, Label]) -> set[fx.Node]:
    """What *before* need not compute for that part."""
    users = {*part.nodes}
    found: set[fx.Node] = set()
    for node in reversed(split.before.nodes):
        alone = node not in split.wanted and is_pointwise(node.target) and users.issuperset(node.users)
        if alone and all(map(has_form, lowered(node, labels))):
            found.add(node)
            users.add(node)
    read, left = {*part.inputs}, set[fx.Node]()
    while left != found:  # what needs something else stays, with what needs that, unless the part reads it already
        left = set(found)
        users = {*part.nodes, *left}
        for node in left:
            known = all(_is_known(each, read, left, labels) for each in node.all_input_nodes)
            if not known or not users.issuperset(node.users):
                found.discard(node)
    return found


def _is_known(node: fx.Node, read: set[fx.Node], moved: set[fx.Node], labels: dict[fx.Node, Label]) -> bool:
    return node in read or node in moved or labels.get(node) == SHARED
