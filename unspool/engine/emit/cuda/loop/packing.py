"""Packs the matrices of products as kernels read them."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor
from torch.nn.functional import pad

from unspool.engine.emit.cuda.loop.printer.places import Places
from unspool.engine.emit.cuda.loop.tiles import by_tensor_cores, lanes_across, own_terms
from unspool.engine.emit.cuda.loop.tiles import columns as columns_of
from unspool.engine.emit.stages.statements import Product
from unspool.engine.emit.stages.strided import Ref


def seen(tensor: Tensor, ref: Ref) -> Tensor:
    """The part of a shared value that `ref` is."""
    if ref.is_whole:
        return tensor.reshape(ref.shape)
    tensor = tensor.contiguous()
    return tensor.as_strided(ref.shape, ref.strides, tensor.storage_offset() + ref.offset)


def pack(product: Product, shared: Sequence[Tensor], places: Places) -> Tensor:
    """A product's matrix as a kernel takes it.

    Where blocks keep their parts of it between steps, it may lie by rows or by columns. Where it is read at every step,
    blocks of whole rows have it row by row, and others each its part: the columns of its units, padded to whole tiles
    of tensor cores, and for each warp a part of the terms.
    """
    matrix = seen(shared[product.matrix.buffer.index], product.matrix)
    units = places.division.units
    if units is None:
        return matrix.contiguous()
    if places.tiling.kept != "memory":
        return matrix if matrix.t().is_contiguous() else matrix.contiguous()
    woven = places.woven.get(product.left.root().buffer, 1)
    depth, width = matrix.shape
    matrix = matrix.reshape(woven, depth // woven, width).transpose(0, 1).reshape(depth, width)
    columns, warps, each = columns_of(product, places.tiling), places.tiling.warps, 16 // matrix.element_size()
    # [tile, own unit, turn]: what a block has of each turn of units.
    by_tile = matrix.t().reshape(width // units.count, units.tiles, units.each, depth).permute(1, 2, 0, 3)
    by_tile = by_tile.reshape(units.tiles, -1, depth)
    if by_tensor_cores(product, places.tiling):
        terms = 4 * each * warps
        blocks = -(-depth // terms)
        padded = pad(by_tile, (0, blocks * terms - depth, 0, columns - by_tile.shape[1]))
        # A lane (g, t) has, of 16 columns and 4 * each terms, columns g and g + 8, and `each` neighbouring terms.
        parts = padded.reshape(units.tiles, columns // 16, 2, 8, warps, blocks, 4, 2, 2, each // 4)
        return parts.permute(0, 4, 1, 5, 7, 3, 6, 8, 2, 9).contiguous()
    across = lanes_across(columns)  # lanes that have columns; where these are not all, others have other terms
    split, own = 32 // across, own_terms(product, places.tiling)
    padded = pad(by_tile, (0, warps * split * own - depth, 0, columns - by_tile.shape[1]))
    parts = padded.reshape(units.tiles, columns // across, across, warps, split, own)
    return parts.permute(0, 3, 5, 1, 4, 2).contiguous()
