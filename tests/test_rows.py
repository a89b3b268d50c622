"""The proof that a step treats rows independently: what it accepts and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.row_steps import UNITS, Step, equals_the_plain_loop, keeps_rows_apart, planned
from unspool.engine.reasons import CannotPlanError

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
    "group norm with a scale": lambda cell, x, h: torch.tanh(F.group_norm(x + h, 2, cell.b)),
    "group norm of images with a scale and a bias": lambda cell, x, h: torch.tanh(
        x + F.group_norm(heads(h)[:, :, None], 1, cell.b[:2], cell.b[2:]).flatten(1)
    ),
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
        "var_mean works across rows",
    ),
    "sum over the batch": (lambda cell, x, h: torch.tanh(x + h.sum(0)), "add uses a sum over rows in a row"),
    "sum of everything": (lambda cell, x, h: torch.tanh(x + h.sum()), "add uses a sum over rows in a row"),
    "sum over the batch alone": (
        lambda cell, x, h: h.sum(0).expand(x.shape[0], UNITS),
        "expand uses a sum over rows in a row",
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
        lambda cell, x, h: torch.tanh(x + torch.linalg.matrix_exp(h[:, :, None] * h[:, None])[:, 0]),
        "linalg_matrix_exp is an operation of which it is not known whether it keeps rows apart",
    ),
    "kernels that are rows": (
        lambda cell, x, h: x + F.conv1d(x[:, None], h[:, None]).sum(1),
        "convolution multiplies different rows",
    ),
    "filters that are rows": (
        lambda cell, x, h: x + F.conv1d(cell.w.expand(2, -1, -1), h[:, :, None]).softmax(1).sum(0),
        "convolution multiplies different rows",
    ),
    "a gradient that sees the batch": (
        lambda cell, x, h: torch.tanh(x + CentredGradient.apply(h)),
        "mean works across rows",
    ),
    "a row that may vanish": (
        lambda cell, x, h: torch.tanh(x.squeeze(0) + h),
        "squeeze depends on the number of rows",
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
