"""TensorFlow's `rnn_cell_test.py`, `RNNTest`: a cell over a list of steps."""

from __future__ import annotations

import pytest
import torch

from tests.tensorflow_tests.scopes import profiler_ranges, scopes
from tests.tensorflow_tests.toy_cells import PlusOne
from unspool import DropoutWrapper, LSTMCell, static_rnn, tf_variables


@pytest.fixture
def steps():
    return list(torch.randn(8, 2, 5, generator=torch.Generator().manual_seed(0)))


@pytest.mark.parametrize("lengths", [4, [[4, 4]]], ids=["scalar", "matrix"])
def test_invalid_sequence_length_shape(steps, lengths):
    with pytest.raises(ValueError, match="must be a vector"):
        static_rnn(PlusOne(), steps, dtype=torch.float32, sequence_length=lengths)


def test_rnn(steps):
    outputs, state = static_rnn(PlusOne(), steps, dtype=torch.float32)
    assert isinstance(outputs, list)
    assert len(outputs) == len(steps)
    for output, step in zip(outputs, steps, strict=True):
        assert torch.equal(output, step + 1)
    assert torch.equal(state, torch.full((2, 5), 8.0))


def test_dropout(steps):
    cell = PlusOne()
    # One in a million: that any of the 80 inputs survives is too rare to happen even without the seed.
    dropped = DropoutWrapper(cell, input_keep_prob=1e-6, seed=0)
    assert dict(dropped.named_children()) == {"cell": cell}
    outputs, state = static_rnn(dropped, steps, dtype=torch.float32)
    assert all(torch.equal(output, torch.ones(2, 5)) for output in outputs)
    assert torch.equal(state, torch.full((2, 5), 8.0))


def test_dynamic_calculation(steps):
    outputs, state = static_rnn(PlusOne(), steps, dtype=torch.float32, sequence_length=[2, 3])
    for time, (output, step) in enumerate(zip(outputs, steps, strict=True)):
        for row, length in enumerate([2, 3]):
            assert torch.equal(output[row], step[row] + 1 if time < length else torch.zeros(5))
    assert torch.equal(state, torch.tensor([2.0, 3.0])[:, None].expand(2, 5))


@scopes(default="rnn")
def test_scope(steps, scope, prefix):
    cell = LSTMCell(3, input_size=5)
    assert prefix in profiler_ranges(lambda: static_rnn(cell, steps, dtype=torch.float32, scope=scope))
    assert list(tf_variables(cell, scope=prefix)) == [f"{prefix}/lstm_cell/kernel", f"{prefix}/lstm_cell/bias"]


def test_scope_is_rnn_by_default():
    assert list(tf_variables(LSTMCell(3, input_size=5))) == ["rnn/lstm_cell/kernel", "rnn/lstm_cell/bias"]
