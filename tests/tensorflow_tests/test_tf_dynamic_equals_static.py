"""TensorFlow's `rnn_cell_test.py`, `LSTMTest`: `dynamic_rnn` gives what `static_rnn` gives, and so do its gradients."""

from __future__ import annotations

import pytest
import torch

from tests.tensorflow_tests.comparing import assert_same, gradients
from tests.tensorflow_tests.toy_cells import fill_all
from unspool import LSTMCell, LSTMStateTuple, MultiRNNCell, dynamic_rnn, static_rnn

BATCH, TIME, DEPTH, UNITS, PROJECTED = 2, 8, 5, 3, 4


def random_inputs(batch_size=BATCH):
    """Time-major, in float64, so that nothing but the order of sums can tell the loops apart."""
    return torch.randn(TIME, batch_size, DEPTH, dtype=torch.float64)


def projected(units=UNITS, **options):
    return LSTMCell(units, use_peepholes=True, num_proj=PROJECTED, dtype=torch.float64, **options)


def test_dynamic_rnn_with_tuple_states():
    cell, inputs = fill_all(projected(input_size=DEPTH), seed=1), random_inputs()
    static, static_state = static_rnn(cell, list(inputs), dtype=torch.float64, sequence_length=[4, 6])
    dynamic, state = dynamic_rnn(cell, inputs, [4, 6], dtype=torch.float64, time_major=True)
    assert isinstance(state, LSTMStateTuple)
    assert state[0] is state.c
    assert state[1] is state.h
    assert_same(dynamic, torch.stack(static))
    assert_same(state, static_state)


def test_dynamic_rnn_with_nested_tuple_states():
    stack = MultiRNNCell([projected(UNITS + k) for k in range(4)])
    stack.build(DEPTH)
    fill_all(stack, seed=2)
    start = stack.zero_state(BATCH, torch.float64)
    assert [(c.shape[1], h.shape[1]) for c, h in start] == [(UNITS + k, PROJECTED) for k in range(4)]
    inputs = random_inputs()
    static, static_states = static_rnn(stack, list(inputs), start, sequence_length=[4, 6])
    dynamic, states = dynamic_rnn(stack, inputs, [4, 6], start, time_major=True)
    assert isinstance(states, tuple)
    assert all(isinstance(state, LSTMStateTuple) for state in states)
    assert_same(dynamic, torch.stack(static))
    assert_same(states, static_states)


def assert_dynamic_equals_static(lengths, state_is_tuple, swap_memory, parallel_iterations):
    """Outputs, state, and the gradients of the first output, the last live one and the state by everything."""
    batch_size = BATCH if lengths is None else len(lengths)
    cell = fill_all(projected(state_is_tuple=state_is_tuple, input_size=DEPTH), seed=3)
    inputs = random_inputs(batch_size).requires_grad_()
    sources = [inputs, *cell.parameters()]
    outputs, static_state = static_rnn(cell, inputs.unbind(0), dtype=torch.float64, sequence_length=lengths)
    dynamic, state = dynamic_rnn(
        cell,
        inputs,
        lengths,
        dtype=torch.float64,
        parallel_iterations=parallel_iterations,
        swap_memory=swap_memory,
        time_major=True,
    )
    assert_same(dynamic, torch.stack(outputs))
    assert_same(state, static_state)
    last = TIME - 1 if lengths is None else max(lengths) - 1
    for one, other in [(dynamic[0], outputs[0]), (dynamic[last], outputs[last]), (state, static_state)]:
        assert_same(gradients(one, sources), gradients(other, sources))
    # So that the comparison above compared something.
    assert all(gradient.any() for gradient in gradients((dynamic, state), sources))


@pytest.mark.parametrize("state_is_tuple", [True, False], ids=["tuple", "concatenated"])
@pytest.mark.parametrize(("swap_memory", "parallel_iterations"), [(False, None), (True, 3)])
def test_dynamic_equivalent_to_static_rnn(state_is_tuple, swap_memory, parallel_iterations):
    assert_dynamic_equals_static(None, state_is_tuple, swap_memory, parallel_iterations)


@pytest.mark.parametrize("state_is_tuple", [True, False], ids=["tuple", "concatenated"])
@pytest.mark.parametrize(("swap_memory", "parallel_iterations"), [(False, None), (True, 3)])
@pytest.mark.parametrize("lengths", [[7, 0, 3, 5], [2, 4], [0, 8, 1]])
def test_dynamic_equivalent_to_static_rnn_with_sequence_length(
    lengths, state_is_tuple, swap_memory, parallel_iterations
):
    assert_dynamic_equals_static(lengths, state_is_tuple, swap_memory, parallel_iterations)


@pytest.mark.parametrize("loop", ["static", "dynamic"])
def test_dynamic_equivalent_to_static_rnn_with_sequence_length_past_the_end(loop):
    """The output after the longest row's end is zero, and so are its gradients: zero, not missing."""
    cell = fill_all(projected(input_size=DEPTH), seed=4)
    inputs = random_inputs().requires_grad_()
    if loop == "static":
        last = static_rnn(cell, inputs.unbind(0), dtype=torch.float64, sequence_length=[2, 4])[0][-1]
    else:
        last = dynamic_rnn(cell, inputs, [2, 4], dtype=torch.float64, time_major=True)[0][-1]
    assert not last.any()
    assert not any(gradient.any() for gradient in gradients(last, [inputs, *cell.parameters()]))
