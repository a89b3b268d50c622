"""Regularisers of `tf.contrib.layers`: losses of weights."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from typing import Any

from unspool.tf1.graph import get_default_graph
from unspool.tf1.operations import as_tensor
from unspool.tf1.ops.math import abs_, add_n, multiply, reduce_sum
from unspool.tf1.ops.nn import l2_loss
from unspool.tf1.scopes import name_scope
from unspool.tf1.variables import GraphKeys


def l1_regularizer(scale: float, scope: str | None = None) -> Callable[[Any], Any]:
    """`scale` times the sum of absolute values, as a function of weights.

    >>> from unspool import tf1 as tf
    >>> tf.Session().run(tf.contrib.layers.l1_regularizer(0.5)(tf.constant([1.0, -3.0])))
    np.float32(2.0)
    """
    return _scaled(scale, scope, "l1_regularizer", lambda weights: reduce_sum(abs_(weights)))


def l2_regularizer(scale: float, scope: str | None = None) -> Callable[[Any], Any]:
    """`scale` times half the sum of squares, as a function of weights."""
    return _scaled(scale, scope, "l2_regularizer", l2_loss)


def l1_l2_regularizer(scale_l1: float = 1.0, scale_l2: float = 1.0, scope: str | None = None) -> Callable[[Any], Any]:
    """The sum of `l1_regularizer` and `l2_regularizer`."""
    return sum_regularizer([l1_regularizer(scale_l1), l2_regularizer(scale_l2)], scope)


def sum_regularizer(regularizer_list: Sequence[Any], scope: str | None = None) -> Callable[[Any], Any]:
    """The sum of several regularisers; None among them is left out."""
    chosen = [each for each in regularizer_list if each is not None]

    def total(weights: Any) -> Any:
        with name_scope(scope, "sum_regularizer"):
            made = [each for each in (regularizer(weights) for regularizer in chosen) if each is not None]
            return add_n(made) if made else None

    return total


def apply_regularization(regularizer: Callable[[Any], Any], weights_list: Sequence[Any] | None = None) -> Any:
    """The sum of a regulariser of weights, added to the regularisation losses; of the list "weights" if None."""
    graph = get_default_graph()
    chosen = list(weights_list) if weights_list else graph.get_collection("weights")
    if not chosen:
        raise ValueError("No weights to regularize.")
    made = [each for each in map(regularizer, chosen) if each is not None]
    total = add_n(made) if made else as_tensor(0.0)
    graph.add_to_collection(GraphKeys.REGULARIZATION_LOSSES, total)
    return total


def _scaled(scale: Any, scope: str | None, name: str, measure: Callable[[Any], Any]) -> Callable[[Any], Any]:
    if isinstance(scale, numbers.Integral):
        raise ValueError(f"scale cannot be an integer: {scale}")
    if isinstance(scale, numbers.Real):
        if scale < 0.0:
            raise ValueError(f"Setting a scale less than 0 on a regularizer: {scale}")
        if scale == 0.0:
            return lambda _: None

    def regularize(weights: Any) -> Any:
        with name_scope(scope, name):
            given = as_tensor(weights)
            return multiply(as_tensor(scale, given.dtype), measure(given))

    return regularize
