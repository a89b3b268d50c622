"""Prints statements that have a loop of their own: contractions, scans, orders, gathers, scatters."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from textwrap import indent

from unspool.engine.emit.cuda.loop.printer.loops import LoopText
from unspool.engine.emit.errors import CannotEmitError
from unspool.engine.emit.stages.statements import Along, Contract, Gather, Order, Scan, Scatter
from unspool.engine.emit.stages.strided import Place, Ref
from unspool.engine.emit.text.elements import comment, index_lines, index_text
from unspool.engine.emit.text.folds import start_of_fold
from unspool.engine.emit.text.spelling import COMPUTED, TYPES, literal, loaded

MOST_ORDERED = 1024
"""Numbers that one thread puts in order."""


class AloneText(LoopText):
    """Prints the loop of one statement: a thread has what does not depend on each other."""

    def text(self) -> str:
        """The loop and what is in it."""
        each = self.loop.statements[0]
        how: dict[type, Callable[..., str]] = {
            Contract: self._contract,
            Scan: self._scan,
            Order: self._order,
            Gather: self._gather,
            Scatter: self._scatter,
        }
        return (comment(each.source) if each.source else "") + how[type(each)](each)

    def _items(self, shape: Sequence[int], body: str) -> str:
        """`body` for every row and every index of `shape`."""
        count = math.prod(shape)
        lines = f"const int r = item / {count}, row = {self.places.outside('r')};\n"
        lines += index_lines(shape, f"item % {count}")
        lines += "".join(self.pointers.values()) + body
        head = f"for (int item = unspool::thread(); item < step.rows * {count}; item += THREADS) {{\n"
        return head + indent(lines, "  ") + "}\n"

    def _element(self, ref: Ref, names: Sequence[str], *further: str) -> str:
        if ref.buffer.place is Place.CONSTANT:
            return literal(ref.buffer.number, ref.buffer.dtype)
        if ref.buffer.place is Place.COUNTED:
            return f"int64_t({index_text(ref, names, *further)})"
        root = ref.root()
        return self.element(root.buffer, index_text(root, names, *further))

    def _read(self, ref: Ref, names: Sequence[str], *further: str) -> str:
        return loaded(self._element(ref, names, *further), ref.buffer.dtype)

    def _contract(self, each: Contract) -> str:
        names, kind = ("i0", "i1", "i2"), COMPUTED[each.target.buffer.dtype]
        left, right = self._read(each.left, ("i0", "i1", "k")), self._read(each.right, ("i0", "k", "i2"))
        body = f"{kind} sum = 0;\nfor (int k = 0; k < {each.left.shape[2]}; k++) sum += {left} * {right};\n"
        return self._items(each.target.shape, body + f"{self._element(each.target, names)} = sum;\n")

    def _scan(self, each: Scan) -> str:
        shape, kind, own = each.argument.shape, COMPUTED[each.carry], TYPES[each.target.buffer.dtype]
        names = _names(shape)
        value, target = self._read(each.argument, names), self._element(each.target, names)
        starts = f"{kind} so_far = {start_of_fold(each.fold, each.carry)};\n"
        if each.fold in ("max", "min"):  # the places of these
            starts += "int64_t place = 0;\n"
            reaches = f"unspool::{'reaches' if each.fold == 'max' else 'reaches_down'}({value}, so_far)"
            body = f"if ({reaches}) {{\n  so_far = {value};\n  place = {names[-1]};\n}}\n{target} = place;\n"
        else:
            term = f"{kind}({value})"
            signs = {"sum": f"so_far + {term}", "prod": f"so_far * {term}"}
            now = signs.get(each.fold, f"unspool::log_add_exp({term}, so_far)")
            body = f"so_far = {now};\n{target} = {own}(so_far);\n"
        head = f"for (int {names[-1]} = 0; {names[-1]} < {shape[-1]}; {names[-1]}++) {{\n"
        return self._items(shape[:-1], starts + head + indent(body, "  ") + "}\n")

    def _order(self, each: Order) -> str:
        shape = each.argument.shape
        if shape[-1] > MOST_ORDERED:
            raise CannotEmitError(f"an order of {shape[-1]} numbers, more than {MOST_ORDERED}")
        names = [*_names(shape[:-1]), "0"]
        given = f"&{self._element(each.argument, names)}, {each.argument.strides[-1]}, {shape[-1]}"
        descending = "true" if each.descending else "false"
        call = f"unspool::order<{descending}>({given}, &{self._element(each.target, names)});\n"
        return self._items(shape[:-1], call)

    def _gather(self, each: Gather) -> str:
        names = _names(each.first.shape)
        found = self._element(each.first, names, *(self._further(at, names) for at in each.places))
        return self._items(each.first.shape, f"{self._element(each.target, names)} = {found};\n")

    def _scatter(self, each: Scatter) -> str:
        """One element after another: several may go to one place."""
        shape, names = each.first.shape, _names(each.first.shape)
        found = self._element(each.first, names, *(self._further(at, names) for at in each.places))
        value, own = self._read(each.value, names), TYPES[each.target.buffer.dtype]
        now = f"{loaded(found, each.target.buffer.dtype)} + {value}" if each.adds else value
        body = f"{found} = {own}({now});\n"
        for size, name in reversed(list(zip(shape, names, strict=True))):
            body = f"for (int {name} = 0; {name} < {size}; {name}++) {{\n{indent(body, '  ')}}}\n"
        return self._items((), body)

    def _further(self, along: Along, names: Sequence[str]) -> str:
        """How many elements further on a place is, whose number is checked first."""
        place = self._element(along.index, names)
        if along.axis is not None:
            name = "place_from_end" if along.from_end else "place"
            place = f"unspool::{name}({place}, {along.size}, {along.axis}, chunk.trouble)"
        return place if along.step == 1 else f"{place} * {along.step}"


def _names(shape: Sequence[int]) -> list[str]:
    return [f"i{k}" for k in range(len(shape))]
