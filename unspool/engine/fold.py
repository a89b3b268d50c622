"""Folds pointwise work into the core, where a compiled loop does it for nothing.

A compiled core reads its streamed values from memory and computes with them in registers. What *before* only computes
for the core is then better computed there, if that means that fewer bytes are streamed; and the same of what *after*
computes from what the core emits.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable
from typing import Any

from unspool.engine.graph import Node, ancestors, is_size
from unspool.engine.keep import row_bytes
from unspool.engine.labels import SHARED, SUMMED, Label
from unspool.engine.operations import PRODUCTS
from unspool.engine.program import Instruction, lower
from unspool.engine.split import Part, Split, regroup


def fold(split: Split, labels: dict[Node, Label], has_form: Callable[[Instruction], bool], *, products: bool) -> Split:
    """`split` with work moved into its core so that it streams and emits fewer bytes; the results are the same.

    Args:
        split: the parts.
        labels: where the rows are in each node.
        has_form: whether the core's emitter knows an instruction.
        products: whether products may move too. With many rows a step, they are as fast there.
    """
    return _Fold(split, labels, has_form, products).run()


class _Fold:
    def __init__(
        self, split: Split, labels: dict[Node, Label], has_form: Callable[[Instruction], bool], products: bool
    ) -> None:
        self._split, self._labels, self._has_form = split, labels, has_form
        self._fixed = set[Any]() if products else PRODUCTS
        self._nodes = {*split.before.nodes, *split.core.nodes, *split.after.nodes, *split.total.nodes}
        self._handed_on = {node for node in split.new_carried if node is not None}

    def run(self) -> Split:
        from_before, from_after = self._from_before(), self._from_after()
        left = [node for node in self._split.before.nodes if node not in from_before]
        # What no step needs can as well be computed with what comes after.
        late = set(left) - ancestors(
            [*self._split.core.nodes, *from_before, *from_after, *self._handed_on], stop=self._split.before.inputs
        )
        before = [node for node in left if node not in late]
        after = [*(node for node in left if node in late), *(n for n in self._split.after.nodes if n not in from_after)]
        order = [*self._split.before.nodes, *self._split.core.nodes, *self._split.after.nodes]
        core = [node for node in order if node in from_before or node in self._split.core.nodes or node in from_after]
        return regroup(self._split, before, core, after)

    def _from_before(self) -> set[Node]:
        split = self._split
        core, moved = set(split.core.nodes), set[Node]()
        for node in reversed(split.before.nodes):
            users = self._users(node)
            mine = node not in split.wanted and node not in self._handed_on
            if users and mine and self._is_cheap(node) and all(user in core or user in moved for user in users):
                moved.add(node)
        self._whole(moved, split.before.nodes)
        # From the front: what leaves no more to be streamed if it stays before.
        changed = True
        while changed:
            changed = False
            for node in split.before.nodes:
                if node in moved and moved.isdisjoint(node.all_input_nodes):
                    less = moved - {node, *_pieces(node)}
                    if self._streamed(core | less) <= self._streamed(core | moved):
                        moved, changed = less, True
        return moved

    def _from_after(self) -> set[Node]:
        split = self._split
        core, moved = set(split.core.nodes), set[Node]()
        outside = set(split.after.nodes) | set(split.total.nodes)
        for node in split.after.nodes:
            ready = all(each in moved or each not in outside for each in node.all_input_nodes)
            if ready and self._is_cheap(node):
                moved.add(node)
        self._whole(moved, split.after.nodes)
        # From the end: what leaves no more to be emitted if it stays after.
        changed = True
        while changed:
            changed = False
            for node in reversed(split.after.nodes):
                own = {node, *_pieces(node)}
                if node in moved and moved.isdisjoint(user for each in own for user in each.users if user not in own):
                    less = moved - own
                    if self._emitted(core | less) <= self._emitted(core | moved):
                        moved, changed = less, True
        return moved

    def _is_cheap(self, node: Node) -> bool:
        if node.target is operator.getitem:
            return self._is_cheap(node.args[0])
        results = _pieces(node) or [node]
        if node.target in self._fixed or any(self._labels[each] == SUMMED for each in results):
            return False
        inputs = tuple(dict.fromkeys(each for each in node.all_input_nodes if not is_size(each)))
        part = Part((node, *_pieces(node)), inputs, tuple(results))
        return all(map(self._has_form, lower(part, self._labels).instructions))

    def _users(self, node: Node) -> list[Node]:
        return [user for user in node.users if user in self._nodes]

    def _whole(self, moved: set[Node], nodes: Collection[Node]) -> None:
        """Keeps an operation and its several results together."""
        for node in nodes:
            pieces = _pieces(node)
            if pieces and not ({node, *pieces} <= moved):
                moved -= {node, *pieces}
        for node in [each for each in moved if each.target is operator.getitem and each.args[0] not in moved]:
            moved.discard(node)

    def _streamed(self, inside: set[Node]) -> int:
        """The bytes that a row of what is inside reads from outside."""
        return self._bytes({each for node in inside for each in node.all_input_nodes if each not in inside})

    def _emitted(self, inside: set[Node]) -> int:
        """The bytes that a row of what is inside writes for outside."""
        return self._bytes(
            {
                node
                for node in inside
                if node in self._split.wanted or any(user not in inside for user in self._users(node))
            }
        )

    def _bytes(self, nodes: Iterable[Node]) -> int:
        given = set(self._split.carried)
        rows = [node for node in nodes if not is_size(node) and not _pieces(node) and node not in given]
        return sum(row_bytes(node, self._labels) for node in rows if self._labels[node] not in (SHARED, SUMMED))


def _pieces(node: Node) -> list[Node]:
    return [user for user in node.users if user.target is operator.getitem]
