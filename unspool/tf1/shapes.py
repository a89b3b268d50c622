"""Shapes that are known in part: `[None, 28]` has any number of rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import torch

Dim: TypeAlias = "int | None"
Dims: TypeAlias = "tuple[Dim, ...] | None"
"""The sizes of a tensor's axes, None where unknown; None if not even their number is known."""


class Dimension:
    """One size of a shape, which may be unknown.

    >>> Dimension(3) * 2, Dimension(None) + 1, Dimension(3) == 3
    (Dimension(6), Dimension(None), True)
    """

    def __init__(self, value: Any) -> None:
        self.value: Dim = as_dim(value)

    def __int__(self) -> int:
        if self.value is None:
            raise TypeError("this dimension is not known before the graph runs; tf.shape(...) is its size then")
        return self.value

    __index__ = __int__

    def is_compatible_with(self, other: Any) -> bool:
        """Whether both could be the same size."""
        return compatible(self.value, as_dim(other))

    def assert_is_compatible_with(self, other: Any) -> None:
        """Raises `ValueError` if they are different sizes."""
        if not self.is_compatible_with(other):
            raise ValueError(f"Dimensions {self} and {Dimension(other)} are not compatible")

    def merge_with(self, other: Any) -> Dimension:
        """What both know together."""
        return Dimension(merged((self.value,), (as_dim(other),))[0])

    def __eq__(self, other: object) -> Any:
        try:
            theirs = as_dim(other)
        except TypeError:
            return NotImplemented
        # As in TensorFlow: of an unknown size nobody can say whether it is another's.
        return None if self.value is None or theirs is None else self.value == theirs

    def __ne__(self, other: object) -> Any:
        same = self == other
        return same if same is None or same is NotImplemented else not same

    def __hash__(self) -> int:
        return hash(self.value)

    def _with(self, other: Any, compute: Any) -> Dimension:
        theirs = as_dim(other)
        return Dimension(None if self.value is None or theirs is None else compute(self.value, theirs))

    def __add__(self, other: Any) -> Dimension:
        return self._with(other, int.__add__)

    def __sub__(self, other: Any) -> Dimension:
        return self._with(other, int.__sub__)

    def __rsub__(self, other: Any) -> Dimension:
        return Dimension(other) - self

    def __mul__(self, other: Any) -> Dimension:
        return self._with(other, int.__mul__)

    def __floordiv__(self, other: Any) -> Dimension:
        return self._with(other, int.__floordiv__)

    def __mod__(self, other: Any) -> Dimension:
        return self._with(other, int.__mod__)

    __radd__, __rmul__, __div__ = __add__, __mul__, __floordiv__

    def __lt__(self, other: Any) -> bool:
        return int(self) < int(Dimension(other))

    def __le__(self, other: Any) -> bool:
        return int(self) <= int(Dimension(other))

    def __gt__(self, other: Any) -> bool:
        return int(self) > int(Dimension(other))

    def __ge__(self, other: Any) -> bool:
        return int(self) >= int(Dimension(other))

    def __repr__(self) -> str:
        return f"Dimension({self.value})"

    def __str__(self) -> str:
        return "?" if self.value is None else str(self.value)


class TensorShape:
    """The shape of a tensor as far as it is known when the graph is built.

    >>> shape = TensorShape([None, 28])
    >>> shape.as_list(), shape.ndims, shape[1], str(shape), TensorShape(None).ndims is None
    ([None, 28], 2, Dimension(28), '(?, 28)', True)
    """

    def __init__(self, dims: Any) -> None:
        self.sizes: Dims = as_dims(dims)

    @property
    def ndims(self) -> int | None:
        """How many axes there are, if that is known."""
        return None if self.sizes is None else len(self.sizes)

    rank = ndims

    @property
    def dims(self) -> list[Dimension] | None:
        """The sizes as `Dimension`s."""
        return None if self.sizes is None else [Dimension(each) for each in self.sizes]

    def as_list(self) -> list[Dim]:
        """The sizes as ints, None where unknown."""
        return list(self._known())

    def num_elements(self) -> int | None:
        """How many elements there are, if that is known."""
        if self.sizes is None or None in self.sizes:
            return None
        return torch.Size([int(each or 0) for each in self.sizes]).numel()

    def is_fully_defined(self) -> bool:
        """Whether every size is known."""
        return self.sizes is not None and None not in self.sizes

    def assert_is_fully_defined(self) -> None:
        """Raises `ValueError` if a size is not known."""
        if not self.is_fully_defined():
            raise ValueError(f"Shape {self} is not fully defined")

    def is_compatible_with(self, other: Any) -> bool:
        """Whether a tensor could have both shapes."""
        return fit(self.sizes, as_dims(other))

    def merge_with(self, other: Any) -> TensorShape:
        """What both know together; `ValueError` if they contradict each other."""
        return TensorShape(merged(self.sizes, as_dims(other)))

    def concatenate(self, other: Any) -> TensorShape:
        """The axes of both, one after the other."""
        theirs = as_dims(other)
        return TensorShape(None if self.sizes is None or theirs is None else (*self.sizes, *theirs))

    def with_rank(self, rank: int) -> TensorShape:
        """Itself, if it can have so many axes; `ValueError` otherwise."""
        return self.merge_with((None,) * rank)

    def assert_has_rank(self, rank: int) -> None:
        """Raises `ValueError` if there is another number of axes."""
        self.with_rank(rank)

    def assert_is_compatible_with(self, other: Any) -> None:
        """Raises `ValueError` if no tensor could have both shapes."""
        self.merge_with(other)

    def _known(self) -> tuple[Dim, ...]:
        if self.sizes is None:
            raise ValueError("as_list() is not defined on an unknown TensorShape: its rank is not known")
        return self.sizes

    def __len__(self) -> int:
        return len(self._known())

    def __iter__(self) -> Iterator[Dimension]:
        return iter([Dimension(each) for each in self._known()])

    def __getitem__(self, key: Any) -> Any:
        if self.sizes is None:
            return TensorShape(None) if isinstance(key, slice) else Dimension(None)
        return TensorShape(self.sizes[key]) if isinstance(key, slice) else Dimension(self.sizes[key])

    def __eq__(self, other: object) -> bool:
        try:
            return self.sizes == as_dims(other)
        except TypeError:
            return False

    def __hash__(self) -> int:
        return hash(self.sizes)

    def __bool__(self) -> bool:
        return self.sizes is not None

    def __add__(self, other: Any) -> TensorShape:
        return self.concatenate(other)

    def __str__(self) -> str:
        return described(self.sizes)

    def __repr__(self) -> str:
        return f"TensorShape({'None' if self.sizes is None else self.as_list()})"


def as_dim(size: Any) -> Dim:
    """One size: an int, a `Dimension`, or None; -1 is not a size."""
    if size is None or isinstance(size, int):
        value: Dim = size
    elif isinstance(size, Dimension):
        return size.value
    else:
        try:
            value = size.__index__()
        except (AttributeError, TypeError):
            raise TypeError(f"a dimension must be an int or None, but is {size!r}") from None
    if value is not None and value < 0:
        raise ValueError(f"a dimension must not be negative, but is {value}; unknown ones are None")
    return value


def as_dims(shape: Any) -> Dims:
    """The sizes of anything that says a shape: a list of sizes, one size, a `TensorShape`, or None."""
    if shape is None:
        return None
    if isinstance(shape, TensorShape):
        return shape.sizes
    if isinstance(shape, int | Dimension) or not isinstance(shape, Iterable):
        return (as_dim(shape),)
    return tuple(as_dim(each) for each in shape)  # pyright: ignore[reportUnknownVariableType]


def compatible(one: Dim, other: Dim) -> bool:
    """Whether two sizes could be the same."""
    return one is None or other is None or one == other


def fit(one: Dims, other: Dims) -> bool:
    """Whether a tensor could have both shapes."""
    if one is None or other is None:
        return True
    return len(one) == len(other) and all(map(compatible, one, other))


def merged(one: Dims, other: Dims) -> Any:
    """What two shapes know together; `ValueError` if they contradict each other."""
    if one is None or other is None:
        return other if one is None else one
    if not fit(one, other):
        raise ValueError(f"Shapes {described(one)} and {described(other)} are not compatible")
    return tuple(b if a is None else a for a, b in zip(one, other, strict=True))


def described(dims: Sequence[Dim] | None) -> str:
    """A shape as TensorFlow writes it.

    >>> described((None, 28)), described((3,)), described(None)
    ('(?, 28)', '(3,)', '<unknown>')
    """
    if dims is None:
        return "<unknown>"
    words = ["?" if each is None else str(each) for each in dims]
    return f"({words[0]},)" if len(words) == 1 else f"({', '.join(words)})"
