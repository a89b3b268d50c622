"""TensorFlow's `rnn_cell_test.py`, `DropoutWrapperTest`: what is dropped, what is spared, and what stays the same.

The numbers are those of an LSTM of three units with kernels of 0.5, over the inputs 2 and 1 from a state of 0.1.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.tensorflow_tests.comparing import SIX_DIGITS, assert_all_equal_to, assert_same
from tests.tensorflow_tests.toy_cells import Echo, fill_all, fill_kernels
from unspool import BasicRNNCell, DropoutWrapper, LSTMCell, LSTMStateTuple, dynamic_rnn

FULL_OUTPUTS, FULL_MEMORY = (0.751109, 0.895509), 1.949385
NONE = 1e-6
"""A probability to keep nothing: of the dozen numbers that meet it, one survives in one of 80,000 draws."""


def run(**dropout):
    """Outputs `[2, 1, 3]` and final state of the file's LSTM under `dropout`; time-major, as TensorFlow's test is."""
    cell = DropoutWrapper(fill_kernels(LSTMCell(3, input_size=3)), **dropout)
    inputs = torch.tensor([2.0, 1.0]).reshape(2, 1, 1).expand(2, 1, 3)
    start = LSTMStateTuple(*torch.full((2, 1, 3), 0.1))
    return dynamic_rnn(cell, inputs, initial_state=start, parallel_iterations=1, time_major=True)


def assert_full(outputs, state):
    for output, number in zip(outputs, FULL_OUTPUTS, strict=True):
        assert_all_equal_to(output, number)
    assert_all_equal_to(state.c, FULL_MEMORY)
    assert_all_equal_to(state.h, FULL_OUTPUTS[-1])


def test_dropout_wrapper_properties():
    cell = BasicRNNCell(10)
    wrapper = DropoutWrapper(cell)
    assert wrapper.wrapped_cell is cell
    assert wrapper.state_size == 10
    assert wrapper.output_size == 10


def test_dropout_wrapper_zero_state():
    class Special(BasicRNNCell):
        def zero_state(self, batch_size, dtype, device=None):
            return "the cell's own"

    assert DropoutWrapper(Special(10)).zero_state(7, torch.float32) == "the cell's own"


def keeps(value):
    return {f"{place}_keep_prob": value for place in ("input", "output", "state")}


def test_dropout_wrapper_keep_all_constant_input():
    assert_full(*run(**keeps(torch.tensor(1.0))))


def test_dropout_wrapper_keep_all():
    assert_full(*run(**keeps(nn.Parameter(torch.tensor(1.0)))))


def test_dropout_wrapper_keep_all_number():
    assert_full(*run(**keeps(1)))


def test_dropout_wrapper_with_seed():
    first, again, other = (run(**keeps(torch.tensor(0.5)), seed=seed) for seed in (9, 9, 10))
    assert_same(again, first, atol=0)
    assert not torch.equal(other[0], first[0])
    outputs, _ = run(output_keep_prob=0.5, seed=9)
    dropped = outputs == 0
    assert 0 < dropped.sum() < dropped.numel()
    doubled = 2 * torch.tensor(FULL_OUTPUTS).reshape(2, 1, 1).expand_as(outputs)
    assert_same(outputs, doubled.masked_fill(dropped, 0), atol=2 * SIX_DIGITS)


def test_dropout_wrapper_keep_no_output():
    outputs, state = run(input_keep_prob=1.0, output_keep_prob=NONE, state_keep_prob=1.0)
    assert not outputs.any()
    assert_all_equal_to(state.c, FULL_MEMORY)
    assert_all_equal_to(state.h, FULL_OUTPUTS[-1])


def test_dropout_wrapper_keep_no_state_except_lstm_cell_memory():
    outputs, state = run(state_keep_prob=NONE)
    assert_all_equal_to(outputs[0], FULL_OUTPUTS[0])  # computed before anything was dropped
    assert (outputs[1] - FULL_OUTPUTS[1]).abs().min() > 0.1
    assert_all_equal_to(state.c, 1.713925)
    assert not state.h.any()


def test_dropout_wrapper_keep_no_input():
    outputs, state = run(input_keep_prob=NONE)
    for output, number in zip(outputs, FULL_OUTPUTS, strict=True):
        assert (output - number).abs().min() > 0.1
    assert (state.c - FULL_MEMORY).abs().min() > 0.1
    assert (state.h - FULL_OUTPUTS[-1]).abs().min() > 0.1


# Thirty-two units: that a mask keeps or drops all of them has a chance of one in two billion.
UNITS, BATCH, TIME = 32, 3, 5


def variational(cell, **options):
    return DropoutWrapper(cell, variational_recurrent=True, input_size=UNITS, dtype=torch.float32, **options)


def wide_lstm():
    return fill_all(LSTMCell(UNITS, input_size=UNITS), seed=1, scale=0.1)


def mask_of(steps):
    """The one mask of all steps and rows of `[T, B, N]` values, where zero means dropped; a mask that drops some."""
    kept = steps.abs() > SIX_DIGITS
    mask = kept[0, 0]
    assert 0 < mask.sum() < UNITS
    assert torch.equal(kept, mask.expand_as(kept))
    return mask


def test_dropout_wrapper_recurrent_output():
    cell = variational(wide_lstm(), output_keep_prob=0.5)
    inputs = torch.randn(TIME, BATCH, UNITS)
    outputs, state = dynamic_rnn(cell, inputs, dtype=torch.float32, parallel_iterations=1, time_major=True)
    mask = mask_of(outputs)
    full, full_state = dynamic_rnn(cell.cell, inputs, dtype=torch.float32, time_major=True)
    assert_same(outputs, 2 * full * mask, atol=SIX_DIGITS)  # what is kept is scaled up
    assert_same(state, full_state, atol=SIX_DIGITS)


def test_dropout_wrapper_recurrent_output_is_drawn_for_each_sequence():
    cell = variational(Echo(UNITS), output_keep_prob=0.5)
    masks = [mask_of(dynamic_rnn(cell, torch.ones(BATCH, TIME, UNITS), dtype="float32")[0]) for _ in range(2)]
    assert not torch.equal(*masks)


def test_dropout_wrapper_recurrent_state_input_and_output():
    cell = variational(wide_lstm(), **keeps(0.5))
    inputs = torch.randn(TIME, BATCH, UNITS)
    outputs, state = dynamic_rnn(cell, inputs, dtype=torch.float32, parallel_iterations=1, time_major=True)
    output_mask, state_mask = mask_of(outputs), mask_of(state.h[None])
    assert not torch.equal(output_mask, state_mask)
    assert (state.c != 0).all()


def test_dropout_wrapper_recurrent_state_input_and_output_shows_its_input_mask():
    cell = variational(Echo(UNITS), input_keep_prob=0.5, state_keep_prob=0.5)
    ones = torch.ones(TIME, BATCH, UNITS)
    outputs, state = dynamic_rnn(cell, ones, dtype=torch.float32, parallel_iterations=1, time_major=True)
    input_mask = mask_of(outputs)
    assert_same(outputs, 2.0 * input_mask.expand_as(outputs), atol=0)
    assert not torch.equal(mask_of(state[None]), input_mask)  # masked once more, by the state's own


@pytest.mark.parametrize("keep", [0.5, torch.tensor(0.5)], ids=["number", "tensor"])
def test_dropout_wrapper_recurrent_state_input_and_output_with_seed(keep):
    inputs = torch.randn(TIME, BATCH, UNITS)
    first, again, other = (
        dynamic_rnn(variational(wide_lstm(), **keeps(keep), seed=seed), inputs, dtype=torch.float32, time_major=True)
        for seed in (9, 9, 10)
    )
    assert_same(again, first, atol=0)
    assert not torch.equal(mask_of(other[0]), mask_of(first[0]))
    assert not torch.equal(mask_of(first[1].h[None]), mask_of(first[0]))  # one seed, but a stream for each place
