"""The loss of sequences of ids, and masks from lengths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unspool.dtypes import as_dtype
from unspool.flags import checks_flags
from unspool.loops.tensors import as_tensor
from unspool.tracers import constant, has_values, obstacle, static_shape

SoftmaxLoss = Callable[..., Tensor]
"""Called with the keywords `labels` and `logits`; returns a loss for each label."""

_LEFT_OUT = -100
"""The target of which torch's cross entropy takes no notice."""


@checks_flags
def sequence_loss(
    logits: Any,
    targets: Any,
    weights: Any,
    average_across_timesteps: bool = True,
    average_across_batch: bool = True,
    sum_over_timesteps: bool = False,
    sum_over_batch: bool = False,
    softmax_loss_function: SoftmaxLoss | None = None,
) -> Tensor:
    """The cross entropy of `logits` and `targets`, weighted, and averaged over time, batch, both or neither.

    An average divides by the sum of the weights. As in TensorFlow, a "sum" divides too: by how many weights are not
    zero. Where there is nothing to divide by, the loss is 0. A position of weight 0 is left out: its target may be
    anything.

    Args:
        logits: `[batch, time, classes]`.
        targets: ids `[batch, time]`.
        weights: `[batch, time]`; 1 and 0, or True and False, for what is there and what is padding, as `sequence_mask`
            gives it.
        average_across_timesteps: whether to average over time.
        average_across_batch: whether to average over the batch.
        sum_over_timesteps: whether to sum over time; averages and sums exclude each other.
        sum_over_batch: whether to sum over the batch.
        softmax_loss_function: in the place of the cross entropy: `softmax_loss_function(labels=, logits=)` takes ids
            `[batch * time]` and logits `[batch * time, classes]` and returns a loss for each.

    Returns:
        A scalar; `[batch]` if only time is reduced, `[time]` if only the batch is; `[batch, time]` if neither is.

    Raises:
        TypeError: if the logits are no floating-point numbers or the targets no ints.
        ValueError: if the shapes do not fit, a target is not among the classes, or the reductions exclude each other.

    >>> logits, targets = torch.zeros(2, 3, 5), torch.tensor([[4, 2, 0], [1, 0, 0]])
    >>> sequence_loss(logits, targets, sequence_mask([3, 1]))  # log(5): one of five
    tensor(1.6094)
    """
    _check_reductions(average_across_timesteps, average_across_batch, sum_over_timesteps, sum_over_batch)
    logits, targets, weights = as_tensor(logits, "logits"), as_tensor(targets, "targets"), as_tensor(weights, "weights")
    _check_shapes(logits, targets, weights)
    present = weights != 0
    _check_targets(targets, present, logits.shape[2])
    weights = weights.to(logits.dtype)
    if softmax_loss_function is None:
        ids = torch.where(present, targets.long(), _LEFT_OUT)
        losses = F.cross_entropy(logits.flatten(0, 1), ids.flatten(), reduction="none", ignore_index=_LEFT_OUT)
    else:
        losses = softmax_loss_function(labels=targets.flatten(), logits=logits.flatten(0, 1))
    losses = losses.reshape(weights.shape)
    losses = torch.where(present, losses * weights, 0)
    axes = _axes(average_across_batch, average_across_timesteps)
    if axes:
        return _divide(losses.sum(axes), weights.sum(axes))
    axes = _axes(sum_over_batch, sum_over_timesteps)
    return _divide(losses.sum(axes), present.sum(axes).to(losses.dtype)) if axes else losses


class SequenceLoss(nn.Module):
    """`sequence_loss` as a module, with the "sum" over both axes by default: the mean of what is not padding.

    Args:
        average_across_timesteps, average_across_batch, sum_over_timesteps, sum_over_batch, softmax_loss_function: as in
            `sequence_loss`.

    Raises:
        ValueError: if the reductions exclude each other.

    >>> loss = SequenceLoss()
    >>> loss(torch.tensor([[4, 2, 0]]), torch.zeros(1, 3, 5), sequence_mask([2], 3))
    tensor(1.6094)
    """

    @checks_flags
    def __init__(
        self,
        average_across_timesteps: bool = False,
        average_across_batch: bool = False,
        sum_over_timesteps: bool = True,
        sum_over_batch: bool = True,
        softmax_loss_function: SoftmaxLoss | None = None,
    ) -> None:
        super().__init__()
        self.reductions = (average_across_timesteps, average_across_batch, sum_over_timesteps, sum_over_batch)
        _check_reductions(*self.reductions)
        self.softmax_loss_function = softmax_loss_function

    def forward(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Tensor:
        """The loss of logits `y_pred` for ids `y_true`, in this order; without weights, all positions count."""
        if sample_weight is None:
            sample_weight = torch.ones_like(as_tensor(y_true, "y_true"), dtype=torch.bool)
        return sequence_loss(y_pred, y_true, sample_weight, *self.reductions, self.softmax_loss_function)


def sequence_mask(lengths: Any, maxlen: int | None = None, dtype: Any = torch.bool) -> Tensor:
    """A mask with the first `lengths[...]` entries of a new last axis true.

    Args:
        lengths: ints of any shape.
        maxlen: the size of the new axis; the largest length by default.
        dtype: the dtype of the mask.

    Raises:
        TypeError: if the lengths are no ints.
        ValueError: if `maxlen` is negative.

    >>> sequence_mask([1, 3, 2], dtype=torch.int32)
    tensor([[1, 0, 0],
            [1, 1, 1],
            [1, 1, 0]], dtype=torch.int32)
    """
    lengths = constant(lengths) if type(lengths) in (list, tuple) else as_tensor(lengths, "lengths")
    if not _is_whole(lengths) and lengths.numel():
        raise TypeError(f"lengths must hold ints, but is {lengths.dtype}")
    if maxlen is None:
        if lengths.numel() and not has_values(lengths):
            raise ValueError(f"maxlen must be given: the largest length cannot be read under {obstacle()}")
        maxlen = max(0, int(lengths.max())) if lengths.numel() else 0
    if maxlen < 0:
        raise ValueError(f"maxlen must not be negative, but is {maxlen}")
    mask = torch.arange(maxlen, device=lengths.device) < lengths[..., None]
    return mask.to(as_dtype(dtype))


def _check_reductions(average_time: bool, average_batch: bool, sum_time: bool, sum_batch: bool) -> None:
    for average, total, axis in [(average_time, sum_time, "timesteps"), (average_batch, sum_batch, "batch")]:
        if average and total:
            raise ValueError(f"average_across_{axis} and sum_over_{axis} exclude each other, but both are True")
    if (average_time or average_batch) and (sum_time or sum_batch):
        one, other = ("timesteps", "batch") if average_time else ("batch", "timesteps")
        raise ValueError(
            f"average_across_{one} and sum_over_{other} exclude each other: both axes are averaged, or both summed"
        )


def _axes(batch: bool, time: bool) -> list[int]:
    return [axis for axis, reduced in enumerate((batch, time)) if reduced]


def _check_shapes(logits: Tensor, targets: Tensor, weights: Tensor) -> None:
    expected = [(logits, "logits", "[batch, time, classes]", 3), (targets, "targets", "[batch, time]", 2)]
    for tensor, name, axes, rank in [*expected, (weights, "weights", "[batch, time]", 2)]:
        if tensor.dim() != rank:
            raise ValueError(f"{name} must have shape {axes}, but has {list(tensor.shape)}")
    for tensor, name in [(targets, "targets"), (weights, "weights")]:
        if static_shape(tensor) != static_shape(logits)[:2]:
            longer = tensor.shape[0] == logits.shape[0] and tensor.shape[1] > logits.shape[1]
            hint = f"; a decode is as long as its longest row, so cut it: {name}[:, : logits.shape[1]]"
            raise ValueError(
                f"{name} has shape {list(tensor.shape)}, but logits have batch and time {list(logits.shape[:2])}"
                f"{hint if longer else ''}"
            )
    if not logits.is_floating_point():
        raise TypeError(f"logits must be floating-point numbers, but are {logits.dtype}")
    if not _is_whole(targets):
        raise TypeError(f"targets must be ids, which are ints, but are {targets.dtype}")


def _check_targets(targets: Tensor, present: Tensor, classes: int) -> None:
    """Raises `ValueError` naming the first target that is no class. Only where looking is free: on the CPU."""
    if targets.device.type != "cpu" or not (has_values(targets) and has_values(present)):
        return
    wrong = (present.to(targets.device) & ((targets < 0) | (targets >= classes))).nonzero()
    if len(wrong):
        row, time = (int(index) for index in wrong[0])
        raise ValueError(f"targets[{row}, {time}] is {int(targets[row, time])}, but logits have {classes} classes")


def _divide(total: Tensor, count: Tensor) -> Tensor:
    """`total / count`, and 0 where the count is; the division itself never sees a zero, for its gradient's sake."""
    nothing = count == 0
    return torch.where(nothing, 0, total / torch.where(nothing, 1, count))


def _is_whole(tensor: Tensor) -> bool:
    return not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool)
