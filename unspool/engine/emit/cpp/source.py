"""C++ that a person can read, from the stages of a row."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from textwrap import indent

import torch

from unspool.engine.emit.cpp.contractions import contraction
from unspool.engine.emit.cpp.passes import Home, Loop, Pass, Stage
from unspool.engine.emit.cpp.scalars import TYPES, literal
from unspool.engine.emit.cpp.statements import Compute, Contract, Largest, Product, Reduce
from unspool.engine.emit.cpp.strided import Buffer, Place, Ref

ALIGNED = 64
APART = 5 * 64
"""Bytes between the buffers of a row: a cache has few places for what is a power of two apart, as vectors often are."""
TERMS = 128
"""How many float32 are summed before they are added to those before them, in float64."""
FOLDS = {"sum": ("+=", 0.0), "max": ("larger", -math.inf), "min": ("smaller", math.inf), "argmax": ("exceeds", 0)}


@dataclass(frozen=True)
class Scratch:
    """A record of memory for each row: where its buffers are, in bytes."""

    places: dict[Buffer, int]
    size: int

    @classmethod
    def of(cls, buffers: Sequence[Buffer], apart: int = 0) -> Scratch:
        """Room for `buffers`, each at the beginning of a cache line, so many bytes from the one before."""
        places, size = dict[Buffer, int](), 0
        for buffer in buffers:
            places[buffer] = size
            size += -(-buffer.size * buffer.dtype.itemsize // ALIGNED) * ALIGNED + apart
        return cls(places, size)


class Printer:
    """Prints the body of a loop over steps.

    Args:
        stages: what a step does.
        shared: how many shared values there are. After them come the matrices of products, packed.
    """

    def __init__(self, stages: Sequence[Stage], shared: int) -> None:
        self._stages, self._shared = stages, shared
        products = [each for stage in stages if not isinstance(stage, Pass) for each in stage]
        self._searches = [each for each in products if isinstance(each, Largest)]
        self.matrices = list(dict.fromkeys(each.matrix for each in products if not isinstance(each, Largest)))
        """The matrices of products, in the order in which they come."""
        self.searched = [each.matrix for each in self._searches]
        """Those of which the largest entries are searched; each comes packed and by columns."""
        self._home = Home(stages)
        scalars = [buffer for buffer in self._home.row if buffer.size == 1]
        self._scalars = set(scalars)
        self.row = Scratch.of([buffer for buffer in self._home.row if buffer not in self._scalars], APART)
        self.block = Scratch.of(list(self._home.block))
        targets = [each.target.buffer for stage in stages if not isinstance(stage, Pass) for each in stage]
        self.products = Scratch.of([each for each in dict.fromkeys(targets) if each.place is Place.PRODUCT])

    @property
    def multiplications(self) -> int:
        """Of the products of one row, at one step."""
        return sum(
            math.prod(each.left.shape) * each.matrix.shape[1]
            for stage in self._stages
            if not isinstance(stage, Pass)
            for each in stage
        )

    @property
    def elements(self) -> int:
        """Computed for one row, at one step, besides products."""
        return sum(
            math.prod(loop.domain) * len(loop.statements)
            for stage in self._stages
            if isinstance(stage, Pass)
            for loop in stage.loops
        )

    def text(self) -> str:
        """All stages, one after another."""
        return "\n".join(
            self._pass(stage) if isinstance(stage, Pass) else self._multiply(stage) for stage in self._stages
        )

    # -- products ------------------------------------------------------------------------------------------------------

    def _multiply(self, products: Sequence[Product]) -> str:
        texts = [self._search(each) if isinstance(each, Largest) else self._product(each) for each in products]
        alone = all(isinstance(each, Largest) for each in products)  # they have met already
        return "".join(texts) + ("" if alone else "worker.meet();\n")

    def _product(self, product: Product) -> str:
        depth, width = product.matrix.shape
        kind = TYPES[product.target.buffer.dtype]
        number = self._shared + self.matrices.index(product.matrix)
        panels = f"static_cast<const {kind}*>(chunk.shared[{number}])"
        times = product.target.size // width
        lead = product.target.shape[:-1]
        steps = [_only_step(ref, lead) for ref in (product.left, product.added, product.target) if ref is not None]
        left, out = self._rows_of(product.left), self._rows_of(product.target)
        added = (f"static_cast<const {kind}*>(nullptr)", "0")
        if product.added is not None:
            added = self._rows_of(product.added)
        if times > 1:
            shift = iter(steps)
            left = (f"{left[0]} + i * {next(shift)}", left[1])
            added = added if product.added is None else (f"{added[0]} + i * {next(shift)}", added[1])
            out = (f"{out[0]} + i * {next(shift)}", out[1])
        call = f"worker.multiply(rows, {depth}, {width}, {', '.join((*left, panels, *added, *out))});\n"
        return _title(product) + (f"for (int64_t i = 0; i < {times}; i++)\n  {call}" if times > 1 else call)

    def _search(self, search: Largest) -> str:
        depth, width = search.matrix.shape
        number = self._searches.index(search)
        first = self._shared + len(self.matrices) + 2 * number
        left, out = self._rows_of(search.left), self._rows_of(search.target)
        added = ("nullptr", "0") if search.added is None else self._rows_of(search.added)
        packed, columns = f"chunk.shared[{first}]", f"static_cast<const float*>(chunk.shared[{first + 1}])"
        what = ", ".join((str(depth), str(width), *left, packed, columns, *added))
        which = f"k % 2 * {len(self._searches)} + {number}"
        return _title(search) + f"worker.largest(rows, {{{what}}}, {', '.join(out)}, {which});\n"

    def _rows_of(self, given: Ref) -> tuple[str, str]:
        """Where the first of a worker's rows is, and how far apart rows are."""
        ref = given.root()
        buffer, kind = ref.buffer, TYPES[ref.buffer.dtype]
        offset = f" + {ref.offset}" if ref.offset else ""
        scratch = {**self.block.places, **self.products.places}
        if buffer in scratch:
            block = buffer in self.block.places
            record, base = (self.block.size, "worker.block") if block else (self.products.size, "products")
            return (
                f"reinterpret_cast<{kind}*>({base} + {scratch[buffer]}){offset}",
                str(record // buffer.dtype.itemsize),
            )
        if buffer.place is Place.SHARED:
            return f"{self._base(buffer)}{offset}", "0"
        first = {
            Place.CARRIED: "worker.first",
            Place.STREAMED: "(start + worker.first)",
            Place.EMITTED: f"({_seen(buffer)}start + worker.first)",
        }[buffer.place]
        return f"{self._base(buffer)} + {first} * {buffer.size}{offset}", f"worker.apart * {buffer.size}"

    def _base(self, buffer: Buffer) -> str:
        kind = TYPES[buffer.dtype]
        written = buffer.place in (Place.CARRIED, Place.EMITTED, Place.SUMMED)
        owner, const = "worker" if written and not buffer.by_all else "chunk", "" if written else "const "
        return f"static_cast<{const}{kind}*>({owner}.{buffer.place.value}[{buffer.index}])"

    # -- passes --------------------------------------------------------------------------------------------------------

    def _pass(self, stage: Pass) -> str:
        used = dict.fromkeys(
            ref.root().buffer
            for loop in stage.loops
            for each in loop.statements
            for ref in (*each.reads(), each.target)
            if ref.root().buffer.place is not Place.CONSTANT
        )
        lines = ["const int64_t row = worker.first + q * worker.apart;\n"]
        lines += [self._pointer(buffer) for buffer in used if self._home.has_memory(buffer)]
        lines += [_Body(self, loop).text() for loop in stage.loops]
        return "for (int64_t q = 0; q < rows; q++) {\n" + indent("".join(lines), "  ") + "}\n"

    def _pointer(self, buffer: Buffer) -> str:
        kind, name = TYPES[buffer.dtype], buffer.name
        if buffer in self._scalars:
            return f"{kind} {name};\n"
        records = (("worker.row", None, self.row), ("worker.block", "q", self.block), ("products", "q", self.products))
        for base, number, scratch in records:
            if buffer in scratch.places:
                start = f"{base} + {scratch.places[buffer]}" + (f" + q * {scratch.size}" if number else "")
                return f"{kind}* const {name} = reinterpret_cast<{kind}*>({start});\n"
        rows = {
            Place.SHARED: "",
            Place.SUMMED: "",
            Place.CARRIED: f" + row * {buffer.size}",
            Place.STREAMED: f" + (start + row) * {buffer.size}",
            Place.EMITTED: f" + ({_seen(buffer)}start + row) * {buffer.size}",
        }[buffer.place]
        const = "const " if buffer.place in (Place.SHARED, Place.STREAMED) else ""
        return f"{const}{kind}* const {name} = {self._base(buffer)}{rows};\n"

    def is_scalar(self, buffer: Buffer) -> bool:
        """Whether a buffer is a variable of a row, and no memory."""
        return buffer in self._scalars

    def has_memory(self, buffer: Buffer) -> bool:
        """Whether what is computed for `buffer` has to be written."""
        return self._home.has_memory(buffer)


def _title(product: Product) -> str:
    depth, width = product.matrix.shape
    what = "the largest of " if isinstance(product, Largest) else ""
    about = f"{product.target.buffer.name}: {what}{depth} x {width}"
    return _comment(f"{about}  | {product.source}" if product.source else about)


def _comment(text: str) -> str:
    """A line of comment; a backslash at its end would take the next line with it."""
    return f"// {text} .\n" if text.endswith("\\") else f"// {text}\n"


def _seen(emitted: Buffer) -> str:
    """What the number of the first row is multiplied by: a worker's own copy has the rows of one step."""
    return "" if emitted.by_all else "worker.visible * "


def _only_step(ref: Ref, lead: tuple[int, ...]) -> int:
    """How far apart the entries of the first dimensions are, as one dimension."""
    flat = replace(ref, shape=ref.shape[:-1], strides=ref.strides[:-1]).reshape((math.prod(lead),))
    assert flat is not None
    return flat.strides[0] if flat.shape[0] > 1 else 0


class _Body:
    """One loop of a pass."""

    def __init__(self, printer: Printer, loop: Loop) -> None:
        self._printer, self._loop = printer, loop
        self._registers: list[tuple[Ref, str]] = []
        self._fixed: dict[str, str] = {}
        self._dims = () if isinstance(loop.statements[0], Contract) else _collapse(loop)
        self._kept = 0 if loop.kept is None else _kept_dims(self._dims, loop)
        self._sums_vectors = self._kept > 0 and self._lies_across()

    def text(self) -> str:
        first = self._loop.statements[0]
        if isinstance(first, Contract):
            return self._contract(first)
        folds = [each for each in self._loop.statements if isinstance(each, Reduce)]
        if len(self._loop.statements) == 1 and folds and folds[0].fold == "argmax" and self._lies_in_line():
            return self._searched(folds[0])
        lines = list(self._lines())
        if self._sums_vectors:
            return self._vectors(folds, "".join(lines))
        sums = [self._summed_in(each) for each in folds if each.fold == "sum"]
        pragma = "#pragma omp simd" + (f" reduction(+ : {', '.join(sums)})" if sums else "") + "\n"
        pragma = pragma if self._is_simple() else ""
        parts = [each.target.buffer.name for each in folds if self._has_parts(each)]
        if parts:
            inner = self._nest(self._kept, len(self._dims) - 1, self._in_blocks(parts, "".join(lines), pragma), "")
        else:
            inner = self._nest(self._kept, len(self._dims), "".join(lines), pragma)
        fixed = "".join(self._fixed.values())
        if not folds:
            return "{\n" + indent(fixed + inner, "  ") + "}\n" if fixed else inner
        starts = "".join(map(self._start, folds))
        ends = "".join(self._write(each.target, f"{each.target.buffer.name}_fold", self._kept) for each in folds)
        return self._nest(0, self._kept, fixed + starts + inner + ends, "")

    def _is_simple(self) -> bool:
        """Whether compilers can fold many elements at a time."""
        return all(each.fold == "sum" for each in self._loop.statements if isinstance(each, Reduce))

    def _has_parts(self, each: Reduce) -> bool:
        """Whether numbers are summed in their own type, a block at a time, and blocks in a wider one."""
        wider = each.target.buffer.dtype != each.argument.buffer.dtype
        return each.fold == "sum" and wider and self._is_simple() and not self._sums_vectors

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
        return _as(ref.root(), self._dims).strides[-1] == 1

    def _searched(self, each: Reduce) -> str:
        """A search through memory, all at once."""
        last = len(self._dims) - 1
        found = f"unspool::argmax(&{self._element(each.argument, last + 1)}, {self._dims[last]})"
        body = f"const int64_t i{last} = 0;\n" + self._write(each.target, found, self._kept)
        title = _comment(each.source) if each.source else ""
        return self._nest(0, self._kept, title + body, "")

    def _start(self, each: Reduce) -> str:
        """The variables that a fold goes on in."""
        kind, name = TYPES[each.target.buffer.dtype], each.target.buffer.name
        text = f"{kind} {name}_fold = {literal(FOLDS[each.fold][1], each.target.buffer.dtype)};\n"
        if each.fold == "argmax":
            own = each.argument.buffer.dtype
            text += f"{TYPES[own]} {name}_largest = {literal(-math.inf, own)};\n"
        return text

    def _lies_across(self) -> bool:
        """Whether what is summed lies far apart, and what is kept side by side: vectors are then added up."""
        statements = self._loop.statements
        if not all(each.fold == "sum" for each in statements if isinstance(each, Reduce)):
            return False
        refs = [_as(ref.root(), self._dims) for each in statements for ref in each.reads() if self._is_read(ref)]
        return all(ref.strides[self._kept - 1] in (0, 1) and ref.strides[-1] != 1 for ref in refs)

    def _is_read(self, ref: Ref) -> bool:
        made = [each.target for each in self._loop.statements if isinstance(each, Compute)]
        return ref.buffer.place is not Place.CONSTANT and not any(ref.same_elements(target) for target in made)

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
            assert not isinstance(each, Contract)
            if each.source and each.source != source:
                source = each.source
                yield _comment(source)
            if isinstance(each, Reduce):
                own = self._summed_in(each)
                if self._sums_vectors:
                    own = self._element(each.target, self._kept)
                value = self._read(each.argument)
                sign = FOLDS[each.fold][0]
                if each.fold == "argmax":
                    largest, here = f"{each.target.buffer.name}_largest", f"i{len(self._dims) - 1}"
                    yield f"if (unspool::exceeds({value}, {largest})) {{\n"
                    yield f"  {own} = {here};\n  {largest} = {value};\n}}\n"
                else:
                    yield f"{own} += {value};\n" if sign == "+=" else f"{own} = unspool::{sign}({own}, {value});\n"
            else:
                yield from self._computed(each)

    def _computed(self, each: Compute) -> Iterator[str]:
        arguments: list[str] = []
        for ref, dtype in each.arguments:
            text = self._read(ref, dtype)
            arguments.append(text if ref.buffer.dtype == dtype else f"{TYPES[dtype]}({text})")
        if each.adds:
            yield f"{self._element(each.target, len(self._dims))} += {arguments[0]};\n"
            return
        kind, name = TYPES[each.target.buffer.dtype], self._name(each.target)
        if each.expression == "{0}" and self._printer.has_memory(each.target.root().buffer):
            yield self._write(each.target, arguments[0], len(self._dims))
            return  # whoever needs it finds it there
        yield f"const {kind} {name} = {each.expression.format(*arguments)};\n"
        if self._printer.has_memory(each.target.root().buffer):
            yield self._write(each.target, name, len(self._dims))
        self._registers.append((each.target, name))

    def _name(self, target: Ref) -> str:
        taken = {name for _, name in self._registers}
        name = f"{target.buffer.name}_at"
        return name if name not in taken else f"{name}_{len(taken)}"

    def _read(self, ref: Ref, dtype: torch.dtype | None = None) -> str:
        if ref.buffer.place is Place.CONSTANT:
            return literal(ref.buffer.number, dtype or ref.buffer.dtype)
        for known, name in reversed(self._registers):
            if known.same_elements(ref):
                return name
        element = self._element(ref, len(self._dims))
        root = ref.root().buffer
        if root.place in (Place.SHARED, Place.STREAMED) and _is_fixed(element):
            # Compilers do not vectorise a loop that reads one number under a condition.
            name = f"{root.name}_at_{element.split('[')[1][:-1]}"
            self._fixed[name] = f"const {TYPES[root.dtype]} {name} = {element};\n"
            return name
        return element

    def _write(self, ref: Ref, value: str, dims: int) -> str:
        return f"{self._element(ref, dims)} = {value};\n"

    def _element(self, given: Ref, dims: int) -> str:
        ref = given.root()
        if self._printer.is_scalar(ref.buffer):
            return ref.buffer.name
        return f"{ref.buffer.name}[{_index(_as(ref, self._dims[:dims]), 'i')}]"

    def _contract(self, each: Contract) -> str:
        def element(ref: Ref, names: tuple[str, ...]) -> str:
            root = ref.root()
            return root.buffer.name + ("" if self._printer.is_scalar(root.buffer) else f"[{_index(root, names)}]")

        return (_comment(each.source) if each.source else "") + contraction(each, element)


def _collapse(loop: Loop) -> tuple[int, ...]:
    """The loop's dimensions, with those joined that all its elements lie one after another in."""
    refs = [
        ref.root().squeezed if len(ref.squeezed.shape) == len(loop.domain) else ref.root()
        for each in loop.statements
        for ref in ([*each.reads(), each.target] if isinstance(each, Compute) else each.reads())
        if ref.buffer.place is not Place.CONSTANT
    ]
    dims: list[int] = []
    for k, size in enumerate(loop.domain):
        joins = (
            dims
            and k != loop.kept
            and all(_steps(ref, loop.domain)[k - 1] == size * _steps(ref, loop.domain)[k] for ref in refs)
        )
        if joins:
            dims[-1] *= size
        else:
            dims.append(size)
    return tuple(dims)


def _is_fixed(element: str) -> bool:
    """Whether an element is the same throughout a loop."""
    return element.endswith("]") and element.split("[")[1][:-1].isdecimal()


def _kept_dims(dims: tuple[int, ...], loop: Loop) -> int:
    """How many of the joined dimensions are kept."""
    kept = math.prod(loop.domain[: loop.kept])
    count = 0
    while kept > 1:
        kept //= dims[count]
        count += 1
    return count


def _steps(ref: Ref, domain: tuple[int, ...]) -> tuple[int, ...]:
    """The strides over a loop's dimensions."""
    return _as(ref, domain).strides


def _as(ref: Ref, domain: tuple[int, ...]) -> Ref:
    """`ref` with a loop's dimensions, where its own are the same or finer."""
    seen = ref.reshape(domain)
    assert seen is not None
    return seen


def _index(ref: Ref, names: str | tuple[str, ...]) -> str:
    terms = [
        (f"{names}{k}" if isinstance(names, str) else names[k]) + (f" * {stride}" if stride != 1 else "")
        for k, (size, stride) in enumerate(zip(ref.shape, ref.strides, strict=True))
        if stride and size > 1
    ]
    return " + ".join([*terms, *([str(ref.offset)] if ref.offset or not terms else [])])
