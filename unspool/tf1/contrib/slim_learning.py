"""`tf.contrib.slim.learning`: training operations; the loop is the program's own, with `tf.Session`."""

from __future__ import annotations

from typing import Any

from unspool.tf1.contrib.train_op import add_gradients_summaries, clip_gradient_norms, multiply_gradients
from unspool.tf1.contrib.train_op import create_clipped_train_op as create_train_op
from unspool.tf1.namespace import missing

__all__ = ["add_gradients_summaries", "clip_gradient_norms", "create_train_op", "multiply_gradients"]


def __getattr__(name: str) -> Any:
    raise missing("tf.contrib.slim.learning", name, __all__)
