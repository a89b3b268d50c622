"""`tf.make_template`: a function that has its variables from its first call on."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from unspool.tf1.scopes import VariableScope, variable_scope
from unspool.tf1.variables import Variable


class Template:
    """A function whose calls share the variables that the first of them made; see `make_template`."""

    def __init__(self, name: str, function: Callable[..., Any], unique_name: str | None, custom_getter: Any) -> None:
        self._name, self._function, self._unique_name, self._getter = name, function, unique_name, custom_getter
        self._scope: VariableScope | None = None
        self._called = False

    def make_scope(self) -> VariableScope:
        """The scope of the variables, whose name is settled when it is first asked for."""
        if self._scope is None:
            with variable_scope(self._unique_name, self._name, custom_getter=self._getter) as scope:
                self._scope = scope
        return self._scope

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function in its scope; `ValueError` if another call than the first makes a variable."""
        scope = self.make_scope()
        with variable_scope(scope, reuse=True if self._called else None, custom_getter=self._getter):
            made = self._function(*args, **kwargs)
        self._called = True
        return made

    @property
    def name(self) -> str:
        """The name that it was given."""
        return self._name

    @property
    def variable_scope(self) -> VariableScope | None:
        """The scope of the variables."""
        return self._scope

    @property
    def variables(self) -> list[Variable]:
        """The variables."""
        return [] if self._scope is None else self._scope.global_variables()

    global_variables = weights = variables

    @property
    def trainable_variables(self) -> list[Variable]:
        """Those that optimisers change by default."""
        return [each for each in self.variables if each.trainable]

    trainable_weights = trainable_variables


def make_template(
    name_: str,
    func_: Callable[..., Any],
    create_scope_now_: bool = False,
    unique_name_: str | None = None,
    custom_getter_: Any = None,
    **kwargs: Any,
) -> Template:
    """A function whose calls share the variables that the first of them made.

    Args:
        name_: of the scope of its variables, made unique.
        func_: the function, which uses `tf.get_variable`.
        create_scope_now_: whether the scope is made now; else by the first call.
        unique_name_: the name of the scope, as it is.
        custom_getter_: how variables are made.
        kwargs: arguments of every call.

    >>> from unspool import tf1 as tf
    >>> scaled = tf.make_template("scale", lambda x: x * tf.get_variable("factor", []))
    >>> one, other = scaled(1.0), scaled(2.0)
    >>> [each.name for each in tf.trainable_variables()]
    ['scale/factor:0']
    """
    if not name_:
        raise ValueError("name cannot be None.")
    made = Template(name_, functools.partial(func_, **kwargs) if kwargs else func_, unique_name_, custom_getter_)
    if create_scope_now_:
        made.make_scope()
    return made
