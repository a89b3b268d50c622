"""What each part of a step touches of its block's memory: where threads have to meet follows from that."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping

from unspool.engine.emit.cuda.loop.printer.loops import LANES
from unspool.engine.emit.cuda.loop.printer.meeting import Touch
from unspool.engine.emit.cuda.loop.printer.places import Places
from unspool.engine.emit.stages.passes import Loop
from unspool.engine.emit.stages.statements import Compute, Product, Reduce
from unspool.engine.emit.stages.strided import Place, Ref

ROW = "the warp with the number of the row"


class Touches:
    """Finds what loops and products of a kernel touch.

    Args:
        places: where values are.
        widths: how many elements each loop takes at a time.
    """

    def __init__(self, places: Places, widths: Mapping[Loop, int]) -> None:
        self._places, self._widths = places, widths
        self._division, self._tiling = places.division, places.tiling

    def of_loop(self, loop: Loop, after: Loop | None) -> Iterator[Touch]:
        """What a loop touches, and the one that goes on in the same lanes with what it has folded."""
        has_warps = self._has_warps(loop)
        by_element = has_warps or all(isinstance(each, Compute) for each in loop.statements)
        dims, warp = self._division.mapped[loop].dims if by_element else None, ROW if has_warps else None
        for ref in self._division.reads(loop):
            yield from self._of_ref(ref, dims, warp, loop, writes=False)
            if self._places.ring.has(ref):
                yield Touch("ring", None, writes=False)
        for each in loop.statements:
            yield from self._of_ref(each.target, None if isinstance(each, Reduce) else dims, warp, loop, writes=True)
            if self._tiling.near and each.target.root().buffer in self._division.crossing:
                yield Touch(f"{each.target.root().buffer.name}_near", None, writes=True)
        if after is not None:  # a lane goes on with what its warp has folded
            for ref in self._division.reads(after):
                yield from self._of_ref(ref, None, warp, after, writes=False)
            for each in after.statements:
                yield from self._of_ref(each.target, None, warp, after, writes=True)

    def of_product(self, product: Product) -> Iterator[Touch]:
        """What a product touches."""
        divided = self._tiling.units is not None
        yield Touch(product.target.buffer.name, None, writes=True, turns=divided)
        for ref in product.reads() if not divided else ():
            yield Touch(ref.root().buffer.name, None, writes=False)
        if self._tiling.near:
            yield Touch(f"{product.left.root().buffer.name}_near", None, writes=False)

    def _of_ref(self, ref: Ref, dims: Hashable, warp: Hashable, loop: Loop, *, writes: bool) -> Iterator[Touch]:
        root, mapped = ref.root(), self._division.mapped[loop]
        if root.buffer.place is Place.PRODUCT and self._tiling.units is not None:
            yield Touch(root.buffer.name, None, writes, turns=True)
        elif root.buffer in self._places.own:
            if dims is None:
                yield Touch(root.buffer.name, None, writes, warp=warp)
                return
            own = self._division.at_hand(ref, mapped)
            if own is not None:
                yield Touch(root.buffer.name, (mapped, self._widths[loop], own.strides, own.offset), writes, warp=warp)

    def _has_warps(self, loop: Loop) -> bool:
        """Whether each row has a warp, and each of the row's units in the block a lane."""
        units, mapped, tiling = self._tiling.units, self._division.mapped[loop], self._tiling
        if units is None or units.each != LANES or tiling.rows > tiling.warps or self._widths[loop] > 1:
            return False
        alone = any(not isinstance(each, Compute | Reduce) for each in loop.statements)
        return mapped.dims == (units.count,) and mapped.unit == 0 and not mapped.kept and not alone
