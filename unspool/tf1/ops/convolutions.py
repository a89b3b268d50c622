"""Convolutions of lines, images and volumes, with channels last or first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

from unspool.flags import checks_flags
from unspool.tf1.operations import FRACTIONS, apply, as_sizes, as_tensor, check_takes, known_ints, same_dtype
from unspool.tf1.ops.images import Images, same_padding, turned
from unspool.tf1.shapes import Dim, Dims, compatible, described

__all__ = [
    "atrous_conv2d",
    "conv1d",
    "conv2d",
    "conv2d_transpose",
    "conv3d",
    "convolution",
    "depthwise_conv2d",
    "separable_conv2d",
]

_CONVOLUTIONS: dict[int, Callable[..., torch.Tensor]] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


@checks_flags
def conv1d(
    value: Any = None,
    filters: Any = None,
    stride: Any = None,
    padding: Any = None,
    use_cudnn_on_gpu: bool | None = None,
    data_format: str | None = None,
    name: str | None = None,
    input: Any = None,
    dilations: Any = None,
) -> Any:
    """A convolution along one axis.

    Args:
        value, input: `[batch, width, channels]`; "NCW" for `data_format` says that channels come first.
        filters: `[size, channels, outputs]`.
        stride: how far the filter moves.
        padding: "SAME" for zeros around, so that every place has an output; "VALID" for none.
        use_cudnn_on_gpu: accepted.
        data_format: "NWC" or "NCW"; "NHWC" and "NCHW" mean the same.
        name: the operation's.
        dilations: how far the places that a filter sees are apart.

    >>> from unspool import tf1 as tf
    >>> tf.nn.conv1d(tf.zeros([2, 5, 3]), tf.zeros([3, 3, 4]), 1, "SAME").shape
    TensorShape([2, 5, 4])
    """
    given = value if input is None else input
    return _convolve("conv1d", 1, given, filters, stride, padding, data_format, dilations, name)


@checks_flags
def conv2d(
    input: Any,
    filter: Any = None,
    strides: Any = None,
    padding: Any = None,
    use_cudnn_on_gpu: bool = True,
    data_format: str = "NHWC",
    dilations: Any = None,
    name: str | None = None,
    filters: Any = None,
) -> Any:
    """A convolution of images.

    Args:
        input: `[batch, height, width, channels]`; "NCHW" for `data_format` says that channels come first.
        filter, filters: `[height, width, channels, outputs]`.
        strides: how far the filter moves: along all four axes, along both of an image, or one number for these.
        padding: "SAME" for zeros around, so that every place has an output; "VALID" for none; or how many zeros stand
            before and after, for each axis.
        use_cudnn_on_gpu: accepted.
        data_format: "NHWC" or "NCHW".
        dilations: how far the places that a filter sees are apart.
        name: the operation's.

    >>> from unspool import tf1 as tf
    >>> tf.nn.conv2d(tf.zeros([2, 5, 6, 3]), tf.zeros([3, 3, 3, 4]), [1, 2, 2, 1], "SAME").shape
    TensorShape([2, 3, 3, 4])
    """
    kernel = filter if filters is None else filters
    return _convolve("Conv2D", 2, input, kernel, strides, padding, data_format, dilations, name)


def conv3d(
    input: Any,
    filter: Any = None,
    strides: Any = None,
    padding: Any = None,
    data_format: str = "NDHWC",
    dilations: Any = None,
    name: str | None = None,
    filters: Any = None,
) -> Any:
    """A convolution of volumes `[batch, depth, height, width, channels]`; see `conv2d`."""
    kernel = filter if filters is None else filters
    return _convolve("Conv3D", 3, input, kernel, strides, padding, data_format, dilations, name)


def convolution(
    input: Any,
    filter: Any = None,
    padding: Any = None,
    strides: Any = None,
    dilation_rate: Any = None,
    name: str | None = None,
    data_format: str | None = None,
    filters: Any = None,
    dilations: Any = None,
) -> Any:
    """A convolution of lines, images or volumes, by how many axes the input has."""
    kernel, given = as_tensor(filter if filters is None else filters), as_tensor(input)
    sides = [len(each.dims) - 2 for each in (given, kernel) if each.dims is not None]
    if not sides or sides[0] not in (1, 2, 3):
        raise ValueError(f"convolution: input must have 3 to 5 axes, but has shape {described(given.dims)}")
    rate = dilation_rate if dilations is None else dilations
    return _convolve("convolution", sides[0], given, kernel, strides or 1, padding, data_format, rate, name)


def atrous_conv2d(value: Any, filters: Any, rate: int, padding: Any, name: str | None = None) -> Any:
    """A convolution of images whose filter sees places that are `rate` apart."""
    if rate < 1:
        raise ValueError(f"rate {rate} cannot be less than one")
    return _convolve("atrous_conv2d", 2, value, filters, 1, padding, "NHWC", rate, name)


def depthwise_conv2d(
    input: Any,
    filter: Any = None,
    strides: Any = None,
    padding: Any = None,
    rate: Any = None,
    name: str | None = None,
    data_format: str | None = None,
    dilations: Any = None,
) -> Any:
    """A convolution of each channel by itself, with filters `[height, width, channels, multiplier]`."""
    apart = rate if dilations is None else dilations
    return _convolve("depthwise", 2, input, filter, strides, padding, data_format, apart, name, depthwise=True)


def separable_conv2d(
    input: Any,
    depthwise_filter: Any = None,
    pointwise_filter: Any = None,
    strides: Any = None,
    padding: Any = None,
    rate: Any = None,
    name: str | None = None,
    data_format: str | None = None,
    dilations: Any = None,
) -> Any:
    """`depthwise_conv2d`, then a convolution by a filter `[1, 1, channels * multiplier, outputs]`."""
    pointwise, depthwise = as_tensor(pointwise_filter), as_tensor(depthwise_filter)
    if pointwise.dims is not None and len(pointwise.dims) == 4 and pointwise.dims[:2] not in ((1, 1), (None, None)):
        raise ValueError(f"pointwise_filter must be [1, 1, ...], but is {described(pointwise.dims)}")
    middle = depthwise_conv2d(input, depthwise, strides, padding, rate, None, data_format, dilations)
    return _convolve("separable_conv2d", 2, middle, pointwise, 1, "VALID", data_format, None, name)


def conv2d_transpose(
    value: Any = None,
    filter: Any = None,
    output_shape: Any = None,
    strides: Any = None,
    padding: str = "SAME",
    data_format: str = "NHWC",
    name: str | None = None,
    input: Any = None,
    filters: Any = None,
    dilations: Any = None,
) -> Any:
    """The transpose of `conv2d`: what its gradient is by the input, for an output `value`.

    Args:
        value, input: `[batch, height, width, channels]`.
        filter, filters: `[height, width, outputs, channels]`.
        output_shape: the shape of the result: what a `conv2d` with this filter would make `value` of.
        strides, padding, data_format, dilations, name: see `conv2d`.

    >>> from unspool import tf1 as tf
    >>> tf.nn.conv2d_transpose(tf.zeros([2, 3, 3, 4]), tf.zeros([3, 3, 5, 4]), [2, 6, 6, 5], [1, 2, 2, 1]).shape
    TensorShape([2, 6, 6, 5])
    """
    kind = "conv2d_transpose"
    given, kernel = same_dtype(kind, value if input is None else input, filter if filters is None else filters)
    check_takes(kind, given, FRACTIONS)
    how = Images(kind, 2, data_format)
    moves, apart = how.each(strides, "strides"), how.each(1 if dilations is None else dilations, "dilations")
    zeros = how.padding(padding)
    how.check_rank(given, kernel)
    sizes = as_sizes(output_shape)
    known: list[Dim] = list(known_ints(sizes) or [None] * 4)
    if len(known) != 4:
        raise ValueError(f"output_shape must have four sizes, but is {known}")
    known[0] = given.dims[0] if known[0] is None and given.dims is not None else known[0]
    outputs, inputs = (None, None) if kernel.dims is None else kernel.dims[2:]
    for what, one, other in (("input", how.channels(given.dims), inputs), ("output", known[how.axis], outputs)):
        if not compatible(one, other):
            raise ValueError(f"{what} channels does not match filter's {what} channels, {one} != {other}")

    def compute(x: torch.Tensor, w: torch.Tensor, shape: torch.Tensor) -> torch.Tensor:
        full = how.first(torch.empty(shape.tolist(), dtype=x.dtype, device="meta")).shape
        around = how.around(zeros, full[2:], w.shape[:2], moves, apart)
        grown = [n + before + after for n, (before, after) in zip(full[2:], around, strict=True)]
        weight = turned(w, 3, 2, 0, 1)
        steps = zip(how.first(x).shape[2:], moves, w.shape[:2], apart, strict=True)
        least = [(n - 1) * s + (k - 1) * d + 1 for n, s, k, d in steps]
        extra = [g - n for g, n in zip(grown, least, strict=True)]
        if any(not 0 <= each < s for each, s in zip(extra, moves, strict=True)):
            raise ValueError(
                f"conv2d_transpose: an output of {shape.tolist()} does not belong to inputs {list(x.shape)}"
            )
        made = F.conv_transpose2d(how.first(x), weight, None, moves, 0, extra, 1, apart)
        window = [slice(before, before + n) for n, (before, _) in zip(full[2:], around, strict=True)]
        return how.last(made[:, :, window[0], window[1]])

    return apply(kind, compute, given, kernel, sizes, name=name, outputs=[(given.dtype, tuple(known))])


def _convolve(
    kind: str,
    sides: int,
    value: Any,
    filters: Any,
    strides: Any,
    padding: Any,
    data_format: str | None,
    dilations: Any,
    name: str | None,
    *,
    depthwise: bool = False,
) -> Any:
    given, kernel = same_dtype(kind, value, filters)
    check_takes(kind, given, FRACTIONS)
    how = Images(kind, sides, data_format)
    moves, apart = how.each(strides, "strides"), how.each(1 if dilations is None else dilations, "dilations")
    zeros = how.padding(padding)
    how.check_rank(given, kernel)
    outputs, inputs = _channels(kernel.dims, depthwise)
    channels = how.channels(given.dims)
    if channels is not None and inputs is not None and (channels % inputs if not depthwise else channels != inputs):
        raise ValueError(
            f"{kind}: input depth must be evenly divisible by filter depth: {channels} vs {inputs}, of shapes "
            f"{described(given.dims)} and {described(kernel.dims)}"
        )
    sizes = how.sizes(given.dims, None if kernel.dims is None else kernel.dims[:sides], moves, apart, zeros)

    def compute(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        images = how.first(x)
        around = how.around(zeros, images.shape[2:], w.shape[:sides], moves, apart)
        images, margin = same_padding(images, around)
        weight = turned(w, sides + 1, sides, *range(sides))
        groups = images.shape[1] // max(weight.shape[1], 1)
        if depthwise:
            weight, groups = weight.transpose(0, 1).reshape(-1, 1, *w.shape[:sides]), w.shape[sides]
        if images.shape[1] != weight.shape[1] * groups:
            raise ValueError(f"{kind}: inputs have {images.shape[1]} channels, the filter is for {w.shape[sides]}")
        return how.last(_CONVOLUTIONS[sides](images, weight, None, moves, margin, apart, groups))

    dims: Dims = how.shape(given.dims, sizes, outputs)
    return apply(kind, compute, given, kernel, name=name, outputs=[(given.dtype, dims)])


def _channels(kernel: Dims, depthwise: bool) -> tuple[Dim, Dim]:
    """How many channels come out, and for how many a filter is."""
    if kernel is None:
        return None, None
    inputs, outputs = kernel[-2:]
    if not depthwise:
        return outputs, inputs
    return (None if inputs is None or outputs is None else inputs * outputs), inputs
