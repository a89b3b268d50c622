"""Functions on the default graph: collections, `control_dependencies`, `device`."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

from unspool.tf1.graph import get_default_graph


def control_dependencies(control_inputs: Iterable[Any] | None) -> AbstractContextManager[None]:
    """A context: operations made inside run after these.

    >>> from unspool import tf1 as tf
    >>> count = tf.Variable(0)
    >>> with tf.control_dependencies([count.assign_add(1)]):
    ...     after = tf.identity(count)
    >>> with tf.Session() as session:
    ...     session.run(tf.global_variables_initializer())
    ...     session.run(after)
    np.int32(1)
    """
    return get_default_graph().control_dependencies(control_inputs)


def device(device_name_or_function: Any) -> AbstractContextManager[None]:
    """A context that is accepted and ignored: a session runs where torch's default device is."""
    return get_default_graph().device(device_name_or_function)


def container(container_name: str) -> AbstractContextManager[str]:
    """A context that is accepted and ignored: each session has its own values of the variables.

    >>> from unspool import tf1 as tf
    >>> with tf.container("training"):
    ...     tf.Variable(0.0, name="weight").name
    'weight:0'
    """
    return get_default_graph().container(container_name)


def colocate_with(op: Any, ignore_existing: bool = False) -> AbstractContextManager[None]:
    """A context that is accepted and ignored, as `device` is."""
    return get_default_graph().colocate_with(op, ignore_existing)


def executing_eagerly() -> bool:
    """False: operations are added to a graph."""
    return False


def add_to_collection(name: str, value: Any) -> None:
    """Appends to a named list of the default graph."""
    get_default_graph().add_to_collection(name, value)


def get_collection(key: str, scope: str | None = None) -> list[Any]:
    """What was added to a list; with a scope, what has a name that begins so."""
    return get_default_graph().get_collection(key, scope)


def get_collection_ref(key: str) -> list[Any]:
    """The list itself."""
    return get_default_graph().get_collection_ref(key)
