"""Where variables of a cluster would be: programs say so, and a session runs where torch does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def replica_device_setter(ps_tasks: int = 0, cluster: Any = None, **unused: Any) -> Callable[[Any], str] | None:
    """A function for `tf.device`, which places nothing; None without parameter servers, as in TensorFlow.

    >>> from unspool import tf1 as tf
    >>> with tf.device(tf.train.replica_device_setter(ps_tasks=2)):
    ...     tf.Variable(0.0).name
    'Variable:0'
    """
    return None if not ps_tasks and cluster is None else lambda op: ""
