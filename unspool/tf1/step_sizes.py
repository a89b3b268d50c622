"""Sizes that a step computes, as numbers of Python.

A session computes the shape of `tf.reshape(x, [tf.shape(x)[0], 4])` as a tensor of two ints. A trace of a step has no
values, and so no such ints; but it knows how many rows there are, as a symbol. What a step makes of sizes is therefore
found when the graph is built: each number is a sum of sizes of other tensors, times whole numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from unspool.tf1.operation import Operation
from unspool.tf1.tensor import Tensor

READS_SIZES = {
    "BroadcastTo": (1,),
    "Fill": (0,),
    "Reshape": (1,),
    "Slice": (1, 2),
    "Tile": (1,),
    "dropout": (2,),
    "ones": (0,),
    "random_normal": (0,),
    "random_uniform": (0,),
    "truncated_normal": (0,),
    "zeros": (0,),
}
"""Which inputs of operations are sizes, and may be given as lists of numbers."""
TRIALS = 11
"""An unknown size is tried as this number, and as others from here on."""


def settle_sizes(operations: Iterable[Operation]) -> None:
    """Gives operations their sizes as numbers, where these are known from the shapes of other tensors."""
    for operation in operations:
        for place in reversed(READS_SIZES.get(operation.type, ())):
            found = _sizes_in(operation.inputs[place]) if place < len(operation.inputs) else None
            if found is not None:
                operation.function = _with_numbers(operation.function, place + operation.takes_run, found)
                before, after = operation.inputs[:place], operation.inputs[place + 1 :]
                operation.inputs = (*before, *after, *(source for source, _ in found.symbols))


@dataclass(frozen=True)
class _Sizes:
    """Numbers, each a constant and a multiple of every symbol, which is the size of a tensor along an axis."""

    symbols: tuple[tuple[Tensor, int], ...]
    constants: tuple[int, ...]
    factors: tuple[tuple[int, ...], ...]
    """For each number, by symbol."""

    def of(self, sources: Sequence[torch.Tensor]) -> list[int]:
        """The numbers for values of the symbols' tensors."""
        found = [source.shape[axis] for source, (_, axis) in zip(sources, self.symbols, strict=True)]
        rows = zip(self.constants, self.factors, strict=True)
        return [_total(constant, factors, found) for constant, factors in rows]


def _total(constant: int, factors: Sequence[int], sizes: Sequence[int]) -> int:
    # The size itself where it stands alone: a symbol times one is another symbol to those who compare them.
    terms = [size if factor == 1 else factor * size for factor, size in zip(factors, sizes, strict=True) if factor]
    terms += [constant] if constant or not terms else []
    return sum(terms[1:], terms[0])


def _with_numbers(function: Callable[..., Any], place: int, sizes: _Sizes) -> Callable[..., Any]:
    count = len(sizes.symbols)

    def compute(*values: Any) -> Any:
        own, sources = list(values[: len(values) - count]), values[len(values) - count :]
        own.insert(place, sizes.of(sources))
        return function(*own)

    return compute


def _sizes_in(tensor: Tensor) -> _Sizes | None:
    """What the numbers of a vector are made of; None if that is not clear."""
    symbols: dict[tuple[Tensor, int], int] = {}

    def tried(change: Callable[[int, int], int]) -> list[int]:
        """The numbers, with sizes that `change` makes of those tried first and of their places among the symbols."""

        def size(source: Tensor, axis: int) -> int:
            first = symbols.setdefault((source, axis), TRIALS + 2 * len(symbols))
            return change(first, list(symbols).index((source, axis)))

        return _value(tensor, size, {}).tolist()

    if tensor.dims is None or len(tensor.dims) != 1:
        return None
    try:
        base = tried(lambda first, _: first)
        grown = [tried(lambda first, k, own=own: first + (k == own)) for own in range(len(symbols))]
        factors = [tuple(each[place] - base[place] for each in grown) for place in range(len(base))]
        firsts = list(symbols.values())
        made = _Sizes(
            tuple(symbols),
            tuple(number - sum(map(_times, row, firsts)) for number, row in zip(base, factors, strict=True)),
            tuple(factors),
        )
        others = [3 * first + 1 for first in firsts]
        expected = [_total(*each, others) for each in zip(made.constants, made.factors, strict=True)]
        return made if tried(lambda first, _: 3 * first + 1) == expected else None
    except (_UnclearError, RuntimeError, ValueError, IndexError, TypeError):
        return None


def _times(one: int, other: int) -> int:
    return one * other


class _UnclearError(Exception):
    """Numbers depend on something else than shapes."""


def _value(tensor: Tensor, size: Callable[[Tensor, int], int], known: dict[Operation, list[Any]]) -> torch.Tensor:
    """The value of a tensor that is computed of constants and of shapes."""
    operation = tensor.op
    if operation not in known:
        if operation.constant is not None:
            known[operation] = [operation.constant]
        elif operation.type == "Shape" and operation.inputs[0].dims is not None:
            (source,) = operation.inputs
            # The first axis has the rows, which a trace knows as a symbol even where the graph knows the number.
            dims = enumerate(source.dims or ())
            sizes = [size(source, axis) if each is None or not axis else each for axis, each in dims]
            known[operation] = [torch.tensor(sizes, dtype=tensor.dtype.torch)]
        elif operation.takes_run or operation.effect or operation.variables or not operation.inputs:
            raise _UnclearError
        else:
            made = operation.function(*(_value(each, size, known) for each in operation.inputs))
            known[operation] = list(made) if isinstance(made, list | tuple) else [made]
    return known[operation][tensor.index]
