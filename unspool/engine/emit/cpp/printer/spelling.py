"""How C++ spells types, numbers and expressions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch

from unspool.engine.emit.stages.dtypes import DTYPES
from unspool.engine.emit.stages.statements import Compute
from unspool.engine.ops.scalar import check_number

TYPES = {dtype: each.cpp for dtype, each in DTYPES.items()}

Element: TypeAlias = Callable[..., str]
"""The text of an element of a `Ref`, from names for its indices, and terms that are added to its place."""


def expression(statement: Compute, arguments: Sequence[str]) -> str:
    """What a statement computes from the texts of its arguments."""
    text = statement.expression
    if "T(" in text:
        _, dtype = statement.arguments[0]
        text = text.replace("T(", f"{TYPES[dtype]}(")
    return text.format(*arguments)


def literal(number: Any, dtype: torch.dtype) -> str:
    """A number, as close as its type allows.

    Raises:
        CannotEmitError: if the type has no such number.
    """
    check_number(number, dtype)
    if dtype is torch.bool:
        return "true" if number else "false"
    if not dtype.is_floating_point:
        least = number == torch.iinfo(dtype).min
        return f"{TYPES[dtype]}({f'{number + 1} - 1' if least else int(number)})"
    number = float(number)
    if math.isnan(number):
        return f"{TYPES[dtype]}(unspool::not_a_number)"
    if math.isinf(number):
        return f"{TYPES[dtype]}({'-' if number < 0 else ''}unspool::infinity)"
    text = repr(number)
    text = text if any(sign in text for sign in ".en") else text + ".0"
    text = f"{text}f" if dtype is torch.float32 else text
    return f"({text})" if text.startswith("-") else text


def start_of_fold(fold: str, dtype: torch.dtype) -> str:
    """What a fold of numbers of a type begins with: nothing changes if it meets another."""
    if fold in ("sum", "prod"):
        return literal(0 if fold == "sum" else 1, dtype)
    sign = 1 if fold == "min" else -1
    if dtype.is_floating_point:
        return literal(sign * math.inf, dtype)
    if dtype is torch.bool:
        return literal(sign > 0, dtype)
    return literal(torch.iinfo(dtype).max if sign > 0 else torch.iinfo(dtype).min, dtype)
