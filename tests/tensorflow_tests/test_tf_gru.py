"""TensorFlow's `rnn_cell_test.py`, `GRUTest`: a GRU over sequences."""

from __future__ import annotations

import pytest
import torch

from tests.tensorflow_tests.comparing import assert_same
from tests.tensorflow_tests.scopes import profiler_ranges, scopes
from tests.tensorflow_tests.toy_cells import fill_all
from unspool import GRUCell, dynamic_rnn, static_rnn, tf_variables


@pytest.mark.parametrize("draw", range(3))
def test_dynamic(draw):
    generator = torch.Generator().manual_seed(draw)
    inputs = torch.randn(6, 8, 5, dtype=torch.float64, generator=generator)
    lengths = torch.randint(0, 9, (6,), generator=generator)
    cell = fill_all(GRUCell(3, input_size=5, dtype=torch.float64), seed=draw)
    outputs, state = dynamic_rnn(cell, inputs, lengths, dtype=torch.float64)
    expected, expected_state = static_rnn(cell, inputs.unbind(1), dtype=torch.float64, sequence_length=lengths)
    assert_same(outputs, torch.stack(expected, 1))
    assert_same(state, expected_state)


@scopes(default="rnn")
def test_dynamic_scope(scope, prefix):
    cell, inputs = GRUCell(3, input_size=5), torch.zeros(2, 4, 5)
    assert prefix in profiler_ranges(lambda: dynamic_rnn(cell, inputs, dtype=torch.float32, scope=scope))
    assert list(tf_variables(cell, scope=prefix)) == [
        f"{prefix}/gru_cell/{name}" for name in ("gates/kernel", "gates/bias", "candidate/kernel", "candidate/bias")
    ]
