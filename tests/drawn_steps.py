"""Steps drawn at random: operations on an input, a state and weights, and on what these give."""

from __future__ import annotations

import inspect
import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.row_steps import UNITS, rows_of
from unspool import RNNCell

ROWS = 101
"""The number of rows while a step is drawn: a prime, of which only sizes with the rows in them are multiples."""


class DoesNotFitError(Exception):
    """An operation that cannot be applied to what was drawn for it."""


def with_rows(shape: Sequence[int], rows: int) -> list[int]:
    """A shape that was drawn, for another number of rows."""
    return [size // ROWS * rows if size % ROWS == 0 else size for size in shape]


def axis_of(draw: random.Random, t: Tensor) -> int:
    """Seldom the rows': of what follows, little could be accepted."""
    others = [axis for axis, size in enumerate(t.shape) if size % ROWS]
    if t.dim() == 0:
        raise DoesNotFitError
    axis = draw.choice(others) if others and draw.random() < 0.75 else draw.randrange(t.dim())
    return axis - t.dim() if draw.random() < 0.3 else axis


def axes_of(draw: random.Random, t: Tensor) -> list[int]:
    return sorted({axis_of(draw, t) % t.dim() for _ in range(draw.randint(1, 3))})


def factors_of(number: int) -> list[int]:
    return [prime for prime in (2, 3, 5, 7, ROWS) for power in range(1, 9) if number % prime**power == 0]


def ids(t: Tensor, size: int) -> Tensor:
    """Numbers below `size`. Not of round numbers, which might be rounded to either side."""
    return (3 * t + 0.123).floor().long() % (1 if size % ROWS == 0 else size)


Operation = Callable[..., Tensor]
"""A function of the number of rows and of one or two tensors."""


def unary(draw: random.Random, t: Tensor) -> Operation:
    function = draw.choice([torch.tanh, torch.sin, torch.neg, torch.sigmoid, torch.clone, torch.ones_like])
    return lambda rows, t: function(t)


def binary(draw: random.Random, a: Tensor, b: Tensor) -> Operation:
    choices = [torch.add, torch.mul, torch.sub, lambda a, b: torch.where(a > 0.123, a, b)]
    function = draw.choice(choices)
    return lambda rows, a, b: function(a, b)


def product(draw: random.Random, a: Tensor, b: Tensor) -> Operation:
    transposed = draw.random() < 0.5
    return lambda rows, a, b: torch.matmul(a, b.transpose(-1, -2) if transposed else b) / 4


def einsum(draw: random.Random, a: Tensor, b: Tensor) -> Operation:
    """Axes of the same size may be the same; any axes may be left."""
    sizes: dict[str, int] = {}
    names: list[str] = []
    for t in (a, b):
        own = ""
        for size in t.shape:
            same = [name for name in sizes if sizes[name] == size and name not in own]
            name = draw.choice(same) if same and draw.random() < 0.7 else "abcdefghij"[len(sizes)]
            own, sizes[name] = own + name, size
        names.append(own)
    left = draw.sample(sorted(sizes), draw.randint(1, min(3, len(sizes)))) if sizes else []
    equation = f"{','.join(names)}->{''.join(left)}"
    return lambda rows, a, b: torch.einsum(equation, a, b) / 4


def permute(draw: random.Random, t: Tensor) -> Operation:
    order = draw.sample(range(t.dim()), t.dim())
    return lambda rows, t: t.permute(order)


def unsqueeze(draw: random.Random, t: Tensor) -> Operation:
    axis = draw.randint(0, t.dim())
    return lambda rows, t: t.unsqueeze(axis)


def expand(draw: random.Random, t: Tensor) -> Operation:
    axis = axis_of(draw, t)
    if t.shape[axis] != 1:
        raise DoesNotFitError
    shape = list(t.shape)
    shape[axis] = draw.choice([2, 4, ROWS])
    return lambda rows, t: t.expand(with_rows(shape, rows))


def reshape(draw: random.Random, t: Tensor) -> Operation:
    """To any shape: factors of its sizes in order or not, put together anyhow."""
    factors = [factor for size in t.shape for factor in factors_of(size)]
    if draw.random() < 0.6:
        draw.shuffle(factors)
    shape: list[int] = []
    for factor in factors:
        if shape and draw.random() < 0.5:
            shape[-1] *= factor
        else:
            shape.append(factor)
    return lambda rows, t: t.reshape(with_rows(shape, rows))


def refold(draw: random.Random, t: Tensor) -> Operation:
    """The same shape with its elements in other places, as a forgotten transpose leaves them."""
    order, shape = draw.sample(range(t.dim()), t.dim()), t.shape
    return lambda rows, t: t + t.permute(order).reshape(with_rows(shape, rows))


def flatten(draw: random.Random, t: Tensor) -> Operation:
    first, last = sorted(axis % t.dim() for axis in (axis_of(draw, t), axis_of(draw, t)))
    return lambda rows, t: t.flatten(first, last)


def unflatten(draw: random.Random, t: Tensor) -> Operation:
    axis = axis_of(draw, t)
    factors = factors_of(t.shape[axis])
    draw.shuffle(factors)
    cut = draw.randint(0, len(factors))
    sizes = [math.prod(factors[:cut]), math.prod(factors[cut:])]
    return lambda rows, t: t.unflatten(axis, with_rows(sizes, rows))


def variance(t: Tensor, dim: list[int], keepdim: bool) -> Tensor:
    return t.var(dim, keepdim=keepdim, correction=0)


def reduction(draw: random.Random, t: Tensor) -> Operation:
    axes, keep = axes_of(draw, t), draw.random() < 0.5
    function = draw.choice([torch.sum, torch.mean, torch.amax, torch.logsumexp, variance])
    return lambda rows, t: function(t, dim=axes, keepdim=keep)


def selection(draw: random.Random, t: Tensor) -> Operation:
    """A reduction over one axis."""
    axis, keep = axis_of(draw, t), draw.random() < 0.5
    function = draw.choice(
        [
            lambda t: t.max(axis, keep).values,
            lambda t: t.argmax(axis, keep).to(t.dtype),
            lambda t: t.prod(axis, keep),
            lambda t: (t > 0.123).any(axis, keep).to(t.dtype),
        ]
    )
    return lambda rows, t: function(t)


def of_everything(draw: random.Random, t: Tensor) -> Operation:
    function = draw.choice([torch.sum, torch.mean, torch.max, lambda t: t.roll(1)])
    return lambda rows, t: function(t)


def counted(draw: random.Random, t: Tensor) -> Operation:
    """The number of rows as a number."""
    function = draw.choice([torch.mul, torch.div, torch.full_like])
    return lambda rows, t: function(t, rows)


def along(draw: random.Random, t: Tensor) -> Operation:
    axis = axis_of(draw, t)
    choices = [
        lambda t: t.softmax(axis),
        lambda t: t.cumsum(axis),
        lambda t: t.flip(axis),
        lambda t: t.roll(1, axis),
        lambda t: t.sort(axis).values,
        lambda t: t.topk(1, axis).values,
        lambda t: t.argsort(axis).to(t.dtype),
    ]
    function = draw.choice(choices)
    return lambda rows, t: function(t)


def cut(draw: random.Random, t: Tensor) -> Operation:
    axis = axis_of(draw, t)
    choices = [
        lambda t: t.narrow(axis, 0, 1),
        lambda t: t.select(axis, -1),
        lambda t: t.chunk(2, axis)[0],
        lambda t: t.index_select(axis, torch.tensor([0, 0])),
        lambda t: t.movedim(axis, 0)[torch.tensor([[0], [0]])],
        lambda t: t.repeat_interleave(2, axis),
    ]
    function = draw.choice(choices)
    return lambda rows, t: function(t)


def join(draw: random.Random, a: Tensor, b: Tensor) -> Operation:
    axis, function = axis_of(draw, a), draw.choice([torch.cat, torch.stack])
    return lambda rows, a, b: function([a, b], axis)


def gather(draw: random.Random, a: Tensor, b: Tensor) -> Operation:
    axis = axis_of(draw, a)
    return lambda rows, a, b: a.gather(axis, ids(b, size)) if (size := a.shape[axis]) else a


def index(draw: random.Random, a: Tensor, b: Tensor) -> Operation:
    axis = axis_of(draw, a)
    size = a.shape[axis]
    return lambda rows, a, b: a.movedim(axis, 0)[ids(b, size)]


def scatter(draw: random.Random, a: Tensor, b: Tensor) -> Operation:
    axis, function = axis_of(draw, a), draw.choice([torch.scatter, torch.scatter_add])
    size = a.shape[axis]
    return lambda rows, a, b: function(a, axis, ids(b, size), b)


def write(draw: random.Random, a: Tensor, b: Tensor) -> Operation:
    axis, added = axis_of(draw, a) % max(a.dim(), 1), draw.random() < 0.5
    where = draw.choice([0, slice(0, 1), torch.tensor([0])])

    def operation(rows: int, a: Tensor, b: Tensor) -> Tensor:
        a = a.clone()
        view = a.movedim(axis, 0)
        view[where] = view[where] + b if added else b
        return a

    return operation


def norm(draw: random.Random, t: Tensor) -> Operation:
    axes = draw.randint(1, 2)
    return lambda rows, t: F.layer_norm(t, t.shape[-axes:])


def convolution(draw: random.Random, a: Tensor, b: Tensor) -> Operation:
    return lambda rows, a, b: F.conv1d(a, b, padding=1) / 4


def pad(draw: random.Random, t: Tensor) -> Operation:
    sides = (1, 0) * draw.randint(1, 2)
    return lambda rows, t: F.pad(t, sides)


def triangle(draw: random.Random, t: Tensor) -> Operation:
    return lambda rows, t: t.tril()


OPERATIONS = [
    *[
        unary,
        binary,
        product,
        einsum,
        permute,
        permute,
        unsqueeze,
        expand,
        reshape,
        reshape,
        refold,
        flatten,
        unflatten,
    ],
    *[reduction, reduction, selection, of_everything, along, along, cut, cut, join, join],
    *[gather, index, scatter, write, norm, convolution, pad, triangle, counted],
]
"""What steps are drawn from; what changes the place of the rows, and what works along an axis, more often."""

WRONG_SIZES = (RuntimeError, IndexError, ValueError, DoesNotFitError)
"""What torch raises for operands that do not fit."""


class Drawn(RNNCell):
    """A step of drawn operations on the input, the state, a matrix and a vector, and on what they give."""

    def __init__(self, draw: random.Random, operations: int) -> None:
        super().__init__()
        self.state_size = self.output_size = UNITS
        self.w = nn.Parameter(torch.randn(UNITS, UNITS, dtype=torch.float64) / 2)
        self.b = nn.Parameter(torch.randn(UNITS, dtype=torch.float64))
        self._draw(draw, operations)

    @torch.no_grad()
    def _draw(self, draw: random.Random, operations: int) -> None:
        """Tries operations on many rows and on one: what fits there fits any number."""
        values, single = ([self.w, self.b, rows_of(rows), rows_of(rows)] for rows in (ROWS, 1))
        self.steps: list[tuple[str, Operation, list[int]]] = []
        for _ in range(3 * operations):
            make = draw.choice(OPERATIONS)
            operands = [self._operand(draw, values) for _ in range(len(inspect.signature(make).parameters) - 1)]
            try:
                operation = make(draw, *(values[k] for k in operands))
                result = operation(ROWS, *(values[k] for k in operands))
                one = operation(1, *(single[k] for k in operands))
            except WRONG_SIZES:
                continue
            if list(one.shape) == with_rows(result.shape, 1) and 0 < one.numel() <= 300 and one.dim() <= 5:
                self.steps.append((make.__name__, operation, operands))
                values.append(result)
                single.append(one)
            if len(self.steps) == operations:
                break
        self.ends = [self._end(draw, values) for _ in range(2)]
        self.live = {number for _, _, number in self.ends}
        for number, (_, _, operands) in reversed(list(enumerate(self.steps, 4))):
            self.live |= set(operands) if number in self.live else set()

    @staticmethod
    def _operand(draw: random.Random, values: Sequence[Tensor]) -> int:
        """Mostly what was computed last, and seldom a weight: most weights are multiplied with."""
        if draw.random() < 0.7:
            return len(values) - 1 - draw.randrange(2)
        return draw.randrange(2, len(values)) if draw.random() < 0.7 else draw.randrange(2)

    @staticmethod
    def _end(draw: random.Random, values: Sequence[Tensor]) -> tuple[str, Operation, int]:
        """One of the last values, brought to something that can be added to the state, by one way or another."""
        for _ in range(9):
            number = len(values) - 1 - draw.randrange(2)
            with_the_rows = [axis for axis, size in enumerate(values[number].shape) if size % ROWS == 0]
            axis = draw.choice(with_the_rows) if with_the_rows else 0
            ways: dict[str, Operation] = {
                "as it is": lambda rows, t: t,
                "its mean": lambda rows, t: t.mean(),
                "reshaped": lambda rows, t: t.reshape(rows, -1).mean(1, keepdim=True),
                "moved": lambda rows, t, axis=axis: t.movedim(axis, 0).reshape(rows, -1).mean(1, keepdim=True),
                "averaged": lambda rows, t, axis=axis: t.movedim(axis, 0).flatten(1).mean(1, keepdim=True),
            }
            way = draw.choice(
                [each for each in ways if each != "its mean"] if with_the_rows else ["as it is", "its mean"]
            )
            try:
                if (ways[way](ROWS, values[number]) + values[3]).shape == (ROWS, UNITS):
                    return way, ways[way], number
            except WRONG_SIZES:
                continue
        return "as it is", lambda rows, t: t, 3

    def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        rows = x.shape[0]
        values: list[Any] = [self.w, self.b, x, h]
        for number, (_, operation, operands) in enumerate(self.steps, 4):
            values.append(operation(rows, *(values[k] for k in operands)) if number in self.live else None)
        output, state = (operation(rows, values[number]) for _, operation, number in self.ends)
        return torch.tanh(x + 0.5 * output), torch.tanh(h + 0.5 * state)

    def __str__(self) -> str:
        names = ["w", "b", "x", "h", *(f"v{number}" for number in range(4, 4 + len(self.steps)))]
        lines = [
            f"v{number} = {name}({', '.join(names[k] for k in operands)})"
            for number, (name, _, operands) in enumerate(self.steps, 4)
            if number in self.live
        ]
        return "\n".join([*lines, *(f"{names[number]} {way}" for way, _, number in self.ends)])
