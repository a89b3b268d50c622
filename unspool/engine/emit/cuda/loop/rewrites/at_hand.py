"""Work of *before* that only another part needs, and that it can do with what it reads anyway, is done there.

A scaled copy of a streamed value, beside the value itself, is written and read for a single multiplication.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

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


def only_for(users: Collection[fx.Node], nodes: Sequence[fx.Node], labels: dict[fx.Node, Label]) -> set[fx.Node]:
    """Those that compute element by element, in a form that loops have, what nobody but these users needs."""
    within, found = {*users}, set[fx.Node]()
    for node in reversed(nodes):
        if is_pointwise(node.target) and within.issuperset(node.users) and all(map(has_form, lowered(node, labels))):
            within.add(node)
            found.add(node)
    return found


def computable(
    nodes: Collection[fx.Node], users: Collection[fx.Node], is_known: Callable[[fx.Node], bool]
) -> set[fx.Node]:
    """Those that need nothing but what is known or each other, and that nobody reads but these users or each other."""
    found, left = {*nodes}, set[fx.Node]()
    while left != found:
        left = found
        within = {*users, *left}
        found = {
            node
            for node in left
            if within.issuperset(node.users) and all(each in left or is_known(each) for each in node.all_input_nodes)
        }
    return found


def _at_hand(split: Split, part: Part, labels: dict[fx.Node, Label]) -> set[fx.Node]:
    """What *before* need not compute for that part: whatever else the part reads, it reads anyway."""
    read = {*part.inputs}
    found = only_for(part.nodes, split.before.nodes, labels)
    return computable(found, part.nodes, lambda node: node in read or labels.get(node) == SHARED)
