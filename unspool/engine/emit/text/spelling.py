"""How C++ spells types, numbers and expressions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch

from unspool.engine.emit.stages.dtypes import DTYPES, HALVES, computed
from unspool.engine.emit.stages.statements import Compute
from unspool.engine.ops.scalar import check_number

TYPES = {dtype: each.cpp for dtype, each in DTYPES.items()}
"""Those of what is in memory."""
COMPUTED = {dtype: TYPES[computed(dtype)] for dtype in DTYPES}
"""Those of variables."""

Element: TypeAlias = Callable[..., str]
"""The text of an element of a `Ref`, from names for its indices, and terms that are added to its place."""


def expression(statement: Compute, arguments: Sequence[str]) -> str:
    """What a statement computes from the texts of its arguments."""
    text = statement.expression
    if "T(" in text:
        _, dtype = statement.arguments[0]
        text = text.replace("T(", f"{COMPUTED[dtype]}(")
    text = text.format(*arguments)
    return rounded(text, statement.target.buffer.dtype) if statement.rounds else text


def rounded(text: str, dtype: torch.dtype) -> str:
    """A number as it would be if it had been stored as one of `dtype`."""
    return f"{COMPUTED[dtype]}({TYPES[dtype]}({text}))" if dtype in HALVES else text


def converted(text: str, own: torch.dtype, dtype: torch.dtype) -> str:
    """A number that was one of dtype `own` as one of another."""
    return text if computed(own) == computed(dtype) else f"{COMPUTED[dtype]}({text})"


def loaded(text: str, dtype: torch.dtype) -> str:
    """What is in memory as a variable has it."""
    return f"{COMPUTED[dtype]}({text})" if dtype in HALVES else text


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
        return f"{COMPUTED[dtype]}(unspool::not_a_number)"
    if math.isinf(number):
        return f"{COMPUTED[dtype]}({'-' if number < 0 else ''}unspool::infinity)"
    text = repr(number)
    text = text if any(sign in text for sign in ".en") else text + ".0"
    text = f"{text}f" if computed(dtype) is torch.float32 else text
    return f"({text})" if text.startswith("-") else text
