"""Sums in compiled loops are as exact as torch's, and equal numbers have no variance."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.emitting import assert_compiled
from tests.single_operations import Single, by_compiled_loops
from unspool import RNNCell, dynamic_rnn
from unspool.engine.ir.program import Kind
from unspool.engine.trace.graph import aten

pytestmark = pytest.mark.compiled

SIZES = (8, 32, 100, 512, 1024, 4096)
ROWS = 100
DRAWS = {"normal": torch.randn, "uniform": torch.rand}


def sums(size: int, draw: Any) -> dict[str, Single]:
    """What sums so many numbers a row, in float32."""
    x, across, matrix = draw(ROWS, size), draw(ROWS, size, 5), draw(size, 16)
    queries, keys = draw(ROWS, 4, size), draw(ROWS, size, 5)
    kept = {"keepdim": True}

    def reduction(operation: Any, *arguments: Any, **options: Any) -> Single:
        return Single(operation, arguments, options, Kind.REDUCTION)

    return {
        "sum": reduction(aten.sum.dim_IntList, x, [1], True),
        "sum of vectors": reduction(aten.sum.dim_IntList, across, [1]),
        "mean": reduction(aten.mean.dim, x, [1], True),
        "norm": reduction(aten.linalg_vector_norm.default, x, 2, [1], True),
        "softmax": reduction(aten._softmax.default, x, 1, False),
        "logsumexp": reduction(aten.logsumexp.default, x, [1], True),
        "variance": reduction(aten.var.correction, x, [1], correction=1, **kept),
        "deviation": reduction(aten.std.correction, x, [1], correction=1, **kept),
        "variance and mean": reduction(aten.var_mean.correction, x, [1], correction=0, **kept),
        "product by a matrix": Single(aten.mm.default, (x, matrix), {}, Kind.PRODUCT, shared=(1,)),
        "product of rows": Single(aten.bmm.default, (queries, keys), {}, Kind.PRODUCT),
    }


@cache
def errors() -> dict[str, list[tuple[float, float]]]:
    """By name, errors of compiled loops and of torch against float64: root mean squares, relative to the results."""
    torch.manual_seed(0)
    made = [(name, each) for draw in DRAWS.values() for size in SIZES for name, each in sums(size, draw).items()]
    found = by_compiled_loops([single for _, single in made])
    collected: dict[str, list[tuple[float, float]]] = {}
    for name, single in made:
        exact = Single(
            single.operation,
            tuple(each.double() if isinstance(each, Tensor) else each for each in single.arguments),
            single.options,
        ).by_torch()
        own, theirs = ((each - exact).norm() / exact.norm() for each in (found[single], single.by_torch()))
        collected.setdefault(name, []).append((own.item(), theirs.item()))
    return collected


@pytest.mark.parametrize("name", sums(2, torch.rand))
def test_are_as_exact_as_torch(name: str) -> None:
    """On average over sizes and draws; a half more leaves room for torch's other ways to sum on other machines."""
    ratios = [own / theirs for own, theirs in errors()[name]]
    assert sum(ratios) / len(ratios) <= 1.5, ratios
    assert max(ratios) <= 2, ratios


UNITS = 44
NORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "std": lambda t: t.std(1, keepdim=True) * torch.ones_like(t),
    "std, correction 0": lambda t: t.std(1, keepdim=True, correction=0) * torch.ones_like(t),
    "var": lambda t: t.var(1, keepdim=True) * torch.ones_like(t),
    "var, correction 0": lambda t: t.var(1, keepdim=True, correction=0) * torch.ones_like(t),
    "layer norm": lambda t: F.layer_norm(t, t.shape[1:]),
    "layer norm of two axes": lambda t: F.layer_norm(t.view(-1, 2, UNITS // 2), (2, UNITS // 2)).flatten(1),
    "layer norm of halves": lambda t: F.layer_norm(t.view(-1, 2, UNITS // 2), (UNITS // 2,)).flatten(1),
    "group norm": lambda t: F.group_norm(t.view(-1, 4, UNITS // 4), 2).flatten(1),
    "group norm with weights": lambda t: F.group_norm(t, 2, torch.linspace(0.5, 1.5, UNITS, dtype=t.dtype)),
    "distance from the mean": lambda t: t - t.mean(1, keepdim=True),
    "norm by hand": lambda t: (t - t.mean(1, keepdim=True)) / (t.var(1, keepdim=True, correction=0) + 1e-5).sqrt(),
}


class Norms(RNNCell):
    """Each norm of a state of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.state_size = self.output_size = (UNITS,) * len(NORMS)

    def forward(self, inputs: Tensor, state: Any) -> Any:
        results = tuple(function(each) for function, each in zip(NORMS.values(), state, strict=True))
        return results, results


def by(run: Any, rows: Tensor, gradient: Tensor) -> dict[str, tuple[Tensor, Tensor]]:
    """By name, results and gradients."""
    given = tuple(rows.clone().requires_grad_() for _ in NORMS)
    results = run(Norms(), given)
    gradients = torch.autograd.grad(results, given, [gradient] * len(NORMS))
    return dict(zip(NORMS, zip(results, gradients, strict=True), strict=True))


def engine(cell: Norms, state: Any) -> list[Tensor]:
    inputs = torch.zeros(len(state[0]), 1, 1, dtype=state[0].dtype)
    assert_compiled(cell, inputs, None, state, inputs.dtype)
    outputs, _ = dynamic_rnn(cell, inputs, initial_state=state, dtype=inputs.dtype)
    return [each[:, 0] for each in outputs]


def step(cell: Norms, state: Any) -> list[Tensor]:
    return list(cell(state[0][:, :1], state)[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def test_equal_numbers_have_no_variance(dtype: torch.dtype) -> None:
    """Zero where torch has zero, in results and gradients; the layer norm's gradient is of 1 / sqrt(epsilon)."""
    numbers = torch.tensor([0.1, 1 / 3, 1000.1, -7.7, 1e-3, 12345.678, 0.0, 0.7], dtype=dtype)
    rows = numbers[:, None].repeat(1, UNITS)
    torch.manual_seed(0)
    gradient = torch.randn(rows.shape, dtype=dtype)
    found, expected = by(engine, rows, gradient), by(step, rows, gradient)
    for name in NORMS:
        for kind, own, theirs in zip(("result", "gradient"), found[name], expected[name], strict=True):
            assert not own[theirs == 0].any(), f"{kind} of {name}"
        if "distance" not in name:
            assert not found[name][0].any(), f"result of {name}"
        if name.startswith(("std", "var")):
            assert not found[name][1].any(), f"gradient of {name}"


@pytest.mark.parametrize("kind", ["far from zero", "ordinary", "one far away"])
def test_norms_are_as_exact_as_torch(kind: str) -> None:
    """Against float64, with a mean of 10000 and a deviation of 0.01, say."""
    torch.manual_seed(0)
    rows = {"far from zero": 1e4 + 1e-2 * torch.randn(50, UNITS), "ordinary": 1 + 3 * torch.randn(50, UNITS)}
    rows["one far away"] = rows["ordinary"].clone()
    rows["one far away"][:, 0] = 1e4
    gradient = torch.randn(50, UNITS)
    found, torch_has = (by(run, rows[kind], gradient) for run in (engine, step))
    exact = by(step, rows[kind].double(), gradient.double())
    for name in NORMS:
        for number, right in enumerate(exact[name]):
            ours, least = ((each[name][number] - right).norm() / right.norm() for each in (found, torch_has))
            assert ours <= 1.5 * least + 2e-7, f"{('result', 'gradient')[number]} of {name}: {ours}, torch has {least}"


def test_a_mean_has_the_infinities_of_torch() -> None:
    inf, nan = torch.inf, torch.nan
    numbers = [[inf, 1, 2], [1, inf, 2], [nan, 1, 2], [-inf, 1, inf], [-inf, 1, 2], [1e308] * 3, [1e308, -1e308, 0]]
    rows = torch.tensor(numbers, dtype=torch.float64)
    single = Single(aten.mean.dim, (rows, [1], True), {}, Kind.REDUCTION)
    found = by_compiled_loops([single])[single]
    torch.testing.assert_close(found, single.by_torch(), equal_nan=True, rtol=1e-15, atol=0)
