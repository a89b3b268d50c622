"""TensorFlow's `loss_test.py`: the weighted cross entropy of sequences."""

from __future__ import annotations

import pytest
import torch

from tests.tensorflow_tests.comparing import SIX_DIGITS
from unspool.decode import SequenceLoss, sequence_loss

BATCH, STEPS, CLASSES = 2, 3, 5
LOSS = 1.60944  # log(5)

KINDS = [(True, True), (True, False), (False, True), (False, False)]
"""Whether time is reduced, and whether the batch is."""


def case():
    """Logits that favour no class, the classes that are wanted, and weights of one."""
    logits = torch.stack([torch.full((BATCH, CLASSES), step + 0.5) for step in range(STEPS)], 1)
    targets = torch.arange(STEPS).expand(BATCH, -1)
    return logits, targets, torch.ones(BATCH, STEPS)


def averages(time, batch):
    return dict(average_across_timesteps=time, average_across_batch=batch)


def sums(time, batch):
    return dict(averages(False, False), sum_over_timesteps=time, sum_over_batch=batch)


def reduced(time, batch, per_step):
    """The result that is expected, where `per_step` has the loss of each step."""
    shape = [BATCH] * (not batch) + [STEPS] * (not time)
    return torch.tensor(per_step).expand(shape) if not time else torch.full(shape, max(per_step))


def assert_loss(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=0, atol=5 * SIX_DIGITS)  # TensorFlow gives five digits


@pytest.mark.parametrize(("time", "batch"), KINDS)
def test_sequence_loss(time, batch):
    assert_loss(sequence_loss(*case(), **averages(time, batch)), reduced(time, batch, [LOSS] * STEPS))


@pytest.mark.parametrize(("time", "batch"), KINDS)
def test_sequence_loss_class(time, batch):
    logits, targets, weights = case()
    loss = SequenceLoss(**averages(time, batch), sum_over_timesteps=False, sum_over_batch=False)
    assert_loss(loss(targets, logits, weights), reduced(time, batch, [LOSS] * STEPS))


def test_sequence_loss_class_sums_over_both_axes_by_default():
    logits, targets, weights = case()
    assert_loss(SequenceLoss()(targets, logits, weights), torch.tensor(LOSS))
    assert_loss(SequenceLoss()(targets, logits, 2 * weights), torch.tensor(2 * LOSS))  # a sum over a count


@pytest.mark.parametrize(("time", "batch"), KINDS)
def test_sum_reduction(time, batch):
    logits, targets, weights = case()
    assert_loss(sequence_loss(logits, targets, weights, **sums(time, batch)), reduced(time, batch, [LOSS] * STEPS))


@pytest.mark.parametrize(("time", "batch"), KINDS)
def test_weighted_sum_reduction(time, batch):
    logits, targets, weights = case()
    weights[:, -1] = 0
    found = sequence_loss(logits, targets, weights, **sums(time, batch))
    assert_loss(found, reduced(time, batch, [LOSS, LOSS, 0.0]))


@pytest.mark.parametrize("reductions", [averages, sums])
@pytest.mark.parametrize(("time", "batch"), KINDS)
def test_zero_weights(reductions, time, batch):
    logits, targets, weights = case()
    logits.requires_grad_()
    found = sequence_loss(logits, targets, 0 * weights, **reductions(time, batch))
    assert torch.equal(found, torch.zeros_like(reduced(time, batch, [LOSS] * STEPS)))
    (gradient,) = torch.autograd.grad(found.sum(), logits)
    assert not gradient.any()
