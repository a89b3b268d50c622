"""Statements of a row: compute, reduce, contract, search, each over strided references."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch

from unspool.engine.emit.stages.convolutions import Geometry
from unspool.engine.emit.stages.strided import Ref


@dataclass(frozen=True, eq=False)
class Compute:
    """`target = expression(arguments)`, element by element.

    Args:
        target: where to; all arguments have its shape.
        expression: a text of `engine.ops.scalar`, with `{0}`, `{1}`, ... for the arguments.
        arguments: elements, and numbers, each with the type it is taken to.
        source: the line of the user's code that it came from.
        adds: whether it is added to what is there, row after row.
    """

    target: Ref
    expression: str
    arguments: tuple[tuple[Ref, torch.dtype], ...]
    source: str = ""
    adds: bool = False

    def reads(self) -> list[Ref]:
        """The memory it looks at."""
        return [ref for ref, _ in self.arguments]


@dataclass(frozen=True, eq=False)
class Reduce:
    """`target = fold(argument)` over the last dimensions of the argument; the first ones are the target's."""

    target: Ref
    fold: str
    argument: Ref
    source: str = ""

    def reads(self) -> list[Ref]:
        """The memory it looks at."""
        return [self.argument]


@dataclass(frozen=True, eq=False)
class Contract:
    """`target[n, p, m] = sum over k of left[n, p, k] * right[n, k, m]`: a product of two things that rows have."""

    target: Ref
    left: Ref
    right: Ref
    source: str = ""

    def reads(self) -> list[Ref]:
        """The memory it looks at."""
        return [self.left, self.right]


@dataclass(frozen=True, eq=False)
class Product:
    """`target[i] = left[i] @ matrix + added[i]`, for rows of all batch entries at once, with a matrix they share."""

    target: Ref
    left: Ref
    matrix: Ref
    added: Ref | None
    source: str = ""

    @property
    def multiplications(self) -> int:
        """Of one row."""
        return math.prod(self.left.shape) * self.matrix.shape[1]

    def reads(self) -> list[Ref]:
        """The memory it looks at."""
        return [self.left] if self.added is None else [self.left, self.added]


@dataclass(frozen=True, eq=False)
class Largest(Product):
    """`target[i] =` the column in which that product's row is largest; nothing else is needed of it."""


@dataclass(frozen=True, eq=False)
class Convolve(Product):
    """`target = convolution(left, matrix) + added`, for the images of all batch entries, with filters they share.

    What is added is an image like the target, or a number for each of its channels.
    """

    geometry: Geometry = field(kw_only=True)

    @property
    def multiplications(self) -> int:
        """Of one row."""
        return self.geometry.multiplications

    @property
    def scratch(self) -> int:
        """Bytes it needs for one row at a time."""
        return self.geometry.scratch


@dataclass(frozen=True, eq=False)
class Correlate(Convolve):
    """`target += ` the gradient of filters: of how `left`, the image, was convolved to what has the gradient `matrix`.

    A sum over rows and pixels.
    """

    @property
    def scratch(self) -> int:
        """Bytes it needs for one row at a time."""
        return self.geometry.scratch + self.geometry.gradient_scratch

    def reads(self) -> list[Ref]:
        """The memory it looks at."""
        return [self.left, self.matrix]


Statement = Compute | Reduce | Contract | Product
