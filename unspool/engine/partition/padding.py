"""Padding: what values have to hold of rows that have ended, if only a device knows which rows these are.

Rows never mix but in sums over them. What else is computed of a row that has ended goes to a core, which leaves the row
out, or to a result, where zeros are written instead: it may be computed of whatever is in memory. In a sum over rows, a
gradient is a factor of each term, and zero there; the other factors have to be finite.
"""

from __future__ import annotations

import operator
from typing import NamedTuple

from unspool.engine.ops import Linear, OpKind, kind_of, op_of
from unspool.engine.partition.split import Split
from unspool.engine.rows.labels import SUMMED, Label
from unspool.engine.trace.graph import Node, ancestors

TAKES_ANYTHING = {
    OpKind.PRODUCT,
    OpKind.POINTWISE,
    OpKind.COMPARISON,
    OpKind.CAST,
    OpKind.REDUCTION,
    OpKind.VIEW,
    OpKind.MAKER,
}
"""Operations that run whatever numbers they are given; an index, say, has to be in range."""


class Needs(NamedTuple):
    """What the parts beside a core need of rows that have ended.

    Args:
        finite: values, given or computed, of which these rows reach a sum over rows, or an index: they have to be
            zero, or what a row that runs has.
        lent: those that have to be what a row that runs has, since zeros may have results that are not finite.
    """

    finite: frozenset[Node]
    lent: frozenset[Node]

    @classmethod
    def of(cls, split: Split, labels: dict[Node, Label]) -> Needs:
        """Those of a split's parts."""
        beside = dict.fromkeys([*split.before.nodes, *split.after.nodes])
        given = {each for node in beside for each in node.all_input_nodes if each not in beside}
        calls = [node for node in beside if node.target is not operator.getitem]
        finite = ancestors([node for node in calls if labels[node] == SUMMED or _is_particular(node)], stop=given)
        curved = [node for node in calls if node in finite and (_is_particular(node) or not _is_linear(node))]
        return cls(frozenset(finite), frozenset(ancestors(curved, stop=given)))


NOTHING = Needs(frozenset(), frozenset())


def _is_particular(node: Node) -> bool:
    return kind_of(node.target) not in TAKES_ANYTHING


def _is_linear(node: Node) -> bool:
    """Whether it makes zeros of zeros, whatever finite numbers it is given beside them."""
    op = op_of(node.target)
    return op is not None and op.linear in (Linear.ALL, Linear.EACH)
