"""TensorFlow's `rnn_cell_test.py`, `MultiDimensionalLSTMTest` and `NestedLSTMTest`: states that are no vectors."""

from __future__ import annotations

import pytest
import torch

from tests.tensorflow_tests.comparing import assert_same
from tests.tensorflow_tests.toy_cells import Brick, Pair
from unspool import (
    LSTMStateTuple,
    bidirectional_dynamic_rnn,
    dynamic_rnn,
    static_bidirectional_rnn,
    static_rnn,
    static_state_saving_rnn,
)
from unspool.structure import flatten, map_structure

BATCH, TIME, SHAPE, WIDTH, LENGTHS = 2, 6, (3, 4, 5), 3, [4, 6]


class Saver(dict):
    """A saver of states is a dict with other words."""

    state, save_state = dict.__getitem__, dict.__setitem__


def at(structure, time):
    """One step of time-major inputs or outputs."""
    return map_structure(lambda leaf: leaf[time], structure)


def reversed_rows(structure):
    """The first steps of each time-major row in reverse, as many as it has."""
    order = torch.tensor([[n - 1 - t if t < n else t for n in LENGTHS] for t in range(TIME)])
    return map_structure(lambda leaf: leaf[order, torch.arange(BATCH)], structure)


def check_all_loops(cell, inputs, state_name):
    """Runs `cell` in all loops; they must agree with a plain chain of calls, row by row. Returns one run's results."""
    expected, final = chain(cell, inputs)
    backwards, final_bw = chain(cell, reversed_rows(inputs))
    backwards = reversed_rows(backwards)
    steps = [at(inputs, time) for time in range(TIME)]

    dynamic, state = dynamic_rnn(cell, inputs, LENGTHS, dtype=torch.float64, time_major=True)
    assert_same(dynamic, expected)
    assert_same(state, final)

    static, state = static_rnn(cell, steps, dtype=torch.float64, sequence_length=LENGTHS)
    assert_same(static, [at(expected, time) for time in range(TIME)])
    assert_same(state, final)

    both, state_fw, state_bw = static_bidirectional_rnn(cell, cell, steps, dtype=torch.float64, sequence_length=LENGTHS)
    joined = map_structure(lambda fw, bw: torch.cat([fw, bw], 2), expected, backwards)  # axis 1 of one step
    assert_same(both, [at(joined, time) for time in range(TIME)])
    assert_same((state_fw, state_bw), (final, final_bw))

    saver = Saver(zip(flatten(state_name), flatten(cell.zero_state(BATCH, torch.float64)), strict=True))
    saved, state = static_state_saving_rnn(cell, steps, saver, state_name, sequence_length=LENGTHS)
    assert_same(saved, static)
    assert_same([saver[name] for name in flatten(state_name)], flatten(final))

    # TensorFlow leaves this loop out of its test: there it corrupts nested outputs.
    outputs, states = bidirectional_dynamic_rnn(cell, cell, inputs, LENGTHS, dtype=torch.float64, time_major=True)
    assert_same(outputs, (expected, backwards))
    assert_same(states, (final, final_bw))
    return both, final


def chain(cell, inputs):
    """One row after another, each no longer than it is: time-major outputs, zero past the end, and the final state."""
    rows = []
    for row, length in enumerate(LENGTHS):
        state, outputs = cell.zero_state(1, torch.float64), []
        for time in range(TIME):
            if time < length:
                output, state = cell(map_structure(lambda leaf, t=time, r=row: leaf[t, r : r + 1], inputs), state)
            else:
                output = map_structure(torch.zeros_like, output)
            outputs.append(output)
        rows.append((map_structure(lambda *leaves: torch.stack(leaves), *outputs), state))
    outputs, states = zip(*rows, strict=True)
    return map_structure(lambda *r: torch.cat(r, 1), *outputs), map_structure(lambda *r: torch.cat(r), *states)


def test_multi_dimensional_lstm_all_rnn_containers():
    inputs = torch.randn(TIME, BATCH, *SHAPE, dtype=torch.float64)
    both, state = check_all_loops(Brick(SHAPE), inputs, ("c", "h"))
    assert both[0].shape == (BATCH, 6, 4, 5)
    assert isinstance(state, LSTMStateTuple)
    assert state.c.shape == (BATCH, *SHAPE)


def test_nested_io_lstm_all_rnn_containers():
    inputs = tuple(torch.randn(2, TIME, BATCH, WIDTH, dtype=torch.float64))
    both, state = check_all_loops(Pair(WIDTH), inputs, ("first", "second"))
    assert isinstance(both[0], tuple)
    assert [leaf.shape for leaf in both[0]] == [(BATCH, 2 * WIDTH)] * 2
    assert [leaf.shape for leaf in state] == [(BATCH, WIDTH)] * 2


@pytest.mark.parametrize("time_major", [True, False])
def test_multi_dimensional_lstm_all_rnn_containers_either_major(time_major):
    inputs = torch.randn(TIME, BATCH, *SHAPE, dtype=torch.float64)
    given = inputs if time_major else inputs.transpose(0, 1)
    outputs, _ = dynamic_rnn(Brick(SHAPE), given, LENGTHS, dtype=torch.float64, time_major=time_major)
    assert_same(outputs if time_major else outputs.transpose(0, 1), chain(Brick(SHAPE), inputs)[0])
