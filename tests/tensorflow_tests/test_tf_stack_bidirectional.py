"""TensorFlow's contrib `rnn_test.py`, `StackBidirectionalRNNTest`: layers that see both directions of the one below.

The inputs do not change with time and both cells of a layer are equal, so in the first layer backwards is forwards
mirrored; the second sees concatenated outputs, forwards first, in which the directions are no longer alike.
"""

from __future__ import annotations

from itertools import product

import pytest
import torch

from tests.tensorflow_tests.comparing import assert_same
from tests.tensorflow_tests.scopes import profiler_ranges, scopes
from tests.tensorflow_tests.toy_cells import fill_all
from unspool import (
    LSTMCell,
    stack_bidirectional_dynamic_rnn,
    stack_bidirectional_rnn,
    static_bidirectional_rnn,
    tf_variables,
)
from unspool.structure import flatten

TIME, DEPTH, LAYERS = 8, 5, (2, 3)


def layers(state_is_tuple=True):
    """The forward cells and the backward cells, equal layer by layer."""

    def cells():
        depths = (DEPTH, 2 * LAYERS[0])
        options = {"state_is_tuple": state_is_tuple, "dtype": torch.float64}
        return [
            fill_all(LSTMCell(units, input_size=depth, **options), seed=units)
            for units, depth in zip(LAYERS, depths, strict=True)
        ]

    return cells(), cells()


def check_layers(outputs, states_fw, states_bw, lengths):
    """What holds for time-major `outputs` of equal cells over inputs that do not change."""
    assert isinstance(states_fw, tuple)
    assert isinstance(states_bw, tuple)
    assert len(states_fw) == len(states_bw) == len(LAYERS)
    assert_same(states_bw[0], states_fw[0])
    upper_fw, upper_bw = (torch.cat(flatten(states[1]), 1) for states in (states_fw, states_bw))
    assert (upper_fw - upper_bw).abs().max() > 1e-3
    fw, bw = outputs.split(LAYERS[-1], 2)
    for row, length in enumerate(lengths):
        assert (fw[:length, row] - bw[:length, row].flip(0)).abs().max() > 1e-3
        assert not outputs[length:, row].any()


def static(inputs, lengths=None, states=(None, None)):
    outputs, *states = stack_bidirectional_rnn(*layers(), list(inputs), *states, "float64", lengths)
    return torch.stack(outputs), *states


def dynamic(inputs, lengths=None, states=(None, None)):
    return stack_bidirectional_dynamic_rnn(*layers(), inputs, *states, "float64", lengths, time_major=True)


def steady(time):
    """The same step, `time` times."""
    return torch.randn(2, DEPTH, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).expand(time, -1, -1)


@pytest.mark.parametrize("lengths", [None, [2, 3]])
def test_stack_bidirectional_rnn(lengths):
    outputs, states_fw, states_bw = static(steady(TIME), lengths)
    assert outputs.shape == (TIME, 2, 2 * LAYERS[-1])
    check_layers(outputs, states_fw, states_bw, lengths or [TIME] * 2)


@pytest.mark.parametrize("lengths", [None, [2, 3]])
def test_stack_bidirectional_rnn_is_one_layer_on_another(lengths):
    steps = list(torch.randn(TIME, 2, DEPTH, dtype=torch.float64))
    outputs, states_fw, states_bw = stack_bidirectional_rnn(*layers(), steps, None, None, "float64", lengths)
    expected = steps
    for k, pair in enumerate(zip(*layers(), strict=True)):
        expected, *states = static_bidirectional_rnn(*pair, expected, None, None, "float64", lengths)
        assert_same([states_fw[k], states_bw[k]], states)
    assert_same(outputs, expected)


@pytest.mark.parametrize("run", [static, dynamic])
def test_stack_bidirectional_rnn_continues_from_initial_states(run):
    """Three steps and two more are five, in the first layer: the second depends on what is yet to come."""
    _, *after_3 = run(steady(3))
    _, *after_5 = run(steady(5))
    _, *after_3_and_2 = run(steady(2), states=[list(states) for states in after_3])
    for continued, whole in zip(after_3_and_2, after_5, strict=True):
        assert_same(continued[0], whole[0])


@pytest.mark.parametrize(
    ("state_is_tuple", "time_major", "with_lengths"), list(product([False, True], repeat=3)), ids=lambda f: "YN"[not f]
)
def test_bidirectional_rnn(state_is_tuple, time_major, with_lengths):
    lengths, inputs = [2, 3] if with_lengths else None, steady(TIME)
    outputs, states_fw, states_bw = stack_bidirectional_dynamic_rnn(
        *layers(state_is_tuple),
        inputs if time_major else inputs.transpose(0, 1),
        dtype=torch.float64,
        sequence_length=lengths,
        time_major=time_major,
    )
    assert outputs.shape == ((TIME, 2, 2 * LAYERS[-1]) if time_major else (2, TIME, 2 * LAYERS[-1]))
    outputs = outputs if time_major else outputs.transpose(0, 1)
    check_layers(outputs, states_fw, states_bw, lengths or [TIME] * 2)
    assert_same(outputs, static(inputs, lengths)[0])


@scopes(default="stack_bidirectional_rnn")
def test_stack_bidirectional_rnn_scope(scope, prefix):
    cells_fw, cells_bw = layers()
    ranges = profiler_ranges(
        lambda: stack_bidirectional_rnn(cells_fw, cells_bw, list(steady(2)), dtype="float64", scope=scope)
    )
    check_names(cells_fw, cells_bw, ranges, [f"{prefix}/cell_{k}" for k in range(2)])


@scopes(default="stack_bidirectional_rnn")
def test_bidirectional_dynamic_rnn_scope(scope, prefix):
    cells_fw, cells_bw = layers()
    ranges = profiler_ranges(
        lambda: stack_bidirectional_dynamic_rnn(cells_fw, cells_bw, steady(2), dtype="float64", scope=scope)
    )
    check_names(cells_fw, cells_bw, ranges, [f"{prefix}/cell_{k}/bidirectional_rnn" for k in range(2)])


def check_names(cells_fw, cells_bw, ranges, scopes):
    """Each layer runs, and its weights are named, in its own scope."""
    for scope, cell_fw, cell_bw in zip(scopes, cells_fw, cells_bw, strict=True):
        assert {f"{scope}/fw", f"{scope}/bw"} <= ranges
        names = [*tf_variables(cell_fw, scope=f"{scope}/fw"), *tf_variables(cell_bw, scope=f"{scope}/bw")]
        assert names == [f"{scope}/{way}/lstm_cell/{weight}" for way in ("fw", "bw") for weight in ("kernel", "bias")]
