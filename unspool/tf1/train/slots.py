"""Variables that belong to other variables: what an optimiser or a moving average remembers of each."""

from __future__ import annotations

from typing import Any

from unspool.tf1.initializers import constant_initializer
from unspool.tf1.ops.array import ones_like
from unspool.tf1.scopes import get_variable, variable_scope
from unspool.tf1.variables import Variable


def create_slot(primary: Any, value: Any, name: str) -> Variable:
    """A variable named `primary/name`, with a number if there is one already, that begins as the tensor `value`.

    Args:
        primary: the variable, or tensor, that it belongs to.
        value: the first value.
        name: its name below the other.
    """
    with variable_scope(None, f"{primary.op.name}/{name}"):
        known = value.shape.is_fully_defined()
        return get_variable("", initializer=value, dtype=value.dtype, trainable=False, validate_shape=known)


def create_filled_slot(primary: Any, number: float, name: str) -> Variable:
    """A variable of the same shape, named `primary/name`, whose elements are all `number` at first."""
    if not primary.shape.is_fully_defined():
        return create_slot(primary, ones_like(primary.initialized_value()) * number, name)
    with variable_scope(None, f"{primary.op.name}/{name}"):
        start = constant_initializer(number)
        return get_variable("", primary.shape, primary.dtype, start, trainable=False)
