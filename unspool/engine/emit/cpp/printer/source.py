"""The C++ printer: stages of a row as code that a person can read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from textwrap import indent

from unspool.engine.emit.cpp.libraries.kernels import Kernels
from unspool.engine.emit.cpp.printer.loop_text import LoopText
from unspool.engine.emit.stages.passes import Pass, Stage
from unspool.engine.emit.stages.scratch import Home, Scratch
from unspool.engine.emit.stages.statements import Convolve, Correlate, Largest, Product
from unspool.engine.emit.stages.strided import Buffer, Place, Ref
from unspool.engine.emit.text.elements import comment
from unspool.engine.emit.text.spelling import TYPES

APART = 5 * 64
"""Bytes between the buffers of a row: a cache has few places for what is a power of two apart, as vectors often are."""


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
        self.convolutions = [each for each in products if isinstance(each, Convolve)]
        """Convolutions, each of which comes with how it is done, and its filters packed, if it has any."""
        self.filters = [each.matrix for each in self.convolutions if not isinstance(each, Correlate)]
        plain = [each for each in products if not isinstance(each, Largest | Convolve)]
        self.matrices = list(dict.fromkeys(each.matrix for each in plain))
        """The matrices of products, in the order in which they come."""
        self.searched = [each.matrix for each in self._searches]
        """Those of which the largest entries are searched; each comes packed and by columns."""
        self.by_row = bool(self.convolutions) and len(self.convolutions) == len(products)
        """Whether a step goes through all stages with one row, then with the next: its images then stay in the cache.
        Products by matrices are for all rows at once."""
        self._home = Home(stages)
        self.row = Scratch.of([buffer for buffer in self._home.row if not self._home.is_scalar(buffer)], APART)
        self.block = Scratch.of(list(self._home.block))
        targets = [each.target.buffer for stage in stages if not isinstance(stage, Pass) for each in stage]
        self.products = Scratch.of([each for each in dict.fromkeys(targets) if each.place is Place.PRODUCT])
        self._scratch = {**self.block.places, **self.products.places}

    @property
    def kernels(self) -> set[Kernels]:
        """What its products are computed by."""
        return {
            *(Kernels("products", each.buffer.dtype) for each in self.matrices),
            *(Kernels("searches", each.buffer.dtype) for each in self.searched),
            *(Kernels("convolutions", each.left.buffer.dtype) for each in self.convolutions),
        }

    @property
    def multiplications(self) -> int:
        """Of the products of one row, at one step."""
        return sum(each.multiplications for stage in self._stages if not isinstance(stage, Pass) for each in stage)

    @property
    def row_bytes(self) -> int:
        """Scratch for one row at a time: of passes, and the copy of the image that is being convolved."""
        return max([self.row.size, *(each.scratch for each in self.convolutions)])

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
        texts = [self._pass(stage) if isinstance(stage, Pass) else self._multiply(stage) for stage in self._stages]
        if not self.by_row:
            return "\n".join(texts)
        # A worker must not write to what another one still reads, of the row before.
        row = "[[maybe_unused]] const int64_t row = worker.first + q;\nworker.meet();\n"
        return "for (int64_t q = 0; q < rows; q++) {\n" + indent(row + "\n".join(texts), "  ") + "}\n"

    # -- products ------------------------------------------------------------------------------------------------------

    def _multiply(self, products: Sequence[Product]) -> str:
        texts = [self._text_of(each) for each in products]
        alone = all(isinstance(each, Largest) for each in products)  # they have met already
        return "".join(texts) + ("" if alone else "worker.meet();\n")

    def _text_of(self, product: Product) -> str:
        if isinstance(product, Correlate):
            return self._correlation(product)
        if isinstance(product, Convolve):
            return self._convolution(product)
        return self._search(product) if isinstance(product, Largest) else self._product(product)

    def _convolution(self, convolution: Convolve) -> str:
        kind = TYPES[convolution.target.buffer.dtype]
        first = self._first_shared(convolution)
        left, out = self._row_of(convolution.left), self._row_of(convolution.target)
        how = f"static_cast<const unspool::Convolution*>(chunk.shared[{first}])"
        what = [how, left, f"static_cast<const {kind}*>(chunk.shared[{first + 1}])"]
        added = convolution.added
        if added is None:
            what += ["nullptr", "0", "false"]
        else:
            per_pixel = any(size > 1 and step for size, step in zip(added.shape[2:], added.strides[2:], strict=True))
            what += [self._row_of(added), str(added.strides[1]), "true" if per_pixel else "false"]
        title = "filters of " + " x ".join(map(str, convolution.matrix.shape))
        call = f"worker.convolve(unspool::Convolved<{kind}>{{{', '.join(what)}}}, {out});\n"
        return _titled(convolution, title) + self._every_row(call)

    def _correlation(self, correlation: Correlate) -> str:
        kind = TYPES[correlation.left.buffer.dtype]
        first = self._first_shared(correlation)
        gradient, target = correlation.matrix, correlation.target.buffer
        how = f"static_cast<const unspool::Convolution*>(chunk.shared[{first}])"
        what = [how, self._row_of(correlation.left), self._row_of(gradient), str(gradient.strides[1])]
        # Workers that share all rows add up shares of one sum, others one each.
        sums = f"static_cast<double*>((worker.shares > 1 ? chunk.summed : worker.summed)[{target.index}])"
        call = f"worker.correlate(unspool::Correlated<{kind}>{{{', '.join(what)}}}, {sums});\n"
        title = "a gradient of filters of " + " x ".join(map(str, correlation.target.shape))
        return _titled(correlation, title) + self._every_row(call)

    def _every_row(self, call: str) -> str:
        return call if self.by_row else f"for (int64_t q = 0; q < rows; q++)\n  {call}"

    def _first_shared(self, convolution: Convolve) -> int:
        """The number of the shared value that says how a convolution is done."""
        first = self._shared + len(self.matrices) + 2 * len(self._searches)
        return first + 2 * self.convolutions.index(convolution)

    def _product(self, product: Product) -> str:
        depth, width = product.matrix.shape
        kind = TYPES[product.matrix.buffer.dtype]
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
        scratch = self._scratch
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
        return f"{self._base(buffer)} + {first} * {_apart(buffer)}{offset}", _apart(buffer)

    def _row_of(self, given: Ref) -> str:
        """Where the q-th of a worker's rows is."""
        first, apart = self._rows_of(given)
        own = given.root().buffer
        return first if apart == "0" or (self.by_row and own in self._scratch) else f"{first} + q * {apart}"

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
            if ref.root().buffer.place.is_memory
        )
        lines = [self._pointer(buffer) for buffer in used if self._home.has_memory(buffer)]
        lines += [LoopText(self._home, loop).text() for loop in stage.loops]
        if self.by_row:
            return "{\n" + indent("".join(lines), "  ") + "}\n"
        lines.insert(0, "const int64_t row = worker.first + q;\n")
        return "for (int64_t q = 0; q < rows; q++) {\n" + indent("".join(lines), "  ") + "}\n"

    def _pointer(self, buffer: Buffer) -> str:
        kind, name = TYPES[buffer.dtype], buffer.name
        if self._home.is_scalar(buffer):
            return f"{kind} {name};\n"
        records = (("worker.row", None, self.row), ("worker.block", "q", self.block), ("products", "q", self.products))
        for base, number, scratch in records:
            if buffer in scratch.places:
                start = f"{base} + {scratch.places[buffer]}" + (
                    f" + q * {scratch.size}" if number and not self.by_row else ""
                )
                return f"{kind}* const {name} = reinterpret_cast<{kind}*>({start});\n"
        rows = {
            Place.SHARED: "",
            Place.SUMMED: "",
            Place.CARRIED: f" + row * {buffer.size}",
            Place.STREAMED: f" + (start + row) * {_apart(buffer)}",
            Place.EMITTED: f" + ({_seen(buffer)}start + row) * {buffer.size}",
        }[buffer.place]
        const = "const " if buffer.place in (Place.SHARED, Place.STREAMED) else ""
        return f"{const}{kind}* const {name} = {self._base(buffer)}{rows};\n"


def _title(product: Product) -> str:
    depth, width = product.matrix.shape
    what = "the largest of " if isinstance(product, Largest) else ""
    return _titled(product, f"{what}{depth} x {width}")


def _titled(product: Product, what: str) -> str:
    about = f"{product.target.buffer.name}: {what}"
    return comment(f"{about}  | {product.source}" if product.source else about)


def _apart(buffer: Buffer) -> str:
    """How far apart the rows of a value are: those of a streamed one may be part of something wider."""
    return f"chunk.apart[{buffer.index}]" if buffer.place is Place.STREAMED else str(buffer.size)


def _seen(emitted: Buffer) -> str:
    """What the number of the first row is multiplied by: a worker's own copy has the rows of one step."""
    return "" if emitted.by_all else "worker.visible * "


def _only_step(ref: Ref, lead: tuple[int, ...]) -> int:
    """How far apart the entries of the first dimensions are, as one dimension."""
    flat = replace(ref, shape=ref.shape[:-1], strides=ref.strides[:-1]).reshape((math.prod(lead),))
    assert flat is not None
    return flat.strides[0] if flat.shape[0] > 1 else 0
