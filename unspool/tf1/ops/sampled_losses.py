"""Losses over many classes that look at a few of them: sampled softmax and noise-contrastive estimation."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F

from unspool.flags import checks_flags
from unspool.tf1.dtypes import int64
from unspool.tf1.gradients import stop_gradient
from unspool.tf1.operations import apply, as_tensor
from unspool.tf1.ops.array import reshape
from unspool.tf1.ops.candidates import hit_mask, log_uniform_candidate_sampler
from unspool.tf1.ops.classes import embedding_lookup
from unspool.tf1.ops.joining import concat
from unspool.tf1.ops.math import cast
from unspool.tf1.shapes import described


@checks_flags
def sampled_softmax_loss(
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: Any = None,
    remove_accidental_hits: bool = True,
    partition_strategy: str = "mod",
    name: str = "sampled_softmax_loss",
    seed: int | None = None,
) -> Any:
    """The cross entropy of the softmax over the true classes and some sampled ones (Jean et al., 2015).

    Args:
        weights: `[num_classes, depth]`, or a list of its parts; only the rows of these classes get a gradient.
        biases: `[num_classes]`.
        labels: `[batch, num_true]` ints, the true classes.
        inputs: `[batch, depth]`, what the logits are computed of.
        num_sampled: how many classes are sampled, for all rows together.
        num_classes: how many there are.
        num_true: how many true classes a row has.
        sampled_values: what a candidate sampler gave; by default that of `log_uniform_candidate_sampler`.
        remove_accidental_hits: whether a sampled class that is a true one of a row does not count for it.
        partition_strategy: how parts of the weights share the rows, see `embedding_lookup`.
        seed: makes the draws repeatable.

    Returns:
        `[batch]`, the loss of each row.

    >>> from unspool import tf1 as tf
    >>> every = tf.nn.all_candidate_sampler([[1]], 1, 3, True)
    >>> loss = tf.nn.sampled_softmax_loss(tf.ones([3, 2]), tf.zeros([3]), [[1]], tf.ones([1, 2]), 3, 3, 1, every)
    >>> tf.Session().run(loss)
    array([1.0986123], dtype=float32)
    """

    def compute(true: torch.Tensor, sampled: torch.Tensor) -> torch.Tensor:
        return torch.cat([true, sampled], 1).logsumexp(1) - true.sum(1) / num_true

    return _loss(
        name, compute, weights, biases, labels, inputs, num_sampled, num_classes, num_true, sampled_values,
        remove_accidental_hits, partition_strategy, seed,
    )  # fmt: skip


@checks_flags
def nce_loss(
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: Any = None,
    remove_accidental_hits: bool = False,
    partition_strategy: str = "mod",
    name: str = "nce_loss",
) -> Any:
    """Noise-contrastive estimation (Gutmann and Hyvarinen, 2010): whether a class is a true one, or was sampled.

    Arguments are those of `sampled_softmax_loss`; by default a sampled class counts as noise even where it is true.

    >>> from unspool import tf1 as tf
    >>> every = tf.nn.all_candidate_sampler([[1]], 1, 3, True)
    >>> tf.Session().run(tf.nn.nce_loss(tf.ones([3, 2]), tf.zeros([3]), [[1]], tf.zeros([1, 2]), 3, 3, 1, every))
    array([2.7725887], dtype=float32)
    """

    def compute(true: torch.Tensor, sampled: torch.Tensor) -> torch.Tensor:
        # The true classes share one truth: each has the label 1 / num_true.
        return (F.softplus(true) - true / num_true).sum(1) + F.softplus(sampled).sum(1)

    return _loss(
        name, compute, weights, biases, labels, inputs, num_sampled, num_classes, num_true, sampled_values,
        remove_accidental_hits, partition_strategy, None,
    )  # fmt: skip


def _loss(
    name: str,
    compute: Any,
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    num_sampled: int,
    num_classes: int,
    num_true: int,
    sampled_values: Any,
    remove_hits: bool,
    partition_strategy: str,
    seed: int | None,
) -> Any:
    """`compute` of the logits of true and of sampled classes, both corrected for how often they are sampled."""
    given, wanted = as_tensor(inputs), cast(as_tensor(labels), int64)
    if given.dims is not None and len(given.dims) != 2:
        raise ValueError(f"{name}: inputs must have shape [batch, depth], but have {described(given.dims)}")
    rows = wanted.dims[0] if wanted.dims and len(wanted.dims) == 2 else None
    if rows not in (None, 1) and given.dims is not None and given.dims[0] not in (None, rows):
        raise ValueError(f"{name}: labels have {rows} rows, but inputs {given.dims[0]}")
    if sampled_values is None:
        sampled_values = log_uniform_candidate_sampler(wanted, num_true, num_sampled, True, num_classes, seed)
    chosen, true_count, sampled_count = (stop_gradient(each) for each in sampled_values)
    chosen = cast(chosen, int64)
    flat = reshape(wanted, [-1])
    # One lookup for both, as in TensorFlow: so the gradient holds the true classes first, then the sampled ones.
    every = concat([flat, chosen], 0)
    chosen_rows = embedding_lookup(weights, every, partition_strategy)
    shifts = embedding_lookup(biases, every, partition_strategy)

    def losses(
        x: torch.Tensor,
        w: torch.Tensor,
        b: torch.Tensor,
        classes: torch.Tensor,
        drawn: torch.Tensor,
        *counts: torch.Tensor,
    ) -> torch.Tensor:
        count = len(classes)
        of_true = w[:count].reshape(-1, num_true, w.shape[1])
        if len(of_true) not in (1, len(x)):  # one row of labels is that of all inputs
            raise ValueError(f"labels have {len(of_true)} rows of {num_true} classes, but inputs {len(x)} rows")
        true = (x[:, None] * of_true).sum(2) + b[:count].reshape(-1, num_true) - torch.log(counts[0])
        sampled = x @ w[count:].T + b[count:]
        if remove_hits:
            hits = hit_mask(classes.reshape(-1, num_true), drawn)
            sampled = sampled.masked_fill(hits, torch.finfo(sampled.dtype).min)
        return compute(true, sampled - torch.log(counts[1]))

    batch = None if given.dims is None else given.dims[0]
    inputs_of = given, chosen_rows, shifts, flat, chosen, true_count, sampled_count
    return apply(name, losses, *inputs_of, name=name, outputs=[(given.dtype, (batch,))])
