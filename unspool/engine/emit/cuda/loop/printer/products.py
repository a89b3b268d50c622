"""Prints products: of rows with a matrix, convolutions, searches; of whole rows, or of a block's columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from textwrap import indent

from unspool.engine.emit.cuda.loop.lowered import Lowered
from unspool.engine.emit.cuda.loop.printer.places import Places, near_apart, sum_type
from unspool.engine.emit.cuda.loop.tiles import (
    Tiling,
    by_tensor_cores,
    columns,
    part_bytes,
    parts,
    row_tiles,
    warps_across,
)
from unspool.engine.emit.errors import CannotEmitError
from unspool.engine.emit.stages.convolutions import AXES
from unspool.engine.emit.stages.dtypes import computed
from unspool.engine.emit.stages.statements import Convolve, Largest, Product
from unspool.engine.emit.stages.strided import Place, Ref
from unspool.engine.emit.text.elements import comment
from unspool.engine.emit.text.spelling import TYPES


class ProductText:
    """Prints the products of a kernel.

    Args:
        lowered: what a step does.
        tiling: how it is divided.
        places: where values are.
    """

    def __init__(self, lowered: Lowered, tiling: Tiling, places: Places) -> None:
        self.lowered, self.tiling, self.places = lowered, tiling, places
        self._products = lowered.products

    def prepared(self, index: int, product: Product) -> str:
        """What a block does with a product's matrix before its first step."""
        return self._keep_matrix(index, product) if self.tiling.units is None else self._own_columns(index, product)

    def now(self, product: Product) -> str:
        """Where the sums of a divided product are at a step: another place at every other one."""
        kind, name = TYPES[sum_type(product)], product.target.buffer.name
        size, place = part_bytes(product, self.tiling), self.places.shared.places[f"{name}_part"]
        return f"{kind}* const {name}_now = ({kind}*)(memory + {place} + (k & 1) * {size});\n"

    def _keep_matrix(self, index: int, product: Product) -> str:
        """Copies a matrix to shared memory, if there is room for it."""
        name, kind = self.places.matrix_name(product, index), TYPES[product.matrix.buffer.dtype]
        place = self.places.shared.places.get(name)
        if place is None:
            return ""
        text = f"{kind}* const {name}_near = ({kind}*)(memory + {place});\n"
        text += f"for (int item = unspool::thread(); item < {product.matrix.size}; item += THREADS)\n"
        return text + f"  {name}_near[item] = {self.places.matrix(product, index)}[item];\n"

    def _matrix(self, product: Product) -> str:
        """Where the whole matrix of a product is."""
        index = self._products.index(product)
        name = self.places.matrix_name(product, index)
        return f"{name}_near" if name in self.places.shared.places else self.places.matrix(product, index)

    def _own_columns(self, index: int, product: Product) -> str:
        """A product whose matrix is divided: what a block has of it."""
        name, kind = product.target.buffer.name, TYPES[product.matrix.buffer.dtype]
        if self.tiling.near:
            return self._near_product_of(index, product)
        how = "TensorProduct" if by_tensor_cores(product, self.tiling) else "ExactProduct"
        tiles = columns(product, self.tiling) // 16
        numbers = f"{kind}, {product.matrix.shape[0]}, {tiles}, {self.tiling.rows}, {self.tiling.warps}"
        ways = f"{self.tiling.one_first}, {self.tiling.ahead}".lower()
        more = f", {row_tiles(self.lowered, self.tiling)}, {ways}, {self.tiling.shares}"
        more = more if how == "TensorProduct" else ""
        text = f"unspool::{how}<{numbers}, unspool::Kept::{self.tiling.kept}{more}> {name}_by;\n"
        if self.tiling.kept == "memory":
            matrix = self.places.matrix(product, index)
            return text + f"{name}_by.read_again({matrix} + (int64_t)tile * {name}_by.kPacked);\n"
        return text + self._load_columns(index, product)

    def _near_product_of(self, index: int, product: Product) -> str:
        """A product with rows near, of a block that has its columns in registers, which may be all."""
        name, tiling = product.target.buffer.name, self.tiling
        numbers = [product.matrix.shape[0], columns(product, tiling) // 16, tiling.rows, warps_across(product, tiling)]
        numbers += [parts(product, tiling), near_apart(product.left.root().buffer)]
        kind = TYPES[product.matrix.buffer.dtype]
        text = f"unspool::NearProduct<{kind}, {', '.join(map(str, numbers))}> {name}_by;\n"
        return text + self._load_columns(index, product)

    def _load_columns(self, index: int, product: Product) -> str:
        """What takes a block's columns of a matrix into registers, or to shared memory."""
        name, matrix, units = product.target.buffer.name, self.places.matrix(product, index), self.tiling.units
        assert units is not None
        woven = self.places.woven.get(product.left.root().buffer, 1)
        sizes = ", ".join(map(str, (*product.matrix.shape, units.count, units.each, woven)))
        told = f"{name}_by, {matrix}, {self.places.transposed(product, index)}, tile"
        told += f", memory + {self.places.shared.places[f'{name}_by']}"
        told += f", memory + {self.places.shared.places[f'{name}_part']}"
        text = f"unspool::load_columns<{sizes}>({told});\n"
        return text + (f"{self.places.arrivals(name)}\n" if self.tiling.shares > 1 else "")

    def exchanged(self, stage: Sequence[Product]) -> str:
        """What blocks of a cluster hand each other of products, once all warps have multiplied."""
        names = [each.target.buffer.name for each in stage]
        sent = "".join(f"{name}_by.hand_over({name}_now, step.rows, {name}_arrivals.at(k));\n" for name in names)
        return sent + "".join(f"{name}_arrivals.wait(k);\n" for name in names)

    def text(self, product: Product) -> str:
        """A product, at a step."""
        name = product.target.buffer.name
        what = f"{name}: {' x '.join(map(str, product.matrix.shape))}"
        title = comment(f"{what}  | {product.source}" if product.source else what)
        if self.tiling.units is None:
            return title + self._whole_product(product)
        left = product.left.root()
        if self.tiling.near:
            offset = f" + {left.offset}" if left.offset else ""
            return title + f"{name}_by.run({left.buffer.name}_near{offset}, {name}_now);\n"
        at = self.places.outside("r")
        slot = f"step.before({at})" if left.buffer.place is Place.CARRIED else f"(step.start + {at})"
        row = f"{slot} * {left.buffer.size}" + (f" + {left.offset}" if left.offset else "")
        place = self.places.shared.places[f"{name}_by"]
        told = f'step.rows, {name}_now, memory + {place}, "{left.buffer.name}"'
        words = self.places.words(left.buffer)
        return title + f"{name}_by.run(chunk, {words}, [&](int r) {{ return {row}; }}, {told});\n"

    def _whole_product(self, product: Product) -> str:
        """A product of a block that has whole rows."""
        if isinstance(product, Convolve):
            return self._convolve(product)
        return self._search(product) if isinstance(product, Largest) else self._multiply(product)

    def _convolve(self, product: Convolve) -> str:
        sums = TYPES[computed(product.target.buffer.dtype)]
        refs = (product.left, product.added, product.target)
        left, added, out = [("(const float*)nullptr", "0") if ref is None else self._rows_of(ref, 1) for ref in refs]
        told = ", ".join(("how", "step.rows", *left, self._matrix(product), *added, *out))
        body = f"constexpr unspool::Filters how = {filters_text(product)};\nunspool::convolve<{sums}>({told});\n"
        return f"{{\n{indent(body, '  ')}}}\n"

    def _multiply(self, product: Product) -> str:
        depth, width = product.matrix.shape
        sums, kind = TYPES[sum_type(product)], TYPES[product.matrix.buffer.dtype]
        times = product.target.size // width
        refs = [product.left, product.added, product.target]
        texts = [(f"(const {kind}*)nullptr", "0") if ref is None else self._rows_of(ref, times) for ref in refs]
        (left, left_apart), (added, added_apart), (out, out_apart) = texts
        matrix = self._matrix(product)
        told = f"step.rows, {left}, {left_apart}, {matrix}, {added}, {added_apart}, {out}, {out_apart}"
        call = f"unspool::multiply_rows<{depth}, {width}, {sums}>({told});\n"
        return f"for (int i = 0; i < {times}; i++)\n  {call}" if times > 1 else call

    def _search(self, product: Product) -> str:
        depth, width = product.matrix.shape
        left, left_apart = self._rows_of(product.left, 1)
        added, added_apart = (
            ("(const float*)nullptr", "0") if product.added is None else self._rows_of(product.added, 1)
        )
        out, out_apart = self._rows_of(product.target, 1)
        matrix = self._matrix(product)
        told = f"{left} + row * {left_apart}, {matrix}, {added} + row * {added_apart}"
        call = f"unspool::largest_column<{depth}, {width}>({told})"
        body = "const int r = begin + unspool::thread() / 32, row = r < step.rows ? r : 0;\n"
        body += f"const int64_t found = {call};\n"
        body += f"if (r < step.rows && unspool::thread() % 32 == 0) ({out})[r * {out_apart}] = found;\n"
        return f"for (int begin = 0; begin < step.rows; begin += {self.tiling.warps}) {{\n{indent(body, '  ')}}}\n"

    def _rows_of(self, ref: Ref, times: int) -> tuple[str, str]:
        """Where the first of a block's rows is, and how far apart rows are."""
        root = ref.root()
        buffer, offset = root.buffer, f" + {root.offset}" if root.offset else ""
        if times > 1:
            lead = replace(ref, shape=ref.shape[:-1], strides=ref.strides[:-1]).reshape((times,))
            assert lead is not None
            offset += f" + i * {lead.strides[0]}"
        if buffer in self.places.own:
            return f"{buffer.name}_own{offset}", str(buffer.size)
        if buffer.place is Place.SHARED:
            return f"{self.places.all_of(buffer)}{offset}", "0"
        first = "(int64_t)first" if buffer.place is Place.CARRIED else "step.start"
        return f"{self.places.all_of(buffer)} + {first} * {buffer.size}{offset}", str(buffer.size)


def filters_text(product: Convolve) -> str:
    """The geometry of a convolution, as a kernel is told it: `unspool::Filters`.

    Raises:
        CannotEmitError: if a row has several images.
    """
    left, filters, added, options = product.left, product.matrix.shape, product.added, product.geometry.options
    if left.shape[0] != 1:
        raise CannotEmitError("a convolution of several images of a row")
    channels = filters[0] // options.groups if options.spreads else filters[1]
    made = filters[1] if options.spreads else filters[0] // options.groups

    def three(numbers: Sequence[int], otherwise: int) -> str:
        return f"{{{', '.join(map(str, [*[otherwise] * (AXES - len(numbers)), *numbers]))}}}"

    sizes = (filters[2:], product.geometry.image[1:], product.geometry.outputs[1:])
    ways = (three(options.steps, 1), three(options.padding, 0), three(options.dilation, 1))
    apart = (str(left.strides[1]), three(left.strides[2:], 0))
    per_pixel = added is not None and any(
        size > 1 and step for size, step in zip(added.shape[2:], added.strides[2:], strict=True)
    )
    more = (0 if added is None else added.strides[1], int(per_pixel), str(options.spreads).lower())
    numbers = (options.groups, channels, made, *(three(each, 1) for each in sizes), *ways, *apart, *more)
    return f"{{{', '.join(map(str, numbers))}}}"
