"""Prints one loop over the elements of a row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import indent

import torch

from unspool.engine.emit.cpp.printer.contractions import contraction
from unspool.engine.emit.cpp.printer.sequential import sequential
from unspool.engine.emit.stages.dims import collapse, kept_dims, seen_as
from unspool.engine.emit.stages.passes import Loop
from unspool.engine.emit.stages.scratch import ALIGNED, Home
from unspool.engine.emit.stages.statements import ALONE, Alone, Compute, Contract, Reduce
from unspool.engine.emit.stages.strided import Place, Ref
from unspool.engine.emit.text.elements import Registers, comment, index_text
from unspool.engine.emit.text.folds import FOLDS, folded_in, variables_of_fold
from unspool.engine.emit.text.spelling import (
    COMPUTED,
    converted,
    expression,
    literal,
    loaded,
)

TERMS = 128
"""How many float32 are summed before they are added to those before them, in float64."""


class LoopText:
    """Prints one loop of a pass.

    Args:
        home: where its values are.
        loop: the loop.
    """

    def __init__(self, home: Home, loop: Loop) -> None:
        self._home, self._loop = home, loop
        self._registers = Registers()
        self._fixed: dict[str, str] = {}
        self._dims = () if isinstance(loop.statements[0], ALONE) else collapse(loop)
        self._kept = 0 if loop.kept is None else kept_dims(self._dims, loop)
        self._sums_vectors = self._kept > 0 and self._lies_across()

    def text(self) -> str:
        """The loop and what is in it."""
        first = self._loop.statements[0]
        if not isinstance(first, Compute | Reduce):
            return self._alone(first)
        folds = [each for each in self._loop.statements if isinstance(each, Reduce)]
        if len(self._loop.statements) == 1 and folds and folds[0].fold == "argmax" and self._lies_in_line():
            return self._searched(folds[0])
        lines = list(self._lines())
        if self._sums_vectors:
            return self._vectors(folds, "".join(lines))
        pragma = f"#pragma omp simd{''.join(self._reductions(folds))}\n" if self._is_simple() else ""
        parts = [each.target.buffer.name for each in folds if self._has_parts(each)]
        if parts:
            inner = self._nest(self._kept, len(self._dims) - 1, self._in_blocks(parts, "".join(lines), pragma), "")
        else:
            inner = self._nest(self._kept, len(self._dims), "".join(lines), pragma)
        fixed = "".join(self._fixed.values())
        if not folds:
            return "{\n" + indent(fixed + inner, "  ") + "}\n" if fixed else inner
        starts = "".join(map(variables_of_fold, folds))
        ends = "".join(self._write(each.target, f"{each.target.buffer.name}_fold", self._kept) for each in folds)
        return self._nest(0, self._kept, fixed + starts + inner + ends, "")

    def _is_simple(self) -> bool:
        """Whether compilers can fold many elements at a time."""
        return all(each.in_any_order for each in self._loop.statements if isinstance(each, Reduce))

    def _only_sums(self) -> bool:
        return all(each.fold == "sum" for each in self._loop.statements if isinstance(each, Reduce))

    def _reductions(self, folds: Sequence[Reduce]) -> Iterator[str]:
        for fold, how in (("sum", "+"), *((fold, f"unspool::{FOLDS[fold]}") for fold in ("max", "min"))):
            names = [self._summed_in(each) for each in folds if each.fold == fold]
            if names:
                yield f" reduction({how} : {', '.join(names)})"

    def _has_parts(self, each: Reduce) -> bool:
        """Whether numbers are summed in their own type, a block at a time, and blocks in a wider one."""
        wider = each.target.buffer.dtype != each.argument.buffer.dtype
        return each.fold == "sum" and wider and self._only_sums() and not self._sums_vectors

    def _summed_in(self, each: Reduce) -> str:
        """The variable that elements are added to."""
        return f"{each.target.buffer.name}_{'part' if self._has_parts(each) else 'fold'}"

    def _in_blocks(self, names: Sequence[str], body: str, pragma: str) -> str:
        """The innermost loop, with sums of blocks that are added to the whole."""
        last = len(self._dims) - 1
        index, size = f"i{last}", self._dims[last]
        blocks = -(-size // TERMS)
        step = -(-size // blocks // ALIGNED) * ALIGNED if blocks > 1 else size
        first, end = ("begin", f"begin + {step}") if blocks > 1 else ("0", str(size))
        if blocks > 1 and size % step:
            end = f"({end} < {size} ? {end} : {size})"
        starts = "".join(f"float {name}_part = 0;\n" for name in names)
        loop = f"for (int64_t {index} = {first}; {index} < {end}; {index}++) {{\n{indent(body, '  ')}}}\n"
        ends = "".join(f"{name}_fold += {name}_part;\n" for name in names)
        head = f"for (int64_t begin = 0; begin < {size}; begin += {step}) " if blocks > 1 else ""
        return f"{head}{{\n{indent(starts + pragma + loop + ends, '  ')}}}\n"

    def _lies_in_line(self) -> bool:
        (ref,) = self._loop.statements[0].reads()
        return seen_as(ref.root(), self._dims).strides[-1] == 1

    def _searched(self, each: Reduce) -> str:
        """A search through memory, all at once."""
        last = len(self._dims) - 1
        found = f"unspool::argmax(&{self._element(each.argument, last + 1)}, {self._dims[last]})"
        body = f"const int64_t i{last} = 0;\n" + self._write(each.target, found, self._kept)
        title = comment(each.source) if each.source else ""
        return self._nest(0, self._kept, title + body, "")

    def _lies_across(self) -> bool:
        """Whether what is summed lies far apart, and what is kept side by side: vectors are then added up."""
        statements = self._loop.statements
        if not self._only_sums():
            return False
        refs = [seen_as(ref.root(), self._dims) for each in statements for ref in each.reads() if self._is_read(ref)]
        return all(ref.strides[self._kept - 1] in (0, 1) and ref.strides[-1] != 1 for ref in refs)

    def _is_read(self, ref: Ref) -> bool:
        made = [each.target for each in self._loop.statements if isinstance(each, Compute)]
        return ref.buffer.place.is_memory and not any(ref.same_elements(target) for target in made)

    def _vectors(self, folds: Sequence[Reduce], body: str) -> str:
        """Sums of vectors: over what is kept inside, over what is summed outside."""
        last, count = self._kept - 1, len(self._dims)
        zero = "".join(self._write(each.target, literal(0.0, each.target.buffer.dtype), self._kept) for each in folds)
        pragma = "#pragma omp simd\n"
        text = self._nest(self._kept, count, self._nest(last, self._kept, body, pragma), "")
        fixed = "".join(self._fixed.values())
        return self._nest(0, last, fixed + self._nest(last, self._kept, zero, pragma) + text, "")

    def _nest(self, begin: int, end: int, body: str, pragma: str) -> str:
        """`body` in loops over some of the dimensions; the pragma is for the innermost."""
        text = body
        for k in reversed(range(begin, end)):
            head = f"for (int64_t i{k} = 0; i{k} < {self._dims[k]}; i{k}++) {{\n"
            text = (pragma if k == end - 1 else "") + head + indent(text, "  ") + "}\n"
        return "{\n" + indent(text, "  ") + "}\n" if begin == end else text

    def _lines(self) -> Iterator[str]:
        source = ""
        for each in self._loop.statements:
            assert isinstance(each, Compute | Reduce)
            if each.source and each.source != source:
                source = each.source
                yield comment(source)
            if isinstance(each, Reduce):
                own = self._summed_in(each)
                if self._sums_vectors:
                    own = self._element(each.target, self._kept)
                yield folded_in(each, own, self._read(each.argument), f"i{len(self._dims) - 1}")
            else:
                yield from self._computed(each)

    def _computed(self, each: Compute) -> Iterator[str]:
        arguments: list[str] = []
        for ref, dtype in each.arguments:
            text = self._registers.argument(self._read(ref, dtype), ref, dtype)
            arguments.append(converted(text, ref.buffer.dtype, dtype))
        if each.adds:
            yield f"{self._element(each.target, len(self._dims))} += {arguments[0]};\n"
            return
        kind, name = COMPUTED[each.target.buffer.dtype], self._registers.name(each.target)
        if each.expression == "{0}" and self._home.has_memory(each.target.root().buffer):
            yield self._write(each.target, arguments[0], len(self._dims))
            return  # whoever needs it finds it there
        yield f"const {kind} {name} = {expression(each, arguments)};\n"
        if self._home.has_memory(each.target.root().buffer):
            yield self._write(each.target, name, len(self._dims))
        self._registers.hold(each.target, name)

    def _read(self, ref: Ref, dtype: torch.dtype | None = None) -> str:
        if ref.buffer.place is Place.CONSTANT:
            return literal(ref.buffer.number, dtype or ref.buffer.dtype)
        if ref.buffer.place is Place.COUNTED:
            return f"({index_text(seen_as(ref, self._dims), 'i')})"
        if (name := self._registers.find(ref)) is not None:
            return name
        element = self._element(ref, len(self._dims))
        root = ref.root().buffer
        in_memory = root.place in (Place.SHARED, Place.STREAMED) and _is_fixed(element)
        if root.dtype is torch.bool and self._dims and (in_memory or self._home.is_scalar(root)):
            return self._flag(element)
        if in_memory:
            # Compilers do not vectorise a loop that reads one number under a condition.
            name = _name_of(element)
            self._fixed[name] = f"const {COMPUTED[root.dtype]} {name} = {element};\n"
            return name
        return loaded(element, root.dtype)

    def _flag(self, element: str) -> str:
        """A flag that is the same throughout the loop, as a number: gcc has no vectors of such conditions otherwise."""
        name = f"{_name_of(element)}_flag"
        wide = any(each.target.buffer.dtype.itemsize == 8 for each in self._loop.statements)
        self._fixed[name] = f"const {'double' if wide else 'float'} {name} = {element} ? 1 : 0;\n"
        return f"({name} > {0.5 if wide else '0.5f'})"

    def _write(self, ref: Ref, value: str, dims: int) -> str:
        return f"{self._element(ref, dims)} = {value};\n"

    def _element(self, given: Ref, dims: int) -> str:
        ref = given.root()
        if self._home.is_scalar(ref.buffer):
            return ref.buffer.name
        return f"{ref.buffer.name}[{index_text(seen_as(ref, self._dims[:dims]), 'i')}]"

    def _alone(self, each: Alone) -> str:
        def element(ref: Ref, names: Sequence[str], *further: str) -> str:
            if ref.buffer.place is Place.CONSTANT:
                return literal(ref.buffer.number, ref.buffer.dtype)
            root = ref.root()
            scalar = self._home.is_scalar(root.buffer)
            return root.buffer.name + ("" if scalar else f"[{index_text(root, names, *further)}]")

        text = contraction(each, element) if isinstance(each, Contract) else sequential(each, element)
        return (comment(each.source) if each.source else "") + text


def _name_of(element: str) -> str:
    """A name for what is at a fixed place, `flag_at_0` of `flag[0]`."""
    return element.replace("[", "_at_").removesuffix("]")


def _is_fixed(element: str) -> bool:
    """Whether an element is the same throughout a loop."""
    return element.endswith("]") and element.split("[")[1][:-1].isdecimal()
