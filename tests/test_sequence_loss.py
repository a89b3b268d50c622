"""`sequence_loss` and `sequence_mask`, beside what they stand for."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from unspool.decode import SequenceLoss, sequence_loss, sequence_mask

B, T, V = 3, 4, 5
LENGTHS = [4, 0, 2]


def case() -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    return torch.randn(B, T, V, dtype=torch.float64, requires_grad=True), torch.randint(V, (B, T))


def test_the_mean_over_what_is_there_is_the_mean_of_all_rows_together() -> None:
    logits, targets = case()
    mask = sequence_mask(LENGTHS, T)
    expected = F.cross_entropy(logits[mask], targets[mask])
    for loss in [sequence_loss(logits, targets, mask), SequenceLoss()(targets, logits, mask)]:
        torch.testing.assert_close(loss, expected)
        (found,) = torch.autograd.grad(loss, logits, retain_graph=True)
        (wanted,) = torch.autograd.grad(expected, logits, retain_graph=True)
        torch.testing.assert_close(found, wanted)
        assert not found[~mask].any()


@pytest.mark.parametrize("sums", [False, True], ids=["average", "sum"])
def test_weights_weigh(sums: bool) -> None:
    logits, targets = case()
    weights = torch.tensor([[1.0, 2.0, 0.5, 0.0], [0.0] * 4, [3.0, 0.0, 0.0, 1.0]], dtype=torch.float64)
    losses = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none").reshape(B, T) * weights
    counts = (weights != 0).double() if sums else weights

    def found(time: bool, batch: bool) -> Tensor:
        averages = dict(average_across_timesteps=time and not sums, average_across_batch=batch and not sums)
        return sequence_loss(
            logits, targets, weights, **averages, sum_over_timesteps=time and sums, sum_over_batch=batch and sums
        )

    torch.testing.assert_close(found(True, True), losses.sum() / counts.sum())
    torch.testing.assert_close(found(True, False), torch.nan_to_num(losses.sum(1) / counts.sum(1)))
    torch.testing.assert_close(found(False, True), torch.nan_to_num(losses.sum(0) / counts.sum(0)))
    torch.testing.assert_close(found(False, False), losses)


def test_what_is_padding_may_be_anything() -> None:
    logits, targets = case()
    mask = sequence_mask(LENGTHS, T)
    expected = sequence_loss(logits, targets, mask)
    assert sequence_loss(logits, torch.where(mask, targets, 10**6), mask).equal(expected)
    assert sequence_loss(logits, torch.where(mask, targets, -1), mask).equal(expected)
    assert sequence_loss(torch.where(mask[..., None], logits, torch.nan), targets, mask).equal(expected)


@pytest.mark.parametrize("kind", [torch.bool, torch.int32, torch.float32, torch.float64])
def test_weights_may_be_of_any_kind(kind: torch.dtype) -> None:
    logits, targets = case()
    mask = sequence_mask(LENGTHS, T, dtype=kind)
    assert mask.dtype == kind
    loss = sequence_loss(logits, targets.int(), mask)
    assert loss.dtype == torch.float64
    assert loss.equal(sequence_loss(logits, targets, mask.double()))


def test_another_loss_is_called_with_labels_and_logits() -> None:
    logits, targets = case()

    def squared(*, labels: Tensor, logits: Tensor) -> Tensor:
        assert labels.shape == (B * T,)
        assert logits.shape == (B * T, V)
        return (logits.gather(1, labels[:, None])[:, 0] - 1) ** 2

    mask = sequence_mask(LENGTHS, T)
    expected = (logits.gather(2, targets[..., None])[..., 0] - 1)[mask].square().mean()
    torch.testing.assert_close(sequence_loss(logits, targets, mask, softmax_loss_function=squared), expected)
    loss = SequenceLoss(softmax_loss_function=squared)
    torch.testing.assert_close(loss(targets, logits, mask), expected)


def test_without_weights_everything_counts() -> None:
    logits, targets = case()
    expected = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
    torch.testing.assert_close(SequenceLoss()(targets, logits), expected)


@pytest.mark.parametrize(
    ("lengths", "maxlen", "expected"),
    [
        ([1, 0, 2], None, [[1, 0], [0, 0], [1, 1]]),
        ([1, 5], 3, [[1, 0, 0], [1, 1, 1]]),
        (2, None, [1, 1]),
        ([[1], [2]], None, [[[1, 0]], [[1, 1]]]),
        ([0, 0], None, [[], []]),
        ([], None, []),
        ([1, 2], 0, [[], []]),
    ],
)
def test_masks_have_a_new_last_axis(lengths: Any, maxlen: int | None, expected: Any) -> None:
    assert sequence_mask(lengths, maxlen, torch.int64).tolist() == expected
    assert sequence_mask(torch.tensor(lengths, dtype=torch.int32), maxlen).dtype == torch.bool


@pytest.mark.parametrize("name", ["targets", "weights"])
def test_what_is_longer_than_the_decode_is_to_be_cut(name: str) -> None:
    given = {"targets": torch.zeros(2, 3, dtype=torch.int64), "weights": torch.ones(2, 3)}
    given[name] = torch.ones(2, 5, dtype=given[name].dtype)
    with pytest.raises(ValueError, match=rf"{name} has shape \[2, 5\].*so cut it: {name}\[:, : logits.shape\[1\]\]"):
        sequence_loss(torch.zeros(2, 3, 4), **given)
