"""Sequences for the loops of the graph, and what their tests ask about these."""

from __future__ import annotations

from typing import Any

import numpy as np

from unspool import tf1 as tf
from unspool.structure import flatten

BATCH, STEPS, DEPTH, UNITS = 3, 5, 4, 6
LENGTHS = [5, 0, 3]
rng = np.random.default_rng(0)
INPUTS = rng.normal(size=(BATCH, STEPS, DEPTH))


def names() -> list[str]:
    return [variable.name for variable in tf.trainable_variables()]


def inputs_placeholder() -> tf.Tensor:
    return tf.placeholder(tf.float64, [None, STEPS, DEPTH], name="x")


def gradients_of(outputs: Any, state: Any) -> Any:
    loss = sum(tf.reduce_sum(tf.square(leaf)) for leaf in flatten((outputs, state)))
    return tf.gradients(loss, tf.trainable_variables())
