"""Folds work into the core, where a compiled loop does it with what it has at hand.

A compiled core reads its streamed values from memory and computes with them in registers. What *before* only computes
for the core is then better computed there, if that means that fewer bytes cross the border; and the same of what
*after* computes from what the core emits. Which instructions to move so that the fewest bytes cross is a minimum cut.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection
from typing import Any

from unspool.engine.cut import Network
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
        self._core = {*split.core.nodes, *split.carried}
        self._results = {*split.wanted, *(node for node in split.new_carried if node is not None)}

    def run(self) -> Split:
        split = self._split
        core = self._core | self._from_after()
        core |= self._from_before(core)
        left = [node for node in split.before.nodes if node not in core]
        # What no step needs can as well be computed with what comes after.
        needed = ancestors([*core, *split.new_carried], stop=split.before.inputs)
        needed |= {piece for node in needed for piece in _pieces(node)}  # which stay together
        before = [node for node in left if node in needed]
        after = [node for node in [*left, *split.after.nodes] if node not in core and node not in before]
        order = [*split.before.nodes, *split.core.nodes, *split.after.nodes]
        return regroup(split, before, [node for node in order if node in core], after)

    def _from_before(self, core: Collection[Node]) -> set[Node]:
        """What moves into the core from before: the side of the cut that is nearer to it."""
        own = list(self._split.before.nodes)
        later = {*self._split.after.nodes, *self._split.total.nodes} - set(core)
        network = Network()
        for node in own:
            inputs = [each for each in node.all_input_nodes if not is_size(each)]
            elsewhere = [user for user in node.users if user in later]
            if elsewhere or node in self._results or not self._is_cheap(node):
                network.pin_source(node)
            for each in inputs:
                network.implies(node, each)  # what stays before needs its inputs there
        for value in dict.fromkeys(
            each for node in [*own, *core] for each in node.all_input_nodes if each not in core and not is_size(each)
        ):
            known = value not in own
            if known:
                network.pin_source(value)
            # What is computed before is written and read, what is known only read.
            users = [user for user in value.users if user in core or user in own]
            network.pay(value, users, self._bytes(value), twice=not known)
        for node in core:
            network.pin_sink(node)
        stays = network.source_side(most=True)
        return {node for node in own if node not in stays}

    def _from_after(self) -> set[Node]:
        """What moves into the core from after."""
        own = list(self._split.after.nodes)
        outside = {*own, *self._split.total.nodes}
        network = Network()
        for node in self._core:
            network.pin_source(node)
        for node in own:
            if not self._is_cheap(node):
                network.pin_sink(node)
            for each in node.all_input_nodes:
                if each in outside:
                    network.implies(node, each)  # what moves needs its inputs there
        for value in [*self._core, *own]:
            users = [user for user in value.users if user in outside]
            if value in self._results and value in own:
                network.pay(value, [*users, _THE_CALLER], self._bytes(value))
            else:
                network.pay(value, users, self._bytes(value))
        network.pin_sink(_THE_CALLER)
        for node in self._split.total.nodes:
            network.pin_sink(node)
        moves = network.source_side(most=False)
        return {node for node in own if node in moves}

    def _is_cheap(self, node: Node) -> bool:
        if node.target is operator.getitem:
            return self._is_cheap(node.args[0])
        results = _pieces(node) or [node]
        if node.target in self._fixed or any(self._labels[each] == SUMMED for each in results):
            return False
        inputs = tuple(dict.fromkeys(each for each in node.all_input_nodes if not is_size(each)))
        part = Part((node, *_pieces(node)), inputs, tuple(results))
        return all(map(self._has_form, lower(part, self._labels).instructions))

    def _bytes(self, node: Node) -> int | None:
        """What a row of a value takes; None if it must not cross at all, since it stands for several."""
        if _pieces(node):
            return None
        return 0 if self._labels[node] in (SHARED, SUMMED) else row_bytes(node, self._labels)


_THE_CALLER = object()
"""Who wants the results."""


def _pieces(node: Node) -> list[Node]:
    return [user for user in node.users if user.target is operator.getitem]
