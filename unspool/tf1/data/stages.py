"""Stages that take elements one by one, or change which of them come and in what order."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from unspool.structure import Structure, check_same_structure, flatten, unflatten_as
from unspool.tf1.data.elements import (
    DatasetFunction,
    ElementFunction,
    Nested,
    Reading,
    Stage,
    shapes_of,
    types_of,
)
from unspool.tf1.dtypes import bool_, int64
from unspool.tf1.functions import Like
from unspool.tf1.operations import as_tensor
from unspool.tf1.seeds import Draw
from unspool.tf1.shapes import Dims, fit
from unspool.tf1.tensor import Tensor


class Options:
    """TensorFlow's options of a dataset: any may be set, and none has an effect."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None


class Optional(Stage):
    """The same elements, with options."""

    def __init__(self, before: Stage, options: Options) -> None:
        if not isinstance(options, Options):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"options must be a tf.data.Options, but is {options!r}")
        super().__init__(before.element, [before])
        self.options = options

    def elements(self, reading: Reading) -> Iterator[list[Any]]:
        """All."""
        return self.inputs[0].elements(reading)


def options_of(stage: Stage) -> Options:
    """The options of a stage and of those before it, of which later ones win."""
    made = Options()
    for before in stage.inputs:
        vars(made).update(vars(options_of(before)))
    if isinstance(stage, Optional):
        vars(made).update(vars(stage.options))
    return made


class Mapped(Stage):
    """What a function makes of each element."""

    def __init__(self, before: Stage, function: Callable[..., Any]) -> None:
        self._function = ElementFunction(function, before.element)
        super().__init__(self._function.element, [before], self._function.tensors)

    def elements(self, reading: Reading) -> Iterator[list[Any]]:
        """The results."""
        return (self._function(reading, each) for each in self.inputs[0].elements(reading))


class Filtered(Stage):
    """The elements for which a predicate is true."""

    def __init__(self, before: Stage, predicate: Callable[..., Any]) -> None:
        self._predicate = ElementFunction(predicate, before.element)
        made = self._predicate.element
        if not isinstance(made, Like) or made.dtype is not bool_ or not fit(made.dims, ()):
            raise ValueError(f"`predicate` must return a scalar boolean tensor, but returns {made!r}")
        super().__init__(before.element, [before], self._predicate.tensors)

    def elements(self, reading: Reading) -> Iterator[list[Any]]:
        """Those that stay."""
        for each in self.inputs[0].elements(reading):
            if bool(self._predicate(reading, each)[0]):
                yield each


class Flattened(Stage):
    """The elements of the datasets that a function makes, one dataset after the other."""

    def __init__(self, before: Stage, function: Callable[..., Any]) -> None:
        self._function = DatasetFunction(function, before.element, "map_func")
        super().__init__(self._function.stage.element, [before], self._function.tensors)

    def elements(self, reading: Reading) -> Iterator[list[Any]]:
        """All of the first dataset, then all of the second."""
        for each in self.inputs[0].elements(reading):
            yield from self._function.elements(reading, each)


class Interleaved(Stage):
    """The elements of the datasets that a function makes: `block_length` of each, with `cycle_length` under way."""

    def __init__(self, before: Stage, function: Callable[..., Any], cycle_length: Any, block_length: Any) -> None:
        self._function = DatasetFunction(function, before.element, "map_func")
        self._lengths = [as_tensor(each, int64) for each in (cycle_length, block_length)]
        super().__init__(self._function.stage.element, [before], [*self._function.tensors, *self._lengths])

    def elements(self, reading: Reading) -> Iterator[list[Any]]:
        """A block of each dataset in turn; a new one takes the place of one that is finished."""
        cycle, block = (int(reading.values[each]) for each in self._lengths)
        if cycle < 1 or block < 1:
            raise ValueError(f"`cycle_length` and `block_length` must be > 0, but are {cycle} and {block}")
        source = self.inputs[0].elements(reading)
        places: list[Iterator[list[Any]] | None] = [None] * cycle
        ended = False
        for place in itertools.cycle(range(cycle)):
            current = places[place]
            if current is None and not ended:
                first = next(source, None)
                ended = first is None
                current = places[place] = None if first is None else self._function.elements(reading, first)
            if current is None:
                if ended and not any(places):
                    return
                continue
            for _ in range(block):
                made = next(current, None)
                if made is None:
                    places[place] = None
                    break
                yield made


class Zipped(Stage):
    """The elements of several stages, side by side."""

    def __init__(self, stages: Structure) -> None:
        listed: list[Stage] = flatten(stages)
        super().__init__(unflatten_as(stages, [each.element for each in listed]), listed)

    def elements(self, reading: Reading) -> Iterator[list[Any]]:
        """As long as all have one."""
        for each in zip(*(stage.elements(reading) for stage in self.inputs), strict=False):
            yield [value for part in each for value in part]


class Concatenated(Stage):
    """The elements of one stage, then those of another, in shapes that fit both."""

    def __init__(self, before: Stage, other: Stage) -> None:
        check_same_structure(before.element, other.element, name="the dataset to concatenate", like="this dataset")
        pairs = list(zip(flatten(before.element), flatten(other.element), strict=True))
        if any(one.dtype is not two.dtype for one, two in pairs):
            raise TypeError(
                f"Two datasets to concatenate have different types {types_of(before.element)} and "
                f"{types_of(other.element)}"
            )
        common = [Like(one.dtype, _common(one.dims, two.dims)) for one, two in pairs]
        super().__init__(unflatten_as(before.element, common), [before, other])

    def elements(self, reading: Reading) -> Iterator[list[Any]]:
        """All of the first, then all of the second."""
        for stage in self.inputs:
            yield from stage.elements(reading)


def _common(one: Dims, other: Dims) -> Dims:
    if one is None or other is None or len(one) != len(other):
        return None
    return tuple(a if a == b else None for a, b in zip(one, other, strict=True))


class Counted(Stage):
    """A stage with a number that says how many elements are meant."""

    def __init__(self, before: Stage, count: Any) -> None:
        self._count = as_tensor(count, int64)
        super().__init__(before.element, [before], [self._count])

    def count(self, reading: Reading) -> int:
        """The number in this reading."""
        return int(reading.values[self._count])


class Repeated(Counted):
    """The elements so many times; -1 for ever."""

    def elements(self, reading: Reading) -> Iterator[list[Any]]:
        """One epoch after the other."""
        count = self.count(reading)
        for _ in itertools.count() if count < 0 else range(count):
            empty = True
            for each in self.inputs[0].elements(reading):
                empty = False
                yield each
            if empty:
                return


class Taken(Counted):
    """The first elements; all for -1."""

    def elements(self, reading: Reading) -> Iterator[list[Any]]:
        """So many at most."""
        count = self.count(reading)
        made = self.inputs[0].elements(reading)
        return made if count < 0 else itertools.islice(made, count)


class Skipped(Counted):
    """All but the first elements; none for -1."""

    def elements(self, reading: Reading) -> Iterator[list[Any]]:
        """What follows so many."""
        count = self.count(reading)
        return iter(()) if count < 0 else itertools.islice(self.inputs[0].elements(reading), count, None)


class Sharded(Stage):
    """Every `num_shards`-th element, from the one with number `index`."""

    def __init__(self, before: Stage, num_shards: Any, index: Any) -> None:
        self._numbers = [as_tensor(each, int64) for each in (num_shards, index)]
        super().__init__(before.element, [before], self._numbers)

    def elements(self, reading: Reading) -> Iterator[list[Any]]:
        """Those of the shard."""
        shards, place = (int(reading.values[each]) for each in self._numbers)
        if not 0 <= place < shards:
            raise ValueError(f"index must be >= 0 and < num_shards, but they are {place} and {shards}")
        return itertools.islice(self.inputs[0].elements(reading), place, None, shards)


class Shuffled(Stage):
    """Elements in a random order: each is drawn from so many that wait.

    Args:
        before: the stage before.
        buffer_size: how many wait.
        seed: makes the order repeatable, as that of the graph does.
        reshuffle: whether each epoch of a reading has another order.
    """

    def __init__(self, before: Stage, buffer_size: Any, seed: Any, reshuffle: bool) -> None:
        self._size = as_tensor(buffer_size, int64)
        self._draw, self._reshuffle = Draw(seed), reshuffle
        super().__init__(before.element, [before], [self._size])

    def elements(self, reading: Reading) -> Iterator[list[Any]]:
        """Draws from the buffer, which is filled again."""
        size = int(reading.values[self._size])
        if size < 1:
            raise ValueError(f"buffer_size must be greater than zero, but is {size}")
        draws = self._generator(reading)
        source = self.inputs[0].elements(reading)
        waiting = list(itertools.islice(source, size))
        for each in source:
            place = draws.randrange(size)
            yield waiting[place]
            waiting[place] = each
        while waiting:
            place = draws.randrange(len(waiting))
            waiting[place], waiting[-1] = waiting[-1], waiting[place]
            yield waiting.pop()

    def _generator(self, reading: Reading) -> random.Random:
        if self not in reading.kept:
            own = self._draw.seed
            reading.kept[self] = random.Random(int(torch.randint(2**62, ())) if own is None else own)
        kept: random.Random = reading.kept[self]
        if self._reshuffle:
            return kept
        same = random.Random()
        same.setstate(kept.getstate())
        return same


class Cached(Stage):
    """The elements of the first whole epoch, kept in memory for the next ones."""

    def __init__(self, before: Stage) -> None:
        super().__init__(before.element, [before])

    def elements(self, reading: Reading) -> Iterator[list[Any]]:
        """What is kept, or what will be."""
        if self in reading.kept:
            yield from reading.kept[self]
            return
        seen: list[list[Any]] = []
        for each in self.inputs[0].elements(reading):
            seen.append(each)
            yield each
        reading.kept[self] = seen


class Windows(Stage):
    """Datasets of `size` elements each, of which one begins every `shift` elements and takes every `stride`-th."""

    def __init__(self, before: Stage, size: Any, shift: Any, stride: Any, drop_remainder: bool) -> None:
        self._numbers: list[Tensor] = [as_tensor(each, int64) for each in (size, shift, stride)]
        self._whole = drop_remainder
        leaves = [Nested(each) for each in flatten(before.element)]
        super().__init__(unflatten_as(before.element, leaves), [before], self._numbers)

    def elements(self, reading: Reading) -> Iterator[list[Any]]:
        """A dataset for each part of the elements, again and again."""
        size, shift, stride = (int(reading.values[each]) for each in self._numbers)
        if min(size, shift, stride) < 1:
            raise ValueError(f"size, shift and stride must be > 0, but are {size}, {shift} and {stride}")
        source = self.inputs[0].elements(reading)
        waiting: list[list[Any]] = []
        span = (size - 1) * stride + 1
        while True:
            waiting += itertools.islice(source, max(span - len(waiting), 0))
            window = waiting[:span:stride]
            if not window or (self._whole and len(window) < size):
                return
            yield [[[part] for part in column] for column in _columns(window)]
            missing = shift - len(waiting)
            waiting = waiting[shift:]
            if missing > 0:
                list(itertools.islice(source, missing))


def _columns(rows: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    return list(zip(*rows, strict=True))


def described_elements(stage: Stage) -> str:
    """The shapes and dtypes of elements, as a dataset's repr has them."""
    return f"shapes: {shapes_of(stage.element)}, types: {types_of(stage.element)}"
