"""Skinny products (few rows, one matrix) with prologue and epilogue as one kernel.

With few rows, a product takes hardly longer than its launch and the way of the matrix to the processors, and so do its
neighbours. So one kernel reads the rows where they are, several beside each other and rows of a table by number,
multiplies them, and computes what is pointwise from the product, or looks for the largest element of each row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from unspool.engine.emit.cuda.forms import computes, inputs_of, named, pointers, reads, strides, writes
from unspool.engine.emit.cuda.kernel import Kernel
from unspool.engine.emit.cuda.largest import BEFORE, Largest
from unspool.engine.emit.cuda.launch import WAIT, launch
from unspool.engine.emit.cuda.precision import tf32_is_allowed
from unspool.engine.emit.cuda.tiles import FETCH, FEW_COLUMNS, MANY, MANY_COLUMNS, MULTIPLY, Tile
from unspool.engine.ir.program import Instruction, Value


@dataclass(frozen=True)
class Factors:
    """`rows @ matrix + addend`, in float32.

    Args:
        pieces: what stands beside each other in a row: a value, or a table and the number of its row.
        matrix: the matrix, as torch multiplies with it.
        across: the same transposed, so that the elements of a column lie next to each other.
        addend: what is added, if anything.
        parts: the product; or, if it is cut into columns of the same width, these.
    """

    pieces: tuple[tuple[Value, Value | None], ...]
    matrix: Value
    across: Value
    addend: Value | None
    parts: tuple[Value, ...]

    @property
    def read(self) -> tuple[Value, ...]:
        """What a kernel reads, each once."""
        pieces = [value for piece in self.pieces for value in piece if value is not None]
        return tuple(dict.fromkeys([*pieces, self.across, *([] if self.addend is None else [self.addend])]))


class Multiply(Kernel):
    """A product and what is pointwise after it.

    Args:
        factors: the product.
        tail: what is computed from its parts.
        outputs: what others need of the parts and of the tail.
        otherwise, name: as in `Kernel`.
    """

    def __init__(
        self,
        factors: Factors,
        tail: Sequence[Instruction],
        outputs: Sequence[Value],
        otherwise: Callable[..., Any],
        name: str,
    ) -> None:
        self.outputs = tuple(outputs)
        self._factors, self._tail = factors, tuple(tail)
        self._strided = [each for each in inputs_of(tail) if each not in factors.parts]
        self._read = tuple(dict.fromkeys([*factors.read, *self._strided]))
        self.inputs = (*self._read, factors.matrix)
        (self._width,) = factors.parts[0].shape
        self._columns = self._width * len(factors.parts)
        super().__init__(name, self._text(self._tiles[max(self._tiles)], name), otherwise)

    @property
    def _tiles(self) -> dict[int, Tile]:
        return MANY_COLUMNS if self._columns >= MANY else FEW_COLUMNS

    def launch(self, rows: int, inputs: Sequence[Tensor]) -> Any:
        """As in `Kernel`."""
        given = dict(zip(self.inputs, inputs, strict=True))
        if not self._serves(rows, given):
            return None
        tile = self._tiles[min(most for most in self._tiles if rows <= most)]
        function = self._compiled(self._text(tile, self.name), tile.shared_memory)
        if function is None:
            return None
        made = [torch.empty(rows, *each.shape, dtype=each.dtype, device=inputs[0].device) for each in self.outputs]
        apart = [given[value].stride(0) for value, _ in self._factors.pieces]
        if self._factors.addend is not None:
            apart += given[self._factors.addend].expand(rows, self._columns).stride()
        apart += [stride for each in self._strided for stride in given[each].expand(rows, self._width).stride()]
        across = -(-self._width // (tile.columns // len(self._factors.parts)))
        arguments = [*(given[each] for each in self._read), *made, *apart, rows]
        launch(function, (across, -(-rows // tile.rows), 1), tile.threads, arguments, tile.shared_memory)
        return made[0] if len(made) == 1 else made

    def _serves(self, rows: int, given: dict[Value, Tensor]) -> bool:
        """Whether the rows are few, and where four elements can be fetched at once."""
        if not 0 < rows <= max(self._tiles) or tf32_is_allowed():
            return False  # with more rows, and in TF32, torch's products are faster
        fetched = [given[value] for value, _ in self._factors.pieces] + [given[self._factors.across]]
        return given[self._factors.across].is_contiguous() and all(
            each.stride(1) == 1 and each.stride(0) % 4 == 0 and each.data_ptr() % 16 == 0 for each in fetched
        )

    # -- its code ------------------------------------------------------------------------------------------------------

    def _text(self, tile: Tile, name: str) -> str:
        factors = self._factors
        terms = sum(value.shape[-1] for value, _ in factors.pieces)
        constants = {**tile.constants, "TERMS": terms, "PARTS": len(factors.parts), "WIDTH": self._width}
        given = pointers(self._read, self.outputs)
        given += [f"int apart_{number}" for number in range(len(factors.pieces))]
        given += [] if factors.addend is None else ["int added_0", "int added_1"]
        given += [*strides(self._strided, [0, 1]), "int count"]
        return "\n".join(
            [
                *(f"constexpr int {key} = {number};" for key, number in constants.items()),
                WAIT + FETCH + self._before,
                # With more registers, no block of the next kernel could begin on the same processor.
                f'extern "C" __global__ void __launch_bounds__(THREADS, 2) {name}({", ".join(given)}) {{',
                f"  const float* const matrix = {factors.across.name}_at;",
                *self._source(),
                MULTIPLY,
                *(f"  {line}" for line in self._end()),
                "}",
            ]
        )

    _before = ""

    def _source(self) -> list[str]:
        """Where the terms of a row are, from the k-th on."""
        lines, start = ["  const auto source = [&](long long i0, int k) -> const float* {"], 0
        for number, (value, index) in enumerate(self._factors.pieces):
            end = start + value.shape[-1]
            lines.append(f"    if (k < {end}) {{")
            if index is not None:
                lines += [
                    f"      i0 = {index.name}_at[i0];",
                    f'      if (i0 < 0 || i0 >= {value.shape[0]}) asm("trap;");',
                ]
            lines += [f"      return {value.name}_at + i0 * apart_{number} + (k - {start});", "    }"]
            start = end
        return [*lines, "    return nullptr;", "  };"]

    def _element(self, part: int) -> str:
        """The element of the product at `row` and `column` of the tile, `i0` and `i1` of all."""
        text = f"tile[row * PITCH + {part} * PART + column]"
        if self._factors.addend is not None:
            text += f" + {self._factors.addend.name}_at[i0 * added_0 + ({part} * WIDTH + i1) * added_1]"
        return text

    def _end(self) -> list[str]:
        """What becomes of a tile."""
        parts = [f"const float {named(each)} = {self._element(k)};" for k, each in enumerate(self._factors.parts)]
        after = [*reads(self._strided, [0, 1]), *computes(self._tail), *writes(self.outputs, "i0 * WIDTH + i1")]
        return [
            "for (int each = threadIdx.x; each < ROWS * PART; each += THREADS) {",
            "  const int row = each / PART, column = each % PART;",
            "  const long long i0 = first_row + row, i1 = first + column;",
            "  if (i0 >= count || i1 >= WIDTH) continue;",
            *(f"  {line}" for line in [*parts, *after]),
            "}",
        ]


class Candidates(Multiply):
    """A product's largest element in each of its tiles, for each row: the elements and their places."""

    _before = BEFORE.format(type="float")

    def __init__(self, factors: Factors, otherwise: Callable[..., Any], name: str) -> None:
        (width,) = factors.parts[0].shape
        tiles = -(-width // self._tiles[1].columns)
        outputs = [Value("best", (tiles,), torch.float32), Value("places", (tiles,), torch.int64)]
        super().__init__(factors, (), outputs, otherwise, name)

    @property
    def _tiles(self) -> dict[int, Tile]:
        return MANY_COLUMNS  # all with as many columns, however many rows there are

    def _end(self) -> list[str]:
        return [
            "constexpr int EACH = THREADS / ROWS, LANES = EACH >= 32 ? 32 : EACH >= 16 ? 16 : EACH >= 8 ? 8 : 4;",
            'static_assert(EACH >= 4 && ROWS * LANES % 32 == 0, "whole warps search");',
            "if (threadIdx.x >= ROWS * LANES) return;",
            "const int row = threadIdx.x / LANES;",
            "const long long i0 = first_row + row < count ? first_row + row : count - 1;",
            "int column = threadIdx.x % LANES, i1 = first + column;",
            "if (i1 >= WIDTH) column = 0, i1 = first;",
            f"float best = {self._element(0)};",
            "int place = i1;",
            "for (column += LANES, i1 += LANES; column < COLUMNS && i1 < WIDTH; column += LANES, i1 += LANES) {",
            f"  const float next = {self._element(0)};",
            "  if (before(next, i1, best, place)) best = next, place = i1;",
            "}",
            "for (int apart = LANES / 2; apart > 0; apart /= 2) {",
            "  const float other = __shfl_down_sync(0xffffffffu, best, apart, LANES);",
            "  const int there = __shfl_down_sync(0xffffffffu, place, apart, LANES);",
            "  if (before(other, there, best, place)) best = other, place = there;",
            "}",
            "if (threadIdx.x % LANES || first_row + row >= count) return;",
            "best_out[i0 * gridDim.x + blockIdx.x] = best;",
            "places_out[i0 * gridDim.x + blockIdx.x] = place;",
        ]


class MultiplyLargest(Kernel):
    """The place of the largest element of each row of a product, and what is computed from it.

    Two kernels: the product is never written, only the largest element in each of its tiles.

    Args:
        factors: the product.
        found: the place.
        tail: what is computed from it, one number for each row.
        outputs: what others need of these.
        otherwise, name: as in `Kernel`.
    """

    def __init__(
        self,
        factors: Factors,
        found: Value,
        tail: Sequence[Instruction],
        outputs: Sequence[Value],
        otherwise: Callable[..., Any],
        name: str,
    ) -> None:
        self._candidates = Candidates(factors, otherwise, name)
        best, places = self._candidates.outputs
        self._largest = Largest(best, found, tail, outputs, otherwise, f"{name}_largest", places)
        self.outputs = tuple(outputs)
        self.inputs = (*self._candidates.inputs, *self._largest.inputs[2:])
        super().__init__(name, f"{self._candidates.source}\n{self._largest.source}", otherwise)

    def launch(self, rows: int, inputs: Sequence[Tensor]) -> Any:
        """As in `Kernel`."""
        cut = len(self._candidates.inputs)
        found = self._candidates.launch(rows, inputs[:cut])
        return None if found is None else self._largest.launch(rows, [*found, *inputs[cut:]])
