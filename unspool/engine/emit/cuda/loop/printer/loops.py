"""Prints one loop over the elements that a block has of its rows."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from textwrap import indent

import torch

from unspool.engine.emit.cuda.loop.printer.early import Early
from unspool.engine.emit.cuda.loop.printer.places import Places, near_apart, sum_type
from unspool.engine.emit.cuda.loop.printer.words import turn
from unspool.engine.emit.cuda.loop.tiles import columns, parts
from unspool.engine.emit.errors import CannotEmitError
from unspool.engine.emit.stages.dtypes import HALVES
from unspool.engine.emit.stages.passes import Loop
from unspool.engine.emit.stages.statements import Compute, InLoop
from unspool.engine.emit.stages.strided import Buffer, Place, Ref
from unspool.engine.emit.text.elements import Registers, comment, index_lines, index_text
from unspool.engine.emit.text.spelling import (
    COMPUTED,
    TYPES,
    converted,
    expression,
    literal,
    loaded,
    rounded,
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
        width: elements that a thread takes at a time.
    """

    def __init__(self, places: Places, loop: Loop, number: int = 0, width: int = 1) -> None:
        self.places, self.loop, self._number, self._width = places, loop, number, width
        self.mapped = places.division.mapped[loop]
        self._units = places.division.units
        self._registers = Registers()
        self.pointers: dict[str, str] = {}
        """Lines that point to what the loop needs of its row."""
        self._guard = "there"
        """Whether a lane has an element, where all of them stay; nothing where only those do that have one."""
        self.early = Early(places, number)
        self._totals: list[tuple[Ref, str]] = []
        """Elements of products that have been added up, each with its variable."""
        self._words: dict[str, str] = {}
        """What is waited for, each with its variable."""
        self._needed: list[str] = []
        """Lines that a statement needs before it."""
        self._posts: dict[Buffer, dict[int, str]] = {}
        """Of a unit, what is posted at once, by its turn."""
        self._stores: list[str] = []
        """Lines that store elements which only later steps, or nobody, will read: others wait for what is posted."""

    def text(self) -> str:
        """The loop and what is in it."""
        return self._pointwise()

    @property
    def share(self) -> tuple[int, ...]:
        """The sizes of the loop's dimensions in one block."""
        mapped = self.mapped
        if mapped.unit is None or self._units is None:
            return mapped.dims
        return tuple(self._units.each if k == mapped.unit else size for k, size in enumerate(mapped.dims))

    # -- loops ---------------------------------------------------------------------------------------------------------

    def _pointwise(self) -> str:
        stay = self._all_stay()
        self._guard = "there" if stay else ""
        body = "".join(self._lines()) + self._stored()
        count = math.prod(self.share)
        pointers = "".join(self.pointers.values())
        if self._turns:
            head, begin = f"#pragma unroll\nfor (int turn = 0; turn < {self._turns}; turn++) {{\n", "turn * THREADS"
        else:
            head, begin = f"for (int begin = 0; begin < step.rows * {count}; begin += THREADS) {{\n", "begin"
        own = f"const int item = {begin} + unspool::thread();\n"
        if stay:
            most = self.places.tiling.rows * count
            if self.places.division.units is not None:  # a whole warp without an element: it would read another's
                own = f"if ({begin} + warp * {LANES} >= step.rows * {count}) break;\n{own}"
            own += f"const bool there = item < step.rows * {count};\n"
            row = self.places.outside("(there ? r : 0)")
            own += f"const int own = item < {most} ? item : 0, r = own / {count}, row = {row};\n"
            own += index_lines(self.share, f"own % {count}")
        else:
            own += f"if (item >= step.rows * {count}) break;\nconst int r = item / {count}"
            own += f", row = {self.places.outside('r')};\n{index_lines(self.share, f'item % {count}')}"
        return head + indent(own + self._unit_line() + pointers + body, "  ") + "}\n"

    @property
    def _turns(self) -> int:
        """How many elements a thread has, if these are few: what it needs of memory is then read before it waits."""
        turns = -(-self.places.tiling.rows * math.prod(self.share) // (LANES * self.places.tiling.warps))
        return turns if turns <= MOST_TURNS else 0

    def early_text(self) -> str:
        """Functions that read what the loop needs of streamed values, or bring it nearer."""
        count = math.prod(self.share)
        own = "const int item = turn * THREADS + unspool::thread();\n"
        own += f"const int own = item < rows * {count} ? item : 0, row = {self.places.outside(f'own / {count}')};\n"
        own += index_lines(self.share, f"own % {count}")
        return self.early.text(self._turns, own + self._unit_line(), self._everywhere)

    def _unit_line(self) -> str:
        mapped = self.mapped
        if mapped.unit is None or self._units is None:
            return ""
        return f"const int unit = tile * {self._units.each} + i{mapped.unit};\n"

    # -- statements ----------------------------------------------------------------------------------------------------

    def hold(self, ref: Ref, name: str) -> None:
        """Makes known what a variable has."""
        self._registers.hold(ref, name)

    def lines(self) -> str:
        """What is in the loop, for an element that there is."""
        self._guard = ""
        return "".join(self._lines()) + self._stored()

    def _all_stay(self) -> bool:
        """Whether lanes without an element stay: all of a warp wait for words together, and post halves by pairs."""
        made = [each.target.root().buffer for each in self.loop.statements if isinstance(each, Compute)]
        return any(map(self._is_posted, self.places.division.reads(self.loop))) or any(map(self.places.by_pairs, made))

    def _is_posted(self, ref: Ref) -> bool:
        """Whether an element that the loop reads is waited for, until whoever computes it has posted it."""
        root, division = ref.root().buffer, self.places.division
        by_sums = root.place is Place.PRODUCT and self._units is not None
        return not by_sums and not division.is_given(root) and self._own_index(ref) is None

    def _lines(self) -> Iterator[str]:
        source = ""
        for each in self.loop.statements:
            if each.source and each.source != source:
                source = each.source
                yield comment(source)
            lines = list(self._statement(each))
            yield from (*self._needed, *lines)
            self._needed.clear()

    def _statement(self, each: InLoop) -> Iterator[str]:
        """Its lines."""
        if isinstance(each, Compute):
            yield from self._computed(each)

    def _computed(self, each: Compute) -> Iterator[str]:
        if each.adds:
            raise CannotEmitError("a sum over rows in the middle of the loop")
        arguments: list[str] = []
        for ref, dtype in each.arguments:
            arguments.append(converted(self._argument(ref, dtype), ref.buffer.dtype, dtype))
        name = self._registers.name(each.target)
        if each.expression == "{0}" and each.target.root().buffer.place in (Place.EMITTED, Place.CARRIED):
            yield self._write(each.target, arguments[0], self._guard)
            return  # nobody reads it in this loop
        yield f"const {COMPUTED[each.target.buffer.dtype]} {name} = {self._expression(each, arguments)};\n"
        yield self._write(each.target, name, self._guard)
        self._registers.hold(each.target, name)

    def _expression(self, each: Compute, arguments: Sequence[str]) -> str:
        """What a statement computes: halves by functions that are about as exact as they are."""
        dtype = each.target.buffer.dtype
        if dtype in HALVES and not self.places.lowered.rounds:
            each = replace(each, expression=BRIEF.sub(rf"unspool::halves::\1<{TYPES[dtype]}>(", each.expression))
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
            return next((name for known, name in self._totals if known.same_elements(ref)), "") or self._total(ref)
        if self.places.ring.has(ref):
            name, line = self.places.ring.row(root)
            self.pointers[name] = line
            return loaded(f"{name}[{self._everywhere(ref)}]", root.dtype)
        if root.place is Place.STREAMED and self._turns:
            return loaded(f"{self.early.name_of(ref)}[turn]", root.dtype)
        if root in self.places.vectors:
            return loaded(f"{root.name}_copy[{self._everywhere(ref)}]", root.dtype)
        if division.is_given(root):
            return loaded(f"unspool::given(&{self.element(root, self._everywhere(ref))})", root.dtype)
        if self._is_posted(ref):
            return self._waited_for(ref)
        own = self._own_index(ref)
        assert own is not None
        return loaded(self.element(root, own), root.dtype)

    def _waited_for(self, ref: Ref) -> str:
        """A word in a variable, once for all who read it: all lanes wait together, whoever has something to write."""
        buffer = ref.root().buffer
        if self.places.tiling.near:
            raise CannotEmitError(f"{buffer.name} is read by others than those who compute it, and lies with a product")
        slot = "step.before(row)" if buffer.place is Place.CARRIED else "(step.start + row)"
        name = f"{buffer.name}_from"
        self.pointers[name] = f"const Index {name} = {slot} * {buffer.size};\n"
        place = f"{self.places.words(buffer)} + ({name} + {self._everywhere(ref)})"
        text = f'unspool::posted({place}, chunk, "{buffer.name}")'
        if text not in self._words:
            self._words[text] = f"{buffer.name}_word{len(self._words)}"
            self._needed.append(f"const auto {self._words[text]} = {text};\n")
        return self._words[text]

    def _total(self, ref: Ref) -> str:
        """An element of a product: the sums of all warps, and what is added to them, once for all who read it."""
        root, places = ref.root().buffer, self.places
        product, own = places.division.added[root], places.division.sums_at(ref, self.mapped)
        apart = columns(product, places.tiling) + 4
        name, kind = f"{root.name}_sums", TYPES[sum_type(product)]
        self.pointers[name] = f"const {kind}* const {name} = {root.name}_now + r * {apart};\n"
        tiling, count = places.tiling, parts(product, places.tiling) + places.tiling.shares - 1
        text = f"unspool::total<{count}>({name} + {index_text(own, 'i')}, {tiling.rows * apart})"
        for added in places.division.addends(ref):
            text = f"{text} + {self._argument(added, root.dtype)}"
        name = f"{root.name}_total{len(self._totals)}"
        own = COMPUTED[sum_type(product)]
        self._needed.append(f"const {own} {name} = {rounded(text, root.dtype) if places.lowered.rounds else text};\n")
        self._totals.append((ref, name))
        return name

    def _write(self, ref: Ref, value: str, guard: str, dims: int | None = None) -> str:
        """Lines that hand an element on; those that store it come after all that the loop computes."""
        root, places = ref.root().buffer, self.places
        if root.place is Place.EMITTED:
            once = "tile == 0" if self.mapped.unit is None and self._units is not None else ""
            store = f"{self.element(root, self._everywhere(ref, dims))} = {value};\n"
            self._stores.append(_if(" && ".join(filter(None, (guard, once))), store))
            return ""
        if root in places.own:
            own = self._own_index(ref, dims)
            assert own is not None
            self._stores.append(_if(guard, f"{self.element(root, own)} = {value};\n"))
        if root not in places.division.crossing:
            return ""
        value = f"{TYPES[root.dtype]}({value})"
        if root in places.woven:
            return self._unit_at_once(ref, value, guard)
        return self._handed_on(root, self._everywhere(ref), value, guard)

    def _unit_at_once(self, ref: Ref, value: str, guard: str) -> str:
        """What hands on the numbers of a unit, once all of them are known."""
        root, units = ref.root().buffer, self._units
        assert units is not None
        turns, made = self.places.woven[root], self._posts.setdefault(root, {})
        made[turn(ref, units.count)] = value
        if len(made) < turns:
            return ""
        text = f"const {TYPES[root.dtype]} {root.name}_unit[] = {{{', '.join(made[k] for k in range(turns))}}};\n"
        return text + self._handed_on(root, f"unit * {turns}", f"{root.name}_unit", guard)

    def _handed_on(self, buffer: Buffer, place: str, value: str, guard: str) -> str:
        """Brings what lies at a place of a row to who multiplies it: near, in all blocks of a cluster, or as words."""
        places, name, always = self.places, buffer.name, guard or "true"
        if places.tiling.near:
            row = f"{places.written_near(buffer)} + r * {near_apart(buffer)}"
            self.pointers[f"{name}_near_row"] = f"{TYPES[buffer.dtype]}* const {name}_near_row = {row};\n"
            to = f"{name}_near_row + {place}, {value}"
            if not places.tiling.sends:
                return _if(guard, f"unspool::put({to});\n")
            text = f"unspool::put_for_all<{places.tiling.cluster}>({to}, {always}, {places.mail_for(buffer)});\n"
            return _if("k + 1 < steps.end" if buffer.place is Place.CARRIED else "", text)  # nobody multiplies the last
        if self._turns:  # brought nearer, as what is read is
            self.early.posts(f"{places.words(buffer)} + ((start + row) * {buffer.size} + {place})")
        self.pointers[f"{name}_to"] = f"const Index {name}_to = (step.start + row) * {buffer.size};\n"
        return f"unspool::post({places.words(buffer)} + ({name}_to + {place}), {value}, {always});\n"

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


def _if(guard: str, line: str) -> str:
    """A line that runs where the guard holds; always, if there is none."""
    return f"if ({guard}) {line}" if guard else line
