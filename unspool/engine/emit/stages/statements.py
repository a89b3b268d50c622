"""Statements of a row: compute, reduce, contract, scan, order, gather, scatter, search, over strided references."""

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
        rounds: whether a half is rounded as if it were stored, wherever it goes.
    """

    target: Ref
    expression: str
    arguments: tuple[tuple[Ref, torch.dtype], ...]
    source: str = ""
    adds: bool = False
    rounds: bool = False

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

    @property
    def in_any_order(self) -> bool:
        """Whether a compiler may fold many elements at once."""
        return self.fold in ("sum", "max", "min")

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
class Scan:
    """`target[..., j] = fold(target[..., j - 1], argument[..., j])`, along the last dimension.

    Args:
        target: where to.
        fold: how: `sum`, `prod`, `logaddexp`; or `max`, `min`, of which the places so far are wanted.
        argument: what is folded.
        carry: the type that it goes on in; of places, that of the argument.
        source: the line of the user's code that it came from.
    """

    target: Ref
    fold: str
    argument: Ref
    carry: torch.dtype
    source: str = ""

    def reads(self) -> list[Ref]:
        """The memory it looks at."""
        return [self.argument]


@dataclass(frozen=True, eq=False)
class Order:
    """`target =` places along the last dimension of the argument, in the order of its numbers.

    Args:
        target: where to: places that lie one after another, as many as the argument has.
        argument: the numbers. NaN is larger than any.
        first: how many places have to be in order, the first ones; None if all, and then equals stay in theirs.
        descending: whether the largest comes first.
        in_order: whether the first ones are in order; if not, it is only these.
        source: the line of the user's code that it came from.
    """

    target: Ref
    argument: Ref
    first: int | None
    descending: bool
    in_order: bool = True
    source: str = ""

    def reads(self) -> list[Ref]:
        """The memory it looks at."""
        return [self.argument]


@dataclass(frozen=True)
class Along:
    """A place along one axis that a number says.

    Args:
        index: the numbers, with the shape of what is found.
        step: how far apart neighbours along the axis are.
        size: how many there are.
        axis: which axis it is, for a message; None if the numbers are known to be in range.
        from_end: whether negative numbers count from the end.
    """

    index: Ref
    step: int
    size: int
    axis: int | None
    from_end: bool = False


@dataclass(frozen=True, eq=False)
class Gather:
    """`target[i] = first[i + places[i]]`.

    Args:
        target: where to.
        first: what it would be if all places were the first; it has the shape of the target.
        places: how much further each element is.
        extent: everything that may be found.
        source: the line of the user's code that it came from.
    """

    target: Ref
    first: Ref
    places: tuple[Along, ...]
    extent: Ref
    source: str = ""

    def reads(self) -> list[Ref]:
        """The memory it looks at."""
        return [self.extent, *(each.index for each in self.places)]


@dataclass(frozen=True, eq=False)
class Scatter:
    """`first[i + places[i]] = value[i]`, one after another: of several for one place, the last counts.

    Args:
        target: everything that may be written to, which is there already.
        first: where it would go if all places were the first; it has the shape of the value.
        places: how much further each element goes.
        value: what is written.
        adds: whether it is added to what is there.
        source: the line of the user's code that it came from.
    """

    target: Ref
    first: Ref
    places: tuple[Along, ...]
    value: Ref
    adds: bool
    source: str = ""

    def reads(self) -> list[Ref]:
        """The memory it looks at."""
        return [self.target, self.value, *(each.index for each in self.places)]


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


Alone = Contract | Scan | Order | Gather | Scatter
"""Those that share no loop with others: these then stay simple enough for compilers to run many elements at once."""
ALONE = (Contract, Scan, Order, Gather, Scatter)
InLoop = Compute | Reduce | Alone
Statement = InLoop | Product
