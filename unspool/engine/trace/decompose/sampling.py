"""`grid_sample` by what it picks from each row's image: torch's own form finds images by their numbers in the batch."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def grid_sample(
    x: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """Each place of the grid is a sum over the corners of the cell around it, or the nearest of them."""
    axes = x.dim() - 2
    fits = axes in (2, 3) and grid.dim() == x.dim() and grid.shape[-1] == axes
    if not fits or mode not in ("bilinear", "nearest") or padding_mode not in ("zeros", "border", "reflection"):
        return F.grid_sample(x, grid, mode, padding_mode, align_corners)
    sizes: list[int] = list(x.shape[2:])
    each = [grid[..., axes - 1 - k].flatten(1) for k in range(axes)]  # which begins with the last axis
    each = [_pixels(c, size, bool(align_corners)) for c, size in zip(each, sizes, strict=True)]
    if padding_mode == "reflection":
        each = [_reflected(c, size, bool(align_corners)) for c, size in zip(each, sizes, strict=True)]
    if padding_mode != "zeros":
        each = [_clipped(c, size - 1) for c, size in zip(each, sizes, strict=True)]
    if mode == "nearest":
        picked, inside = _picked(x, sizes, [torch.round(c.detach()) for c in each])
        result = torch.where(inside, picked, 0.0)
    else:
        result = _between(x, sizes, each)
    shape: list[Any] = [*x.shape[:2], *grid.shape[1:-1]]
    return result.reshape(shape)


def _between(x: Tensor, sizes: Sequence[int], each: Sequence[Tensor]) -> Tensor:
    """The mean of the corners, each weighted by how near it is along all axes."""
    low = [torch.floor(c.detach()) for c in each]
    result: Any = 0
    for corner in itertools.product((0, 1), repeat=len(sizes)):
        picked, inside = _picked(x, sizes, [c + k for c, k in zip(low, corner, strict=True)])
        near = [c - first if k else first + 1 - c for c, first, k in zip(each, low, corner, strict=True)]
        result = result + picked * (math.prod(near[1:], start=near[0])[:, None] * inside)
    return result


def _picked(x: Tensor, sizes: Sequence[int], each: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Pixels of each image, `[rows, channels, places]`, and whether they are in it, `[rows, 1, places]`."""
    within = [(c >= 0) & (c <= size - 1) for c, size in zip(each, sizes, strict=True)]
    inside = within[0]
    place = torch.zeros_like(each[0], dtype=torch.int64)
    for c, size in zip(each, sizes, strict=True):
        place = place * size + c.clamp(0, size - 1).to(torch.int64)
    for other in within[1:]:
        inside = inside & other
    shape: list[Any] = [-1, x.shape[1], -1]
    return x.flatten(2).gather(2, torch.where(inside, place, 0)[:, None].expand(shape)), inside[:, None]


def _pixels(c: Tensor, size: int, align_corners: bool) -> Tensor:
    """Places from -1 to 1 as numbers of pixels."""
    return (c + 1) / 2 * (size - 1) if align_corners else ((c + 1) * size - 1) / 2


def _clipped(c: Tensor, most: int) -> Tensor:
    """Within the image; on its border, too, there is no gradient. What is no number becomes the first pixel."""
    return torch.where((c > 0) & (c < most), c, (c.detach() >= most).to(c.dtype) * most)


def _reflected(c: Tensor, size: int, align_corners: bool) -> Tensor:
    """Mirrored at the centres of the outermost pixels, or at their edges."""
    low, span = (0.0, size - 1) if align_corners else (-0.5, size)
    if not span:
        return torch.zeros_like(c)
    c = (c - low).abs()
    flips = torch.floor(c.detach() / span)
    rest = c - flips * span
    return torch.where(flips % 2 == 0, rest, span - rest) + low
