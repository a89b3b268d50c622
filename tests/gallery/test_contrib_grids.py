"""The cells of TensorFlow's contrib for spectrograms and images against their equations."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from tests.gallery.cases import Case, Weights, arguments_are_checked, each_of, normal, sigmoid, vectors
from unspool.gallery import (
    BidirectionalGridLSTMCell,
    Conv1DLSTMCell,
    Conv2DLSTMCell,
    Conv3DLSTMCell,
    GridLSTMCell,
    TimeFreqLSTMCell,
    contrib,
)

UNITS, FEATURE, SKIP = 3, 2, 2


def time_frequency(w: Weights, x: Any, state: Any) -> Any:
    below, states = np.zeros(UNITS), []
    for k in range(3):
        c, h = state[2 * k * UNITS : (2 * k + 1) * UNITS], state[(2 * k + 1) * UNITS : (2 * k + 2) * UNITS]
        kernel = np.concatenate([w["W_0"], w["W_1"]]) if "W_1" in w else w["W_0"]
        i, j, f, o = np.split(np.concatenate([x[k * SKIP : k * SKIP + FEATURE], h, below]) @ kernel + w["B"], 4)
        f, i = sigmoid(f + 1 + w.get("W_F_diag", 0) * c), sigmoid(i + w.get("W_I_diag", 0) * c)
        c = np.clip(f * c + i * np.tanh(j), -0.4, 0.4)
        below = sigmoid(o + w.get("W_O_diag", 0) * c) * np.tanh(c)
        states += [c, below]
    return np.concatenate(states[1::2]), np.concatenate(states)


def grid(starts: list[list[int]], way: str = "", *, peepholes: bool, shared: bool, coupled: bool, down: int = 0) -> Any:
    """A direction of a grid: memories and outputs of time in a list, in and out."""

    def run(w: Weights, x: Any, states: Any) -> Any:
        left, outputs, new = list(states), [], []
        for block, places in enumerate(starts):
            c_f = h_f = np.zeros(UNITS)
            for place in places:
                c_t, h_t = left.pop(0), left.pop(0)
                rows = np.concatenate([x[place : place + FEATURE], h_t, h_f])
                memories, sums = {}, {}
                for kind, old in (("freq", c_f), ("time", c_t)):
                    of = "freq" if shared else kind
                    see = _seeing(w, way, of, block, c_f, c_t) if peepholes else lambda _: 0
                    gates = rows @ w[f"{way}W_{of[0]}_{block}_0"] + w[f"{way}B_{of[0]}_{block}"]
                    i, j, *rest = np.split(gates, 3 if coupled else 4)
                    i = sigmoid(i + see("I"))
                    f = 1 - i if coupled else sigmoid(rest[0] + 1 + see("F"))
                    memories[kind], sums[kind] = np.clip(f * old + i * np.tanh(j), -0.4, 0.4), (of, rest[-1])
                made = {}
                for kind, (of, o) in sums.items():
                    see = _seeing(w, way, of, block, memories["freq"], memories["time"]) if peepholes else lambda _: 0
                    made[kind] = sigmoid(o + see("O")) * np.tanh(memories[kind])
                c_f, h_f = memories["freq"], made["freq"]
                outputs += [made["time"], made["freq"]]
                new += [memories["time"], made["time"]]
        return outputs, new

    return run


def _seeing(w: Weights, way: str, of: str, block: int, c_f: Any, c_t: Any) -> Any:
    return lambda gate: sum(w[f"{way}W_{gate}_diag_{of}{by}_{block}"] * c for by, c in (("f", c_f), ("t", c_t)))


def one_way(starts: list[list[int]], **how: bool) -> Any:
    run = grid(starts, **how)

    def step(w: Weights, x: Any, state: Any) -> Any:
        outputs, new = run(w, x, state if isinstance(state, tuple) else np.split(state, len(state) // UNITS))
        return np.concatenate(outputs), type(state)(*new) if isinstance(state, tuple) else np.concatenate(new)

    return step


def both_ways(starts: list[list[int]], offset: int) -> Any:
    how = dict(peepholes=False, shared=False, coupled=False)
    up = grid(starts, "fwd_", **how)
    down = grid([[place + max(offset, 0) for place in reversed(block)] for block in starts], "bwd_", **how)

    def step(w: Weights, x: Any, state: Any) -> Any:
        outputs, new = up(w, x, state[: len(state) // 2])
        others, last = down(w, np.pad(x, (max(-offset, 0), max(offset, 0))), state[len(state) // 2 :])
        return np.concatenate(outputs + others), type(state)(*new, *last)

    return step


def conv_lstm(w: Weights, x: Any, state: Any) -> Any:
    """The sum over every shift of the image, zeros beyond its sides, of its pixels times the kernel's at that shift."""
    c, h = state
    kernel, image = w["kernel"], np.concatenate([x, h], -1)
    sizes = kernel.shape[:-2]
    padded = np.pad(image, [*(((size - 1) // 2, size // 2) for size in sizes), (0, 0)])
    sums = w.get("biases", 0)
    for shift in product(*map(range, sizes)):
        window = tuple(slice(s, s + n) for s, n in zip(shift, image.shape[:-1], strict=True))
        sums = sums + padded[window] @ kernel[shift]
    i, j, f, o = np.split(sums, 4, -1)
    c = sigmoid(f + 1) * c + sigmoid(i) * np.tanh(j)
    h = np.tanh(c) * sigmoid(o)
    return (np.concatenate([h, x], -1) if "biases" not in w else h), (c, h)


def images(*sizes: int) -> Any:
    return lambda batch, steps: normal(batch, steps, *sizes)


def built(cell: Any, size: Any) -> Any:
    cell.build(size)
    return cell


WIDE = dict(cell_clip=0.4, feature_size=FEATURE, frequency_skip=SKIP)
ONE, TWO = [[0, 2, 4]], [[0, 2], [3]]
TWO_BLOCKS = dict(num_frequency_blocks=[2, 1], start_freqindex_list=[0, 3], end_freqindex_list=[4, 6])
CASES = {
    "time_frequency": Case(lambda: TimeFreqLSTMCell(UNITS, True, input_size=6, **WIDE), vectors(6), time_frequency),
    "time_frequency_shards": Case(
        lambda: TimeFreqLSTMCell(UNITS, num_unit_shards=2, input_size=6, **WIDE), vectors(6), time_frequency
    ),
    "grid": Case(
        lambda: GridLSTMCell(UNITS, True, num_frequency_blocks=[3], input_size=6, **WIDE),
        vectors(6),
        one_way(ONE, peepholes=True, shared=False, coupled=False),
    ),
    "grid_shared": Case(
        lambda: GridLSTMCell(UNITS, True, True, couple_input_forget_gates=True, input_size=6, **TWO_BLOCKS, **WIDE),
        vectors(6),
        one_way(TWO, peepholes=True, shared=True, coupled=True),
    ),
    "grid_one_tensor": Case(
        lambda: GridLSTMCell(UNITS, num_frequency_blocks=[3], state_is_tuple=False, input_size=6, **WIDE),
        vectors(6),
        one_way(ONE, peepholes=False, shared=False, coupled=False),
    ),
    "grid_both_ways": Case(
        lambda: BidirectionalGridLSTMCell(UNITS, backward_slice_offset=1, input_size=6, **TWO_BLOCKS, **WIDE),
        vectors(6),
        both_ways(TWO, 1),
    ),
    "grid_both_ways_lower": Case(
        lambda: BidirectionalGridLSTMCell(
            UNITS, backward_slice_offset=-1, num_frequency_blocks=[3], input_size=6, **WIDE
        ),
        vectors(6),
        both_ways(ONE, -1),
    ),
    "conv_1d": Case(
        lambda: built(Conv1DLSTMCell(input_shape=[5, 2], output_channels=3, kernel_shape=[3]), torch.Size([5, 2])),
        images(5, 2),
        conv_lstm,
    ),
    "conv_2d": Case(
        lambda: built(
            Conv2DLSTMCell(
                input_shape=[4, 3, 2], output_channels=2, kernel_shape=[2, 3], use_bias=False, skip_connection=True
            ),
            torch.Size([4, 3, 2]),
        ),
        images(4, 3, 2),
        conv_lstm,
    ),
    "conv_narrow": Case(
        lambda: built(
            Conv2DLSTMCell(input_shape=[5, 1, 1], output_channels=1, kernel_shape=[3, 1]), torch.Size([5, 1, 1])
        ),
        images(5, 1, 1),
        conv_lstm,
    ),
    "conv_3d": Case(
        lambda: built(
            Conv3DLSTMCell(input_shape=[2, 3, 2, 1], output_channels=2, kernel_shape=[1, 3, 3]),
            torch.Size([2, 3, 2, 1]),
        ),
        images(2, 3, 2, 1),
        conv_lstm,
    ),
}

test_equals_its_equations, test_equals_the_plain_loop, test_is_planned = each_of(CASES)


test_arguments_are_checked = arguments_are_checked(
    [
        (lambda: GridLSTMCell(3, **WIDE), "Must specify num_frequency_blocks"),
        (
            lambda: GridLSTMCell(3, num_frequency_blocks=[2], input_size=6, **WIDE),
            "Invalid num_frequency_blocks, requires 2 but gets 3",
        ),
        (
            lambda: GridLSTMCell(3, num_frequency_blocks=[1, 2], input_size=6, **WIDE),
            "Length of num_frequency_blocks is not 1, but instead is 2",
        ),
        (
            lambda: GridLSTMCell(3, input_size=6, **{**TWO_BLOCKS, "end_freqindex_list": [4]}, **WIDE),
            "Length of start and end freqindex_list does not match 2 1",
        ),
        (
            lambda: GridLSTMCell(3, input_size=6, **{**TWO_BLOCKS, "num_frequency_blocks": [3]}, **WIDE),
            "Length of num_frequency_blocks is not equal to start_freqindex_list 1 2",
        ),
        (lambda: TimeFreqLSTMCell(3, feature_size=4, input_size=3), "feature_size is 4, but inputs have depth 3"),
        (lambda: contrib.ConvLSTMCell(2, [4, 1], 3, [3, 3]), r"Invalid input_shape \[4, 1\] for conv_ndims=2"),
        (lambda: contrib.ConvLSTMCell(2, [4, 4, 1], 3, [3]), r"Invalid kernel_shape \[3\] for conv_ndims=2"),
        (lambda: contrib.ConvLSTMCell(4, [4, 4, 4, 4, 1], 3, [3] * 4), "conv_ndims must be 1, 2 or 3, but is 4"),
        (
            lambda: built(contrib.ConvLSTMCell(1, [4, 1], 3, [3]), torch.Size([4, 2])),
            r"inputs have rows \[4, 2\], but input_shape is \[4, 1\]",
        ),
    ]
)


@pytest.mark.parametrize("name", ["grid", "conv_2d"])
def test_a_cell_is_made_again_from_its_config(name: str) -> None:
    cell = CASES[name].make()
    other = type(cell).from_config(cell.get_config())
    assert other.state_size == cell.state_size
    assert other.output_size == cell.output_size
