"""Variables of a model, and how to find them: `tf.contrib.framework`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from unspool.tf1.contrib.arg_scope import add_arg_scope
from unspool.tf1.dtypes import float32
from unspool.tf1.graph import get_default_graph
from unspool.tf1.scopes import VariableScope, get_variable
from unspool.tf1.train.reader import load_checkpoint
from unspool.tf1.train.saver import Saver
from unspool.tf1.variables import GraphKeys, Variable


@add_arg_scope
def variable(
    name: str,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    collections: Any = None,
    caching_device: Any = None,
    device: Any = None,
    partitioner: Any = None,
    custom_getter: Any = None,
    use_resource: Any = None,
    **unused: Any,
) -> Any:
    """`tf.get_variable`, which takes arguments from `arg_scope`."""
    lists = list(collections if collections is not None else [GraphKeys.GLOBAL_VARIABLES])
    return get_variable(
        name, shape, dtype, initializer, regularizer, trainable, list(dict.fromkeys(lists)), custom_getter=custom_getter
    )


@add_arg_scope
def model_variable(
    name: str,
    shape: Any = None,
    dtype: Any = float32,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    collections: Any = None,
    **more: Any,
) -> Any:
    """A variable that is also in the collection `tf.GraphKeys.MODEL_VARIABLES`.

    >>> from unspool import tf1 as tf
    >>> with tf.Graph().as_default():
    ...     weight = tf.contrib.framework.model_variable("weight", [2])
    ...     tf.contrib.framework.get_model_variables() == [weight]
    True
    """
    lists = [*(collections or ()), GraphKeys.GLOBAL_VARIABLES, GraphKeys.MODEL_VARIABLES]
    return variable(name, shape, dtype, initializer, regularizer, trainable, lists, **more)


def local_variable(initial_value: Any, validate_shape: bool = True, name: str | None = None, **unused: Any) -> Variable:
    """A variable that is not saved, in the collection `tf.GraphKeys.LOCAL_VARIABLES`."""
    return Variable(initial_value, False, [GraphKeys.LOCAL_VARIABLES], validate_shape, name=name)


def global_variable(
    initial_value: Any, validate_shape: bool = True, name: str | None = None, **unused: Any
) -> Variable:
    """A variable that is not trained."""
    return Variable(initial_value, False, [GraphKeys.GLOBAL_VARIABLES], validate_shape, name=name)


def add_model_variable(var: Any) -> None:
    """Adds a variable to the collection `tf.GraphKeys.MODEL_VARIABLES`, once."""
    if not any(each is var for each in get_default_graph().get_collection(GraphKeys.MODEL_VARIABLES)):
        get_default_graph().add_to_collection(GraphKeys.MODEL_VARIABLES, var)


def get_variables(
    scope: Any = None, suffix: str | None = None, collection: str = GraphKeys.GLOBAL_VARIABLES
) -> list[Any]:
    """The variables of a collection whose names begin with a scope, and have a suffix somewhere after it."""
    given = scope.name if isinstance(scope, VariableScope) else scope
    if suffix is not None:
        given = f"{given or ''}.*{suffix if ':' in suffix else suffix + ':'}"
    found = get_default_graph().get_collection(collection)
    return [each for each in found if re.match(given or "", each.name)]


def get_model_variables(scope: Any = None, suffix: str | None = None) -> list[Any]:
    """The variables of the model; see `get_variables`."""
    return get_variables(scope, suffix, GraphKeys.MODEL_VARIABLES)


def get_local_variables(scope: Any = None, suffix: str | None = None) -> list[Any]:
    """The local variables; see `get_variables`."""
    return get_variables(scope, suffix, GraphKeys.LOCAL_VARIABLES)


def get_trainable_variables(scope: Any = None, suffix: str | None = None) -> list[Any]:
    """The trainable variables; see `get_variables`."""
    return get_variables(scope, suffix, GraphKeys.TRAINABLE_VARIABLES)


def get_variables_by_suffix(suffix: str, scope: Any = None) -> list[Any]:
    """The variables whose names end with a suffix."""
    return get_variables(scope, suffix)


def get_variables_by_name(given_name: str, scope: Any = None) -> list[Any]:
    """The variables of that name, in whatever scope."""
    return [each for each in get_variables(scope) if each.op.name.split("/")[-1] == given_name]


def get_unique_variable(var_op_name: str) -> Any:
    """The variable of that whole name; `ValueError` if there is none."""
    found = [each for each in get_variables() if each.op.name == var_op_name]
    if not found:
        raise ValueError(f"Variable {var_op_name} not found in graph")
    return found[0]


def get_variable_full_name(var: Any) -> str:
    """The name of a variable, without `:0`."""
    return var.op.name


def get_variables_to_restore(include: Sequence[str] | None = None, exclude: Sequence[str] | None = None) -> list[Any]:
    """The variables below scopes to include, all by default, without those below scopes to exclude."""
    for name, value in (("include", include), ("exclude", exclude)):
        if value is not None and not isinstance(value, list | tuple | set):
            raise TypeError(f"{name} is provided but is not a list or a tuple.")
    chosen = [each for scope in include or [None] for each in get_variables(scope)]
    left = [each for scope in exclude or () for each in get_variables(scope)]
    return list(dict.fromkeys(each for each in chosen if each not in left))


def filter_variables(
    var_list: Sequence[Any],
    include_patterns: Sequence[str] | None = None,
    exclude_patterns: Sequence[str] | None = None,
    reg_search: bool = True,
) -> list[Any]:
    """Those of the variables whose names fit a pattern to include, and none to exclude."""
    fits = re.search if reg_search else re.match
    wanted, unwanted = include_patterns or [""], exclude_patterns or ()
    chosen = [each for each in var_list if any(fits(pattern, each.op.name) for pattern in wanted)]
    return [each for each in chosen if not any(fits(pattern, each.op.name) for pattern in unwanted)]


def assign_from_checkpoint_fn(
    model_path: str, var_list: Any, ignore_missing_vars: bool = False, reshape_variables: bool = False
) -> Callable[[Any], None] | None:
    """A function of a session that gives variables the values of a checkpoint.

    Args:
        model_path: the prefix of the checkpoint.
        var_list: the variables, or a dict of them by their names in it.
        ignore_missing_vars: whether variables that it lacks stay as they are.
        reshape_variables: whether values may have another shape with as many elements.

    Returns:
        The function; None if the checkpoint has none of the variables.
    """
    chosen = dict(var_list) if isinstance(var_list, dict) else {each.op.name: each for each in var_list}
    if ignore_missing_vars:
        reader = load_checkpoint(model_path)
        chosen = {name: each for name, each in chosen.items() if reader.has_tensor(name)}
    if not chosen:
        return None
    saver = Saver(chosen, reshape=reshape_variables)
    return lambda session: saver.restore(session, model_path)
