"""Scalar expressions of pointwise operations, as templates that C++ and CUDA share.

A text is an expression with `{0}`, `{1}`, ... for the arguments and `T` for the type that the first one is taken to.
The functions in it are those of the namespace `unspool`, which functions.h of `emit/cpp/native` and of `emit/cuda`
define under the same names. Numbers that an operation is given become arguments of its text, so that each printer
spells them in its own way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

import torch

from unspool.engine.emit.errors import CannotEmitError


class Numbers(Enum):
    """What the elements of a result are, which decides on the text."""

    REAL = "floating-point"
    WHOLE = "integer"
    TRUTH = "boolean"

    @classmethod
    def of(cls, dtype: torch.dtype) -> Numbers:
        """Those of a dtype."""
        if dtype is torch.bool:
            return cls.TRUTH
        return cls.REAL if dtype.is_floating_point else cls.WHOLE


class Given:
    """What an instruction gives an operation, for texts that depend on it.

    Args:
        arguments: numbers, None, and anything else for tensors.
        options: what was given by name.
        dtype: the dtype of the result.
    """

    def __init__(self, arguments: Sequence[Any], options: dict[str, Any], dtype: torch.dtype) -> None:
        self.numbers: list[Any] = []
        """Numbers that the text has besides the arguments."""
        self.options = options
        """Those that no text has asked for."""
        self.dtype = dtype
        """That of the result."""
        self._arguments = arguments

    def has(self, k: int) -> bool:
        """Whether there is a k-th argument."""
        return len(self._arguments) > k and self._arguments[k] is not None

    def argument(self, k: int, otherwise: float) -> Any:
        """The k-th argument, a number."""
        return self._arguments[k] if len(self._arguments) > k else otherwise

    def option(self, name: str, otherwise: Any) -> Any:
        """What was given by that name."""
        return self.options.pop(name, otherwise)

    def number(self, number: Any) -> str:
        """A number of the result's dtype, as a text has it.

        Raises:
            CannotEmitError: if the dtype has no such number.
        """
        check_number(number, self.dtype)
        self.numbers.append(number)
        return f"{{{len(self._arguments) + len(self.numbers) - 1}}}"


Text: TypeAlias = str | Callable[[Given], str | None]
"""An expression, or what makes it of what is given; None if there is none."""

EVERYWHERE = frozenset(Numbers)
NOWHERE = frozenset[Numbers]()


@dataclass(frozen=True)
class Scalar:
    """The texts of an operation, by what its result is.

    Args:
        real, whole, truth: for results of that kind of numbers; None if there is none.
        own_type: whether arguments keep their own common type, as those of comparisons do, instead of the result's.
        condition: which of the arguments is a truth value, whatever the result is.
        wraps: whether integers may overflow in it.
        cuda: the kinds of numbers with which it may be part of a CUDA kernel; elsewhere its results are torch's.
    """

    real: Text | None = None
    whole: Text | None = None
    truth: Text | None = None
    own_type: bool = False
    condition: int | None = None
    wraps: bool = False
    cuda: frozenset[Numbers] = EVERYWHERE

    def text(self, numbers: Numbers) -> Text | None:
        """That for results of one kind."""
        return {Numbers.REAL: self.real, Numbers.WHOLE: self.whole, Numbers.TRUTH: self.truth}[numbers]


class Expression(NamedTuple):
    """A text, and the numbers in it that stand behind the arguments."""

    text: str
    numbers: tuple[Any, ...]


IGNORED = ("layout", "device", "memory_format", "dtype")
"""Options that say nothing about numbers but what the result's dtype does."""


def expression(
    operation: Any, scalar: Scalar | None, arguments: Sequence[Any], options: dict[str, Any], result: torch.dtype
) -> Expression:
    """The text of an operation as an instruction has it.

    Args:
        operation: the operation, for messages.
        scalar: its texts.
        arguments: what it is given; the numbers among them may shape the text, anything else is not looked at.
        options: what it is given by name.
        result: the dtype of the result.

    Raises:
        CannotEmitError: if there is no such text.
    """
    text = None if scalar is None else scalar.text(Numbers.of(result))
    given = Given(arguments, {key: each for key, each in options.items() if key not in IGNORED}, result)
    made = text(given) if callable(text) else text
    if made is None or given.options:
        raise CannotEmitError(f"{operation} has no compiled form for results of {str(result).removeprefix('torch.')}")
    return Expression(made, tuple(given.numbers))


def argument_dtype(
    scalar: Scalar, dtypes: Sequence[torch.dtype], numbers: Sequence[float], result: torch.dtype
) -> torch.dtype:
    """The type that arguments are taken to before the operation: the result's, but for comparisons their own.

    A truth that meets a number is one itself.
    """
    if result is not torch.bool or not scalar.own_type:
        return result
    common = dtypes[0]
    for each in dtypes[1:]:
        common = torch.promote_types(common, each)
    return torch.int64 if common is torch.bool and any(number not in (0, 1) for number in numbers) else common


def check_number(number: Any, dtype: torch.dtype) -> None:
    """Checks that a dtype has a number.

    Raises:
        CannotEmitError: if it has not; torch refuses some of these, and wraps others around.
    """
    if dtype is torch.bool:
        if number not in (0, 1):
            raise CannotEmitError(f"{number!r} is no truth value")
    elif not dtype.is_floating_point:
        if not isinstance(number, int):
            raise CannotEmitError(f"{number!r} is no number of type {dtype}")
        range_ = torch.iinfo(dtype)
        if not range_.min <= number <= range_.max:
            raise CannotEmitError(f"{number!r} is out of the range of {dtype}")
