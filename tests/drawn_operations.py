"""Operations drawn at random, of those that compiled loops know; each keeps rows apart."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.drawn_steps import DoesNotFitError

ROWS = 3
"""While an operation is drawn."""

Operation = Callable[..., Tensor]
"""A function of the cell's weights and of a few values, `[rows, ...]`."""


class Draw:
    """What operations are drawn with: numbers, and the weights that they ask for."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.weights: list[Tensor] = []

    def choice(self, options: Sequence[Any]) -> Any:
        return self.random.choice(options)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def weight(self, *shape: int) -> int:
        """The number of a weight: a new one, or one of that shape that is used already."""
        same = [k for k, each in enumerate(self.weights) if each.shape == shape]
        if same and self.chance(0.4):
            return self.choice(same)
        self.weights.append(torch.randn(shape, dtype=torch.float64) / math.sqrt(shape[0] if shape else 1))
        return len(self.weights) - 1

    def axis(self, t: Tensor) -> int:
        """Not that of the rows."""
        if t.dim() < 2:
            raise DoesNotFitError
        axis = self.random.randrange(1, t.dim())
        return axis - t.dim() if self.chance(0.3) else axis


# -- each element by itself --------------------------------------------------------------------------------------------

UNARY: list[Callable[[Tensor], Tensor]] = [
    torch.tanh,
    torch.sigmoid,
    torch.relu,
    torch.sin,
    torch.cos,
    torch.atan,
    torch.erf,
    torch.abs,
    torch.neg,
    F.softplus,
    F.gelu,
    F.silu,
    F.elu,
    F.leaky_relu,
    F.hardtanh,
    F.hardsigmoid,
    F.mish,
    lambda t: F.gelu(t, approximate="tanh"),
    lambda t: torch.exp(-t.abs()),
    lambda t: torch.expm1(torch.tanh(t)),
    lambda t: torch.log1p(t.square()),
    lambda t: torch.log(t.abs() + 0.3),
    lambda t: torch.sqrt(t.abs() + 0.2),
    lambda t: torch.rsqrt(t.square() + 1),
    lambda t: torch.reciprocal(t.square() + 1),
    lambda t: (t.abs() + 0.5) ** 0.3,
    lambda t: torch.tanh(t) ** 3,
    lambda t: torch.sign(t) * 0.5,
    lambda t: torch.floor(3 * t + 0.123) / 3,
    lambda t: torch.round(2 * t + 0.0321) / 2,
    lambda t: t.clamp(-0.71, 0.83),
    lambda t: t.clamp(min=-0.31),
    lambda t: t.clamp(max=0.47),
    lambda t: 1 - t,
    lambda t: 0.5 * t + 1,
    lambda t: t / 3,
    lambda t: 2 / (1 + t.square()),
    lambda t: t.masked_fill(t > 0.77, 0.1),
    lambda t: (t > 0.123).to(t.dtype) * t,
    lambda t: torch.where((t > -0.321) & (t < 0.654), t, -0.5),
    lambda t: torch.where(~(t <= 0.234), 0.25, t),
    lambda t: ((3 * t + 0.123).long() * 2 + 1).to(t.dtype) / 5,
    lambda t: torch.full_like(t, -0.7) * t,
    lambda t: t + torch.ones_like(t),
    lambda t: t.detach() * t,
]


def unary(draw: Draw, t: Tensor) -> Operation:
    function = draw.choice(UNARY)
    return lambda weights, t: function(t)


BINARY: list[Callable[[Tensor, Tensor], Tensor]] = [
    torch.add,
    torch.sub,
    torch.mul,
    torch.maximum,
    torch.minimum,
    torch.atan2,
    lambda a, b: a / (1 + b.square()),
    lambda a, b: torch.where(a > 0.123, a, b),
    lambda a, b: torch.where(a > b + 0.0123, a, -b),
    lambda a, b: torch.lerp(a, b, 0.3),
    lambda a, b: torch.lerp(a, b, torch.sigmoid(a)),
    lambda a, b: torch.addcmul(a, a, b, value=0.5),
    lambda a, b: torch.sub(a, b, alpha=0.5),
    lambda a, b: torch.sigmoid(a) * b + (1 - torch.sigmoid(a)) * torch.tanh(b),
    lambda a, b: ((a > 0.1) | (b > 0.2)).to(a.dtype) - a,
    lambda a, b: ((a > 0.1) != (b > 0.2)).to(a.dtype) * b,
    lambda a, b: a.masked_fill(b > 0.321, 0.5),
    lambda a, b: (a.abs() + 0.5) ** torch.tanh(b),
]


def _fitting(a: Tensor, b: Tensor) -> Callable[[Tensor], Tensor]:
    """How `b` can be seen so that it broadcasts with `a`, and rows stay with rows."""
    for missing in range(max(a.dim() - b.dim(), 0) + 1):
        shape = (b.shape[0], *[1] * missing, *b.shape[1:])
        try:
            if torch.broadcast_shapes(a.shape, shape)[0] == ROWS and a.dim() == len(shape):
                return lambda b: b.reshape(b.shape[0], *[1] * missing, *b.shape[1:])
        except RuntimeError:
            continue
    raise DoesNotFitError


def binary(draw: Draw, a: Tensor, b: Tensor) -> Operation:
    function, seen, turned = draw.choice(BINARY), _fitting(a, b), draw.chance(0.3)
    return lambda weights, a, b: function(seen(b), a) if turned else function(a, seen(b))


def scaled(draw: Draw, t: Tensor) -> Operation:
    """By a weight, or with one added, that is as large as some of the last axes."""
    axes = draw.random.randint(0, t.dim() - 1)
    k = draw.weight(*t.shape[t.dim() - axes :])
    function = draw.choice([torch.add, torch.mul, torch.sub, lambda t, w: torch.where(t > 0.1, t, w.expand_as(t))])
    return lambda weights, t: function(t, weights[k])


# -- products ----------------------------------------------------------------------------------------------------------


def linear(draw: Draw, t: Tensor) -> Operation:
    """Of the last axis, however a user writes it."""
    if t.dim() < 2:
        raise DoesNotFitError
    inner, outer = t.shape[-1], draw.choice([1, 2, 3, 4, 6, 8, 16, 19])
    k, b, turned, sliced = draw.weight(inner, outer), draw.weight(outer), draw.weight(outer, inner), draw.weight(31, 31)
    ways: list[Operation] = [
        lambda weights, t: t @ weights[k],
        lambda weights, t: t @ weights[k] + weights[b],
        lambda weights, t: F.linear(t, weights[turned], weights[b]),
        lambda weights, t: (weights[turned] @ t.unsqueeze(-1)).squeeze(-1),
        lambda weights, t: t @ weights[sliced][-inner:, 2 : 2 + outer] / 5,
        lambda weights, t: t @ (torch.tanh(weights[k]) * 2),
    ]
    if t.dim() == 2:
        ways += [lambda weights, t: (weights[turned] @ t.t()).t()]
    return draw.choice(ways)


def heads(draw: Draw, t: Tensor) -> Operation:
    """A matrix for each entry of the axis after the rows."""
    if t.dim() != 3:
        raise DoesNotFitError
    outer = draw.choice([1, 2, 3])
    k = draw.weight(*t.shape[1:], outer)
    ways: list[Operation] = [
        lambda weights, t: torch.einsum("bhk,hkj->bhj", t, weights[k]),
        lambda weights, t: torch.bmm(t.transpose(0, 1), weights[k]).transpose(0, 1),
    ]
    return draw.choice(ways)


def of_both(draw: Draw, a: Tensor, b: Tensor) -> Operation:
    """One matrix for two things side by side."""
    if a.dim() != 2 or b.dim() != 2:
        raise DoesNotFitError
    k = draw.weight(a.shape[1] + b.shape[1], draw.choice([2, 4, 5, 8]))
    return lambda weights, a, b: torch.cat([a, b], 1) @ weights[k]


def row_by_row(draw: Draw, a: Tensor, b: Tensor) -> Operation:
    """Products of what rows have: of two matrices, of a matrix and a vector, or of two vectors."""
    ways: list[Operation] = []
    if a.dim() == b.dim() == 3:
        ways += [
            lambda weights, a, b: torch.bmm(a, b) / 2,
            lambda weights, a, b: torch.bmm(a, b.transpose(1, 2)) / 2,
            lambda weights, a, b: torch.bmm(a.transpose(1, 2), b) / 2,
        ]
    if a.dim() == 3 and b.dim() == 2:
        ways += [
            lambda weights, a, b: torch.einsum("bmk,bk->bm", a, b) / 2,
            lambda weights, a, b: torch.einsum("bmk,bm->bk", a, b) / 2,
            lambda weights, a, b: (b.unsqueeze(1) @ a).squeeze(1) / 2,
        ]
    if a.dim() == b.dim() == 2:
        ways += [
            lambda weights, a, b: torch.einsum("bi,bj->bij", a, b),
            lambda weights, a, b: torch.bmm(a.unsqueeze(2), b.unsqueeze(1)),
            lambda weights, a, b: (a * b).sum(1, keepdim=True) if a.shape == b.shape else a.unsqueeze(2) * b[:, None],
        ]
    if not ways:
        raise DoesNotFitError
    return draw.choice(ways)


# -- elements of a row meet --------------------------------------------------------------------------------------------


def reduction(draw: Draw, t: Tensor) -> Operation:
    axes = sorted({draw.axis(t) % t.dim() for _ in range(draw.random.randint(1, 2))})
    keep, count = draw.chance(0.5), math.prod(t.shape[axis] for axis in axes)
    choices: list[Callable[[Tensor], Tensor]] = [
        lambda t: t.sum(axes, keepdim=keep) / 2,
        lambda t: t.mean(axes, keepdim=keep),
        lambda t: t.amax(axes, keepdim=keep),
        lambda t: t.amin(axes, keepdim=keep),
        lambda t: t.logsumexp(axes, keepdim=keep),
        lambda t: t.var(axes, correction=0, keepdim=keep),
        lambda t: torch.linalg.vector_norm(t + 0.1, 2, axes, keepdim=keep),
        lambda t: torch.linalg.vector_norm(t + 0.1, 1, axes, keepdim=keep),
        lambda t: torch.linalg.vector_norm(t, math.inf, axes, keepdim=keep),
    ]
    if count > 1:
        choices += [lambda t: t.var(axes, keepdim=keep)]
    function = draw.choice(choices)
    return lambda weights, t: function(t)


def along(draw: Draw, t: Tensor) -> Operation:
    """As many elements as before."""
    axis, last = draw.axis(t), t.shape[-1]
    k, b = draw.weight(last), draw.weight(last)
    choices: list[Operation] = [
        lambda weights, t: t.softmax(axis),
        lambda weights, t: t.log_softmax(axis) / 2,
        lambda weights, t: F.layer_norm(t, t.shape[-1:], weights[k], weights[b]),
        lambda weights, t: F.layer_norm(t, t.shape[1:]),
        lambda weights, t: t / (1 + t.norm(dim=axis, keepdim=True)),
        lambda weights, t: F.normalize(t + 0.1, dim=axis),
        lambda weights, t: t - t.mean(axis, keepdim=True),
        lambda weights, t: F.rms_norm(t, t.shape[-1:], weights[k]),
    ]
    return draw.choice(choices)


def attention(draw: Draw, a: Tensor, b: Tensor) -> Operation:
    """A row looks into what it remembers."""
    if a.dim() != 3 or b.dim() != 2:
        raise DoesNotFitError
    k = draw.weight(b.shape[1], a.shape[2])

    def operation(weights: Any, a: Tensor, b: Tensor) -> Tensor:
        scores = torch.einsum("bmk,bk->bm", a, b @ weights[k])
        return torch.bmm(scores.softmax(1).unsqueeze(1), a).squeeze(1)

    return operation


# -- the same elements in other places ---------------------------------------------------------------------------------


def view(draw: Draw, t: Tensor) -> Operation:
    axis = draw.axis(t)
    size = t.shape[axis]
    cut = draw.random.randrange(size + 1)
    factors = [k for k in range(1, size + 1) if size % k == 0]
    factor = draw.choice(factors)
    order = [0, *(draw.random.sample(range(1, t.dim()), t.dim() - 1))]
    shape = _regrouped(draw, t.shape[1:])
    index = draw.random.randrange(size)
    choices: list[Callable[[Tensor], Tensor]] = [
        lambda t: t.flatten(1),
        lambda t: t.permute(order),
        lambda t: t.reshape(t.shape[0], *shape),
        lambda t: t.permute(order).reshape(t.shape[0], *shape),
        lambda t: t.unflatten(axis, (factor, size // factor)),
        lambda t: t.unflatten(axis, (factor, size // factor)).transpose(1, 2).flatten(1),
        lambda t: t.select(axis, index),
        lambda t: t.unbind(axis)[index],
        lambda t: t.unsqueeze(axis).expand(*_repeated(t, axis, 2)),
        lambda t: t.narrow(axis, min(index, size - 1), 1).expand_as(t),
        lambda t: torch.cat([t.narrow(axis, cut, size - cut), t.narrow(axis, 0, cut)], axis),
        lambda t: torch.stack([t, 0.5 * t], axis),
        lambda t: torch.stack(t.unbind(axis)[::-1], axis),
        lambda t: torch.cat([t, torch.zeros_like(t), torch.tanh(t)], axis),
        lambda t: t.movedim(axis, 1),
        lambda t: t.repeat_interleave(2, axis) if t.dim() == 2 and size < 5 else t.unsqueeze(1),
        lambda t: t.transpose(1, -1).contiguous(),
    ]
    if size > 1:
        half = draw.random.randrange(1, size)
        choices += [
            lambda t: t.narrow(axis, half, size - half),
            lambda t: t.narrow(axis, 0, half),
            lambda t: torch.tanh(t.split([half, size - half], axis)[1]),
            lambda t: _written(t, axis, half),
            lambda t: _filled(t, axis, half),
        ]
    if size % 2 == 0:
        choices += [
            lambda t: _gated(t.chunk(2, axis)),
            lambda t: t.chunk(2, axis)[1],
            lambda t: torch.cat([torch.sigmoid(t.chunk(2, axis)[1]), t.chunk(2, axis)[0]], axis),
        ]
    function = draw.choice(choices)
    return lambda weights, t: function(t)


def _regrouped(draw: Draw, shape: Sequence[int]) -> list[int]:
    """Another shape with as many elements."""
    factors = [prime for size in shape for prime in (2, 3, 5, 17, 19) for n in range(1, 6) if size % prime**n == 0]
    if math.prod(factors) != math.prod(shape):
        return list(shape)
    draw.random.shuffle(factors)
    sizes = [1]
    for factor in factors:
        if draw.chance(0.5):
            sizes[-1] *= factor
        else:
            sizes.append(factor)
    return sizes if draw.chance(0.3) else [size for size in sizes if size > 1]


def _repeated(t: Tensor, axis: int, times: int) -> list[int]:
    sizes = list(t.unsqueeze(axis).shape)
    sizes[axis] = times
    return sizes


def _gated(halves: Sequence[Tensor]) -> Tensor:
    return torch.sigmoid(halves[0]) * halves[1]


def _written(t: Tensor, axis: int, cut: int) -> Tensor:
    """Filled in place, piece by piece."""
    new, size = torch.zeros_like(t), t.shape[axis]
    new.narrow(axis, 0, cut).copy_(torch.tanh(t.narrow(axis, 0, cut)))
    new.narrow(axis, cut, size - cut).add_(t.narrow(axis, cut, size - cut))
    return new


def _filled(t: Tensor, axis: int, cut: int) -> Tensor:
    """With something else in one of its places."""
    t = t.clone()
    t.select(axis, cut).mul_(0.5)
    t.select(axis, 0).add_(0.25)
    return t


def join(draw: Draw, a: Tensor, b: Tensor) -> Operation:
    if a.dim() < 2 or b.dim() < 2:
        raise DoesNotFitError
    axis = draw.axis(a)
    function = draw.choice([torch.cat, torch.stack])
    if a.dim() != b.dim() or draw.chance(0.2):
        return lambda weights, a, b: torch.cat([a.flatten(1), b.flatten(1)], 1)
    return lambda weights, a, b: function([a, b], axis)


def moved(draw: Draw, t: Tensor) -> Operation:
    """Elements that meet in an order, or change places."""
    axis = draw.axis(t)
    size = t.shape[axis]
    shift, few = draw.random.randrange(-size, size + 1), draw.random.randrange(1, size + 1)
    places = torch.tensor([draw.random.randrange(size) for _ in range(few)])
    choices: list[Callable[[Tensor], Tensor]] = [
        lambda t: t.cumsum(axis) / 2,
        lambda t: torch.tanh(t).cumprod(axis),
        lambda t: t.cummax(axis).values,
        lambda t: t.logcumsumexp(axis) / 2,
        lambda t: t.flip(axis),
        lambda t: t.roll(shift, axis),
        lambda t: _apart(t, axis).sort(axis, descending=shift > 0).values,
        lambda t: _apart(t, axis).topk(few, axis).values,
        lambda t: t.gather(axis, _apart(t, axis).argsort(axis)),
        lambda t: t.scatter_add(axis, _apart(t, axis).argsort(axis), torch.tanh(t)) / 2,
        lambda t: _apart(t, axis).max(axis).values,
        lambda t: t.index_select(axis, places.to(t.device)),
        lambda t: F.pad(t, (1, 0)),
        lambda t: F.pad(t, (-1, 2), value=0.5) if t.shape[-1] > 1 else t,
        lambda t: t.transpose(axis, -1)[..., ::2],
        lambda t: t.std(axis, correction=0) if t.shape[axis] > 1 else t.cumsum(axis),
    ]
    function = draw.choice(choices)
    return lambda weights, t: function(t)


def _apart(t: Tensor, axis: int) -> Tensor:
    """No two numbers along an axis are equal: which of equals comes first is not defined."""
    return (t.movedim(axis, -1) + torch.arange(t.shape[axis], dtype=t.dtype, device=t.device) / 97).movedim(-1, axis)


def unknown(draw: Draw, t: Tensor) -> Operation:
    """What has no form in C++: torch computes it beside a compiled loop, or the interpreter all."""
    axis = draw.axis(t)
    return lambda weights, t: torch.fft.fft(t, dim=axis).real / t.shape[axis]


OPERATIONS: list[tuple[int, Callable[..., Operation]]] = [
    (1, unary),
    (1, unary),
    (1, unary),
    (2, binary),
    (2, binary),
    (2, binary),
    (1, scaled),
    (1, linear),
    (1, linear),
    (1, heads),
    (2, of_both),
    (2, row_by_row),
    (2, row_by_row),
    (1, reduction),
    (1, reduction),
    (1, along),
    (1, along),
    (2, attention),
    (1, view),
    (1, view),
    (1, view),
    (2, join),
    (1, moved),
    (1, moved),
    (1, unknown),
]
"""With how many values each takes; what there is more of comes more often."""
