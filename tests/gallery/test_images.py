"""Cells of images against their equations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from torch import Tensor

from tests.gallery.cases import Case, Weights, each_of, normal, sigmoid
from unspool.gallery.images import ConvGRUCell, ConvLSTMCell, SpatioTemporalLSTMCell

IMAGE = (4, 3)


def images(batch: int, steps: int) -> Tensor:
    return normal(batch, steps, 2, *IMAGE)


def conv(image: Any, kernel: Any) -> Any:
    """The sum over every shift of the image, with zeros around it, of its pixels times the kernel's at that shift."""
    size = kernel.shape[-1]
    padded = np.pad(image, ((0, 0), (size // 2, size // 2), (size // 2, size // 2)))
    height, width = image.shape[1:]
    shifts = [(i, j) for i in range(size) for j in range(size)]
    parts = [np.tensordot(kernel[:, :, i, j], padded[:, i : i + height, j : j + width], 1) for i, j in shifts]
    return np.sum(parts, axis=0)


def of_x(w: Weights, x: Any) -> Any:
    return conv(x, w["of_x.weight"]) + w["of_x.bias"][:, None, None]


def conv_lstm(peepholes: bool) -> Any:
    def step(w: Weights, x: Any, state: Any) -> Any:
        c, h = state
        pi, pf, po = w["of_c"] if peepholes else np.zeros((3, *c.shape))
        i, f, g, o = np.split(of_x(w, x) + conv(h, w["of_h.weight"]), 4)
        c = sigmoid(f + pf * c) * c + sigmoid(i + pi * c) * np.tanh(g)
        h = sigmoid(o + po * c) * np.tanh(c)
        return h, (c, h)

    return step


def conv_gru(w: Weights, x: Any, h: Any) -> Any:
    z, r, g = np.split(of_x(w, x), 3)
    hz, hr = np.split(conv(h, w["of_h.weight"]), 2)
    z, r = sigmoid(z + hz), sigmoid(r + hr)
    h = (1 - z) * h + z * np.tanh(g + conv(r * h, w["of_reset.weight"]))
    return h, h


def st_lstm(w: Weights, x: Any, state: Any) -> Any:
    c, h, m = state
    i, f, g, i2, f2, g2, o = np.split(of_x(w, x), 7)
    hi, hf, hg, ho = np.split(conv(h, w["of_h.weight"]), 4)
    mi, mf, mg = np.split(conv(m, w["of_m.weight"]), 3)
    c = sigmoid(f + hf) * c + sigmoid(i + hi) * np.tanh(g + hg)
    m = sigmoid(f2 + mf) * m + sigmoid(i2 + mi) * np.tanh(g2 + mg)
    both = np.concatenate([c, m])
    h = sigmoid(o + ho + conv(both, w["of_memories.weight"])) * np.tanh(conv(both, w["mix.weight"]))
    return h, (c, h, m)


CASES = {
    "conv_lstm": Case(lambda: ConvLSTMCell(2, 3, IMAGE), images, conv_lstm(peepholes=True)),
    "conv_lstm_blind": Case(
        lambda: ConvLSTMCell(2, 3, IMAGE, kernel_size=1, peepholes=False), images, conv_lstm(peepholes=False)
    ),
    "conv_gru": Case(lambda: ConvGRUCell(2, 3, IMAGE, kernel_size=5), images, conv_gru),
    "st_lstm": Case(lambda: SpatioTemporalLSTMCell(2, 3, IMAGE), images, st_lstm),
}


test_equals_its_equations, test_equals_the_plain_loop, test_is_planned = each_of(CASES)


@pytest.mark.parametrize("kind", [ConvLSTMCell, ConvGRUCell, SpatioTemporalLSTMCell])
def test_arguments_are_checked(kind: Any) -> None:
    with pytest.raises(ValueError, match="input_channels must be positive, but is 0"):
        kind(0, 3, IMAGE)
    with pytest.raises(ValueError, match="channels must be positive, but is 0"):
        kind(2, 0, IMAGE)
    with pytest.raises(ValueError, match="image_size must be a height and a width, but is 4"):
        kind(2, 3, 4)
    with pytest.raises(ValueError, match=r"image_size\[1\] must be positive, but is 0"):
        kind(2, 3, (4, 0))
    with pytest.raises(ValueError, match="kernel_size must be odd, so that images keep their size, but is 2"):
        kind(2, 3, IMAGE, kernel_size=2)
