"""What soak cells are drawn with: source text, line by line, and a small batch that every line is tried on."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.drawn_steps import DoesNotFitError

ROWS = 3
"""While a cell is drawn."""
LARGEST = 60
"""Elements of a row."""
OUT = "OUT"
"""What an operation calls its result, where it is more than an expression: lines with bars between them."""

FUNCTIONS = '''class Through(torch.autograd.Function):
    """A step whose gradient is that of the identity."""

    @staticmethod
    def forward(ctx, t):
        return (t > 0.1).to(t.dtype)

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Clipped(torch.autograd.Function):
    """Itself, with a gradient that depends on what went in, and is scaled."""

    @staticmethod
    def forward(ctx, t, scale):
        ctx.save_for_backward(t)
        ctx.scale = scale
        return t * 1

    @staticmethod
    def backward(ctx, gradient):
        (t,) = ctx.saved_tensors
        return torch.where(t.abs() < 0.9, gradient * ctx.scale, 0), None
'''
"""What sources define besides their cell, where they use it."""

WRONG = (RuntimeError, IndexError, ValueError, TypeError, DoesNotFitError)
"""What torch raises for operands that do not fit."""


@dataclass(frozen=True)
class Value:
    """Something that a line has computed: its name, and what it is for the batch that lines are tried on."""

    name: str
    tensor: Tensor
    fresh: bool = False
    """Whether it is a tensor of its own that may be changed in place; views of it are views for any number of rows."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of a row."""
        return tuple(self.tensor.shape[1:])

    @property
    def size(self) -> int:
        """Elements of a row."""
        return self.tensor[0].numel()

    def __format__(self, spec: str) -> str:
        return self.name


class Drawing:
    """The lines of a step, as far as they are drawn.

    Args:
        chance: where all choices come from.
        dtype: what the cell computes in.
        other: another floating dtype, of some of its states.
        noisy: whether it may draw random numbers.
    """

    def __init__(self, chance: random.Random, dtype: torch.dtype, other: torch.dtype, *, noisy: bool) -> None:
        self.chance, self.dtype, self.other, self.noisy = chance, dtype, other, noisy
        self.lines: list[str] = []
        self.drawn: list[str] = []
        """Which operations."""
        self.values: list[Value] = []
        self.weights: dict[str, tuple[tuple[int, ...], float]] = {}
        """By name, with their shapes and how large their numbers are."""
        self._held = SimpleNamespace()
        self._names: dict[str, Any] = {"torch": torch, "F": F, "self": self._held, "b": ROWS}
        self._names |= {"DTYPE": dtype, "OTHER": other}
        exec(FUNCTIONS, self._names)

    # -- choices -------------------------------------------------------------------------------------------------------

    def of(self, *options: Any) -> Any:
        """One of them."""
        return self.chance.choice(options)

    def one(self, ways: str, **names: Any) -> str:
        """One of several ways to write something, which semicolons are between, with names in their places."""
        return self.of(*(way.strip() for way in ways.split(";"))).format(**names)

    def often(self, probability: float) -> bool:
        return self.chance.random() < probability

    def to(self, last: int, first: int = 0) -> int:
        """A number from `first` to `last`, both included."""
        return self.chance.randint(first, last)

    def value(self, kind: str = "float", axes: Sequence[int] | None = None, **limits: int) -> Value:
        """A value of that kind, with so many axes besides the rows' and `least` elements or more; rather a late one."""
        least = limits.get("least", 1)
        fitting = [each for each in self.values if self._is(each, kind) and each.size >= least]
        if axes is not None:
            fitting = [each for each in fitting if len(each.shape) in axes]
        if not fitting:
            raise DoesNotFitError
        unused = [each for each in fitting if not self.uses(each.name)]
        if unused and self.often(0.3):
            return self.of(*unused)
        return self.of(*fitting[-3:]) if self.often(0.4) else self.of(*fitting)

    def uses(self, name: str) -> bool:
        """Whether a line looks at that name."""
        pattern = re.compile(rf"\b{name}\b(?! = )")
        return any(pattern.search(line) for line in self.lines)

    def _is(self, value: Value, kind: str) -> bool:
        dtype = value.tensor.dtype
        kinds = {"float": dtype == self.dtype, "bool": dtype == torch.bool}
        kinds["other"] = dtype.is_floating_point and not kinds["float"]
        kinds["int"] = not dtype.is_floating_point and not kinds["bool"]
        return kinds[kind]

    def axis(self, value: Value, least: int = 1) -> int:
        """One of its axes that is not the rows', with so many elements or more."""
        axes = [axis for axis, size in enumerate(value.shape, 1) if size >= least]
        if not axes:
            raise DoesNotFitError
        axis = self.of(*axes)
        return axis - value.tensor.dim() if self.often(0.3) else axis

    def weight(self, *shape: int, scale: float = 0.0) -> str:
        """A weight as it is written: a new one, or one of that shape that is used already."""
        same = [name for name, (known, _) in self.weights.items() if known == shape]
        if same and self.often(0.3):
            return f"self.{self.of(*same)}"
        name = f"w{len(self.weights)}"
        scale = scale or round((shape[0] if shape else 1) ** -0.5, 2)
        self.weights[name] = shape, scale
        setattr(self._held, name, torch.nn.Parameter((torch.randn(shape, dtype=torch.float64) * scale).to(self.dtype)))
        return f"self.{name}"

    def like(self, value: Value, kind: str = "float") -> str:
        """Another value that broadcasts with `value`, as it is written."""
        for _ in range(4):
            other = self.value(kind)
            missing = len(value.shape) - len(other.shape)
            if missing < 0:
                continue
            shape = (*[1] * missing, *other.shape)
            if all(own in (1, size) for own, size in zip(shape, value.shape, strict=True)):
                return f"{other}[:, {', '.join(['None'] * missing)}]" if missing else f"{other}"
        raise DoesNotFitError

    # -- lines ---------------------------------------------------------------------------------------------------------

    def give(self, name: str, tensor: Tensor) -> Value:
        """A value that is there before the first line."""
        self._names[name] = tensor
        self.values.append(Value(name, tensor))
        return self.values[-1]

    def draw(self, operation: Callable[[Drawing], str]) -> bool:
        """Adds a line or a few for one more value; False if what was drawn for it does not fit."""
        weights = dict(self.weights)
        try:
            self.write(operation(self), f"v{len(self.drawn)}")
        except WRONG:
            self.weights = weights
            return False
        self.drawn.append(operation.__name__)
        return True

    def write(self, source: str, name: str) -> Value:
        """Adds what computes a value, if it can be computed and is neither too large nor too wild."""
        lines = source.split(" | ") if OUT in source else [f"{OUT} = {source}"]
        text = "\n".join(lines).replace(OUT, name)
        exec(text, self._names)
        found = self._names[name]
        if not isinstance(found, Tensor) or found.shape[:1] != (ROWS,) or not 1 <= found.dim() <= 5:
            raise DoesNotFitError
        if not 0 < found[0].numel() <= LARGEST or found.dtype not in self._dtypes:
            raise DoesNotFitError
        limit = 30 if found.is_floating_point() else 10**6
        if found.dtype != torch.bool and not (found.isfinite().all() and found.abs().max() < limit):
            raise DoesNotFitError
        self.lines += text.split("\n")
        known = {each.tensor.untyped_storage().data_ptr() for each in self.values}
        fresh = found.untyped_storage().data_ptr() not in known and found.is_contiguous() and not found._is_view()
        value = Value(name, found, fresh)
        self.values.append(value)
        return value

    @property
    def _dtypes(self) -> set[torch.dtype]:
        return {self.dtype, self.other, torch.bool, torch.int64, torch.int32}
