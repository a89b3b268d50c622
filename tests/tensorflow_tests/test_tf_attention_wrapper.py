"""TensorFlow's `attention_wrapper_test.py`: mechanisms, the wrapper and its state."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from tests.tensorflow_tests.attending import (
    BATCH,
    CELL_DEPTH,
    DECODER_TIME,
    ENCODER_LENGTHS,
    ENCODER_TIME,
    MEMORY_DEPTH,
    check,
    check_at_most_one,
    check_hard,
    check_sums_to_one,
    decode,
    memory,
)
from tests.tensorflow_tests.comparing import assert_same
from unspool import BasicRNNCell, dynamic_rnn
from unspool.decode import (
    AttentionWrapper,
    AttentionWrapperState,
    BahdanauAttention,
    BahdanauMonotonicAttention,
    LuongAttention,
    LuongMonotonicAttention,
    monotonic_attention,
    safe_cumprod,
)

FIVE_PLACES = 1e-5
"""To which TensorFlow compares products, computed in float32."""


def test_attention_wrapper_state():
    state = AttentionWrapperState(*[None] * len(AttentionWrapperState._fields))
    new_state = state.clone(time=1)
    assert state.time is None
    assert new_state.time == 1


def test_attention_wrapper_state_shape_propgation():
    wrapper = AttentionWrapper(BasicRNNCell(5), BahdanauAttention(5, memory(), ENCODER_LENGTHS))
    state = wrapper.zero_state(BATCH, torch.float32)
    ones = torch.ones(BATCH, 5)
    assert state.clone(cell_state=ones).cell_state is ones
    assert_same(state.clone(), state)
    with pytest.raises(
        ValueError, match=r"cell_state has shape \[5, 4\], but the cell_state of the state has \[5, 5\]"
    ):
        state.clone(cell_state=torch.ones(BATCH, 4))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_bahdanau_normalized_d_type(dtype):
    mechanism = BahdanauAttention(CELL_DEPTH, memory(dtype), ENCODER_LENGTHS, normalize=True, dtype=dtype)
    check(mechanism, dtype=dtype)


def test_bahdanau_not_normalized():
    check_sums_to_one(check(BahdanauAttention(CELL_DEPTH, memory(), ENCODER_LENGTHS)))


def test_bahdanau_normalized():
    mechanism = BahdanauAttention(CELL_DEPTH, memory(), ENCODER_LENGTHS, normalize=True)
    check_sums_to_one(check(mechanism))
    assert mechanism.attention_g.shape == ()
    assert mechanism.attention_b.shape == (CELL_DEPTH,)


def test_luong_not_normalized():
    check_sums_to_one(check(LuongAttention(CELL_DEPTH, memory(), ENCODER_LENGTHS)))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_luong_scaled_d_type(dtype):
    check(LuongAttention(CELL_DEPTH, memory(dtype), ENCODER_LENGTHS, scale=True, dtype=dtype), dtype=dtype)


def test_luong_scaled():
    mechanism = LuongAttention(CELL_DEPTH, memory(), ENCODER_LENGTHS, scale=True)
    check_sums_to_one(check(mechanism))
    assert mechanism.attention_g.shape == ()


def test_not_use_attention_layer():
    mechanism = BahdanauAttention(CELL_DEPTH, memory(), ENCODER_LENGTHS)
    check_sums_to_one(check(mechanism, width=MEMORY_DEPTH, attention_layer_size=None))


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
def test_safe_cumprod(axis, exclusive):
    numbers = np.random.default_rng(0).uniform(size=(10, 5)).astype(np.float32)
    expected = np.cumprod(numbers, axis)
    if exclusive:
        ones = np.ones_like(expected.take([0], axis))
        expected = np.concatenate([ones, expected.take(range(expected.shape[axis] - 1), axis)], axis)
    assert_same(safe_cumprod(numbers, axis=axis, exclusive=exclusive), torch.from_numpy(expected), atol=FIVE_PLACES)


def choices_and_previous(hard=False):
    """Probabilities to choose, and where the attention was; with one that is surely at place 0."""
    generator = np.random.default_rng(1)
    chosen = generator.uniform(size=(10, 8)).astype(np.float32)
    previous = generator.uniform(size=(10, 8)).astype(np.float32)
    previous /= previous.sum(1, keepdims=True)
    if hard:
        chosen, previous = np.round(chosen), np.eye(8, dtype=np.float32)[generator.integers(8, size=10)]
    previous[0] = np.eye(8)[0]
    return chosen, previous


@pytest.mark.parametrize("mode", ["recursive", "parallel", "hard"])
def test_monotonic_attention(mode):
    chosen, previous = choices_and_previous(hard=mode == "hard")
    expected = np.zeros_like(chosen)
    for row in range(len(chosen)):
        for place in range(chosen.shape[1]):
            for start in range(place + 1):
                passed = np.prod(1 - chosen[row, start:place])
                expected[row, place] += previous[row, start] * passed * chosen[row, place]
    assert_same(monotonic_attention(chosen, previous, mode), torch.from_numpy(expected), atol=FIVE_PLACES)


def test_monotonic_attention_is_what_sampling_gives():
    """A walker from a place that is drawn stops at each place with its chance: 40,000 of them, to two places."""
    generator = np.random.default_rng(2)
    chosen, previous = choices_and_previous()
    chosen, previous = chosen[1:2], previous[1:2]
    walkers = 40_000
    at = generator.choice(8, size=walkers, p=previous[0].astype(float) / previous[0].astype(float).sum())
    stops = (generator.uniform(size=(walkers, 8)) < chosen[0]) & (np.arange(8) >= at[:, None])
    stopped = stops.any(1)
    found = np.bincount(stops.argmax(1)[stopped], minlength=8) / walkers
    exact = monotonic_attention(chosen, previous, "recursive")[0].numpy()
    np.testing.assert_allclose(found, exact, rtol=0, atol=0.01)  # four times the deviation, sqrt(0.25 / 40,000)


def test_bahdanau_monotonic_not_normalized():
    mechanism = BahdanauMonotonicAttention(
        CELL_DEPTH, memory(), ENCODER_LENGTHS, sigmoid_noise=1.0, sigmoid_noise_seed=3
    )
    check_at_most_one(check(mechanism))


def test_bahdanau_monotonic_normalized():
    mechanism = BahdanauMonotonicAttention(
        CELL_DEPTH, memory(), ENCODER_LENGTHS, normalize=True, sigmoid_noise=1.0, sigmoid_noise_seed=3
    )
    check_at_most_one(check(mechanism))
    assert mechanism.attention_g.shape == ()


def test_bahdanau_monotonic_hard():
    mechanism = BahdanauMonotonicAttention(
        CELL_DEPTH, memory(), ENCODER_LENGTHS, sigmoid_noise=1.0, sigmoid_noise_seed=3, mode="hard"
    )
    check_hard(check(mechanism))


def test_luong_monotonic_not_normalized():
    mechanism = LuongMonotonicAttention(CELL_DEPTH, memory(), ENCODER_LENGTHS, sigmoid_noise=1.0, sigmoid_noise_seed=3)
    check_at_most_one(check(mechanism))


def test_luong_monotonic_scaled():
    mechanism = LuongMonotonicAttention(
        CELL_DEPTH, memory(), ENCODER_LENGTHS, scale=True, sigmoid_noise=1.0, sigmoid_noise_seed=3
    )
    check_at_most_one(check(mechanism))
    assert mechanism.attention_g.shape == ()


def test_luong_monotonic_hard():
    mechanism = LuongMonotonicAttention(
        CELL_DEPTH, memory(), ENCODER_LENGTHS, sigmoid_noise=1.0, sigmoid_noise_seed=3, mode="hard"
    )
    check_hard(check(mechanism))


def two_mechanisms():
    return [BahdanauAttention(CELL_DEPTH, memory(), ENCODER_LENGTHS) for _ in range(2)]


def check_tuples(outputs, state, mechanisms, width):
    assert outputs.shape == (BATCH, DECODER_TIME, width)
    assert state.attention.shape == (BATCH, width)
    for field in (state.alignments, state.attention_state, state.alignment_history):
        assert type(field) is tuple
        assert len(field) == mechanisms
    for alignments, history in zip(state.alignments, state.alignment_history, strict=True):
        assert alignments.shape == (BATCH, ENCODER_TIME)
        check_sums_to_one(history.stack())


def test_multi_attention():
    wrapper, outputs, state = decode(two_mechanisms(), [3, 4], alignment_history=True)
    assert wrapper.output_size == 7
    check_tuples(outputs, state, mechanisms=2, width=7)


def test_multi_attention_with_layer_instances():
    layers = [nn.Linear(CELL_DEPTH + MEMORY_DEPTH, width, bias=False) for width in (3, 4)]
    wrapper, outputs, state = decode(two_mechanisms(), None, attention_layer=layers, alignment_history=True)
    assert list(wrapper.attention_layers) == layers
    check_tuples(outputs, state, mechanisms=2, width=7)


def test_multi_attention_no_attention_layer():
    wrapper, outputs, state = decode(two_mechanisms(), None, alignment_history=True)
    assert wrapper.output_size == 2 * MEMORY_DEPTH
    check_tuples(outputs, state, mechanisms=2, width=2 * MEMORY_DEPTH)


def test_single_attention_as_list():
    mechanism = BahdanauAttention(CELL_DEPTH, memory(), ENCODER_LENGTHS)
    _, outputs, state = decode([mechanism], [3], alignment_history=True)
    check_tuples(outputs, state, mechanisms=1, width=3)


def test_customized_attention():
    """A function that adds up what it has seen: its state is no alignment."""
    values = torch.tensor([[[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]], [[4.0, 4.0], [5.0, 5.0], [6.0, 6.0]]])
    mechanism = BahdanauAttention(2, values, [3, 2])
    calls = []

    def attention_fn(mechanism, cell_output, attention_state, attention_layer):
        calls.append(attention_layer)
        alignments, _ = mechanism(cell_output, attention_state)
        context = torch.einsum("bs,bsd->bd", alignments, mechanism.values)
        return context, alignments, attention_state + alignments

    wrapper = AttentionWrapper(BasicRNNCell(2), mechanism, attention_fn=attention_fn, output_attention=False)
    assert wrapper.output_size == wrapper.cell.output_size == 2
    outputs, state = dynamic_rnn(wrapper, torch.randn(2, 3, 4), [3, 2], dtype=torch.float32)
    assert calls == [None] * len(calls)
    assert len(calls) >= 3
    assert_same(outputs[0, 2], state.cell_state[0], atol=0)
    assert_same(outputs[1, 2], torch.zeros(2), atol=0)
    assert_same(state.attention_state.sum(1), torch.tensor([3.0, 2.0]), atol=FIVE_PLACES)
    assert_same(state.attention, torch.einsum("bs,bsd->bd", state.alignments, mechanism.values), atol=FIVE_PLACES)
