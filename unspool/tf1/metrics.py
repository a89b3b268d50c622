"""`tf.metrics`: averages over many runs, kept in local variables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from unspool.tf1.dtypes import float32
from unspool.tf1.graph import get_default_graph
from unspool.tf1.namespace import missing
from unspool.tf1.operations import apply, as_tensor
from unspool.tf1.ops.array import squeeze
from unspool.tf1.ops.math import cast, div_no_nan, equal
from unspool.tf1.scopes import variable_scope
from unspool.tf1.shapes import described, fit
from unspool.tf1.tensor import Tensor
from unspool.tf1.variables import GraphKeys, Variable

if TYPE_CHECKING:
    from unspool.tf1.session import Run

__all__ = ["accuracy", "mean"]


def mean(
    values: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """The mean of all values so far, and a tensor that counts another batch and is the mean then.

    `tf.local_variables_initializer()` begins again.

    Args:
        values: a tensor of any shape.
        weights: how much each counts; a tensor that can be stretched to the values.
        metrics_collections: lists to add the mean to.
        updates_collections: lists to add the update to.
        name: of the scope of its variables; "mean" by default.

    >>> from unspool import tf1 as tf
    >>> x = tf.placeholder(tf.float32, [None])
    >>> value, update = tf.metrics.mean(x)
    >>> with tf.Session() as session:
    ...     session.run(tf.local_variables_initializer())
    ...     print(session.run(update, {x: [1.0, 2.0]}), session.run(update, {x: [6.0]}), session.run(value))
    1.5 3.0 3.0
    """
    graph = get_default_graph()
    with variable_scope(name, "mean"):
        total, count = _metric_variable("total"), _metric_variable("count")
        given = cast(as_tensor(values), float32)
        inputs = [given] if weights is None else [given, cast(as_tensor(weights), float32)]

        def update(run: Run, batch: torch.Tensor, *weight: torch.Tensor) -> torch.Tensor:
            spread = weight[0].expand(batch.shape) if weight else torch.ones_like(batch)
            totals, counts = run.state.value_of(total), run.state.value_of(count)
            with torch.no_grad():
                totals.add_((batch * spread).sum())
                counts.add_(spread.sum())
                return torch.where(counts == 0, torch.zeros_like(totals), totals / counts)

        value = div_no_nan(total, count, name="value")
        updated = apply(
            "update_op", update, *inputs, outputs=[(float32, ())], takes_run=True, effect=True, name="update_op"
        )
    graph.add_to_collections(metrics_collections or (), value)
    graph.add_to_collections(updates_collections or (), updated)
    return value, updated


def accuracy(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """What part of the predictions were the labels so far, and a tensor that counts another batch; see `mean`."""
    wanted, found = as_tensor(labels), as_tensor(predictions)
    wanted, found = _alike(wanted, found), _alike(found, wanted)
    if not fit(wanted.dims, found.dims):
        raise ValueError(
            f"Shapes {described(found.dims)} and {described(wanted.dims)} are incompatible: predictions and labels "
            "must have one shape"
        )
    right = equal(cast(found, wanted.dtype), wanted)
    return mean(right, weights, metrics_collections, updates_collections, name or "accuracy")


def _alike(one: Tensor, other: Tensor) -> Tensor:
    """The first, without its last axis if that has size 1 and the other has it not."""
    if not one.dims or other.dims is None or len(one.dims) != len(other.dims) + 1 or one.dims[-1] != 1:
        return one
    return squeeze(one, [-1])


def _metric_variable(name: str) -> Variable:
    lists = [GraphKeys.LOCAL_VARIABLES, GraphKeys.METRIC_VARIABLES]
    return Variable(0.0, trainable=False, collections=lists, name=name)


def __getattr__(name: str) -> Any:
    raise missing("tf.metrics", name, globals())
