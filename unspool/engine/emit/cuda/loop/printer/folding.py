"""Prints a loop that folds elements of a row: lanes of a warp meet, and then blocks, where these divide the row."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from textwrap import indent

from unspool.engine.emit.cuda.loop.printer.loops import LANES, MOST_TURNS, LoopText
from unspool.engine.emit.cuda.loop.printer.places import Places
from unspool.engine.emit.stages.passes import Loop
from unspool.engine.emit.stages.statements import Compute, InLoop, Reduce
from unspool.engine.emit.text.elements import index_lines
from unspool.engine.emit.text.folds import FOLDS, folded_in, is_place, start_of_fold, variables_of_fold
from unspool.engine.emit.text.spelling import COMPUTED

UNROLLED = 8
"""Terms of a lane that are on their way from memory at the same time, where there are many."""


def followed(places: Places, loops: Sequence[Loop]) -> Iterator[tuple[Loop, Loop | None]]:
    """Loops of a pass, each with the one after it if that only goes on with what it has folded: no threads meet."""
    left = list(loops)
    while left:
        loop = left.pop(0)
        goes_on = bool(left) and _goes_on(places, loop, left[0])
        yield loop, left.pop(0) if goes_on else None


def _goes_on(places: Places, loop: Loop, after: Loop) -> bool:
    """Whether a loop is about nothing but what the one before has folded of each row.

    What it writes, nobody may read in the loop before: of several folds of a row, one would go on before others begin.
    """
    if not any(isinstance(each, Reduce) for each in loop.statements) or loop.is_alone:
        return False
    mapped, other = places.division.mapped[loop], places.division.mapped[after]
    own = all(isinstance(each, Compute) and not each.adds for each in after.statements)
    if not own or other.unit is not None or other.dims != mapped.dims[: mapped.kept]:
        return False
    if mapped.unit is not None and mapped.unit < mapped.kept:
        return False
    written = {each.target.root().buffer for each in after.statements}
    if any(ref.root().buffer in written for ref in places.division.reads(loop)):
        return False
    folded = [each.target for each in loop.statements if isinstance(each, Reduce)]
    made = [*folded, *(each.target for each in after.statements)]
    return all(any(ref.same_elements(each) for each in made) for ref in places.division.reads(after))


class FoldText(LoopText):
    """Prints one loop of a pass in which elements are folded.

    Args:
        places: where its values are.
        loop: the loop.
        number: which one of a step's.
        width: elements that a lane takes at a time.
        after: a loop that goes on with what it has folded.
    """

    def __init__(self, places: Places, loop: Loop, number: int = 0, width: int = 1, after: Loop | None = None) -> None:
        super().__init__(places, loop, number, width)
        self._after = after
        self._folds = [each for each in loop.statements if isinstance(each, Reduce)]
        self._kept, self._folded = self.share[: self.mapped.kept], self.share[self.mapped.kept :]
        self._count, self._terms = math.prod(self._kept), math.prod(self._folded)
        over_units = any(places.division.posts(loop, each) for each in self._folds)
        pieces = self._terms // self._width
        self._lanes = LANES if over_units else min(LANES, 1 << (pieces - 1).bit_length())
        self._lane = f"const int lane = unspool::thread() % {self._lanes};\n"
        self._each = -(-pieces // self._lanes)
        """How many terms of a fold, or vectors of them, a lane has."""

    def text(self) -> str:
        """The loop and what is in it."""
        body, stores = "".join(self._lines()), self._stored()
        if stores and (self._terms % self._lanes or self._lanes < LANES):  # lanes without a term have read another's
            stores = f"unspool::sync_warp();\n{stores}"
        starts = "".join(map(variables_of_fold, self._folds))
        ends, found = self._ends()
        inside = self.mapped.unit is not None and self.mapped.unit >= self.mapped.kept
        unit, at = self._unit_line(), "at" if self._each > 1 else "0"
        term = f"const bool there = here && {self._place(at)} < {self._terms};\n{self._term(at)}"
        term += (unit if inside else "") + body
        row = ("" if inside else unit) + "".join(self.pointers.values())
        if self._each == 1:  # what only later steps read is stored once nobody waits for what is posted
            turn = "const int turn = pass;\n" if self._turns else ""
            inner = turn + term + ends + stores
        else:
            turn = f"const int turn = pass * {self._each} + at;\n" if self._turns else ""
            inner = "#pragma unroll\n" if self._turns else f"#pragma unroll {UNROLLED}\n"
            inner += f"for (int at = 0; at < {self._each}; at++) {{\n{indent(turn + term + stores, '  ')}}}\n{ends}"
        text = self._for_rows(row + starts + inner)
        return f"{text}unspool::linger(unspool::kUnderway);\n{self._for_rows(row + found)}" if found else text

    def _for_rows(self, lines: str) -> str:
        """What is done for each row, by the lanes that have it."""
        each = f"THREADS / {self._lanes}"
        own = "warp" if self._lanes == LANES else f"unspool::thread() / {self._lanes}"
        if self._turns:
            head = f"#pragma unroll\nfor (int pass = 0; pass < {self._turns // self._each}; pass++) {{\n"
            own = f"const int item = pass * ({each}) + {own};\n{self._lane}"
        else:
            head = f"for (int begin = 0; begin < step.rows * {self._count}; begin += {each}) {{\n"
            own = f"const int item = begin + {own};\n{self._lane}"
        own += f"const bool here = item < step.rows * {self._count};\n"
        own += "if (!here) break;\n" if self._lanes == LANES else ""  # a whole warp: the others have the time
        own += f"const int own = here ? item : 0, r = own / {self._count}, row = {self.places.outside('r')};\n"
        own += index_lines(self._kept, f"own % {self._count}")
        return head + indent(own + lines, "  ") + "}\n"

    @property
    def _turns(self) -> int:
        """How many elements a thread has, if these are few."""
        at_once = LANES * self.places.tiling.warps // self._lanes
        turns = -(-self.places.tiling.rows * self._count // at_once) * self._each
        return turns if turns <= MOST_TURNS else 0

    def early_text(self) -> str:
        """Functions that read what the loop needs of streamed values, or bring it nearer."""
        first = f"turn / {self._each} * (THREADS / {self._lanes})"
        own = f"const int item = {first} + unspool::thread() / {self._lanes};\n{self._lane}"
        row = self.places.outside(f"own / {self._count}")
        own += f"const int own = item < rows * {self._count} ? item : 0, row = {row};\n"
        own += index_lines(self._kept, f"own % {self._count}") + self._term(f"turn % {self._each}")
        return self.early.text(self._turns, own + self._unit_line(), self._everywhere)

    def _term(self, at: str) -> str:
        """Lines that say which term a lane has."""
        place = self._place(at)
        line = f"const int term = {place} < {self._terms} ? {place} : {self._terms - 1};\n"
        return line + index_lines(self._folded, "term", len(self._kept))

    def _place(self, at: str) -> str:
        return "lane" if at == "0" else f"{at} * {self._lanes} + lane"

    # -- folds ---------------------------------------------------------------------------------------------------------

    def _statement(self, each: InLoop) -> Iterator[str]:
        if isinstance(each, Reduce):
            yield from self._folded_in(each)
        else:
            yield from super()._statement(each)

    def _folded_in(self, each: Reduce) -> Iterator[str]:
        """Takes a term into a lane's fold."""
        name, argument = each.target.buffer.name, each.argument
        value = f"{name}_term"
        yield f"const {COMPUTED[argument.buffer.dtype]} {value} = {self.read(argument)};\n"
        yield folded_in(each, f"{name}_fold", value, "term", where="there")

    def _ends(self) -> tuple[str, str]:
        """What lanes, and blocks, have found meets: lines of the loop, and those of one more loop after it.

        All rows are posted before a thread waits for any: who waits in between would wait for each of them anew.
        """
        posted = [each for each in self._folds if self._crosses(each)]
        text = "".join(map(self._lanes_meet, self._folds)) + "".join(map(self._posting, posted))
        found = self._waiting(posted) if posted else ""
        for each in self._folds:
            found += self._write(each.target, f"{each.target.buffer.name}_fold", "here && lane == 0", self.mapped.kept)
        found += self._stored() + self._going_on()
        return (text, found) if len(posted) == len(self._folds) else (text + found, "")

    def _going_on(self) -> str:
        """What the lanes that know what is folded compute of it at once."""
        if self._after is None:
            return ""
        inner = LoopText(self.places, self._after)
        for each in self._folds:
            inner.hold(each.target, f"{each.target.buffer.name}_fold")
        lines = inner.lines()
        self.pointers.update(inner.pointers)
        return f"if (here && lane == 0) {{\n{indent(lines, '  ')}}}\n"

    def _crosses(self, each: Reduce) -> bool:
        return self._units is not None and self.places.division.posts(self.loop, each)

    def _lanes_meet(self, each: Reduce) -> str:
        name = each.target.buffer.name
        if not is_place(each):
            return f"{name}_fold = unspool::fold<unspool::{each.fold.title()}, {self._lanes}>({name}_fold);\n"
        own = COMPUTED[each.argument.buffer.dtype]
        better = f"[]({own} x, {own} y) {{ return unspool::{FOLDS[each.fold]}(x, y); }}"
        return f"{name}_fold = unspool::fold_places<{self._lanes}>({name}_best, {name}_fold, {better});\n"

    def _posting(self, each: Reduce) -> str:
        """Hands on what a block has folded."""
        assert self._units is not None
        name, kind = each.target.buffer.name, COMPUTED[each.target.buffer.dtype]
        words, count = self.places.fold_words(each)
        place = f"((start + row) * {count} + own % {count}) * {self._units.tiles}"
        if self._turns:
            self.early.posts(f"{words} + ({place} + tile)")
        self.pointers[f"{name}_at"] = f"{kind}* const {name}_at = {words} + {place.replace('start', 'step.start')};\n"
        return f"unspool::post({name}_at + tile, {name}_fold, here && lane == 0);\n"

    def _waiting(self, posted: Sequence[Reduce]) -> str:
        """Folds what all blocks have handed on, in their order; all of it comes from memory at once."""
        assert self._units is not None
        tiles, names = self._units.tiles, [each.target.buffer.name for each in posted]
        width = min(self._lanes, 1 << (tiles - 1).bit_length())
        starts = lines = meet = ""
        for each, name in zip(posted, names, strict=True):
            dtype, how = each.target.buffer.dtype, f"unspool::{each.fold.title()}"
            starts += f"{COMPUTED[dtype]} {name}_fold = {start_of_fold(each.fold, dtype)};\n"
            lines += f"unspool::Posted<{COMPUTED[dtype]}> {name}_found({name}_at + from);\n"
            meet += f"  {name}_fold = {how}::meet({name}_fold, {name}_found.number());\n"
        found = ", ".join(f"{name}_found" for name in names)
        own = f"const int from = other + lane < {tiles} ? other + lane : {tiles - 1};\n{lines}"
        own += f'unspool::wait_for(chunk, "{" and ".join(names)}", {found});\n'
        own += f"if (other + lane < {tiles}) {{\n{meet}}}\n"
        text = f"{starts}for (int other = 0; other < {tiles}; other += {self._lanes}) {{\n{indent(own, '  ')}}}\n"
        for each, name in zip(posted, names, strict=True):
            text += f"{name}_fold = unspool::fold<unspool::{each.fold.title()}, {width}>({name}_fold);\n"
        return text
