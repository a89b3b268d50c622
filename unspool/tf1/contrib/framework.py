"""`tf.contrib.framework`: variables of a model, arguments for blocks, step counters, nested structures."""

from __future__ import annotations

from typing import Any

from unspool.tf1.contrib.arg_scope import (
    add_arg_scope,
    arg_scope,
    arg_scope_func_key,
    arg_scoped_arguments,
    current_arg_scope,
    has_arg_scope,
)
from unspool.tf1.contrib.variables import (
    add_model_variable,
    assign_from_checkpoint_fn,
    filter_variables,
    get_local_variables,
    get_model_variables,
    get_trainable_variables,
    get_unique_variable,
    get_variable_full_name,
    get_variables,
    get_variables_by_name,
    get_variables_by_suffix,
    get_variables_to_restore,
    global_variable,
    local_variable,
    model_variable,
    variable,
)
from unspool.tf1.internals import nest
from unspool.tf1.namespace import missing
from unspool.tf1.operations import as_tensor
from unspool.tf1.shapes import described
from unspool.tf1.tensor import Operators, Tensor
from unspool.tf1.train.reader import list_variables, load_checkpoint, load_variable
from unspool.tf1.train.step import create_global_step, get_global_step, get_or_create_global_step

__all__ = [
    "add_arg_scope",
    "add_model_variable",
    "arg_scope",
    "arg_scope_func_key",
    "arg_scoped_arguments",
    "assert_global_step",
    "assert_scalar",
    "assert_scalar_int",
    "assign_from_checkpoint_fn",
    "create_global_step",
    "current_arg_scope",
    "filter_variables",
    "get_global_step",
    "get_local_variables",
    "get_model_variables",
    "get_or_create_global_step",
    "get_trainable_variables",
    "get_unique_variable",
    "get_variable_full_name",
    "get_variables",
    "get_variables_by_name",
    "get_variables_by_suffix",
    "get_variables_to_restore",
    "global_variable",
    "has_arg_scope",
    "is_tensor",
    "list_variables",
    "load_checkpoint",
    "load_variable",
    "local_variable",
    "model_variable",
    "nest",
    "variable",
]


def assert_scalar(tensor: Any, name: str | None = None) -> Tensor:
    """The tensor; `ValueError` if it is known that it is no scalar.

    >>> from unspool import tf1 as tf
    >>> tf.contrib.framework.assert_scalar(tf.constant(2.0)).shape
    TensorShape([])
    """
    given = as_tensor(tensor)
    if given.dims not in (None, ()):
        raise ValueError(f"Expected scalar shape for {given.name}, saw shape: {described(given.dims)}.")
    return given


def assert_scalar_int(tensor: Any, name: str | None = None) -> Tensor:
    """The tensor; `ValueError` if it is no scalar of whole numbers."""
    given = as_tensor(tensor)
    if not given.dtype.is_integer:
        raise ValueError(f"Expected integer type for {given.name}, received type: {given.dtype!r}.")
    return assert_scalar(given)


def assert_global_step(global_step_tensor: Any) -> None:
    """Raises `TypeError` unless it may count steps: a scalar of whole numbers."""
    given = as_tensor(global_step_tensor)
    if not given.dtype.is_integer:
        raise TypeError(f'Existing "global_step" does not have integer type: {given.dtype!r}')
    if given.dims not in (None, ()):
        raise TypeError(f'Existing "global_step" is not scalar: {described(given.dims)}')


def is_tensor(x: Any) -> bool:
    """Whether it is a tensor or a variable of the graph."""
    return isinstance(x, Operators)


def __getattr__(name: str) -> Any:
    raise missing("tf.contrib.framework", name, __all__)
