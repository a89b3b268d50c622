"""Arguments that functions get where a block says so: `tf.contrib.framework.arg_scope`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar, cast

Arguments = dict[Any, dict[str, Any]]
Function = TypeVar("Function", bound=Callable[..., Any])

_current: ContextVar[Arguments] = ContextVar("arg_scope", default={})  # noqa: B039 (never changed in place)


def add_arg_scope(func: Function) -> Function:
    """Lets a function take arguments from `arg_scope`, where a call does not say otherwise."""

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **{**_current.get().get(_key(call), {}), **kwargs})

    call._key_op = _key(func)  # type: ignore[attr-defined]  # pyright: ignore[reportFunctionMemberAccess]
    return cast("Function", call)


@contextmanager
def arg_scope(list_ops_or_scope: Any, **kwargs: Any) -> Generator[Arguments, None, None]:
    """Inside the block, these functions get these arguments, where a call does not say otherwise.

    Args:
        list_ops_or_scope: functions with `add_arg_scope`; or what an `arg_scope` gave, to be in it again.
        kwargs: the arguments.

    Raises:
        TypeError: if it is neither.
        ValueError: if a function has no `add_arg_scope`, or there are arguments beside a scope to be in again.

    >>> from unspool import tf1 as tf
    >>> slim = tf.contrib.slim
    >>> with slim.arg_scope([slim.fully_connected], activation_fn=tf.tanh):
    ...     made = slim.fully_connected(tf.zeros([2, 3]), 4)
    >>> made.op.type
    'Tanh'
    """
    if isinstance(list_ops_or_scope, dict):
        if kwargs:
            raise ValueError("When attempting to re-use a scope by supplying a dictionary, kwargs must be empty.")
        new = dict(cast("Arguments", list_ops_or_scope))
    else:
        if not isinstance(list_ops_or_scope, list | tuple):
            raise TypeError("list_ops_or_scope must either be a list/tuple or reused scope (i.e. dict)")
        new = dict(_current.get())
        for each in cast("Sequence[Any]", list_ops_or_scope):
            if not has_arg_scope(each):
                raise ValueError(f"{getattr(each, '__name__', each)} is not decorated with @add_arg_scope")
            new[_key(each)] = {**new.get(_key(each), {}), **kwargs}
    token = _current.set(new)
    try:
        yield new
    finally:
        _current.reset(token)


def current_arg_scope() -> Mapping[Any, dict[str, Any]]:
    """The arguments that functions get now."""
    return _current.get()


def has_arg_scope(func: Callable[..., Any]) -> bool:
    """Whether a function takes arguments from `arg_scope`."""
    return hasattr(func, "_key_op")


def arg_scope_func_key(op: Callable[..., Any]) -> Any:
    """What a function is known by."""
    return _key(op)


def arg_scoped_arguments(func: Callable[..., Any]) -> tuple[str, ...]:
    """The arguments that `arg_scope` may give a function: those with defaults."""
    if not has_arg_scope(func):
        raise ValueError(f"{func.__name__} is not decorated with @add_arg_scope")
    parameters = inspect.signature(func).parameters.values()
    return tuple(each.name for each in parameters if each.default is not each.empty)


def _key(func: Any) -> Any:
    return getattr(func, "_key_op", None) or (func.__module__, func.__qualname__)
