"""The largest element of every window, or the mean; and normalisation by the channels around."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import torch
from torch.nn import functional as F

from unspool.tf1.operations import FRACTIONS, apply, as_tensor, check_takes
from unspool.tf1.ops.images import Images, padded
from unspool.tf1.shapes import described

__all__ = [
    "avg_pool",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "local_response_normalization",
    "lrn",
    "max_pool",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "pool",
]

_MAX: dict[int, Callable[..., torch.Tensor]] = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
_MEAN: dict[int, Callable[..., torch.Tensor]] = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}


def max_pool(
    value: Any = None,
    ksize: Any = None,
    strides: Any = None,
    padding: Any = None,
    data_format: str = "NHWC",
    name: str | None = None,
    input: Any = None,
) -> Any:
    """The largest element of every window of images.

    Args:
        value, input: `[batch, height, width, channels]`; "NCHW" for `data_format` says that channels come first.
        ksize: the sizes of the window: along all four axes, along both of an image, or one number for these.
        strides: how far the window moves.
        padding: "SAME" if windows may reach beyond the sides, "VALID" if not.
        data_format: "NHWC" or "NCHW".
        name: the operation's.

    >>> from unspool import tf1 as tf
    >>> tf.nn.max_pool(tf.zeros([2, 5, 6, 3]), [1, 2, 2, 1], [1, 2, 2, 1], "SAME").shape
    TensorShape([2, 3, 3, 3])
    """
    return _pool("MaxPool", 2, value if input is None else input, ksize, strides, padding, data_format, name)


def avg_pool(
    value: Any = None,
    ksize: Any = None,
    strides: Any = None,
    padding: Any = None,
    data_format: str = "NHWC",
    name: str | None = None,
    input: Any = None,
) -> Any:
    """The mean of every window of images, of what is inside the image; see `max_pool`."""
    return _pool("AvgPool", 2, value if input is None else input, ksize, strides, padding, data_format, name)


def _of(kind: str, sides: int, form: str) -> Callable[..., Any]:
    def call(
        input: Any, ksize: Any, strides: Any, padding: Any, data_format: str = form, name: str | None = None
    ) -> Any:
        return _pool(kind, sides, input, ksize, strides, padding, data_format, name)

    what = "largest element" if kind == "MaxPool" else "mean"
    call.__doc__ = f"The {what} of every window of {('lines', 'images', 'volumes')[sides - 1]}; see `max_pool`."
    return call


max_pool1d, avg_pool1d = _of("MaxPool", 1, "NWC"), _of("AvgPool", 1, "NWC")
max_pool2d, avg_pool2d = _of("MaxPool", 2, "NHWC"), _of("AvgPool", 2, "NHWC")
max_pool3d, avg_pool3d = _of("MaxPool", 3, "NDHWC"), _of("AvgPool", 3, "NDHWC")


def pool(
    input: Any,
    window_shape: Sequence[int],
    pooling_type: str,
    padding: str,
    dilation_rate: Any = None,
    strides: Any = None,
    name: str | None = None,
    data_format: str | None = None,
    dilations: Any = None,
) -> Any:
    """The largest element of every window, or the mean.

    Args:
        input: lines, images or volumes, with an axis for rows and one for channels.
        window_shape: the sizes of the window.
        pooling_type: "MAX" or "AVG".
        padding: "SAME" or "VALID".
        dilation_rate, dilations: how far the places of a window are apart.
        strides: how far it moves; not with a dilation.
        name: the operation's.
        data_format: "NC" and so on if channels come first.

    >>> from unspool import tf1 as tf
    >>> tf.nn.pool(tf.zeros([2, 5, 3]), [2], "MAX", "VALID").shape
    TensorShape([2, 4, 3])
    """
    kinds = {"MAX": "MaxPool", "AVG": "AvgPool"}
    if pooling_type not in kinds:
        raise ValueError(f"pooling_type must be MAX or AVG, but is {pooling_type!r}")
    sides = len(window_shape)
    if sides not in (1, 2, 3):
        raise ValueError(f"Input must have 1, 2 or 3 spatial dimensions, but window_shape is {window_shape}")
    apart = dilation_rate if dilations is None else dilations
    moves = [1] * sides if strides is None else list(strides)
    if apart is not None and any(each > 1 for each in apart):
        if any(each > 1 for each in moves):
            raise ValueError("strides > 1 not supported in conjunction with dilation_rate > 1")
        if padding == "SAME":
            raise ValueError("pooling with 'SAME' padding is not implemented for `dilation_rate` > 1")
    own = name or f"{pooling_type.lower()}_pool"
    return _pool(kinds[pooling_type], sides, input, list(window_shape), moves, padding, data_format, own, apart)


def _pool(
    kind: str,
    sides: int,
    value: Any,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str | None,
    name: str | None,
    dilations: Any = None,
) -> Any:
    given = as_tensor(value)
    check_takes(kind, given, FRACTIONS)
    how = Images(kind, sides, data_format)
    window, moves = how.each(ksize, "ksize"), how.each(strides, "strides")
    apart = how.each(1 if dilations is None else dilations, "dilation_rate")
    zeros = how.padding(padding)
    how.check_rank(given)
    sizes = how.sizes(given.dims, tuple(window), moves, apart, zeros)
    dims = how.shape(given.dims, sizes, how.channels(given.dims))

    def compute(x: torch.Tensor) -> torch.Tensor:
        images = how.first(x)
        around = how.around(zeros, images.shape[2:], window, moves, apart)
        if kind == "MaxPool":
            wide = padded(images, around, float("-inf"))
            return how.last(_MAX[sides](wide, window, moves, 0, apart))
        return how.last(_mean(images, around, window, moves, apart))

    return apply(kind, compute, given, name=name, outputs=[(given.dtype, dims)])


def _mean(
    images: torch.Tensor,
    around: Sequence[tuple[int, int]],
    window: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> torch.Tensor:
    """The mean over every window of what is in the image: of sums, by how many they are of."""
    if all(each == 1 for each in dilations):
        means = _MEAN[len(window)](padded(images, around, 0.0), window, strides)
        if not any(map(any, around)):
            return means
        inside = padded(torch.ones_like(images[:1, :1]), around, 0.0)
        return means / _MEAN[len(window)](inside, window, strides)
    spans = [n - (k - 1) * d for n, k, d in zip(images.shape[2:], window, dilations, strict=True)]
    places = [
        tuple(slice(o * d, o * d + n) for o, d, n in zip(offset, dilations, spans, strict=True))
        for offset in product(*map(range, window))
    ]
    return torch.stack([images[(..., *place)] for place in places]).mean(0)


def local_response_normalization(
    input: Any,
    depth_radius: int = 5,
    bias: float = 1.0,
    alpha: float = 1.0,
    beta: float = 0.5,
    name: str | None = None,
) -> Any:
    """`input / (bias + alpha * squares) ** beta`, with the sum of squares of up to `depth_radius` channels either side.

    >>> from unspool import tf1 as tf
    >>> tf.nn.local_response_normalization(tf.zeros([1, 2, 2, 3])).shape
    TensorShape([1, 2, 2, 3])
    """
    given = as_tensor(input)
    check_takes("LRN", given, FRACTIONS)
    if given.dims is not None and len(given.dims) != 4:
        raise ValueError(f"LRN: Shape must be rank 4 but is rank {len(given.dims)}: {described(given.dims)}")
    dims = (None,) * 4 if given.dims is None else given.dims

    def compute(x: torch.Tensor) -> torch.Tensor:
        if x.dim() != 4:
            raise ValueError(f"in must be 4-dimensional, but is {list(x.shape)}")
        squares = F.pad(x.square(), (depth_radius, depth_radius))
        sums = squares.unfold(-1, 2 * depth_radius + 1, 1).sum(-1)
        return x / (bias + alpha * sums) ** beta

    return apply("LRN", compute, given, name=name, outputs=[(given.dtype, dims)])


lrn = local_response_normalization
