"""TensorFlow's `rnn_cell_test.py`, `LSTMTest`: projections, shards, clipping, dtypes and shared weights."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from tests.tensorflow_tests.comparing import assert_same
from tests.tensorflow_tests.toy_cells import fill_all
from unspool import BasicLSTMCell, DropoutWrapper, LSTMCell, LSTMStateTuple, dynamic_rnn, static_rnn, tf_variables

BATCH, TIME, DEPTH, UNITS, PROJECTED = 2, 8, 5, 3, 4


def small(weight):
    """TensorFlow's initialiser in these tests: uniform within 0.01."""
    nn.init.uniform_(weight, -0.01, 0.01)


def random_steps(dtype=torch.float32, batch_size=BATCH, time=TIME):
    generator = torch.Generator().manual_seed(0)
    return list(torch.randn(time, batch_size, DEPTH, dtype=torch.float64, generator=generator).to(dtype))


@pytest.mark.parametrize("make_cell", [BasicLSTMCell, LSTMCell])
def test_dtype(make_cell):
    assert {weight.dtype for weight in make_cell(2, input_size=4).parameters()} == {torch.float32}
    for dtype in (torch.float16, torch.float32, torch.float64):
        cell = make_cell(2, dtype=dtype)
        output, state = cell(torch.ones(1, 4, dtype=dtype), cell.zero_state(1, dtype))
        assert {weight.dtype for weight in cell.parameters()} == {dtype}
        assert output.dtype == state.dtype == dtype


def test_no_proj_no_sharding():
    cell = LSTMCell(UNITS, initializer=small, state_is_tuple=False)
    outputs, state = static_rnn(cell, random_steps(), dtype=torch.float32)
    assert [output.shape for output in outputs] == [(BATCH, UNITS)] * TIME
    assert state.shape == (BATCH, 2 * UNITS)
    assert torch.equal(state[:, UNITS:], outputs[-1])  # c first, then h


def test_proj_no_sharding():
    cell = LSTMCell(UNITS, use_peepholes=True, initializer=small, num_proj=PROJECTED, state_is_tuple=False)
    for batch_size in (BATCH, 7):  # the batch is not part of the cell
        outputs, state = static_rnn(cell, random_steps(batch_size=batch_size), dtype=torch.float32)
        assert [output.shape for output in outputs] == [(batch_size, PROJECTED)] * TIME
        assert state.shape == (batch_size, UNITS + PROJECTED)


def test_proj_sharding():
    cell = LSTMCell(
        UNITS,
        use_peepholes=True,
        initializer=small,
        num_proj=PROJECTED,
        num_unit_shards=2,
        num_proj_shards=3,
        state_is_tuple=False,
    )
    outputs, _ = static_rnn(cell, random_steps(), dtype=torch.float32)
    assert outputs[-1].shape == (BATCH, PROJECTED)
    assert {name: tuple(weight.shape) for name, weight in tf_variables(cell).items()} == {
        "rnn/lstm_cell/kernel/part_0": (5, 12),  # rows are divided, the first parts longer
        "rnn/lstm_cell/kernel/part_1": (4, 12),
        "rnn/lstm_cell/bias": (12,),
        "rnn/lstm_cell/w_f_diag": (3,),
        "rnn/lstm_cell/w_i_diag": (3,),
        "rnn/lstm_cell/w_o_diag": (3,),
        "rnn/lstm_cell/projection/kernel/part_0": (1, 4),
        "rnn/lstm_cell/projection/kernel/part_1": (1, 4),
        "rnn/lstm_cell/projection/kernel/part_2": (1, 4),
    }


def test_shard_no_shard_equivalent_output():
    options = {"use_peepholes": True, "num_proj": PROJECTED, "dtype": torch.float64, "input_size": DEPTH}
    whole = fill_all(LSTMCell(UNITS, **options), seed=1)
    sharded = LSTMCell(UNITS, num_unit_shards=2, num_proj_shards=3, **options)
    checkpoint, parts = tf_variables(whole), tf_variables(sharded)
    assert len(parts) == len(checkpoint) + 3
    with torch.no_grad():  # a checkpoint is loaded piece by piece, straight into the cell
        for name, value in checkpoint.items():
            pieces = [part for key, part in parts.items() if key == name or key.startswith(f"{name}/part_")]
            for piece, rows in zip(pieces, value.split([len(piece) for piece in pieces]), strict=True):
                piece.copy_(rows)
    steps = random_steps(torch.float64)
    assert_same(static_rnn(sharded, steps, dtype="float64"), static_rnn(whole, steps, dtype="float64"), atol=0)


def test_cell_clipping():
    cell = LSTMCell(UNITS, use_peepholes=True, cell_clip=0.0, initializer=nn.init.ones_)
    outputs, state = static_rnn(cell, random_steps(), dtype=torch.float32)
    assert all(torch.equal(output, torch.zeros(BATCH, UNITS)) for output in outputs)
    assert torch.equal(state.c, torch.zeros(BATCH, UNITS))
    free = LSTMCell(UNITS, use_peepholes=True, initializer=nn.init.ones_)
    assert static_rnn(free, random_steps(), dtype=torch.float32)[0][0].abs().min() > 0


@pytest.mark.parametrize("loop", ["static", "dynamic"])
def test_state_tuple_with_proj_and_sequence_length(loop):
    options = {"use_peepholes": True, "num_proj": PROJECTED, "dtype": torch.float64, "input_size": DEPTH}
    tupled = fill_all(LSTMCell(UNITS, **options), seed=2)
    concatenated = fill_all(LSTMCell(UNITS, state_is_tuple=False, **options), seed=2)
    results = []
    for cell in (tupled, concatenated):
        steps = random_steps(torch.float64)
        if loop == "static":
            outputs, state = static_rnn(cell, steps, dtype=torch.float64, sequence_length=[4, 6])
            results.append((torch.stack(outputs), state))
        else:
            results.append(dynamic_rnn(cell, torch.stack(steps), [4, 6], dtype=torch.float64, time_major=True))
    (outputs, state), (other_outputs, other_state) = results
    assert_same(other_outputs, outputs)
    assert_same(other_state, torch.hstack([*state]))


def test_double_input():
    cell = LSTMCell(UNITS, initializer=small, num_proj=PROJECTED, state_is_tuple=False)
    start = cell.zero_state(BATCH, torch.float64)
    outputs, state = static_rnn(cell, random_steps(torch.float64), initial_state=start)
    assert {weight.dtype for weight in cell.parameters()} == {torch.float64}
    assert {tensor.dtype for tensor in (*outputs, state)} == {torch.float64}
    # float32 anywhere on the way would leave 1e-8 of these values of about 1e-2
    single = copy.deepcopy(cell).float()
    again, _ = static_rnn(single, random_steps(), dtype=torch.float32)
    assert 0 < (again[-1] - outputs[-1]).abs().max() < 1e-6


def test_double_input_with_dropout_and_dynamic_calculation():
    cell = DropoutWrapper(LSTMCell(UNITS, initializer=small, num_proj=PROJECTED), input_keep_prob=0.5, seed=0)
    start = cell.zero_state(BATCH, torch.float64)
    outputs, state = static_rnn(cell, random_steps(torch.float64), initial_state=start, sequence_length=[2, 3])
    assert {tensor.dtype for tensor in (*outputs, *state)} == {torch.float64}
    assert [bool(output[0].any()) for output in outputs] == [True] * 2 + [False] * 6
    assert [bool(output[1].any()) for output in outputs] == [True] * 3 + [False] * 5
    assert torch.equal(state.h, torch.stack([outputs[1][0], outputs[2][1]]))


def test_sharing_weights_with_reuse():
    cell, other = (LSTMCell(UNITS, num_proj=PROJECTED, input_size=DEPTH) for _ in range(2))
    first, second, third = (
        torch.stack(static_rnn(each, random_steps(), dtype=torch.float32)[0]) for each in (cell, cell, other)
    )
    assert torch.equal(first, second)
    assert not torch.allclose(first, third)


@pytest.mark.parametrize("make_cell", [BasicLSTMCell, LSTMCell])
def test_sharing_weights_with_reuse_asks_for_the_same_cell(make_cell):
    with pytest.raises(ValueError, match="use the same cell object"):
        make_cell(UNITS, reuse=True)


def test_sharing_weights_with_different_namescope():
    cell = LSTMCell(UNITS, num_proj=PROJECTED)
    first, _ = static_rnn(cell, random_steps(), dtype=torch.float32, scope="scope_0")
    second, _ = static_rnn(cell, random_steps(), dtype=torch.float32, scope="scope_1")
    assert torch.equal(torch.stack(first), torch.stack(second))
    here, there = tf_variables(cell, scope="scope_0"), tf_variables(cell, scope="scope_1")
    assert [one is other for one, other in zip(here.values(), there.values(), strict=True)] == [True] * 3
    assert set(here).isdisjoint(there)


def test_dynamic_rnn_allows_unknown_time_dimension():
    cell = fill_all(LSTMCell(UNITS, input_size=DEPTH, dtype=torch.float64), seed=3)
    inputs = torch.stack(random_steps(torch.float64, time=6), 1)
    outputs, state = dynamic_rnn(cell, inputs, dtype=torch.float64)
    for time in (1, 4, 6):  # the same cell, however long the sequence: its first steps stay what they are
        head, _ = dynamic_rnn(cell, inputs[:, :time], dtype=torch.float64)
        assert_same(head, outputs[:, :time])
    middle = dynamic_rnn(cell, inputs[:, :2], dtype=torch.float64)[1]
    assert isinstance(middle, LSTMStateTuple)
    assert_same(dynamic_rnn(cell, inputs[:, 2:], initial_state=middle)[1], state)
