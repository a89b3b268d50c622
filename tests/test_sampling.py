"""Draws from logits: which, how often, and the same again from the same generator."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.cells import Plus1
from unspool.decode import BasicDecoder, SampleEmbeddingHelper, dynamic_decode
from unspool.decode.sampling import Sampling, Uniform, choose, first_passed

DRAWS = 20_000
LOGITS = torch.tensor([1.0, -0.5, 0.0, 2.0, -1.0, 0.5, 1.5, -2.0, 0.25, 0.75])

CHI_SQUARE = {1: 15.2, 2: 18.5, 3: 21.2, 6: 27.9, 9: 33.8}
"""Above the 99.99 % quantile of chi-square, by degrees of freedom: one seed in ten thousand exceeds it by chance."""


def sampled(sampling: Sampling, logits: Tensor, seed: int = 0, draws: int = DRAWS) -> Tensor:
    return sampling(logits.expand(draws, -1), Uniform(seed))


def assert_distributed(ids: Tensor, probabilities: Tensor) -> None:
    """The chi-square statistic of how often each id came is what chance would make it; no other id came at all."""
    possible = probabilities > 0
    counts = torch.bincount(ids.long(), minlength=len(probabilities)).double()
    assert not counts[~possible].any()
    expected = len(ids) * probabilities[possible].double()
    assert expected.min() > 5  # the statistic needs it
    statistic = ((counts[possible] - expected) ** 2 / expected).sum()
    assert statistic < CHI_SQUARE[int(possible.sum()) - 1]


def assert_refused(ids: Tensor, probabilities: Tensor) -> None:
    with pytest.raises(AssertionError):
        assert_distributed(ids, probabilities)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_ids_come_as_often_as_the_softmax_says(dtype: torch.dtype, seed: int) -> None:
    logits = LOGITS.to(dtype)
    assert_distributed(sampled(Sampling(), logits, seed), logits.double().softmax(0))


def test_the_test_of_frequencies_sees_what_is_wrong() -> None:
    ids = sampled(Sampling(), LOGITS)
    assert_refused(ids, (LOGITS * 1.1).softmax(0))
    assert_refused(ids, LOGITS.roll(1).softmax(0))


@pytest.mark.parametrize("temperature", [0.5, 2.0, torch.tensor(0.75)])
def test_temperature_divides_the_logits(temperature: Any) -> None:
    assert_distributed(sampled(Sampling(temperature), LOGITS * 0.5), (LOGITS * 0.5 / temperature).softmax(0))


def test_a_low_temperature_is_greedy() -> None:
    assert set(sampled(Sampling(1e-4), LOGITS).tolist()) == {int(LOGITS.argmax())}


def test_top_k_draws_among_the_likeliest() -> None:
    kept = torch.full_like(LOGITS, -torch.inf)
    kept[[3, 6, 0, 9]] = LOGITS[[3, 6, 0, 9]]
    assert_distributed(sampled(Sampling(top_k=4), LOGITS), kept.softmax(0))


def test_top_p_draws_among_the_likeliest_that_have_that_probability() -> None:
    probabilities = torch.tensor([0.05, 0.4, 0.15, 0.3, 0.1])
    assert_distributed(sampled(Sampling(top_p=0.69), probabilities.log()), torch.tensor([0, 0.4, 0, 0.3, 0]) / 0.7)
    assert_distributed(sampled(Sampling(top_p=0.71), probabilities.log()), torch.tensor([0, 0.4, 0.15, 0.3, 0]) / 0.85)


def test_top_p_comes_after_top_k() -> None:
    probabilities = torch.tensor([0.4, 0.3, 0.2, 0.1])
    # Of the two likeliest, 4/7 is not yet 0.6.
    ids = sampled(Sampling(top_k=2, top_p=0.6), probabilities.log())
    assert_distributed(ids, torch.tensor([4 / 7, 3 / 7, 0, 0]))
    assert set(sampled(Sampling(top_k=2, top_p=0.5), probabilities.log()).tolist()) == {0}


def test_what_keeps_everything_changes_nothing() -> None:
    plain = sampled(Sampling(), LOGITS)
    assert sampled(Sampling(1.0, top_k=len(LOGITS), top_p=1.0), LOGITS).equal(plain)
    assert sampled(Sampling(top_k=10**6), LOGITS).equal(plain)


@settings(max_examples=200, deadline=None)
@given(
    logits=st.lists(st.floats(-30, 30, width=32), min_size=1, max_size=12),
    top_k=st.none() | st.integers(1, 14),
    top_p=st.none() | st.floats(1e-6, 1.0),
    temperature=st.none() | st.floats(0.1, 10),
    seed=st.integers(0, 2**31),
)
def test_nothing_excluded_is_ever_drawn(
    logits: list[float], top_k: int | None, top_p: float | None, temperature: float | None, seed: int
) -> None:
    row = torch.tensor(logits, dtype=torch.float64)
    ids = sampled(Sampling(temperature, top_k, top_p), row, seed, draws=200).long()
    scaled = row / (temperature or 1)
    likeliest = scaled.sort(descending=True).values[:top_k]
    if top_p is not None:
        probabilities = likeliest.softmax(0)
        before = probabilities.cumsum(0) - probabilities  # rounding may add or drop an id at the very edge
        likeliest = likeliest[: max(1, int((before < top_p + 1e-12).sum()))]
    assert scaled[ids].min() >= likeliest[-1]


@settings(max_examples=200, deadline=None)
@given(
    weights=st.lists(st.just(0.0) | st.floats(2**-10, 2**10, width=32), min_size=1, max_size=20).filter(any),
    seed=st.integers(0, 2**31),
)
def test_an_index_of_probability_zero_is_never_chosen(weights: list[float], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    uniform = torch.cat([torch.rand(100, generator=generator), torch.tensor([0.0, 1 - 2**-24])])
    chosen = choose(torch.tensor(weights).expand(len(uniform), -1), uniform)
    assert torch.tensor(weights)[chosen].min() > 0


def test_sums_that_are_rounded_choose_nothing_that_has_no_probability() -> None:
    sums, probabilities = torch.tensor([[0.5, 0.5001, 0.4999, 1.0, 0.9999]]), torch.tensor([[0.5, 0.0, 0.0, 0.5, 0.0]])
    for number, expected in [(0.0, 0), (0.49, 0), (0.5001, 3), (0.99, 3), (1.0, 3)]:
        assert first_passed(sums, probabilities, torch.tensor([number])).tolist() == [expected]
    past_all = first_passed(torch.tensor([[0.25, 1.0]]), torch.tensor([[0.25, 0.75]]), torch.tensor([1.0]))
    assert past_all.tolist() == [1]  # a number next to 1, rounded


def test_masked_logits_are_never_drawn() -> None:
    logits = LOGITS.clone()
    logits[[0, 3, 9]] = -torch.inf
    assert_distributed(sampled(Sampling(), logits), logits.softmax(0))


# -- generators --------------------------------------------------------------------------------------------------------


def sample_decode(**how: Any) -> list[list[int]]:
    helper = SampleEmbeddingHelper(torch.randn(10, 10, generator=torch.Generator().manual_seed(0)), [2] * 8, 0, **how)
    decoder = BasicDecoder(Plus1(10), helper, torch.zeros(8, 10))
    return dynamic_decode(decoder, maximum_iterations=20)[0].sample_id.tolist()


def test_the_same_generator_gives_the_same_ids() -> None:
    first = sample_decode(generator=torch.Generator().manual_seed(5))
    assert sample_decode(generator=torch.Generator().manual_seed(5)) == first
    assert sample_decode(seed=5) == first
    assert sample_decode(seed=6) != first


def test_a_generator_goes_on_where_it_was() -> None:
    generator = torch.Generator().manual_seed(5)
    assert sample_decode(generator=generator) != sample_decode(generator=generator)


def test_without_a_generator_torch_draws() -> None:
    torch.manual_seed(1)
    first = sample_decode()
    torch.manual_seed(1)
    assert sample_decode() == first
    assert sample_decode() != first


def test_a_generator_of_its_own_leaves_torchs_alone() -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    sample_decode(seed=3)
    assert torch.get_rng_state().equal(before)


def test_a_row_draws_the_same_beside_any_others() -> None:
    """One number a row and step: what other logits are like, and how many, changes nothing."""
    one = Sampling()(LOGITS.expand(3, -1), Uniform(7))
    other = Sampling()(torch.stack([torch.zeros(10), LOGITS, torch.ones(10)]), Uniform(7))
    assert one[1] == other[1]


def test_ids_drawn_by_a_decode_follow_the_softmax() -> None:
    embedding = LOGITS.expand(10, -1)  # whatever is read, the logits are the same, one more each
    helper = SampleEmbeddingHelper(embedding, [0] * 5000, end_token=9, seed=0)
    decoder = BasicDecoder(Plus1(10), helper, torch.zeros(5000, 10))
    outputs, _, lengths = dynamic_decode(decoder, maximum_iterations=40)
    ids = torch.cat([row[:length] for row, length in zip(outputs.sample_id, lengths.tolist(), strict=True)])
    assert len(ids) > DRAWS
    assert_distributed(ids[:DRAWS], LOGITS.softmax(0))
    past = torch.cat([row[length:] for row, length in zip(outputs.sample_id, lengths.tolist(), strict=True)])
    assert set(past.tolist()) == {9}
