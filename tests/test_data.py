"""The sampler that balances lengths among processes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from unspool.data import LengthBalancedBatchSampler


def lognormal(rows: int, sigma: float = 1.0) -> Any:
    return np.maximum(1, np.random.default_rng(0).lognormal(np.log(100), sigma, rows)).astype(int)


def samplers(lengths: Any, batch_size: int, processes: int, **options: Any) -> list[LengthBalancedBatchSampler]:
    return [
        LengthBalancedBatchSampler(lengths, batch_size, num_replicas=processes, rank=rank, **options)
        for rank in range(processes)
    ]


def slowest(totals: Any) -> float:
    """How long all processes take, that wait for the slowest at every step, where 1 is without waiting."""
    return totals.max(0).sum() / totals.mean(0).sum()


class TestBalance:
    @pytest.mark.parametrize("processes", [2, 4, 8])
    @pytest.mark.parametrize("batch_size", [4, 16])
    def test_the_slowest_process_takes_at_most_a_tenth_longer_than_the_mean_at_every_step(
        self, processes: int, batch_size: int
    ) -> None:
        lengths = lognormal(8192)
        totals = [[lengths[batch].sum() for batch in each] for each in samplers(lengths, batch_size, processes)]
        at_random = np.random.default_rng(1).permutation(lengths).reshape(processes, -1, batch_size).sum(2)
        assert slowest(np.array(totals)) < 1.05
        assert slowest(at_random) > 1.1

    def test_the_longest_batches_go_to_all_processes_in_turn(self) -> None:
        lengths = lognormal(8192)
        totals = np.array([sum(lengths[batch].sum() for batch in each) for each in samplers(lengths, 8, 4)])
        assert totals.max() / totals.mean() < 1.01

    def test_a_batch_has_rows_of_all_lengths(self) -> None:
        """Not only such of one length, as from buckets: the mean of a batch says little of those that it is of."""
        lengths = lognormal(8192, 0.5)
        means = [lengths[batch].mean() for batch in samplers(lengths, 32, 4)[0]]
        at_random = np.random.default_rng(1).permutation(lengths).reshape(-1, 32).mean(1)
        assert np.std(means) < 1.3 * np.std(at_random)


class TestRows:
    @pytest.mark.parametrize("shuffle", [True, False])
    @pytest.mark.parametrize("rows", [1, 3, 24, 25, 31])
    def test_all_rows_are_taken_and_none_more_often_than_needed(self, rows: int, shuffle: bool) -> None:
        all_samplers = samplers(lognormal(rows), 4, 3, shuffle=shuffle)
        batches = [list(each) for each in all_samplers]
        assert {len(each) for each in batches} == {len(all_samplers[0])}
        assert {tuple(map(len, each)) for each in batches} == {tuple(map(len, batches[0]))}
        counts = np.bincount([row for each in batches for batch in each for row in batch], minlength=rows)
        assert counts.min() >= 1
        assert counts.max() - counts.min() <= 1
        assert counts.sum() == -(-rows // 3) * 3

    def test_drop_last_takes_no_row_twice_and_fills_all_batches(self) -> None:
        batches = [batch for each in samplers(lognormal(31), 4, 3, drop_last=True) for batch in each]
        assert {len(batch) for batch in batches} == {4}
        assert len({row for batch in batches for row in batch}) == 24

    def test_every_epoch_has_an_order_of_its_own_which_is_always_the_same(self) -> None:
        sampler, again = (LengthBalancedBatchSampler(lognormal(64), 4, seed=3) for _ in range(2))
        first = list(sampler)
        assert first == list(sampler) == list(again)
        sampler.set_epoch(1)
        assert list(sampler) != first
        assert list(LengthBalancedBatchSampler(lognormal(64), 4, seed=4)) != first
        sampler.set_epoch(0)
        assert list(sampler) == first

    def test_without_shuffling_all_epochs_have_the_order_of_the_dataset(self) -> None:
        sampler = LengthBalancedBatchSampler(lognormal(12), 4, shuffle=False)
        sampler.set_epoch(5)
        assert [sorted(batch) for batch in sampler] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]

    def test_an_epoch_goes_on_where_it_was_left(self) -> None:
        for sampler in samplers(lognormal(50), 4, 2):
            sampler.set_epoch(2)
            whole = list(sampler)
            sampler.set_epoch(2, start=3)
            assert list(sampler) == whole[3:]
            assert len(sampler) == len(whole) - 3
            sampler.set_epoch(3)
            assert len(sampler) == len(whole)

    def test_a_loader_takes_it_with_workers_too(self) -> None:
        lengths = torch.tensor([3, 1, 2, 5, 4])
        loader = DataLoader(torch.arange(5), batch_sampler=LengthBalancedBatchSampler(lengths, 2), num_workers=1)
        assert len(loader) == 3
        assert sorted(row for batch in loader for row in batch.tolist()) == [0, 1, 2, 3, 4]


class TestErrors:
    @pytest.mark.parametrize(
        ("given", "error", "text"),
        [
            (dict(lengths=[]), ValueError, "lengths must have one int for every row"),
            (dict(lengths=[[1, 2]]), ValueError, r"but has shape \[1, 2\]"),
            (dict(lengths=[1.5]), TypeError, "lengths must be ints, but are float64"),
            (dict(lengths=[4, -1]), ValueError, "that of row 1 is -1"),
            (dict(batch_size=0), ValueError, "batch_size must be at least 1, but is 0"),
            (dict(batch_size=2.0), TypeError, "batch_size must be an int, but is 2.0"),
            (dict(num_replicas=2, rank=2), ValueError, "rank must be less than num_replicas, 2, but is 2"),
            (dict(num_replicas=2, rank=-1), ValueError, "rank must be at least 0"),
            (dict(num_replicas=True, rank=0), TypeError, "num_replicas must be an int"),
            (dict(num_replicas=2), ValueError, "rank is not given, and torch.distributed"),
            (dict(rank=0), ValueError, "num_replicas is not given, and torch.distributed"),
            (dict(seed=-1), ValueError, "seed must be at least 0"),
            (dict(shuffle="yes"), TypeError, "shuffle"),
            (dict(batch_size=4, drop_last=True), ValueError, "drop_last leaves no batch: 3 rows"),
        ],
    )
    def test_what_is_given_is_checked(self, given: dict[str, Any], error: type[Exception], text: str) -> None:
        arguments: dict[str, Any] = {"lengths": [1, 2, 3], "batch_size": 1, **given}
        with pytest.raises(error, match=text):
            LengthBalancedBatchSampler(**arguments)

    def test_processes_that_do_not_know_of_each_other_are_no_single_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("WORLD_SIZE", "2")
        with pytest.raises(ValueError, match=r"WORLD_SIZE is 2.*init_process_group before"):
            LengthBalancedBatchSampler([1, 2], 1)

    def test_an_epoch_is_checked(self) -> None:
        sampler = LengthBalancedBatchSampler([1, 2, 3], 1)
        for epoch, start, text in (
            (-1, 0, "epoch must be"),
            (0, -1, "start must be"),
            (0, 4, "start is 4, but an epoch"),
        ):
            with pytest.raises(ValueError, match=text):
                sampler.set_epoch(epoch, start)
