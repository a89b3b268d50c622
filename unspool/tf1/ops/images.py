"""The geometry of windows on lines, images and volumes: what convolutions and pooling share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional as F

from unspool.tf1.shapes import Dim, Dims, TensorShape, described
from unspool.tf1.tensor import Tensor

FORMATS = {1: ("NWC", "NCW"), 2: ("NHWC", "NCHW"), 3: ("NDHWC", "NCDHW")}
Padding = str | list[tuple[int, int]]


class Images:
    """How a batch of images lies in memory, and how windows move over it.

    Args:
        kind: the operation, for errors.
        sides: how many axes an image has.
        data_format: TensorFlow's name for the order of axes; channels last if None.
    """

    def __init__(self, kind: str, sides: int, data_format: str | None) -> None:
        self.kind, self.sides = kind, sides
        known = FORMATS[sides] if sides != 1 else (*FORMATS[1], *FORMATS[2])
        if data_format is not None and data_format not in known:
            raise ValueError(f"{kind}: data_format must be one of {', '.join(known)}, but is {data_format!r}")
        self.channels_first = data_format is not None and data_format[1] == "C"
        self.axis = 1 if self.channels_first else sides + 1
        """Where the channels are."""

    # -- on values ---------------------------------------------------------------------------------------------------

    def first(self, x: torch.Tensor) -> torch.Tensor:
        """The images with channels first, as torch has them."""
        return x if self.channels_first else x.movedim(-1, 1)

    def last(self, x: torch.Tensor) -> torch.Tensor:
        """What torch made, with channels where they belong."""
        return x if self.channels_first else x.movedim(1, -1)

    def around(
        self,
        padding: Padding,
        sizes: Sequence[int],
        window: Sequence[int],
        strides: Sequence[int],
        dilations: Sequence[int],
    ) -> list[tuple[int, int]]:
        """How many zeros stand before and after an image, along each axis."""
        if isinstance(padding, list):
            return padding
        if padding == "VALID":
            return [(0, 0)] * self.sides
        found: list[tuple[int, int]] = []
        for n, k, s, d in zip(sizes, window, strides, dilations, strict=True):
            total = max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0)
            found.append((total // 2, total - total // 2))
        return found

    # -- on what is known before ---------------------------------------------------------------------------------------

    def each(self, value: Any, name: str) -> list[int]:
        """A number for each axis of an image, given one number, one for each of these, or one for every axis.

        Raises:
            ValueError: if there are others, or rows and channels have another than 1.
        """
        if isinstance(value, TensorShape):
            value = value.as_list()
        if value is None:
            raise ValueError(f"{self.kind}: {name} must be given")
        found = [int(each) for each in value] if isinstance(value, Sequence) else [int(value)]
        if len(found) == 1:
            found = found * self.sides
        if len(found) == self.sides + 2:
            if found[0] != 1 or found[self.axis] != 1:
                raise ValueError(f"{self.kind}: {name} in the batch and depth dimensions must be 1, but are {found}")
            del found[self.axis], found[0]
        if len(found) != self.sides:
            raise ValueError(
                f"{self.kind}: {name} must have 1, {self.sides} or {self.sides + 2} numbers, but is {value!r}"
            )
        if any(each < 1 for each in found):
            raise ValueError(f"{self.kind}: {name} must be positive, but are {found}")
        return found

    def padding(self, padding: Any) -> Padding:
        """What stands around an image: "SAME", "VALID", or how many zeros on each side."""
        if isinstance(padding, str) and padding.upper() in ("SAME", "VALID"):
            return padding.upper()
        if isinstance(padding, list | tuple) and len(padding) == self.sides + 2:  # pyright: ignore[reportUnknownArgumentType]
            pairs = [(int(before), int(after)) for before, after in padding]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            if any(pairs[0]) or any(pairs[self.axis]):
                raise ValueError(f"{self.kind}: padding of rows and channels must be 0, but is {padding}")
            del pairs[self.axis], pairs[0]
            return pairs
        raise ValueError(f'{self.kind}: padding must be "SAME", "VALID" or a list of pairs, but is {padding!r}')

    def check_rank(self, *tensors: Tensor) -> None:
        """Raises `ValueError` unless all have an axis for rows and one for channels, beside those of an image."""
        for each in tensors:
            if each.dims is not None and len(each.dims) != self.sides + 2:
                raise ValueError(
                    f"{self.kind}: Shape must be rank {self.sides + 2} but is rank {len(each.dims)}: "
                    f"{described(each.dims)}"
                )

    def channels(self, dims: Dims) -> Dim:
        """How many channels there are, if that is known."""
        return None if dims is None else dims[self.axis]

    def sizes(
        self, dims: Dims, window: Dims, strides: Sequence[int], dilations: Sequence[int], padding: Padding
    ) -> list[Dim]:
        """The sizes of an image of outputs, as far as they are known."""
        if dims is None:
            return [None] * self.sides
        start = 2 if self.channels_first else 1
        found: list[Dim] = []
        for place in range(self.sides):
            n, k = dims[start + place], None if window is None else window[place]
            if padding == "SAME":
                found.append(None if n is None else -(-n // strides[place]))
                continue
            extra = sum(padding[place]) if isinstance(padding, list) else 0
            if n is None or k is None:
                found.append(None)
                continue
            left = n + extra - (k - 1) * dilations[place]
            if left < 1:
                raise ValueError(f"{self.kind}: Negative dimension size caused by subtracting {k} from {n}")
            found.append(-(-left // strides[place]))
        return found

    def shape(self, dims: Dims, sizes: Sequence[Dim], channels: Dim) -> tuple[Dim, ...]:
        """The shape of a batch of such images."""
        rows = None if dims is None else dims[0]
        return (rows, channels, *sizes) if self.channels_first else (rows, *sizes, channels)


def same_padding(images: torch.Tensor, around: Sequence[tuple[int, int]]) -> tuple[torch.Tensor, list[int]]:
    """Images, with zeros around them where the sides differ; and how many torch's convolution is to add on each."""
    if all(before == after for before, after in around):
        return images, [before for before, _ in around]
    return padded(images, around, 0.0), [0] * len(around)


def padded(images: torch.Tensor, around: Sequence[tuple[int, int]], value: float) -> torch.Tensor:
    """Images, channels first, with a number around them."""
    if not any(map(any, around)):
        return images
    return F.pad(images, [side for pair in reversed(around) for side in pair], value=value)


def turned(kernel: torch.Tensor, *axes: int) -> torch.Tensor:
    """A kernel with its axes in another order, in memory too.

    Where an axis has one place, torch takes a permuted kernel for contiguous, and then fails in its gradient.
    """
    return kernel.permute(axes).clone(memory_format=torch.contiguous_format)
