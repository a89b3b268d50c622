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
from unspool.engine import plain
from unspool.engine.graph import Node, value
from unspool.engine.plan import Plan, simplify
from unspool.engine.planning import weights_of
from unspool.engine.reasons import CannotPlanError
from unspool.engine.rows import SHARED, Axis, Label, follow_rows
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


def traced(cell: RNNCell, *, adjoint: bool = True) -> Trace:
    leaf = Leaf((UNITS,), torch.float64, CPU, wanted=True)
    return trace(cell, weights_of(cell), leaf, leaf, torch.float64, same_containers=True, adjoint=adjoint)


def rows_of(batch_size: int, *more: int) -> Tensor:
    return torch.randn(batch_size, *more, UNITS, dtype=torch.float64)


def equals_the_plain_loop(cell: RNNCell, batch_size: int = 4, *, tolerance: float = 1e-9) -> None:
    """Outputs, final states and every gradient, with lengths that are not in order."""
    x, h = rows_of(batch_size, 3).requires_grad_(), rows_of(batch_size).requires_grad_()
    lengths = torch.tensor([1, 3, 0, 2, 3][:batch_size])
    sources = [x, h, *cell.parameters()]

    def with_gradients(outputs: Tensor, state: Tensor) -> list[Any]:
        gradients = torch.autograd.grad(outputs.sin().sum() + state.cos().sum(), sources, allow_unused=True)
        return [outputs, state, *(torch.zeros_like(s) if g is None else g for s, g in zip(sources, gradients, strict=True))]

    for given_lengths in (None, lengths):
        outputs, state = plain.run(cell, x.transpose(0, 1), given_lengths, h, torch.float64)
        expected = with_gradients(outputs.transpose(0, 1), state)
        found = with_gradients(*dynamic_rnn(cell, x, given_lengths, h))
        torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


def keeps_rows_apart(cell: RNNCell, batch_size: int) -> None:
    """A row alone gives what it gives among others, and changing a row changes no other.

    In float64, to what products of other shapes round differently; drawn steps multiply what they are given a few times.
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
    "group norm": lambda cell, x, h: torch.tanh(F.group_norm(x + h, 2, cell.b)),
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
    "split and chunk": lambda cell, x, h: torch.tanh(torch.cat([*x.split([1, 3], 1), *h.chunk(2, 1)], 1) @ cell.w.repeat(2, 1)),
    "einsum over features": lambda cell, x, h: torch.tanh(torch.einsum("bi,ij->bj", h, cell.w) + x),
    "einsum with a matrix for each head": lambda cell, x, h: torch.tanh(
        torch.einsum("bhk,hkj->bhj", heads(h), cell.w.reshape(2, 2, 4)).sum(1) + x
    ),
    "einsum of rows with rows": lambda cell, x, h: torch.tanh(torch.einsum("bhk,bhj->bkj", heads(x), heads(h)).flatten(1)),
    "einsum with rows behind": lambda cell, x, h: torch.tanh(torch.einsum("bi,bj->jib", x, h).sum(0).t()),
    "bilinear": lambda cell, x, h: torch.tanh(torch.einsum("bi,ij,bj->b", x, cell.w, h)[:, None] + h),
    "attention within a row": attending,
    "shared indices": lambda cell, x, h: torch.tanh(x[:, torch.tensor([3, 3, 0, 1])] + h.index_select(1, torch.tensor([1, 0, 3, 2]))),
    "shared indices of two axes": lambda cell, x, h: torch.tanh(
        h + heads(x)[:, torch.tensor([0, 1, 1, 0]), torch.tensor([1, 1, 0, 0])]
    ),
    "shared indices around the rows": lambda cell, x, h: torch.tanh(
        h + heads(x).transpose(0, 1)[torch.tensor([0, 1, 1, 0]), :, torch.tensor([1, 1, 0, 0])].t()
    ),
    "written in place": written,
    "statistics of features": statistics,
    "scans over features": lambda cell, x, h: torch.tanh(x.cumsum(1) + h.flip(1).roll(1, 1) + (x * h / 4).cumprod(1)),
    "padded and cut": lambda cell, x, h: torch.tanh(F.pad(x, (1, 0))[:, :UNITS] + h.narrow(1, 1, 2).repeat_interleave(2, 1) if False else F.pad(x, (1, 0))[:, :UNITS] + h),
    "triangle of features": lambda cell, x, h: torch.tanh(heads(h).tril().flatten(1) + x),
    "expanded": lambda cell, x, h: torch.tanh(cell.b.expand(x.shape[0], UNITS) * x + h[:, :1].expand(-1, UNITS)),
    "made like rows": lambda cell, x, h: torch.tanh(torch.ones_like(h) * x + torch.full((x.shape[0], UNITS), 0.5) * h),
    "the old state": lambda cell, x, h: (torch.tanh(x), h),
    "a gated unit": lambda cell, x, h: F.glu(torch.cat([x, h], 1), 1) + h,
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_step_that_keeps_rows_apart_is_planned(name: str) -> None:
    torch.manual_seed(0)
    cell = Step(ACCEPTED[name])
    Plan(traced(cell))
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
    "variance over the batch": (lambda cell, x, h: x + h / h.var(0), "var works across rows"),
    "standard deviation of everything": (lambda cell, x, h: x + h / h.std(), "std works across rows"),
    "batch norm in training": (
        lambda cell, x, h: x + F.batch_norm(h, None, None, training=True),
        "batch_norm is an operation of which it is not known",
    ),
    "sum over the batch": (lambda cell, x, h: torch.tanh(x + h.sum(0)), "add uses a sum over rows in a row"),
    "sum of everything": (lambda cell, x, h: torch.tanh(x + h.sum()), "add uses a sum over rows in a row"),
    "sum over the batch alone": (lambda cell, x, h: h.sum(0).expand(x.shape[0], UNITS), "a result of the step does not have its rows"),
    "norm of everything": (lambda cell, x, h: x + h / torch.linalg.vector_norm(h), "linalg_vector_norm loses the axis"),
    "maximum over the batch": (lambda cell, x, h: x + h / h.amax(0), "amax works across rows"),
    "maximum of everything": (lambda cell, x, h: x + h / h.max(), "max works across rows"),
    "best row": (lambda cell, x, h: x + h.argmax(0), "argmax works across rows"),
    "any row": (lambda cell, x, h: x * (h > 0).any(0), "any works across rows"),
    "rows times rows": (lambda cell, x, h: torch.tanh(x + h @ h.t() @ h), "mm multiplies different rows"),
    "einsum over the batch": (lambda cell, x, h: torch.einsum("bi,bj,cj->ci", x, h, x), "uses a sum over rows in a row|multiplies different rows"),
    "attention over the batch": (
        lambda cell, x, h: torch.softmax(x @ h.t(), 1) @ h,
        "mm multiplies different rows",
    ),
    "covariance": (lambda cell, x, h: x + h @ (h.t() @ h), "uses a sum over rows in a row"),
    "outer product of rows": (lambda cell, x, h: (x[:, None] * h[None]).sum(1), "lets different rows meet|two of its axes"),
    "cumsum over the batch": (lambda cell, x, h: x + h.cumsum(0), "cumsum works across rows"),
    "flip of the batch": (lambda cell, x, h: x + h.flip(0), "flip works across rows"),
    "flip of everything": (lambda cell, x, h: x + h.flip([0, 1]), "flip works across rows"),
    "roll of the batch": (lambda cell, x, h: x + h.roll(1, 0), "roll works across rows"),
    "sort of the batch": (lambda cell, x, h: x + h.sort(0).values, "sort works across rows"),
    "topk of the batch": (lambda cell, x, h: x + h.topk(1, 0).values, "topk works across rows"),
    "cat along the batch": (appended, "cat appends rows to rows"),
    "a row of its own": (lambda cell, x, h: x + h[0], "select works across rows"),
    "rows without the first": (lambda cell, x, h: x + h[1:].sum(0), "slice works across rows"),
    "every second row": (lambda cell, x, h: x + h[::2].sum(0), "slice works across rows"),
    "a row overwritten": (overwritten, "works across rows"),
    "rows indexed by features": (lambda cell, x, h: x + h[(x[:, 0] > 0).long()], "index indexes rows"),
    "the same rows for all": (lambda cell, x, h: x + h[torch.tensor([0, 0])].sum(0), "index indexes rows"),
    "gather over the batch": (lambda cell, x, h: x + h.gather(0, (x > 0).long()), "gather works across rows"),
    "scatter over the batch": (
        lambda cell, x, h: x + h.scatter(0, (x > 0).long(), 0.5),
        "scatter works across rows",
    ),
    "index_select of rows": (lambda cell, x, h: x + h.index_select(0, (x[:, 0] > 0).long()), "index_select works across rows"),
    "looked up in the batch": (
        lambda cell, x, h: x + F.embedding((x[:, 0] > 0).long(), h),
        "embedding looks up rows in each other",
    ),
    "heads in front of rows": (interleaved, "reshape takes rows apart|depends on the number of rows"),
    "halves of the batch side by side": (taken_apart, "reshape takes rows apart|depends on the number of rows"),
    "the number of each row": (lambda cell, x, h: x + h * torch.arange(x.shape[0])[:, None], "arange makes rows"),
    "a permutation": (lambda cell, x, h: x + h[torch.randperm(x.shape[0])], "randperm makes rows"),
    "a triangle of the batch": (lambda cell, x, h: x + h.tril(), "tril works across rows"),
    "padded rows": (lambda cell, x, h: x + F.pad(h, (0, 0, 1, 0))[:-1], "pad_nd works across rows|no multiple"),
    "an unknown operation": (
        lambda cell, x, h: x + torch.linalg.cross(x[:, :3], h[:, :3]).sum(1, keepdim=True),
        "linalg_cross is an operation of which it is not known whether it keeps rows apart",
    ),
    "kernels that are rows": (lambda cell, x, h: x + F.conv1d(x[:, None], h[:, None]).sum(1), "works across rows|two of its axes"),
    "a gradient that sees the batch": (lambda cell, x, h: torch.tanh(x + CentredGradient.apply(h)), "mean works across rows"),
    "a size that decides": (lambda cell, x, h: x + h if x.shape[0] > 10 else x - h, "depends on the number of rows"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_step_that_mixes_rows_is_refused_and_runs_in_the_plain_loop(name: str) -> None:
    torch.manual_seed(1)
    step, reason = REFUSED[name]
    with pytest.raises(CannotPlanError, match=reason):
        Plan(traced(Step(step)))
    equals_the_plain_loop(Step(step))
