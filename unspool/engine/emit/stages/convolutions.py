"""The geometry of a convolution of one row's image: what is copied where, and which taps outputs see."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from unspool.engine.emit.stages.strided import contiguous

AXES = 3
"""Images with fewer have sizes of 1 in front."""
MOST_IMAGES = 16
"""Of one row, that are convolved one by one."""
STRIP = 4
"""Outputs whose filters get their gradients at once."""
NUMBER = 8
"""Bytes of an `int64_t`."""
LINE = 64
"""Bytes of a cache line."""


@dataclass(frozen=True)
class Options:
    """How a filter goes over an image: a number for each axis.

    Args:
        steps: how far apart the places are that it is applied at, the stride.
        padding: zeros on each side of the image.
        dilation: how far apart the pixels are that it sees.
        groups: how many groups channels come in.
        spreads: whether it is the transpose of that: each pixel is added, times the filter, to all places that the
            filter covers. So are transposed convolutions, and the gradients of images.
    """

    steps: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    spreads: bool


@dataclass(frozen=True)
class _Seen:
    """What some of the outputs along an axis see: those from `first` on, `apart` from each other.

    Args:
        first, apart, count: the outputs.
        taps: for each tap that they see, its place in the filter, and the phase and the place in the copy where the
            first of them sees it.
    """

    first: int
    apart: int
    count: int
    taps: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class _Axis:
    """One axis: zeros in front of the image, phases of its copy, the size of each, and what outputs see."""

    before: int
    phases: int
    copied: int
    seen: tuple[_Seen, ...]


def _gathered(outputs: int, taps: int, step: int, padding: int, dilation: int) -> _Axis:
    """Output o sees the pixel `o * step + k * dilation - padding` by its k-th tap."""
    places = tuple((k, k * dilation % step, k * dilation // step) for k in range(taps))
    return _Axis(padding, step, outputs + places[-1][2], (_Seen(0, 1, outputs, places),))


def _spread(outputs: int, taps: int, step: int, padding: int, dilation: int) -> _Axis:
    """Output o sees the pixel `(o + padding - k * dilation) / step`, where that is a whole number."""
    phases: list[tuple[int, int, list[tuple[int, int]]]] = []
    for first in range(min(step, outputs)):
        places = [(k, first + padding - k * dilation) for k in range(taps)]
        whole = [(k, place // step) for k, place in places if place % step == 0]
        phases.append((first, -(-(outputs - first) // step), whole))
    before = -min((place for *_, whole in phases for _, place in whole), default=0)
    seen = [
        _Seen(first, step, count, tuple((k, 0, place + before) for k, place in whole)) for first, count, whole in phases
    ]
    copied = max(each.count + max((place for *_, place in each.taps), default=0) for each in seen)
    return _Axis(before, 1, copied, tuple(seen))


class Geometry:
    """A convolution of one row's image.

    Args:
        image: the shape of the image, channels in front.
        apart: how far apart its elements are along each axis.
        filters: the shape of the filters: outputs, or, if they are spread, channels in front.
        outputs: the shape of what is computed.
        options: how the filters go over the image.
        itemsize: bytes of an element.
    """

    def __init__(
        self,
        image: Sequence[int],
        apart: Sequence[int],
        filters: Sequence[int],
        outputs: Sequence[int],
        options: Options,
        itemsize: int,
    ) -> None:
        self.image, self.outputs, self.options = tuple(image), tuple(outputs), options
        groups, covered = options.groups, math.prod(filters[2:])
        if options.spreads:
            channels, made = filters[0] // groups, filters[1]
            filter_output, filter_channel = covered, made * covered
        else:
            channels, made = filters[1], filters[0] // groups
            filter_output, filter_channel = channels * covered, covered
        along = _spread if options.spreads else _gathered
        sizes = (_three(each, 1) for each in (outputs[1:], filters[2:], options.steps))
        axes = [
            along(*each) for each in zip(*sizes, _three(options.padding, 0), _three(options.dilation, 1), strict=True)
        ]
        copied, phases = [each.copied for each in axes], [each.phases for each in axes]
        # A cache has few places for what is a power of two apart.
        lines = -(-math.prod(copied) * math.prod(phases) * itemsize // LINE) | 1
        plane = lines * LINE // itemsize
        out_apart, tap_apart = _three(contiguous(outputs)[1:], 0), _three(contiguous(filters)[2:], 0)
        numbers = [groups, channels, made, channels * made * covered, filter_output, filter_channel]
        numbers += [*_three(image[1:], 1), apart[0], *_three(apart[1:], 0)]
        numbers += [*(each.before for each in axes), *phases, *copied, plane, math.prod(outputs[1:])]
        parts = list(itertools.product(*(each.seen for each in axes)))
        numbers.append(len(parts))
        self.multiplications, most_taps = 0, 0
        """Of one row."""
        for part in parts:
            taps = list(itertools.product(*(each.taps for each in part)))
            counts, most_taps = [each.count for each in part], max(most_taps, len(taps))
            numbers += [len(taps), *counts, sum(each.first * step for each, step in zip(part, out_apart, strict=True))]
            numbers += [each.apart * step for each, step in zip(part, out_apart, strict=True)]
            for tap in taps:
                phase = _flat([each[1] for each in tap], phases) * math.prod(copied)
                place = sum(each[0] * step for each, step in zip(tap, tap_apart, strict=True))
                numbers += [phase + _flat([each[2] for each in tap], copied), place]
            self.multiplications += len(taps) * math.prod(counts) * groups * channels * made
        self.numbers = tuple(numbers)
        """An `unspool::Convolution` of convolutions.h, one number after another."""
        self.scratch = groups * channels * plane * itemsize + 4 * LINE + channels * most_taps * NUMBER
        """Bytes of the copy, beyond whose end vectors may reach, and of where taps are in it."""
        self.gradient_scratch = STRIP * (math.prod(copied) + LINE) * itemsize
        """Bytes of a copy of some channels of what is computed, laid out like the image's."""


def _three(numbers: Sequence[int], otherwise: int) -> list[int]:
    return [*[otherwise] * (AXES - len(numbers)), *numbers]


def _flat(places: Sequence[int], sizes: Sequence[int]) -> int:
    """Where an element lies, by its place along each axis."""
    return sum(place * step for place, step in zip(places, contiguous(sizes), strict=True))
