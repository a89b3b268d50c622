"""The proof that a step treats rows independently: what it accepts, what it refuses, and that it is never wrong."""

from __future__ import annotations

import inspect
import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from torch import Tensor, fx, nn

from unspool import RNNCell, dynamic_rnn
from unspool.engine import Options, plain
from unspool.engine.graph import Node, value
from unspool.engine.labels import SHARED, Axis, Label
from unspool.engine.plan import Plan
from unspool.engine.planning import weights_of
from unspool.engine.reasons import CannotPlanError
from unspool.engine.rewrites import simplify
from unspool.engine.rows import follow_rows
from unspool.engine.run import prepare
from unspool.engine.trace import Leaf, Trace, trace

UNITS = 4
CPU = torch.device("cpu")


class Step(RNNCell):
    """A step of the caller's, `(cell, x, h) -> new h`, with weights for it to use."""

    def __init__(self, step: Callable[..., Any]) -> None:
        super().__init__()
        self.state_size = self.output_size = UNITS
        self.step = step
        self.w = nn.Parameter(torch.randn(UNITS, UNITS, dtype=torch.float64) / 2)
        self.b = nn.Parameter(torch.randn(UNITS, dtype=torch.float64))

    def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        new = self.step(self, x, h)
        return new if isinstance(new, tuple) else (new, new)


def rows_of(batch_size: int, *more: int) -> Tensor:
    return torch.randn(batch_size, *more, UNITS, dtype=torch.float64)


def planned(cell: RNNCell) -> Plan:
    """The plan of a cell, with all gradients wanted; raises if there is none."""
    x, h = rows_of(3, 4).requires_grad_(), rows_of(4).requires_grad_()
    return prepare(cell, x, LENGTHS, h, torch.float64, Options())[0].plan


LENGTHS = torch.tensor([1, 3, 0, 2])


def equals_the_plain_loop(cell: RNNCell) -> None:
    """Outputs, final states and every gradient, with lengths that are not in order.

    In float64, up to the order of sums: a few steps of numbers around 1.
    """
    x, h = rows_of(3, 4).requires_grad_(), rows_of(4).requires_grad_()
    sources = [x, h, *cell.parameters()]

    def with_gradients(outputs: Tensor, state: Tensor) -> list[Any]:
        loss = outputs.sin().sum() + state.cos().sum()
        return [outputs, state, *torch.autograd.grad(loss, sources, allow_unused=True, materialize_grads=True)]

    torch.manual_seed(2)  # for steps that draw
    expected = with_gradients(*plain.run(cell, x, LENGTHS, h, torch.float64))
    torch.manual_seed(2)
    found = with_gradients(*dynamic_rnn(cell, x, LENGTHS, h, time_major=True))
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


def keeps_rows_apart(cell: RNNCell, batch_size: int) -> None:
    """A row alone gives what it gives among others, and changing a row changes no other.

    In float64, up to how products of other shapes round; drawn steps multiply a few times what they are given.
    """
    x, h = rows_of(batch_size), rows_of(batch_size)
    with torch.no_grad():
        together = cell(x, h)
        alone = [cell(x[row : row + 1], h[row : row + 1]) for row in range(batch_size)]
        apart = tuple(torch.cat(pieces) for pieces in zip(*alone, strict=True))
        torch.testing.assert_close(together, apart, rtol=1e-9, atol=1e-9)
        for row in range(batch_size):
            others = torch.arange(batch_size) != row
            changed = cell(x.clone().index_fill_(0, torch.tensor([row]), 0.7), h + 2 * ~others[:, None])
            for before, after in zip(together, changed, strict=True):
                torch.testing.assert_close(after[others], before[others], rtol=1e-9, atol=1e-9)


# -- accepted ----------------------------------------------------------------------------------------------------------


def heads(t: Tensor) -> Tensor:
    """`[rows, 4]` as `[rows, 2, 2]`."""
    return t.unflatten(1, (2, 2))


def layer_norm(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    return torch.tanh(F.layer_norm(x + h @ cell.w, (UNITS,), cell.b))


def folded(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    """Rows and heads in one axis and back, rows in front and behind."""
    merged = heads(h).reshape(-1, 2) @ cell.w[:2, :2]
    other = heads(x).transpose(0, 1).reshape(-1, 2) @ cell.w[2:, 2:]
    return torch.tanh(merged.reshape(-1, UNITS) + other.reshape(2, -1, 2).transpose(0, 1).reshape(-1, UNITS))


def folded_twice(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    """Rows between two other axes, all three in one, and apart again in another way."""
    t = torch.stack([heads(x), heads(h)], 2).permute(1, 0, 2, 3)  # [2, rows, 2, 2]
    return torch.tanh(t.reshape(-1).reshape(2, -1, 2, 2).sum(0).reshape(-1, UNITS))


def permuted(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    return torch.tanh(torch.stack([x, h]).permute(2, 0, 1).mean(1).t())


def rows_last(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    return torch.tanh((cell.w @ h.t() + x.t()).softmax(0)).t()


def convolved(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    return torch.tanh(F.conv1d(torch.stack([x, h], 1), cell.w[:2, :2, None].expand(2, 2, 3), padding=1).sum(1))


def convolved_in_two_dimensions(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    image = torch.stack([heads(x), heads(h)], 1)
    kernel = cell.w.reshape(2, 2, 2, 2)
    return torch.tanh(F.conv2d(F.pad(image, (1, 0, 1, 0)), kernel, cell.b[:2]).flatten(1)[:, :UNITS])


def attending(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    q, k = heads(x @ cell.w), heads(h)
    return torch.tanh((torch.softmax(q @ k.mT, -1) @ k).flatten(1))


def written(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    new = torch.zeros_like(h)
    new[:, :2] = torch.tanh(x[:, 2:])
    new[:, torch.tensor([3, 2])] += h[:, :2]
    new[:, 1] *= cell.b[0]
    return new


def looked_up(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    ids = (x > 0).long().sum(1) % UNITS
    return torch.tanh(F.embedding(ids, cell.w) + cell.w[ids.unsqueeze(1), ids.unsqueeze(1)] + h)


def gathered(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    order = x.argsort(1)
    return torch.tanh(h.gather(1, order) + x.sort(1).values + torch.zeros_like(h).scatter(1, order[:, :2], 0.5))


def scattered(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    best, where = (x @ cell.w).topk(2, 1)
    return torch.tanh(h.scatter_add(1, where, best) + torch.zeros_like(h).scatter(1, where, best))


def statistics(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    spread = h.var(1, keepdim=True) + x.amax(1, keepdim=True) - x.min(1, keepdim=True).values + h.logsumexp(1)[:, None]
    return torch.tanh(h / (1 + torch.linalg.vector_norm(x, dim=-1, keepdim=True)) + h.mean(-1, keepdim=True) + spread)


class Unbound(torch.autograd.Function):
    """The identity, whose gradient is taken apart and put together again."""

    @staticmethod
    def forward(ctx: Any, given: Tensor) -> Tensor:
        return given.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return torch.stack(gradient.unbind(0))


ACCEPTED: dict[str, Callable[..., Any]] = {
    "pointwise": lambda cell, x, h: torch.where(x > 0, torch.sigmoid(x) * h, h.clamp(-1, 1)) + cell.b,
    "mm with rows left": lambda cell, x, h: torch.tanh(x + h @ cell.w),
    "mm with rows right": lambda cell, x, h: torch.tanh(x + (cell.w @ h.t()).t()),
    "mv": lambda cell, x, h: torch.tanh(x + torch.mv(h, cell.b)[:, None]),
    "bmm of rows with rows": lambda cell, x, h: torch.tanh(x + torch.bmm(heads(x), heads(h)).flatten(1)),
    "bmm with rows in the middle": lambda cell, x, h: torch.tanh(
        torch.bmm(heads(h).transpose(0, 1), cell.w.reshape(2, 2, 4)).sum(0) + x
    ),
    "bmm with rows at the end": lambda cell, x, h: torch.tanh(
        torch.bmm(cell.w.reshape(2, 4, 2), heads(h).permute(1, 2, 0)).sum(0).t() + x
    ),
    "outer product of each row": lambda cell, x, h: torch.tanh((x[:, :, None] * h[:, None]).sum(2)),
    "softmax over features": lambda cell, x, h: torch.softmax(x + h, 1) + F.log_softmax(x - h, -1),
    "softmax over heads": lambda cell, x, h: torch.softmax(heads(h), 1).flatten(1) + x,
    "layer norm": layer_norm,
    "group norm": lambda cell, x, h: torch.tanh(x + F.group_norm(heads(h), 2).flatten(1)),
    "normalised": lambda cell, x, h: F.normalize(x + h, dim=1) * (1 + F.cosine_similarity(x, h, dim=1)[:, None]),
    "conv1d": convolved,
    "conv2d": convolved_in_two_dimensions,
    "pooled": lambda cell, x, h: torch.tanh(F.avg_pool2d(heads(h)[:, None], 2).flatten(1) + x),
    "embedding": looked_up,
    "gather over features": gathered,
    "scatter over features": scattered,
    "rows merged with heads and back": folded,
    "rows merged with two axes and back": folded_twice,
    "permuted": permuted,
    "rows in the last axis": rows_last,
    "cat over features": lambda cell, x, h: torch.tanh(torch.cat([x, h, x * h], 1) @ cell.w.repeat(3, 1)),
    "stack and unbind": lambda cell, x, h: torch.tanh(sum(torch.stack([x, h, x * h], 0).unbind(0))),
    "split and chunk": lambda cell, x, h: torch.tanh(
        torch.cat([*x.split([1, 3], 1), *h.chunk(2, 1)], 1) @ cell.w.repeat(2, 1)
    ),
    "einsum over features": lambda cell, x, h: torch.tanh(torch.einsum("bi,ij->bj", h, cell.w) + x),
    "einsum with a matrix for each head": lambda cell, x, h: torch.tanh(
        torch.einsum("bhk,hkj->bhj", heads(h), cell.w.reshape(2, 2, 4)).sum(1) + x
    ),
    "einsum of rows with rows": lambda cell, x, h: torch.tanh(
        torch.einsum("bhk,bhj->bkj", heads(x), heads(h)).flatten(1)
    ),
    "einsum with rows behind": lambda cell, x, h: torch.tanh(torch.einsum("bi,bj->jib", x, h).sum(0).t()),
    "bilinear": lambda cell, x, h: torch.tanh(torch.einsum("bi,ij,bj->b", x, cell.w, h)[:, None] + h),
    "attention within a row": attending,
    "shared indices": lambda cell, x, h: torch.tanh(x[:, torch.tensor([3, 3, 0, 1])] + h),
    "shared indices of two axes": lambda cell, x, h: torch.tanh(
        h + heads(x)[:, torch.tensor([0, 1, 1, 0]), torch.tensor([1, 1, 0, 0])]
    ),
    "shared indices around the rows": lambda cell, x, h: torch.tanh(
        h + heads(x).transpose(0, 1)[torch.tensor([0, 1, 1, 0]), :, torch.tensor([1, 1, 0, 0])].t()
    ),
    "written in place": written,
    "statistics of features": statistics,
    "scans over features": lambda cell, x, h: torch.tanh(x.cumsum(1) + h.flip(1).roll(1, 1) + (x * h / 4).cumprod(1)),
    "padded and cut": lambda cell, x, h: torch.tanh(F.pad(x, (1, 0))[:, :UNITS] + F.pad(h.narrow(1, 1, 2), (2, 0))),
    "triangle of features": lambda cell, x, h: torch.tanh(heads(h).tril().flatten(1) + x),
    "expanded": lambda cell, x, h: torch.tanh(cell.b.expand(x.shape[0], UNITS) * x + h[:, :1].expand(-1, UNITS)),
    "made like rows": lambda cell, x, h: torch.tanh(torch.ones_like(h) * x + torch.full((x.shape[0], UNITS), 0.5) * h),
    "the old state": lambda cell, x, h: (torch.tanh(x), h),
    "a gated linear unit": lambda cell, x, h: F.glu(torch.cat([x, h], 1), 1) + h,
    "index_select": lambda cell, x, h: torch.tanh(x + h.index_select(1, torch.tensor([1, 0, 3, 2]))),
    "a softmax of weights": lambda cell, x, h: torch.tanh(x + h @ cell.w.softmax(0)),
    "positive weights": lambda cell, x, h: torch.tanh(x + h * F.softplus(cell.b)),
    "masked weights": lambda cell, x, h: torch.tanh(x + h @ cell.w.tril()),
    "weights whose gradient is unbound": lambda cell, x, h: torch.tanh(x + h @ Unbound.apply(cell.w)),
    "reordered weights": lambda cell, x, h: torch.tanh(x + h @ cell.w[torch.tensor([1, 0, 3, 2])] + cell.b.flip(0)),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_step_that_keeps_rows_apart_is_planned(name: str) -> None:
    torch.manual_seed(0)
    cell = Step(ACCEPTED[name])
    planned(cell)
    for batch_size in (1, 3):
        keeps_rows_apart(cell, batch_size)
    equals_the_plain_loop(cell)


def test_group_norm_with_a_scale_is_left_to_the_plain_loop() -> None:
    """torch takes its gradient apart by strides, which say nothing about rows."""
    cell = Step(lambda cell, x, h: torch.tanh(F.group_norm(x + h, 2, cell.b)))
    with pytest.raises(CannotPlanError, match="as_strided"):
        planned(cell)
    equals_the_plain_loop(cell)


# -- refused -----------------------------------------------------------------------------------------------------------


class CentredGradient(torch.autograd.Function):
    """The identity, whose gradient sees the whole batch."""

    @staticmethod
    def forward(ctx: Any, given: Tensor) -> Tensor:
        return given.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient - gradient.mean(0)


def appended(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    return torch.tanh(torch.cat([x, h], 0).reshape(2, -1, UNITS)[0] + h)


def overwritten(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    new = x + h
    new[0] = 0
    return new


def interleaved(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    """Row 0 of the result has the first two features of rows 0 and 1."""
    return torch.tanh(x + heads(h).transpose(0, 1).reshape(-1, UNITS))


def taken_apart(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    """The first half of all numbers, and the second, side by side."""
    return torch.tanh(x + h.reshape(2, -1, 2).transpose(0, 1).flatten(1))


REFUSED: dict[str, tuple[Callable[..., Any], str]] = {
    "softmax over the batch": (lambda cell, x, h: x + h.softmax(0), "softmax works across rows"),
    "log_softmax over the batch": (lambda cell, x, h: x + h.log_softmax(0), "log_softmax works across rows"),
    "mean over the batch": (lambda cell, x, h: x + h - h.mean(0), "mean works across rows"),
    "mean of everything": (lambda cell, x, h: x + h - h.mean(), "mean works across rows"),
    "variance over the batch": (lambda cell, x, h: x + h / (1 + h.var(0)), "var works across rows"),
    "standard deviation of everything": (lambda cell, x, h: x + h / h.std(), "std works across rows"),
    "batch norm in training": (
        lambda cell, x, h: x + F.batch_norm(h, None, None, training=True),
        "batch_norm.* is an operation of which it is not known",
    ),
    "sum over the batch": (lambda cell, x, h: torch.tanh(x + h.sum(0)), "add uses a sum over rows in a row"),
    "sum of everything": (lambda cell, x, h: torch.tanh(x + h.sum()), "add uses a sum over rows in a row"),
    "sum over the batch alone": (
        lambda cell, x, h: h.sum(0).expand(x.shape[0], UNITS),
        "a result of the step does not have its rows",
    ),
    "norm of everything": (lambda cell, x, h: x + h / torch.linalg.vector_norm(h), "linalg_vector_norm loses the axis"),
    "maximum over the batch": (lambda cell, x, h: x + h / h.amax(0), "amax works across rows"),
    "maximum of everything": (lambda cell, x, h: x + h / h.max(), "max works across rows"),
    "best row": (lambda cell, x, h: x + h.argmax(0), "argmax works across rows"),
    "any row": (lambda cell, x, h: x * (h > 0).any(0), "any works across rows"),
    "rows times rows": (lambda cell, x, h: torch.tanh(x + h @ h.t() @ h), "mm multiplies different rows"),
    "einsum over the batch": (
        lambda cell, x, h: torch.einsum("bi,bj,cj->ci", x, h, x),
        "uses a sum over rows in a row|multiplies different rows",
    ),
    "attention over the batch": (
        lambda cell, x, h: torch.softmax(x @ h.t(), 1) @ h,
        "mm multiplies different rows",
    ),
    "covariance": (lambda cell, x, h: x + h @ (h.t() @ h), "uses a sum over rows in a row"),
    "outer product of rows": (
        lambda cell, x, h: (x[:, None] * h[None]).sum(1),
        "lets different rows meet|two of its axes",
    ),
    "cumsum over the batch": (lambda cell, x, h: x + h.cumsum(0), "cumsum works across rows"),
    "flip of the batch": (lambda cell, x, h: x + h.flip(0), "flip works across rows"),
    "flip of everything": (lambda cell, x, h: x + h.flip([0, 1]), "flip works across rows"),
    "roll of the batch": (lambda cell, x, h: x + h.roll(1, 0), "roll works across rows"),
    "sort of the batch": (lambda cell, x, h: x + h.sort(0).values, "sort works across rows"),
    "topk of the batch": (lambda cell, x, h: x + h.topk(1, 0).values, "topk works across rows"),
    "cat along the batch": (appended, "cat appends rows to rows"),
    "a row of its own": (lambda cell, x, h: x + h[0], "select works across rows"),
    "rows without the first": (lambda cell, x, h: x + h[1:].sum(0), "the step depends on the number of rows"),
    "every second row": (lambda cell, x, h: x + h[::2].sum(0), "the step depends on the number of rows"),
    "the first two rows": (lambda cell, x, h: x + h[:2].sum(0), "slice works across rows"),
    "a row overwritten": (overwritten, "works across rows"),
    "rows indexed by features": (lambda cell, x, h: x + h[(x[:, 0] > 0).long()], "index indexes rows"),
    "the same rows for all": (lambda cell, x, h: x + h[torch.tensor([0, 0])].sum(0), "index indexes rows"),
    "gather over the batch": (lambda cell, x, h: x + h.gather(0, (x > 0).long()), "gather works across rows"),
    "scatter over the batch": (
        lambda cell, x, h: x + h.scatter(0, (x > 0).long(), 0.5),
        "scatter works across rows",
    ),
    "index_select of rows": (
        lambda cell, x, h: x + h.index_select(0, (x[:, 0] > 0).long()),
        "index_select works across rows",
    ),
    "looked up in the batch": (
        lambda cell, x, h: x + F.embedding((x[:, 0] > 0).long(), h),
        "embedding looks up rows in each other",
    ),
    "heads in front of rows": (interleaved, "reshape takes rows apart|depends on the number of rows"),
    "halves of the batch side by side": (taken_apart, "reshape takes rows apart|depends on the number of rows"),
    "the number of each row": (
        lambda cell, x, h: x + h * torch.arange(x.shape[0])[:, None],
        "arange makes rows|arange computes with",
    ),
    "a permutation": (
        lambda cell, x, h: x + h[torch.randperm(x.shape[0])],
        "randperm makes rows|randperm computes with",
    ),
    "a triangle of the batch": (lambda cell, x, h: x + h.tril(), "tril works across rows"),
    "padded rows": (lambda cell, x, h: x + F.pad(h, (0, 0, 1, 0))[:-1], "pad_nd works across rows|no multiple"),
    "an unknown operation": (
        lambda cell, x, h: x + torch.linalg.cross(x[:, :3], h[:, :3]).sum(1, keepdim=True),
        "linalg_cross is an operation of which it is not known whether it keeps rows apart",
    ),
    "kernels that are rows": (
        lambda cell, x, h: x + F.conv1d(x[:, None], h[:, None]).sum(1),
        "works across rows|two of its axes",
    ),
    "a gradient that sees the batch": (
        lambda cell, x, h: torch.tanh(x + CentredGradient.apply(h)),
        "mean works across rows",
    ),
    "a size that decides": (lambda cell, x, h: x + h if x.shape[0] > 10 else x - h, "depends on the number of rows"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_step_that_mixes_rows_is_refused_and_runs_in_the_plain_loop(name: str) -> None:
    torch.manual_seed(1)
    step, reason = REFUSED[name]
    cell = Step(step)
    with pytest.raises(CannotPlanError, match=reason):
        planned(cell)
    equals_the_plain_loop(cell)


class OneMore(torch.autograd.Function):
    """The identity, whose gradient has 1 added: not what a sum over rows may be treated with."""

    @staticmethod
    def forward(ctx: Any, given: Tensor) -> Tensor:
        return given.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient + 1


class MeanGradient(torch.autograd.Function):
    """The identity, whose gradient is divided by the number of rows."""

    @staticmethod
    def forward(ctx: Any, given: Tensor) -> Tensor:
        return given.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient / gradient.shape[0]


def by_frequency(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    """How often an id occurs in the batch scales the gradient of its row of the table."""
    return torch.tanh(h + F.embedding((x > 0).long().sum(1) % UNITS, cell.w, scale_grad_by_freq=True))


def first_of_twice_as_many(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    """Two ids for each row, all looked up; then the first half of what was found, as if it had one for each row."""
    found = cell.w[(x[:, :2] > 0).long().reshape(-1)]
    return torch.tanh(x + h + found.gather(1, (h > 0).long()))


SUBTLE: dict[str, Callable[..., Any]] = {
    "a roll of everything": lambda cell, x, h: torch.tanh(x + h.roll(1)),
    "a scatter into the first row": lambda cell, x, h: torch.tanh(h + x.scatter(1, torch.tensor([[0]]), 0.5)),
    "a gradient by frequency": by_frequency,
    "a gradient plus a number": lambda cell, x, h: torch.tanh(x + h @ OneMore.apply(cell.w)),
    "twice as many rows": first_of_twice_as_many,
}
"""Steps that mix rows, or gradients that are no sums over rows, in ways that are easily overlooked."""


@pytest.mark.parametrize("name", SUBTLE)
def test_a_step_that_mixes_rows_on_the_quiet_is_refused(name: str) -> None:
    torch.manual_seed(1)
    with pytest.raises(CannotPlanError):
        planned(Step(SUBTLE[name]))


def test_numbers_drawn_for_twice_as_many_rows_are_refused() -> None:
    """Of which a row would take those of another."""
    with pytest.raises(CannotPlanError):
        planned(Step(lambda cell, x, h: x + h + torch.rand(2 * x.shape[0], UNITS).gather(1, (h > 0).long())))


NUMBERS: dict[str, Callable[..., Any]] = {
    "a factor": lambda cell, x, h: torch.tanh(x + h) * x.shape[0],
    "a divisor": lambda cell, x, h: torch.tanh(x + h) / x.shape[0],
    "an addend": lambda cell, x, h: torch.tanh(x + h) + x.shape[0],
    "an inverse": lambda cell, x, h: torch.tanh(x + h) * (1 / x.shape[0]),
    "what rows are filled with": lambda cell, x, h: torch.tanh(x + h) + torch.full((x.shape[0], UNITS), x.shape[0]),
    "what something shared is filled with": lambda cell, x, h: torch.tanh(x + h) + torch.full((UNITS,), x.shape[0]),
    "a limit": lambda cell, x, h: (3 * x + h).clamp(max=x.shape[0]),
    "a gradient's divisor": lambda cell, x, h: torch.tanh(x + MeanGradient.apply(h)),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_the_number_of_rows_may_not_be_used_as_a_number(name: str) -> None:
    """A chunk of steps has other numbers of rows than the batch, and so has a step at which some rows have ended."""
    cell = Step(NUMBERS[name])
    with pytest.raises(CannotPlanError, match="number of rows"):
        planned(cell)
    equals_the_plain_loop(cell)


# -- drawn steps -------------------------------------------------------------------------------------------------------

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


def drawn(draw: random.Random, seed: int) -> Drawn:
    torch.manual_seed(seed)
    cell = Drawn(draw, draw.randint(1, 6))
    note(str(cell))
    return cell


STEPS = (st.randoms(use_true_random=False), st.integers(0, 2**16))
UNHURRIED = dict(deadline=None, suppress_health_check=list(HealthCheck))


def traced(cell: RNNCell) -> Trace:
    leaf = Leaf((UNITS,), torch.float64, CPU, wanted=True)
    return trace(cell, weights_of(cell), leaf, leaf, torch.float64, same_containers=True, adjoint=True)


def evaluated(traced: Trace, cell: RNNCell, rows: Sequence[Tensor]) -> dict[Node, Any]:
    """What every node of a graph computes."""
    held = nn.Module()
    for node, tensor in {**traced.literals, **traced.constants}.items():
        setattr(held, str(node.target), tensor)
    interpreter = fx.Interpreter(held, garbage_collect_values=False, graph=traced.graph)
    with torch.no_grad():
        interpreter.run(len(rows[0]), *cell.parameters(), *rows)
    return interpreter.env


def row_of(tensor: Tensor, label: Label, row: int, rows: int) -> Tensor:
    """What a label says to be one of the rows."""
    assert isinstance(label, Axis)
    assert tensor.shape[label.index] == label.outer * rows * label.inner
    return tensor.unflatten(label.index, (label.outer, rows, label.inner)).select(label.index + 1, row)


@settings(max_examples=150, **UNHURRIED)
@given(*STEPS)
def test_no_drawn_step_mixes_rows_where_the_proof_accepts_it(draw: random.Random, seed: int) -> None:
    """Every node of the step and of its adjoint: each row by itself gives what it gives among others.

    What is shared is the same for one row, and what is a sum is the sum over what rows give by themselves.
    """
    cell = drawn(draw, seed)
    try:
        step = traced(cell)
    except Exception:
        return  # it cannot be traced: that it runs in the plain loop is another test
    try:
        simplify(step)
        labels = follow_rows(step.graph, step.rows)
    except CannotPlanError:
        return  # as above
    for batch_size in (1, 2, 3, 5):
        keeps_rows_apart(cell, batch_size)
    rows = [rows_of(3) for _ in range(4)]
    together = evaluated(step, cell, rows)
    alone = [evaluated(step, cell, [each[row : row + 1] for each in rows]) for row in range(3)]
    for node, label in labels.items():
        if not isinstance(value(node), Tensor):
            continue
        if isinstance(label, Axis):
            expected = torch.stack([row_of(env[node], label, 0, 1) for env in alone])
            found = torch.stack([row_of(together[node], label, row, 3) for row in range(3)])
        elif label == SHARED:
            found, expected = together[node], alone[0][node]
        else:
            found, expected = together[node], sum(env[node] for env in alone)
        torch.testing.assert_close(
            found, expected, rtol=1e-7, atol=1e-7, equal_nan=True, msg=lambda m, n=node: f"{n}: {m}"
        )


@settings(max_examples=50, **UNHURRIED)
@given(*STEPS)
def test_drawn_steps_give_what_the_plain_loop_gives(draw: random.Random, seed: int) -> None:
    """Planned or not, outputs, states and every gradient are those of the plain loop."""
    equals_the_plain_loop(drawn(draw, seed))
