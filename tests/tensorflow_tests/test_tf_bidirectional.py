"""TensorFlow's `rnn_cell_test.py`, `BidirectionalRNNTest`: two cells from both ends."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from tests.tensorflow_tests.comparing import assert_same
from tests.tensorflow_tests.scopes import profiler_ranges, scopes
from tests.tensorflow_tests.toy_cells import fill_all
from unspool import (
    GRUCell,
    LSTMCell,
    LSTMStateTuple,
    bidirectional_dynamic_rnn,
    dynamic_rnn,
    static_bidirectional_rnn,
    tf_variables,
)

TIME, DEPTH, UNITS = 8, 5, 3


def twins(**options):
    """Two cells with equal weights: on inputs that do not change with time, backwards is forwards mirrored."""
    return [fill_all(LSTMCell(UNITS, input_size=DEPTH, dtype=torch.float64, **options), seed=1) for _ in range(2)]


def assert_mirrored(outputs_fw, outputs_bw, lengths):
    """Each time-major row of one, read backwards within its length, is the other's; and it changes with time."""
    for row, length in enumerate(lengths):
        assert_same(outputs_bw[:length, row].flip(0), outputs_fw[:length, row])
        assert not outputs_fw[length:, row].any()
        assert not outputs_bw[length:, row].any()
        steps = outputs_fw[:length, row]
        assert (steps[1:] - steps[:-1]).abs().max() > 1e-3


@pytest.mark.parametrize("batch_size", [2, 5])
def test_bidirectional_rnn(batch_size):
    lengths = [2, 3, 8, 5, 4][:batch_size]
    step = torch.randn(batch_size, DEPTH, dtype=torch.float64)
    outputs, state_fw, state_bw = static_bidirectional_rnn(
        *twins(), [step] * TIME, dtype=torch.float64, sequence_length=lengths
    )
    assert [output.shape for output in outputs] == [(batch_size, 2 * UNITS)] * TIME
    assert_mirrored(*torch.stack(outputs).chunk(2, 2), lengths)
    assert isinstance(state_fw, LSTMStateTuple)
    assert_same(state_bw, state_fw)


@pytest.mark.parametrize("batch_size", [2, 5])
def test_bidirectional_rnn_without_sequence_length(batch_size):
    step = torch.randn(batch_size, DEPTH, dtype=torch.float64)
    outputs, state_fw, state_bw = static_bidirectional_rnn(*twins(), [step] * TIME, dtype=torch.float64)
    assert [output.shape for output in outputs] == [(batch_size, 2 * UNITS)] * TIME
    assert_mirrored(*torch.stack(outputs).chunk(2, 2), [TIME] * batch_size)
    assert_same(state_bw, state_fw)


@pytest.mark.parametrize(
    ("state_is_tuple", "time_major", "with_lengths", "built_before"),
    list(product([False, True], repeat=4)),
    ids=lambda flag: "YN"[not flag],
)
def test_bidirectional_dynamic_rnn(state_is_tuple, time_major, with_lengths, built_before):
    cell_fw, cell_bw = twins(state_is_tuple=state_is_tuple)
    if not built_before:  # TensorFlow's combination of unknown shapes: the cells learn them from the first inputs
        built = (cell_fw, cell_bw)
        cell_fw, cell_bw = (LSTMCell(UNITS, dtype=torch.float64, state_is_tuple=state_is_tuple) for _ in built)
        for cell, like in zip((cell_fw, cell_bw), built, strict=True):
            cell.load_state_dict(like.state_dict())
    lengths = [2, 3] if with_lengths else None
    step = torch.randn(2, DEPTH, dtype=torch.float64)
    inputs = step.expand(TIME, 2, DEPTH) if time_major else step[:, None].expand(2, TIME, DEPTH)
    (fw, bw), (state_fw, state_bw) = bidirectional_dynamic_rnn(
        cell_fw, cell_bw, inputs, lengths, dtype=torch.float64, time_major=time_major
    )
    assert fw.shape == bw.shape == ((TIME, 2, UNITS) if time_major else (2, TIME, UNITS))
    assert_mirrored(*(out if time_major else out.transpose(0, 1) for out in (fw, bw)), lengths or [TIME] * 2)
    assert_same(state_bw, state_fw)
    if state_is_tuple:
        assert isinstance(state_bw, LSTMStateTuple)
    else:
        assert state_bw.shape == (2, 2 * UNITS)


def test_bidirectional_dynamic_rnn_backwards_is_a_run_from_the_end():
    cell_fw, cell_bw = twins()
    fill_all(cell_bw, seed=2)
    inputs = torch.randn(2, TIME, DEPTH, dtype=torch.float64)
    (fw, bw), (_, state_bw) = bidirectional_dynamic_rnn(cell_fw, cell_bw, inputs, [3, TIME], dtype=torch.float64)
    assert_same(fw, dynamic_rnn(cell_fw, inputs, [3, TIME], dtype=torch.float64)[0])
    for row, length in enumerate([3, TIME]):
        reversed_row = inputs[row : row + 1, :length].flip(1)
        expected, state = dynamic_rnn(cell_bw, reversed_row, dtype=torch.float64)
        assert_same(bw[row : row + 1, :length], expected.flip(1))
        assert_same(state_bw.c[row], state.c[0])


@scopes(default="bidirectional_rnn")
def test_bidirectional_rnn_scope(scope, prefix):
    cell_fw, cell_bw = twins()
    steps = [torch.zeros(2, DEPTH, dtype=torch.float64)] * 2
    ranges = profiler_ranges(lambda: static_bidirectional_rnn(cell_fw, cell_bw, steps, dtype="float64", scope=scope))
    assert {f"{prefix}/fw", f"{prefix}/bw"} <= ranges
    names = [*tf_variables(cell_fw, scope=f"{prefix}/fw"), *tf_variables(cell_bw, scope=f"{prefix}/bw")]
    assert names == [f"{prefix}/{way}/lstm_cell/{weight}" for way in ("fw", "bw") for weight in ("kernel", "bias")]


@scopes(default="bidirectional_rnn")
@pytest.mark.parametrize("time_major", [False, True])
def test_bidirectional_dynamic_rnn_scope(scope, prefix, time_major):
    cell_fw, cell_bw = GRUCell(UNITS, input_size=DEPTH), GRUCell(UNITS, input_size=DEPTH)
    inputs = torch.zeros(2, 2, DEPTH)
    ranges = profiler_ranges(
        lambda: bidirectional_dynamic_rnn(
            cell_fw, cell_bw, inputs, dtype=torch.float32, time_major=time_major, scope=scope
        )
    )
    assert {f"{prefix}/fw", f"{prefix}/bw"} <= ranges
    assert next(iter(tf_variables(cell_bw, scope=f"{prefix}/bw"))) == f"{prefix}/bw/gru_cell/gates/kernel"
