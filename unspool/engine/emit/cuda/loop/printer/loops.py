"""Prints one loop over the elements that a block has of its rows."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from textwrap import indent

import torch

from unspool.engine.emit.cuda.loop.printer.early import Early
from unspool.engine.emit.cuda.loop.printer.indices import index_lines
from unspool.engine.emit.cuda.loop.printer.places import Places, sum_type
from unspool.engine.emit.cuda.loop.printer.words import turn
from unspool.engine.emit.cuda.loop.tiles import columns
from unspool.engine.emit.errors import CannotEmitError
from unspool.engine.emit.stages.dtypes import HALVES
from unspool.engine.emit.stages.passes import Loop
from unspool.engine.emit.stages.statements import Compute, Reduce
from unspool.engine.emit.stages.strided import Buffer, Place, Ref
from unspool.engine.emit.text.elements import FOLDS, SIGNS, Registers, comment, index_text
from unspool.engine.emit.text.spelling import (
    COMPUTED,
    TYPES,
    converted,
    expression,
    literal,
    loaded,
    rounded,
    start_of_fold,
)

LANES = 32
"""Of a warp."""
BRIEF = re.compile(r"unspool::(exp|sigmoid|tanh)\(")
"""Functions that halves.h has."""
MOST_TURNS = 4
"""Elements of a thread whose streamed values wait in registers."""


class LoopText:
    """Prints one loop of a pass.

    Args:
        places: where its values are.
        loop: the loop.
        number: which one of a step's.
    """

    def __init__(self, places: Places, loop: Loop, number: int = 0) -> None:
        self.places, self.loop, self._number = places, loop, number
        self.mapped = places.division.mapped[loop]
        self._units = places.division.units
        self._registers = Registers()
        self.pointers: dict[str, str] = {}
        """Lines that point to what the loop needs of its row."""
        self._meets = False
        self.early = Early(places, number)
        self._posts: dict[Buffer, dict[int, str]] = {}
        """Of a unit, what is posted at once, by its turn."""
        self._stores: list[str] = []
        """Lines that store elements which only later steps, or nobody, will read: others wait for what is posted."""

    def text(self) -> str:
        """The loop and what is in it."""
        folds = [each for each in self.loop.statements if isinstance(each, Reduce)]
        return self._folding(folds) if folds else self._pointwise()

    @property
    def share(self) -> tuple[int, ...]:
        """The sizes of the loop's dimensions in one block."""
        mapped = self.mapped
        if mapped.unit is None or self._units is None:
            return mapped.dims
        return tuple(self._units.each if k == mapped.unit else size for k, size in enumerate(mapped.dims))

    # -- loops ---------------------------------------------------------------------------------------------------------

    def _pointwise(self) -> str:
        body = "".join(self._lines()) + self._stored()
        count = math.prod(self.share)
        pointers = "".join(self.pointers.values())
        if self._turns:
            head = f"#pragma unroll\nfor (int turn = 0; turn < {self._turns}; turn++) {{\n"
            own = "const int item = turn * THREADS + unspool::thread();\n"
        else:
            head = f"for (int begin = 0; begin < step.rows * {count}; begin += THREADS) {{\n"
            own = "const int item = begin + unspool::thread();\n"
        if self._meets:
            most = self.places.tiling.rows * count
            own += f"const bool there = item < step.rows * {count};\n"
            own += f"const int own = item < {most} ? item : 0, r = own / {count}, row = there ? r : 0;\n"
            own += index_lines(self.share, f"own % {count}")
        else:
            own += f"if (item >= step.rows * {count}) break;\n"
            own += f"const int r = item / {count}, row = r;\n" + index_lines(self.share, f"item % {count}")
            body = body.replace("if (there) ", "").replace("if (there && ", "if (").replace(", there);", ", true);")
        return head + indent(own + self._unit_line() + pointers + body, "  ") + "}\n"

    @property
    def _turns(self) -> int:
        """How many elements a thread has, if these are few: what it needs of memory is then read before it waits."""
        if any(isinstance(each, Reduce) for each in self.loop.statements):
            return 0
        turns = -(-self.places.tiling.rows * math.prod(self.share) // (LANES * self.places.tiling.warps))
        return turns if turns <= MOST_TURNS else 0

    def early_text(self) -> str:
        """Functions that read what the loop needs of streamed values, or bring it nearer."""
        return self.early.text(self._turns, self.share, self._unit_line(), self._everywhere)

    def _folding(self, folds: Sequence[Reduce]) -> str:
        self._meets = True
        kept, folded = self.share[: self.mapped.kept], self.share[self.mapped.kept :]
        count, terms = math.prod(kept), math.prod(folded)
        over_units = any(self.places.division.posts(self.loop, each) for each in folds)
        lanes = LANES if over_units else min(LANES, 1 << (terms - 1).bit_length())
        body = "".join(self._lines()) + self._stored()
        starts, ends = "".join(map(self._start, folds)), "".join(self._end(each, lanes, count) for each in folds)
        head = f"for (int begin = 0; begin < step.rows * {count}; begin += THREADS / {lanes}) {{\n"
        own = f"const int item = begin + unspool::thread() / {lanes}, lane = unspool::thread() % {lanes};\n"
        own += f"const bool here = item < step.rows * {count};\n"
        own += f"const int own = here ? item : 0, r = own / {count}, row = r;\n"
        own += index_lines(kept, f"own % {count}")
        inner = f"for (int at = 0; at < {terms}; at += {lanes}) {{\n"
        lines = f"const bool there = here && at + lane < {terms};\n"
        lines += f"const int term = at + lane < {terms} ? at + lane : {terms - 1};\n"
        lines += index_lines(folded, "term", len(kept))
        unit = self._unit_line()
        inside = unit if self.mapped.unit is not None and self.mapped.unit >= self.mapped.kept else ""
        outside = "" if inside else unit
        inner += indent(lines + inside + body, "  ") + "}\n"
        pointers = "".join(self.pointers.values())
        return head + indent(own + outside + pointers + starts + inner + ends, "  ") + "}\n"

    def _unit_line(self) -> str:
        mapped = self.mapped
        if mapped.unit is None or self._units is None:
            return ""
        return f"const int unit = tile * {self._units.each} + i{mapped.unit};\n"

    def _start(self, each: Reduce) -> str:
        """The variables that a fold goes on in."""
        dtype, name = each.target.buffer.dtype, each.target.buffer.name
        if not each.fold.startswith("arg"):
            return f"{COMPUTED[dtype]} {name}_fold = {start_of_fold(each.fold, dtype)};\n"
        own = each.argument.buffer.dtype
        best = start_of_fold(each.fold.removeprefix("arg"), own)
        return f"{COMPUTED[dtype]} {name}_fold = 0;\n{COMPUTED[own]} {name}_best = {best};\n"

    def _end(self, each: Reduce, lanes: int, count: int) -> str:
        """What lanes, and blocks, have found meets."""
        name, kind = each.target.buffer.name, COMPUTED[each.target.buffer.dtype]
        if each.fold.startswith("arg"):
            own = COMPUTED[each.argument.buffer.dtype]
            better = f"[]({own} x, {own} y) {{ return unspool::{FOLDS[each.fold]}(x, y); }}"
            text = f"{name}_fold = unspool::fold_places<{lanes}>({name}_best, {name}_fold, {better});\n"
        else:
            text = f"{name}_fold = unspool::fold<unspool::{each.fold.title()}, {lanes}>({name}_fold);\n"
        if self._units is not None and self.places.division.posts(self.loop, each):
            words, all_ = self.places.fold_words(each)
            tiles = self._units.tiles
            text += f"{kind}* const {name}_at = {words} + ((step.start + row) * {all_} + own % {count}) * {tiles};\n"
            text += f"unspool::post({name}_at + tile, {name}_fold, here && lane == 0);\n"
            text += f"{name}_fold = {start_of_fold(each.fold, each.target.buffer.dtype)};\n"
            text += f"for (int other = 0; other < {tiles}; other += {lanes}) {{\n"
            text += f"  const int from = other + lane < {tiles} ? other + lane : {tiles - 1};\n"
            text += f'  const {kind} found = unspool::posted({name}_at + from, chunk, "{name}");\n'
            text += f"  if (other + lane < {tiles}) {name}_fold = "
            text += f"unspool::{each.fold.title()}::meet({name}_fold, found);\n}}\n"
            text += f"{name}_fold = unspool::fold<unspool::{each.fold.title()}, {lanes}>({name}_fold);\n"
        return text + self._write(each.target, f"{name}_fold", "here && lane == 0", self.mapped.kept) + self._stored()

    # -- statements ----------------------------------------------------------------------------------------------------

    def _lines(self) -> Iterator[str]:
        source = ""
        for each in self.loop.statements:
            if each.source and each.source != source:
                source = each.source
                yield comment(source)
            if isinstance(each, Reduce):
                yield from self._folded(each)
            elif isinstance(each, Compute):
                yield from self._computed(each)

    def _folded(self, each: Reduce) -> Iterator[str]:
        name, argument = each.target.buffer.name, each.argument
        own, value = f"{name}_fold", f"{name}_term"
        yield f"const {COMPUTED[argument.buffer.dtype]} {value} = {self.read(argument)};\n"
        if each.fold in SIGNS:
            yield f"if (there) {own} {SIGNS[each.fold]} {value};\n"
        elif each.fold.startswith("arg"):
            best = f"{name}_best"
            yield f"if (there && unspool::{FOLDS[each.fold]}({value}, {best})) {{\n"
            yield f"  {own} = term;\n  {best} = {value};\n}}\n"
        else:
            yield f"if (there) {own} = unspool::{FOLDS[each.fold]}({own}, {value});\n"

    def _computed(self, each: Compute) -> Iterator[str]:
        if each.adds:
            raise CannotEmitError("a sum over rows in the middle of the loop")
        arguments: list[str] = []
        for ref, dtype in each.arguments:
            arguments.append(converted(self._argument(ref, dtype), ref.buffer.dtype, dtype))
        name = self._registers.name(each.target)
        if each.expression == "{0}" and each.target.root().buffer.place in (Place.EMITTED, Place.CARRIED):
            yield self._write(each.target, arguments[0], "there")
            return  # nobody reads it in this loop
        yield f"const {COMPUTED[each.target.buffer.dtype]} {name} = {self._expression(each, arguments)};\n"
        yield self._write(each.target, name, "there")
        self._registers.hold(each.target, name)

    def _expression(self, each: Compute, arguments: Sequence[str]) -> str:
        """What a statement computes: halves by functions that are about as exact as they are."""
        if each.target.buffer.dtype in HALVES and not self.places.lowered.rounds:
            each = replace(each, expression=BRIEF.sub(r"unspool::halves::\1(", each.expression))
        return expression(each, arguments)

    def _argument(self, ref: Ref, dtype: torch.dtype) -> str:
        return self._registers.argument(self.read(ref, dtype), ref, dtype)

    # -- elements ------------------------------------------------------------------------------------------------------

    def read(self, ref: Ref, dtype: torch.dtype | None = None) -> str:
        """An element that the loop reads."""
        if ref.buffer.place is Place.CONSTANT:
            return literal(ref.buffer.number, dtype or ref.buffer.dtype)
        if ref.buffer.place is Place.COUNTED:
            return f"int64_t({self._everywhere(ref)})"
        if (name := self._registers.find(ref)) is not None:
            return name
        root, division = ref.root().buffer, self.places.division
        if root.place is Place.PRODUCT and self._units is not None:
            return self._total(ref)
        if root.place is Place.STREAMED and self._turns:
            return loaded(f"{self.early.name_of(ref)}[turn]", root.dtype)
        if division.is_given(root):
            return loaded(self.element(root, self._everywhere(ref)), root.dtype)
        own = self._own_index(ref)
        if own is None:
            self._meets = True
            slot = "step.before(row)" if root.place is Place.CARRIED else "(step.start + row)"
            name = f"{root.name}_from"
            self.pointers[name] = f"const Index {name} = {slot} * {root.size};\n"
            place = f"{self.places.words(root)} + ({name} + {self._everywhere(ref)})"
            return f'unspool::posted({place}, chunk, "{root.name}")'
        return loaded(self.element(root, own), root.dtype)

    def _total(self, ref: Ref) -> str:
        """An element of a product: the sums of all warps, and what is added to them."""
        root, places = ref.root().buffer, self.places
        product, own = places.division.added[root], places.division.sums_at(ref, self.mapped)
        apart = columns(product, places.tiling) + 4
        name, kind = f"{root.name}_sums", TYPES[sum_type(product)]
        self.pointers[name] = f"const {kind}* const {name} = {root.name}_now + r * {apart};\n"
        tiling = places.tiling
        text = f"unspool::total<{tiling.warps}>({name} + {index_text(own, 'i')}, {tiling.rows * apart})"
        for added in places.division.addends(ref):
            text = f"{text} + {self._argument(added, root.dtype)}"
        return rounded(f"({text})", root.dtype) if places.lowered.rounds else f"({text})"

    def _write(self, ref: Ref, value: str, guard: str, dims: int | None = None) -> str:
        """Lines that hand an element on; those that store it come after all that the loop computes."""
        root, places = ref.root().buffer, self.places
        if root.place is Place.EMITTED:
            once = " && tile == 0" if self.mapped.unit is None and self._units is not None else ""
            store = f"if ({guard}{once}) {self.element(root, self._everywhere(ref, dims))} = {value};\n"
            self._stores.append(store)
            return ""
        if root in places.own:
            own = self._own_index(ref, dims)
            assert own is not None
            self._stores.append(f"if ({guard}) {self.element(root, own)} = {value};\n")
        if root not in places.division.crossing:
            return ""
        name, kind = f"{root.name}_to", TYPES[root.dtype]
        if root in places.woven:
            return self._posted_at_once(ref, value, guard)
        self._meets |= root.dtype in HALVES
        self.pointers[name] = f"const Index {name} = (step.start + row) * {root.size};\n"
        place = self._everywhere(ref)
        self.early.posts(root, place)
        return f"unspool::post({places.words(root)} + ({name} + {place}), {kind}({value}), {guard});\n"

    def _posted_at_once(self, ref: Ref, value: str, guard: str) -> str:
        """What posts the numbers of a unit, once all of them are known."""
        root, places, units = ref.root().buffer, self.places, self._units
        assert units is not None
        name, kind, turns = f"{root.name}_to", TYPES[root.dtype], places.woven[root]
        self.pointers[name] = f"const Index {name} = (step.start + row) * {root.size};\n"
        made = self._posts.setdefault(root, {})
        made[turn(ref, units.count)] = f"{kind}({value})"
        if len(made) < turns:
            return ""
        numbers = ", ".join(made[k] for k in range(turns))
        self.early.posts(root, f"unit * {turns}")
        text = f"const {kind} {root.name}_unit[] = {{{numbers}}};\n"
        return f"{text}unspool::post({places.words(root)} + ({name} + unit * {turns}), {root.name}_unit, {guard});\n"

    def _stored(self) -> str:
        """The lines that store what has been computed by now."""
        text = "".join(self._stores)
        self._stores.clear()
        return text

    def element(self, buffer: Buffer, index: str) -> str:
        """An element of the row that a loop is at."""
        kind, places = TYPES[buffer.dtype], self.places
        if buffer in places.own:
            kind = TYPES[places.own_dtype(buffer)]
            line = f"{kind}* const {buffer.name} = {buffer.name}_own + r * {places.division.share(buffer)};\n"
        elif buffer.place is Place.SHARED:
            return f"{places.all_of(buffer)}[{index}]"
        elif buffer.place is Place.CARRIED:
            first = f"(int64_t)(first + row) * {buffer.size}"
            line = f"const {kind}* const {buffer.name} = {places.all_of(buffer)} + {first};\n"
        else:  # one sum of indices for an address, which costs less than sums of addresses
            self.pointers[f"{buffer.name}_row"] = (
                f"const Index {buffer.name}_row = (step.start + row) * {buffer.size};\n"
            )
            return f"{places.all_of(buffer)}[{buffer.name}_row + {index}]"
        self.pointers[buffer.name] = line
        return f"{buffer.name}[{index}]"

    def _own_index(self, ref: Ref, dims: int | None = None) -> str | None:
        """Where an element is among those that the block has; None if it has it not."""
        division = self.places.division
        if ref.root().buffer not in division.apart:
            return self._everywhere(ref, dims)
        own = division.at_hand(ref, self.mapped, dims)
        return None if own is None else index_text(own, "i")

    def _everywhere(self, ref: Ref, dims: int | None = None) -> str:
        """Where an element is among those of a whole row."""
        seen = ref.root().reshape(self.mapped.dims[:dims])
        assert seen is not None
        names = ["unit" if k == self.mapped.unit and self._units else f"i{k}" for k in range(len(seen.shape))]
        return index_text(seen, names)
