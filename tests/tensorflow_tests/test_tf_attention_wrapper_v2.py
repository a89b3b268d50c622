"""TensorFlow's `attention_wrapper_v2_test.py`: mechanisms that get their memory after they are made."""

from __future__ import annotations

import pytest
import torch

from tests.tensorflow_tests.attending import (
    BATCH,
    CELL_DEPTH,
    ENCODER_LENGTHS,
    ENCODER_TIME,
    MEMORY_DEPTH,
    check,
    check_at_most_one,
    check_hard,
    check_sums_to_one,
    memory,
)
from tests.tensorflow_tests.comparing import assert_same
from unspool.decode import (
    BahdanauAttention,
    BahdanauMonotonicAttention,
    LuongAttention,
    LuongMonotonicAttention,
)

every_mechanism = pytest.mark.parametrize(
    "make", [BahdanauAttention, LuongAttention, BahdanauMonotonicAttention, LuongMonotonicAttention]
)


def with_memory(mechanism):
    """The mechanism with a memory, the second that it gets."""
    mechanism.setup_memory(torch.randn(2, 3, MEMORY_DEPTH))
    mechanism(torch.randn(2, CELL_DEPTH), mechanism.initial_state(2, torch.float32))
    mechanism.setup_memory(memory(), ENCODER_LENGTHS)
    return mechanism


def noisy(make, **options):
    return with_memory(make(CELL_DEPTH, sigmoid_noise=1.0, sigmoid_noise_seed=3, **options))


@every_mechanism
def test_attention_shape_inference(make):
    mechanism = with_memory(make(CELL_DEPTH))
    results = mechanism(torch.randn(BATCH, CELL_DEPTH), torch.rand(BATCH, ENCODER_TIME))
    assert [result.shape for result in results] == [(BATCH, ENCODER_TIME)] * 2


@every_mechanism
def test_get_config(make):
    mechanism = with_memory(make(CELL_DEPTH, dtype="float32", name="looks"))
    config = mechanism.get_config()
    assert config.items() >= dict(num_units=CELL_DEPTH, dtype=torch.float32, name="looks").items()
    again = make.from_config(config)
    assert type(again) is make
    assert again.get_config() == config


@every_mechanism
def test_layer_output(make):
    mechanism = with_memory(make(CELL_DEPTH))
    assert mechanism.values.shape == (BATCH, ENCODER_TIME, MEMORY_DEPTH)
    assert mechanism.keys.shape == (BATCH, ENCODER_TIME, CELL_DEPTH)
    assert mechanism.state_size == mechanism.alignments_size == ENCODER_TIME
    assert mechanism.batch_size == BATCH
    for length, row in zip(ENCODER_LENGTHS, mechanism.values, strict=True):
        assert row[:length].all()
        assert not row[length:].any()


@every_mechanism
def test_passing_memory_from_call(make):
    mechanism = with_memory(make(CELL_DEPTH))
    other = make(CELL_DEPTH, mechanism.values, ENCODER_LENGTHS)
    query, state = torch.randn(BATCH, CELL_DEPTH), mechanism.initial_state(BATCH, torch.float32)
    other(query, state)
    other.load_state_dict(mechanism.state_dict())
    other.setup_memory(mechanism.values, ENCODER_LENGTHS)
    assert_same(other(query, state), mechanism(query, state), atol=0)


def test_bahdanau_not_normalized():
    check_sums_to_one(check(with_memory(BahdanauAttention(CELL_DEPTH))))


def test_bahdanau_normalized():
    check_sums_to_one(check(with_memory(BahdanauAttention(CELL_DEPTH, normalize=True))))


def test_luong_not_normalized():
    check_sums_to_one(check(with_memory(LuongAttention(CELL_DEPTH))))


def test_luong_scaled():
    check_sums_to_one(check(with_memory(LuongAttention(CELL_DEPTH, scale=True))))


def test_not_use_attention_layer():
    mechanism = with_memory(BahdanauAttention(CELL_DEPTH))
    check_sums_to_one(check(mechanism, width=MEMORY_DEPTH, attention_layer_size=None))


def test_bahdanau_monotonic_not_normalized():
    check_at_most_one(check(noisy(BahdanauMonotonicAttention)))


def test_bahdanau_monotonic_normalized():
    check_at_most_one(check(noisy(BahdanauMonotonicAttention, normalize=True)))


def test_bahdanau_monotonic_hard():
    check_hard(check(noisy(BahdanauMonotonicAttention, mode="hard")))


def test_luong_monotonic_not_normalized():
    check_at_most_one(check(noisy(LuongMonotonicAttention)))


def test_luong_monotonic_scaled():
    check_at_most_one(check(noisy(LuongMonotonicAttention, scale=True)))


def test_luong_monotonic_hard():
    check_hard(check(noisy(LuongMonotonicAttention, mode="hard")))
