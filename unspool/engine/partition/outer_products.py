"""Gradients that are sums of outer products over time leave the loop, as one product over all steps.

The gradient of an attention's memory is such: d_memory = sum over t of alignments_t (outer) d_context_t. In the loop,
each step would read and write it whole to add a matrix of rank one. docs/internals.md has the derivation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from unspool.engine.execute.layout import Layout
from unspool.engine.rows.labels import Axis, Label
from unspool.engine.trace.graph import Node, aten, is_call, operand, terms_of, value
from unspool.engine.trace.trace import Trace


@dataclass(frozen=True)
class OuterSum:
    """A state's gradient that a step takes over and hands on with outer products added, and does not look at.

    Args:
        state: the number of the state.
        terms: the products, each of a column `[rows, m, 1]` and a line `[rows, 1, n]`.
    """

    state: int
    terms: tuple[Node, ...]

    @property
    def factors(self) -> list[tuple[Node, Node]]:
        """What has to be known of every row and step: columns and lines."""
        return [(operand(term, 0), operand(term, 1)) for term in self.terms]


def outer_sums(trace: Trace, labels: dict[Node, Label]) -> list[OuterSum]:
    """The states of a trace whose gradients are such sums."""
    found: list[OuterSum] = []
    for number, (carried, handed_on) in enumerate(zip(trace.d_new_state, trace.d_state, strict=True)):
        if not is_call(handed_on, aten.add.Tensor) or handed_on.kwargs:
            continue
        terms = terms_of(handed_on)
        added = [term for term in terms if term is not carried]
        unseen = len(carried.users) == 1 and len(added) == len(terms) - 1
        result = all(user.op == "output" for user in handed_on.users) and trace.d_state.count(handed_on) == 1
        if unseen and result and all(_is_outer(term, carried, labels) for term in added):
            found.append(OuterSum(number, tuple(added)))
    return found


def _is_outer(term: Node, like: Node, labels: dict[Node, Label]) -> bool:
    """Whether a node is an outer product for each row, of the shape of `like`, and nothing but a term."""
    if not is_call(term, aten.bmm.default) or len(term.users) != 1:
        return False
    same = value(term).shape == value(like).shape and value(term).dtype == value(like).dtype
    column, line = operand(term, 0), operand(term, 1)
    return same and value(column).shape[2] == 1 and labels[column] == labels[line] == Axis(0)


def add_outer(
    total: Tensor | None, factors: Sequence[tuple[Tensor, Tensor]], layout: Layout, start: int, stop: int
) -> Tensor:
    """`total`, for the rows of a batch, with the outer products of the steps from `start` to `stop` added in place."""
    for column, line in factors:
        by_row = layout.spread(column.squeeze(2), start, stop).permute(1, 2, 0)
        by_step = layout.spread(line.squeeze(1), start, stop).transpose(0, 1)
        total = torch.bmm(by_row, by_step) if total is None else total.baddbmm_(by_row, by_step)
    assert total is not None
    return total
