"""Losses over lists of steps, and models for sequences of several lengths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from unspool.tf1.ops.array import reshape, shape
from unspool.tf1.ops.math import add_n, cast
from unspool.tf1.ops.nn import sparse_softmax_cross_entropy_with_logits
from unspool.tf1.ops.reductions import reduce_sum
from unspool.tf1.scopes import get_variable_scope, name_scope, variable_scope


def sequence_loss_by_example(
    logits: Sequence[Any],
    targets: Sequence[Any],
    weights: Sequence[Any],
    average_across_timesteps: bool = True,
    softmax_loss_function: Callable[..., Any] | None = None,
    name: str | None = None,
) -> Any:
    """The cross entropy of each row, weighted and averaged over the steps.

    Args:
        logits: the steps, each `[batch, symbols]`.
        targets: the steps, each `[batch]` ints.
        weights: the steps, each `[batch]`.
        average_across_timesteps: whether it is divided by the sum of a row's weights.
        softmax_loss_function: called with `labels` and `logits`, in the place of the cross entropy.

    Raises:
        ValueError: if the lists are not of one length.

    >>> from unspool import tf1 as tf
    >>> loss = tf.contrib.legacy_seq2seq.sequence_loss_by_example([tf.zeros([1, 2])], [[0]], [[1.0]])
    >>> tf.Session().run(loss)
    array([0.6931472], dtype=float32)
    """
    if len(targets) != len(logits) or len(weights) != len(logits):
        raise ValueError(
            f"Lengths of logits, weights, and targets must be the same {len(logits)}, {len(weights)}, {len(targets)}."
        )
    with name_scope(name, "sequence_loss_by_example"):
        losses: list[Any] = []
        for logit, target, weight in zip(logits, targets, weights, strict=True):
            if softmax_loss_function is None:
                loss = sparse_softmax_cross_entropy_with_logits(labels=reshape(target, [-1]), logits=logit)
            else:
                loss = softmax_loss_function(labels=target, logits=logit)
            losses.append(loss * weight)
        total = add_n(losses)
        return total / (add_n(weights) + 1e-12) if average_across_timesteps else total


def sequence_loss(
    logits: Sequence[Any],
    targets: Sequence[Any],
    weights: Sequence[Any],
    average_across_timesteps: bool = True,
    average_across_batch: bool = True,
    softmax_loss_function: Callable[..., Any] | None = None,
    name: str | None = None,
) -> Any:
    """The sum of `sequence_loss_by_example`, divided by the number of rows if it is to be averaged."""
    with name_scope(name, "sequence_loss"):
        each = sequence_loss_by_example(logits, targets, weights, average_across_timesteps, softmax_loss_function)
        total = reduce_sum(each)
        return total / cast(shape(targets[0])[0], total.dtype) if average_across_batch else total


def model_with_buckets(
    encoder_inputs: Sequence[Any],
    decoder_inputs: Sequence[Any],
    targets: Sequence[Any],
    weights: Sequence[Any],
    buckets: Sequence[tuple[int, int]],
    seq2seq: Callable[[Sequence[Any], Sequence[Any]], tuple[list[Any], Any]],
    softmax_loss_function: Callable[..., Any] | None = None,
    per_example_loss: bool = False,
    name: str | None = None,
) -> tuple[list[list[Any]], list[Any]]:
    """The same model, with the same variables, for sequences of several lengths.

    Args:
        encoder_inputs, decoder_inputs, targets, weights: the steps of the longest bucket.
        buckets: pairs of lengths, of the encoder and of the decoder, the longest last.
        seq2seq: takes encoder inputs and decoder inputs to outputs and a state.
        softmax_loss_function: see `sequence_loss_by_example`.
        per_example_loss: whether there is a loss for each row.

    Returns:
        The outputs and the loss of each bucket.

    Raises:
        ValueError: if there are fewer steps than the last bucket has.
    """
    for what, given, needed in (
        ("encoder_inputs", encoder_inputs, buckets[-1][0]),
        ("targets", targets, buckets[-1][1]),
        ("weights", weights, buckets[-1][1]),
    ):
        if len(given) < needed:
            raise ValueError(f"Length of {what} ({len(given)}) must be at least that of last bucket ({needed}).")
    loss = sequence_loss_by_example if per_example_loss else sequence_loss
    outputs, losses = list[list[Any]](), list[Any]()
    with name_scope(name, "model_with_buckets"):
        for number, (read, written) in enumerate(buckets):
            with variable_scope(get_variable_scope(), reuse=True if number else None):
                outputs.append(seq2seq(encoder_inputs[:read], decoder_inputs[:written])[0])
                steps = outputs[-1], targets[:written], weights[:written]
                losses.append(loss(*steps, softmax_loss_function=softmax_loss_function))
    return outputs, losses
