"""Scans, orders, elements found by indices and moved ones in compiled loops: what torch makes of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.single_operations import Single, by_compiled_loops
from tests.test_compiled_special_values import deviations
from tests.test_compiled_steps import Step, check
from unspool import RNNCell, dynamic_rnn, explain, strict
from unspool.engine import Request
from unspool.engine.execute.autograd import run_call
from unspool.engine.ir.program import Kind
from unspool.engine.ops.table import OPS
from unspool.engine.run import prepare
from unspool.engine.trace.graph import aten

pytestmark = pytest.mark.compiled

NAN, INF = math.nan, math.inf
ROWS = 6
DTYPES = (torch.float32, torch.float64, torch.int64, torch.bool)


def numbers(dtype: torch.dtype, *shape: int) -> Tensor:
    """With equal ones, and in some rows NaN and infinities."""
    drawn = torch.randint(-3, 4, (ROWS, *shape))
    if not dtype.is_floating_point:
        return drawn.to(dtype)
    mixed = torch.where(torch.rand(ROWS, *shape) < 0.5, drawn.double(), torch.randn(ROWS, *shape, dtype=torch.float64))
    special = torch.tensor([NAN, INF, -INF, -0.0, 1e30])[torch.randint(5, (ROWS, *shape))]
    some = (torch.rand(ROWS, *shape) < 0.2) & (torch.arange(ROWS) > 1).reshape(-1, *[1] * len(shape))
    return torch.where(some, special, mixed).to(dtype)


def ids(most: int, *shape: int, least: int = 0) -> Tensor:
    return torch.randint(least, most, shape)


ALONG = {
    aten.cumsum.default: [()],
    aten.cumprod.default: [()],
    aten.logcumsumexp.default: [()],
    aten.cummax.default: [()],
    aten.cummin.default: [()],
    aten.argmax.default: [(), (True,)],
    aten.argmin.default: [(), (True,)],
    aten.max.dim: [(), (True,)],
    aten.min.dim: [()],
    aten.median.dim: [()],
    aten.nanmedian.dim: [()],
    aten.any.dim: [(), (True,)],
    aten.all.dim: [()],
    aten.prod.dim_int: [()],
    aten.sort.default: [(), (True,)],
    aten.unfold.default: [(2, 1), (3, 2), (1, 3)],
    aten.glu.default: [()],
    aten.slice.Tensor: [(0, 9, 2), (1, None, 3), (-3, -1, 2), (2, 2, 2)],
}
"""Operations along an axis, with what follows it."""


def along(dtype: torch.dtype) -> list[tuple[Any, ...]]:
    made: list[tuple[Any, ...]] = []
    for shape in ((7,), (4, 6), (3, 1, 8)):
        for operation, rest in ALONG.items():
            for dim in {1, len(shape), -1}:
                made += [(operation, numbers(dtype, *shape), dim, *more) for more in rest]
    x = numbers(dtype, 4, 6)
    if not dtype.is_floating_point:  # the others are in test_compiled_sums.py
        made += [(aten.sum.dim_IntList, x, dims, keep) for dims in ([1], [2], [1, 2]) for keep in (False, True)]
    made += [(aten.any.dims, x, dims) for dims in ([1], [1, 2])]
    made += [(aten.amax.default, x, [1]), (aten.amin.default, x, [2])]
    made += [(aten.topk.default, numbers(dtype, 140), k, 1, *more) for k in (2, 7, 140) for more in ((), (False,))]
    made += [(aten.topk.default, x, k, dim) for k in (0, 1, 3) for dim in (1, 2)]
    made += [(aten.kthvalue.default, x, k, dim) for k in (1, 4) for dim in (1, 2)]
    return made


def moved(dtype: torch.dtype) -> list[tuple[Any, ...]]:
    x = numbers(dtype, 4, 6)
    made: list[tuple[Any, ...]] = [(aten.flip.default, x, dims) for dims in ([1], [2], [1, -1])]
    made += [(aten.roll.default, x, [by], [dim]) for by in (0, 1, -2, 9) for dim in (1, 2)]
    made += [(aten.roll.default, x, [1, -2], [1, 2])]
    pads = ([1, 2], [0, 0, 3, 0], [-1, 2, 1, -2], [-6, 0], [0, 0])
    made += [(aten.constant_pad_nd.default, x, widths, *value) for widths in pads for value in ((), (1,))]
    diagonals = [(shift, *dims) for shift in (0, 1, -2, 5) for dims in ((1, 2), (2, 1), (-1, 1))]
    made += [(aten.diagonal.default, x, *each) for each in diagonals]
    made += [
        (aten.diagonal_scatter.default, x, torch.diagonal(numbers(dtype, 4, 6), *each), *each) for each in diagonals
    ]
    made += [(operation, x, by) for operation in (aten.tril.default, aten.triu.default) for by in (0, 1, -2, 7)]
    made += [(aten.fill.Scalar, x, 1), (aten.slice_scatter.default, x, numbers(dtype, 4, 2), 2, 1, 5, 2)]
    return made


def found(dtype: torch.dtype) -> list[tuple[Any, ...]]:
    """Operations with indices, each row with its own or all with the same, and the numbers of what rows share."""
    x, put = numbers(dtype, 4, 6), numbers(dtype, 4, 6)
    index, few = ids(4, ROWS, 4, 6), ids(6, ROWS, 2, 3)
    made: list[tuple[Any, ...]] = [
        (aten.gather.default, x, 1, index),
        (aten.gather.default, x, 2, few),
        (aten.scatter.src, x, 1, index, put),
        (aten.scatter.src, x, 2, few, put),
        (aten.scatter.value, x, 2, few, 1),
        (aten.scatter_add.default, x, 1, index, put),
        (aten.scatter_add.default, x, 2, few, put),
    ]
    return made


def shared(dtype: torch.dtype) -> list[tuple[tuple[int, ...], tuple[Any, ...]]]:
    x, table = numbers(dtype, 4, 6), numbers(dtype, 3)
    one, other, rows = ids(4, 5, least=-4), ids(6, 5, least=-6), ids(ROWS, ROWS, 2)
    pair = ids(4, 2, 1, least=-4)
    made: list[tuple[tuple[int, ...], tuple[Any, ...]]] = [
        ((2,), (aten.index_select.default, x, 1, ids(4, 5))),
        ((2,), (aten.index_select.default, x, -1, ids(6, 3).int())),
        ((2,), (aten.index_add.default, x, 1, ids(4, 5), numbers(dtype, 5, 6))),
        ((2,), (aten.index_add.default, x, 2, ids(6, 3), numbers(dtype, 4, 3))),
        ((0,), (aten.embedding.default, table, rows)),
        ((0,), (aten.embedding.default, table, rows.int(), 1)),
        ((0,), (aten.index.Tensor, table, [rows])),
        ((0,), (aten.index.Tensor, table, [rows, ids(3, ROWS, 2)])),
    ]
    for indices in ([None, one], [None, None, other], [None, one, other], [None, pair, other]):
        made += [((1,), (operation, x, indices)) for operation in (aten.index.Tensor, aten._unsafe_index.Tensor)]
        value = numbers(dtype, *aten.index.Tensor(x, indices).shape[1:])
        for put in (aten.index_put.default, aten._unsafe_index_put.default):
            made += [((1,), (put, x, indices, value, True))]
    made += [((1,), (aten.index_put.default, x, [None, torch.tensor([2, 0])], numbers(dtype, 2, 6)))]
    made += [((1, 2), (aten.index_put.default, x, [None, torch.tensor([2, -1])], torch.ones(()).to(dtype)))]
    return made


def singles() -> list[Single]:
    """Every operation with every dtype that torch has it for, and each of its results."""
    torch.manual_seed(0)
    made: list[Single] = []
    for dtype in DTYPES:
        given = [((), each) for each in (*along(dtype), *moved(dtype), *found(dtype))] + shared(dtype)
        for common, (operation, *arguments) in given:
            try:
                result = operation(*arguments)
            except (RuntimeError, IndexError, NotImplementedError):
                continue
            for k in range(len(result) if isinstance(result, tuple) else 1):
                made.append(Single(operation, tuple(arguments), {}, Kind.OTHER, common, k))
    return made


@cache
def computed() -> dict[Any, list[tuple[Single, Tensor]]]:
    collected: dict[Any, list[tuple[Single, Tensor]]] = {}
    for single, result in by_compiled_loops(singles()).items():
        collected.setdefault(single.operation, []).append((single, result))
    return collected


OPERATIONS = sorted({single.operation for single in singles()}, key=str)


@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_operations_give_what_torch_gives(operation: Any) -> None:
    cases = computed().get(operation, [])
    wanted = {torch.int64, torch.bool} if operation is aten.sum.dim_IntList else {torch.float32, torch.float64}
    assert {single.arguments[0].dtype for single, _ in cases} >= wanted
    for single, result in cases:
        expected = single.by_torch()
        assert result.dtype == expected.dtype
        assert result.shape == expected.shape
        wrong = deviations(result, expected)
        if is_any_of_equals(single):
            x, dim = single.arguments[0], single.arguments[-1]
            values = [x.gather(dim, each.unsqueeze(dim)) for each in (result, expected)]
            wrong = deviations(*values)
        assert not wrong.any(), f"{single.arguments}: {result}, torch has {expected}"


def is_any_of_equals(single: Single) -> bool:
    """Whether torch does not say which of equal numbers an index is of."""
    return single.wanted == 1 and single.operation in (aten.median.dim, aten.nanmedian.dim, aten.kthvalue.default)


def test_all_operations_with_a_lowering_of_this_kind_are_compared() -> None:
    families = ("unspool.engine.ops.scans", "unspool.engine.ops.indexing")
    lowered = {op.target for op in OPS.values() if op.lowering and op.lowering.__module__ in families}
    assert lowered <= {*OPERATIONS}


# -- steps, with gradients ---------------------------------------------------------------------------------------------


def pairs(t: Tensor) -> Tensor:
    return t.view(-1, 2, 2)


PLACES = torch.tensor([3, 0, 0, 2])

STEPS_OF: dict[str, Callable[..., Tensor]] = {
    "sums so far": lambda c, x, h: torch.tanh(x + (h @ c.w).softmax(1).cumsum(1)),
    "sums so far from the end": lambda c, x, h: torch.tanh(x + h.flip(1).cumsum(1).flip(1)),
    "sums so far across": lambda c, x, h: torch.tanh(x + pairs(h).cumsum(1).flatten(1)),
    "products so far": lambda c, x, h: torch.tanh(x + torch.sigmoid(h).cumprod(1)),
    "products so far of zeros": lambda c, x, h: torch.tanh(x + torch.relu(h).cumprod(1)),
    "the largest so far": lambda c, x, h: torch.tanh(x + h.cummax(1).values + h.cummin(1).indices),
    "logarithms of sums so far": lambda c, x, h: torch.tanh(x + h.logcumsumexp(1)),
    "extremes and their places": lambda c, x, h: torch.tanh(
        x * h.max(1, keepdim=True).values + h.min(1).values[:, None] + h.max(1).indices[:, None] + h.argmin(1)[:, None]
    ),
    "extremes across": lambda c, x, h: torch.tanh(x + pairs(h).max(1).values.repeat(1, 2)),
    "what any and all are": lambda c, x, h: torch.tanh(
        x + h + (h > 0).any(1, keepdim=True) + (h > x).all(1, keepdim=True) + (h > 0).sum(1, keepdim=True)
    ),
    "a product of all": lambda c, x, h: torch.tanh(x + h.prod(1, keepdim=True)),
    "in order": lambda c, x, h: torch.tanh(x + (h @ c.w).sort(1, descending=True).values),
    "the order of another": lambda c, x, h: torch.tanh(x + h.gather(1, x.argsort(1))),
    "some of the largest": lambda c, x, h: torch.tanh(x + h.topk(2, 1).values.sum(1, keepdim=True)),
    "the largest alone": lambda c, x, h: torch.tanh(x + torch.zeros_like(h).scatter(1, h.topk(2, 1).indices, 1.0) * h),
    "a median": lambda c, x, h: torch.tanh(x + h - h.median(1, keepdim=True).values),
    "added to places": lambda c, x, h: torch.tanh(h.scatter_add(1, x.argsort(1), h @ c.w)),
    "put into places": lambda c, x, h: torch.tanh(h.scatter(1, x.argsort(1)[:, :2], x[:, 1:3])),
    "some of the features": lambda c, x, h: torch.tanh(x + h.index_select(1, PLACES) + h[:, PLACES]),
    "some of a matrix": lambda c, x, h: torch.tanh(x + pairs(h)[:, PLACES[:2] % 2, PLACES[1:3] % 2].repeat(1, 2)),
    "written to places": lambda c, x, h: torch.tanh(x + h.index_copy(1, PLACES[:2], x[:, :2])),
    "looked up": lambda c, x, h: torch.tanh(x + F.embedding(h.argmax(1), c.w)),
    "shifted": lambda c, x, h: torch.tanh(x + h.roll(1, 1) + h.roll(-3, 1) + pairs(h).roll((1, 1), (1, 2)).flatten(1)),
    "padded": lambda c, x, h: torch.tanh(x + F.pad(h[:, 1:], (1, 0)) + F.pad(h, (-2, 2), value=0.5)),
    "every other": lambda c, x, h: torch.tanh(x + torch.cat([h[:, ::2], h[:, 1::2]], 1)),
    "a diagonal": lambda c, x, h: torch.tanh(x + torch.diagonal(h[:, :, None] * x[:, None], 0, 1, 2)),
    "on a diagonal": lambda c, x, h: torch.tanh(x + torch.diag_embed(h).sum(1)),
    "a triangle": lambda c, x, h: torch.tanh(x + (h[:, :, None] * x[:, None]).tril(-1).sum(1)),
    "windows": lambda c, x, h: torch.tanh(x + F.pad(h, (1, 1)).unfold(1, 3, 1).mean(2)),
    "gated": lambda c, x, h: torch.tanh(x + F.glu(torch.cat([h, x], 1), 1)),
    "what is left": lambda c, x, h: torch.tanh(x + torch.remainder(h, 0.3) + torch.fmod(h, 0.7)),
    "a state that is turned": lambda c, x, h: h.flip(1) + torch.tanh(x) / 2,
    "a state that is sorted": lambda c, x, h: h.sort(1).values / 2 + torch.tanh(x),
    "one place of a state": lambda c, x, h: h.gather(1, x.argmax(1, keepdim=True)).expand(-1, 4) / 2 + torch.tanh(x),
}


@pytest.mark.parametrize("name", STEPS_OF)
def test_steps_equal_the_interpreter(name: str) -> None:
    torch.manual_seed(0)
    check(Step(STEPS_OF[name]))


# -- indices that are out of range -------------------------------------------------------------------------------------


class Addressed(RNNCell):
    """Finds elements at places that come with the input."""

    state_size = output_size = 4

    def __init__(self, step: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.step = step

    def forward(self, x: Tensor, h: Tensor) -> Any:
        h = torch.tanh(self.step(x, h))
        return h, h


TABLE = torch.eye(4)

ADDRESSED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "gather": lambda x, h: h + h.gather(1, x),
    "scatter": lambda x, h: h + h.scatter(1, x, 0.5),
    "scatter_add": lambda x, h: h.scatter_add(1, x, h),
    "embedding": lambda x, h: h + F.embedding(x[:, 0], TABLE),
    "index": lambda x, h: h + TABLE[x[:, 0]],
}


@pytest.mark.parametrize("name", ADDRESSED)
@pytest.mark.parametrize("place", [-5, -4, -1, 3, 4])
def test_an_index_out_of_range_is_an_error(name: str, place: int) -> None:
    """Negative ones count from the end where torch lets them."""
    cell, state = Addressed(ADDRESSED[name]), torch.randn(3, 4)
    inputs = torch.zeros(3, 5, 1, dtype=torch.int64).expand(3, 5, 4).clone()
    assert explain(cell, inputs, initial_state=state).emitter == "c++"
    dynamic_rnn(cell, inputs, initial_state=state)
    inputs[1, 2] = place
    if not (-4 if name == "index" else 0) <= place < 4:
        with strict(), pytest.raises((IndexError, RuntimeError), match="index"):  # torch's own
            dynamic_rnn(cell, inputs, initial_state=state)
        request = Request(cell, inputs.transpose(0, 1), None, state, torch.float32)
        with pytest.raises(IndexError, match=f"index {place} is out of bounds for dimension . with size 4"):
            run_call(*prepare(request))
        # Steps that do not run need not be in range.
        dynamic_rnn(cell, inputs, [5, 2, 5], state)
    else:
        expected = torch.stack([_plain(cell, inputs[row], state[row]) for row in range(3)])
        torch.testing.assert_close(dynamic_rnn(cell, inputs, initial_state=state)[0], expected)


def _plain(cell: Any, inputs: Tensor, state: Tensor) -> Tensor:
    outputs: list[Tensor] = []
    for x in inputs:
        output, state = cell(x[None], state.reshape(1, -1))
        outputs.append(output[0])
    return torch.stack(outputs)


# -- the source --------------------------------------------------------------------------------------------------------


def test_turned_elements_are_read_backwards_and_not_copied() -> None:
    cell = Step(lambda c, x, h: torch.tanh(x + h.flip(1)))
    source = explain(cell, torch.zeros(3, 5, 4, dtype=torch.float64), dtype=torch.float64).source
    assert "[3 - i0]" in source
