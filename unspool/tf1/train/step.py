"""The variable that counts training steps."""

from __future__ import annotations

from typing import Any

from unspool.tf1.dtypes import int64
from unspool.tf1.graph import Graph, get_default_graph
from unspool.tf1.initializers import zeros_initializer
from unspool.tf1.scopes import get_variable
from unspool.tf1.variables import GraphKeys


def get_global_step(graph: Graph | None = None) -> Any:
    """The variable, or tensor named "global_step", that counts steps; None if there is none.

    Raises:
        TypeError: if it is no scalar of whole numbers.
    """
    chosen = (graph or get_default_graph()).root
    found = chosen.get_collection(GraphKeys.GLOBAL_STEP)
    if len(found) > 1:
        return None
    if not found:
        try:
            named = chosen.get_tensor_by_name("global_step:0")
        except KeyError:
            return None
        variables = chosen.get_collection(GraphKeys.GLOBAL_VARIABLES)
        found = [next((each for each in variables if each.value() is named), named)]
    if not found[0].dtype.is_integer or found[0].shape.ndims not in (0, None):
        raise TypeError(f'Existing "global_step" must be a scalar of whole numbers, but is {found[0]!r}')
    return found[0]


def create_global_step(graph: Graph | None = None) -> Any:
    """A new variable "global_step" of int64 that begins with 0; `ValueError` if there is one."""
    chosen = (graph or get_default_graph()).root
    if get_global_step(chosen) is not None:
        raise ValueError('"global_step" already exists.')
    with chosen.as_default(), chosen.name_scope(None):
        lists = [GraphKeys.GLOBAL_VARIABLES, GraphKeys.GLOBAL_STEP]
        return get_variable(GraphKeys.GLOBAL_STEP, [], int64, zeros_initializer(), trainable=False, collections=lists)


def get_or_create_global_step(graph: Graph | None = None) -> Any:
    """The variable that counts steps, made if there is none.

    >>> from unspool import tf1 as tf
    >>> step = tf.train.get_or_create_global_step()
    >>> step is tf.train.get_or_create_global_step(), step.dtype
    (True, tf.int64)
    """
    found = get_global_step(graph)
    return create_global_step(graph) if found is None else found


def global_step(sess: Any, global_step_tensor: Any) -> int:
    """How many steps a session has counted."""
    return int(sess.run(global_step_tensor))
