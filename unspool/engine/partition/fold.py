"""Fuses work of *before* and *after* into a compiled core, by the minimum cut of bytes that cross its border.

A compiled core reads its streamed values from memory and computes with them in registers. What *before* only computes
for the core is then better computed there, if that means that fewer bytes cross the border; and the same of what
*after* computes from what the core emits, or from what the core has read anyway. Which instructions to move so that the
fewest bytes are written and read is a minimum cut.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection
from typing import Any

from unspool.engine.ir.program import Instruction, lower_part
from unspool.engine.ops import PRODUCTS, VIEWS
from unspool.engine.partition.mincut import Network
from unspool.engine.partition.residuals import row_bytes
from unspool.engine.partition.split import Part, Split, regroup
from unspool.engine.rows.labels import SHARED, SUMMED, Label
from unspool.engine.trace.graph import Node, ancestors, aten, is_size, operand


def fold(
    split: Split,
    labels: dict[Node, Label],
    has_form: Callable[[Instruction], bool],
    is_row_sum: Callable[[Instruction], bool],
    *,
    products: bool,
) -> Split:
    """`split` with work moved into its core so that fewer bytes are written and read; the results are the same.

    Args:
        split: the parts.
        labels: where the rows are in each node.
        has_form: whether the core's emitter knows an instruction.
        is_row_sum: whether an instruction is a sum over rows that the emitter can add up from step to step.
        products: whether products may move too. With many rows a step, they are as fast there.
    """
    return _Fold(split, labels, has_form, is_row_sum, products).run()


class _Fold:
    def __init__(
        self,
        split: Split,
        labels: dict[Node, Label],
        has_form: Callable[[Instruction], bool],
        is_row_sum: Callable[[Instruction], bool],
        products: bool,
    ) -> None:
        self._split, self._labels = split, labels
        self._has_form, self._is_row_sum = has_form, is_row_sum
        self._fixed = set[Any]() if products else {*PRODUCTS, aten.convolution.default}
        self._core = {*split.core.nodes, *split.carried}
        self._results = {*split.wanted, *(node for node in split.new_carried if node is not None)}
        self._before, self._after = self._divided(self._core)
        self._movable = {node for node in self._before if self._is_movable(node)}
        for node in reversed(self._after):
            # Views cost nothing at the place of use; as a result of the core, one would have to be written.
            is_free = node.target in VIEWS and not any(user in self._movable for user in node.users)
            if not is_free and self._is_movable(node):
                self._movable.add(node)

    def run(self) -> Split:
        split = self._split
        outside = self._network().source_side(most=True)
        core = {*self._core, *(node for node in (*self._before, *self._after) if node not in outside)}
        before, after = self._divided(core)
        order = [*split.before.nodes, *split.core.nodes, *split.after.nodes]
        return regroup(split, before, [node for node in order if node in core], after)

    def _divided(self, core: Collection[Node]) -> tuple[list[Node], list[Node]]:
        """What is not in the core: before it, and after it, with what no step needs."""
        split = self._split
        parts = (split.before, split.core, split.after)
        computed = {node for part in parts for node in part.nodes}
        # Residuals that only *after* reads are given too: behind one that moved with it is the forward step.
        given = {node for part in parts for node in part.inputs if node not in computed}
        needed = ancestors([*core, *split.new_carried], stop=given)
        needed |= {piece for node in needed for piece in _pieces(node)}  # which stay together
        left = [node for node in split.before.nodes if node not in core]
        before = [node for node in left if node in needed]
        return before, [node for node in [*left, *split.after.nodes] if node not in core and node not in before]

    def _network(self) -> Network:
        """A network in which the source's side is outside of the core."""
        network, before, after = Network(), set(self._before), set(self._after)
        for node in self._core:
            network.pin_sink(node)
        for node in [*before, *after]:
            if node not in self._movable:
                network.pin_source(node)
        for node in before:
            for each in node.all_input_nodes:
                if each in before:
                    network.implies(node, each)  # what stays before needs its inputs there
        for node in after:
            for user in node.users:
                if user in after:
                    network.implies(node, user)  # what is computed after comes too late for a step
        inside = [*self._core, *before, *after]
        known = dict.fromkeys(each for node in inside for each in node.all_input_nodes if not is_size(each))
        for value in {**known, **dict.fromkeys(inside)}:
            self._pay(network, value, before, after)
        return network

    def _pay(self, network: Network, value: Node, before: Collection[Node], after: Collection[Node]) -> None:
        """What it costs to write a value, and to read it, wherever it is computed and used."""
        cost = self._bytes(value)
        users = [user for user in value.users if user in before or user in self._core or user in after]
        later = [user for user in users if user in after]
        # Those who stay outside read it anyway; the others do so together.
        movable = [user for user in later if user in self._movable]
        written = value in self._results or len(movable) < len(later)
        if cost is None:
            network.pay([value], users, None)
            network.pay(later, [value], None)
        elif value in before:
            if not written:
                network.pay([value, *movable] if movable else [value], None if movable else users, cost)
            network.pay([value], users, cost)
            network.pay(movable, None, cost)
        elif value in self._core:
            network.pay(movable, None, cost if written else 2 * cost)
        elif value in after:
            network.pay(movable, [value], cost if written else 2 * cost)
        else:
            network.pin_source(value)  # known
            network.pay([value], users, cost)
            network.pay([user for user in users if user in before], None, cost)
            network.pay(movable, None, cost)

    def _is_movable(self, node: Node) -> bool:
        if node.target is operator.getitem:
            return self._is_movable(operand(node, 0))
        results = _pieces(node) or [node]
        if node.target in self._fixed:
            return False
        inputs = tuple(dict.fromkeys(each for each in node.all_input_nodes if not is_size(each)))
        part = Part((node, *_pieces(node)), inputs, tuple(results))
        instructions = lower_part(part, self._labels).instructions
        if any(self._labels[each] == SUMMED for each in results):
            return all(map(self._is_row_sum, instructions)) and not any(map(self._is_summed_product, inputs))
        return all(map(self._has_form, instructions))

    def _is_summed_product(self, value: Node) -> bool:
        """Whether a product sums over the rows of a value: a sum beside it is had for nothing."""
        turned = [user for user in value.users if user.target is aten.t.default]
        products = [user for factor in (value, *turned) for user in factor.users if user.target is aten.mm.default]
        return any(self._labels[user] == SUMMED for user in products)

    def _bytes(self, node: Node) -> int | None:
        """What a row of a value takes; None if it must not cross at all, since it stands for several."""
        if _pieces(node):
            return None
        return 0 if self._labels[node] in (SHARED, SUMMED) else row_bytes(node, self._labels)


def _pieces(node: Node) -> list[Node]:
    return [user for user in node.users if user.target is operator.getitem]
