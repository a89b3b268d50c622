"""The wrappers of TensorFlow's contrib `rnn_cell_test.py`, with kernels of 0.5, inputs of 1 and states of 0.1."""

from __future__ import annotations

import pytest
import torch

from tests.tensorflow_tests.comparing import assert_all_equal_to, assert_same
from tests.tensorflow_tests.toy_cells import fill_all, fill_kernels
from unspool import (
    EmbeddingWrapper,
    GRUCell,
    HighwayWrapper,
    InputProjectionWrapper,
    LSTMCell,
    OutputProjectionWrapper,
    dynamic_rnn,
    tf_variables,
)


def tenths(width):
    return torch.full((1, width), 0.1)


def built(cell, depth):
    cell.build(depth)
    return fill_kernels(cell)


def test_output_projection_wrapper():
    cell = built(OutputProjectionWrapper(GRUCell(3), 2), 3)
    output, state = cell(torch.ones(1, 3), tenths(3))
    assert cell.output_size == 2
    assert output.shape == (1, 2)
    assert_all_equal_to(output, 0.231907)
    assert_same(state, cell.cell(torch.ones(1, 3), tenths(3))[1], atol=0)
    assert list(tf_variables(cell))[-2:] == [f"rnn/output_projection_wrapper/{name}" for name in ("kernel", "bias")]


def test_input_projection_wrapper():
    cell = built(InputProjectionWrapper(GRUCell(3), num_proj=3), 2)
    output, _ = cell(torch.ones(1, 2), tenths(3))
    assert output.shape == (1, 3)
    assert_all_equal_to(output, 0.154605)
    assert list(tf_variables(cell))[:2] == [f"rnn/input_projection_wrapper/{name}" for name in ("kernel", "bias")]


def test_embedding_wrapper():
    cell = built(EmbeddingWrapper(GRUCell(2), embedding_classes=3, embedding_size=2), 1)
    assert cell.output_size == 2
    output, state = cell(torch.tensor([[1]], dtype=torch.int32), tenths(2))
    assert output.shape == (1, 2)
    assert_all_equal_to(output, 0.17139)
    assert torch.equal(output, state)


def test_embedding_wrapper_with_dynamic_rnn():
    cell = EmbeddingWrapper(LSTMCell(1), embedding_classes=3, embedding_size=2)
    ids = torch.tensor([[[0], [2]], [[1], [2]]])
    outputs, state = dynamic_rnn(cell, ids, sequence_length=[2, 1], dtype=torch.float32)
    assert outputs.shape == (2, 2, 1)
    assert outputs.dtype == state.dtype == cell.embedding.dtype == torch.float32  # of `dtype`, not of the ids
    expected, _ = dynamic_rnn(cell.cell, cell.embedding[ids.squeeze(2)], [2, 1], dtype=torch.float32)
    assert_same(outputs, expected, atol=1e-6)  # a few float32 roundings of numbers below 1
    assert not outputs[1, 1].any()


@pytest.mark.parametrize("coupled", [True, False])
def test_highway_wrapper(coupled):
    cell = fill_all(GRUCell(3, input_size=3, dtype=torch.float64), seed=1)
    # sigmoid(-100) is 4e-44: nothing is carried and everything transformed.
    wrapper = HighwayWrapper(cell, couple_carry_transform_gates=coupled, carry_bias_init=-100.0)
    inputs, state = torch.ones(1, 3, dtype=torch.float64), tenths(3).double()
    output, new_state = wrapper(inputs, state)
    expected, expected_state = cell(inputs, state)
    assert_same(output, expected)
    assert_same(new_state, expected_state)


def test_highway_wrapper_carries():
    wrapper = HighwayWrapper(GRUCell(3, dtype=torch.float64), carry_bias_init=100.0)
    inputs = torch.randn(2, 3, dtype=torch.float64)
    output, state = wrapper(inputs, torch.full((2, 3), 0.1, dtype=torch.float64))
    assert_same(output, inputs)
    assert (state - inputs).abs().min() > 1e-3
