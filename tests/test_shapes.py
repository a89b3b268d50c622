"""Shapes without torch: what is remembered of an operation, or told by a rule, is what torch tells."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings
from torch import Tensor
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import FakeTensorMode

from unspool.engine.trace.shapes import memo
from unspool.engine.trace.shapes.memo import RememberingMode
from unspool.engine.trace.shapes.symbolic_rows import AnyRows, rows_symbol

aten = torch.ops.aten
ROWS = "rows"
DTYPES = [torch.float32, torch.float64, torch.int64, torch.bool]


def told(value: Any) -> Any:
    """All that there is to know of results."""
    if not isinstance(value, Tensor):
        return [told(each) for each in value]
    sizes = ([str(size) for size in value.shape], [str(size) for size in value.stride()], str(value.storage_offset()))
    return (*sizes, value.dtype, value.device)


class Both:
    """Asks torch, and the mode that remembers, twice."""

    def __init__(self) -> None:
        self.torchs = FakeTensorMode(shape_env=AnyRows(), allow_non_fake_inputs=True)
        self.torchs.cache_enabled = False
        self.ours = RememberingMode(shape_env=AnyRows(), allow_non_fake_inputs=True)
        self.rows = {self.torchs: rows_symbol(self.torchs), self.ours: self.ours.make_rows()}

    def check(self, run: Any) -> None:
        """Compares what `run` returns, of a function that makes tensors."""
        answers: list[Any] = []
        for mode in (self.torchs, self.ours, self.ours):
            with torch.no_grad(), mode, enable_python_dispatcher():
                try:
                    answers.append(
                        told(run(lambda *sizes, dtype=torch.float32, mode=mode: self._made(mode, sizes, dtype)))
                    )
                except (RuntimeError, IndexError, TypeError) as error:
                    answers.append(type(error))
        assert answers[1] == answers[0]
        assert answers[2] == answers[0]

    def _made(self, mode: FakeTensorMode, *sizes: Any, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.empty([self.rows[mode] if size == ROWS else size for size in sizes], dtype=dtype)


SIZES = st.sampled_from([ROWS, 1, 2, 3])
SHAPES = st.lists(SIZES, min_size=0, max_size=3)


@st.composite
def tensors(draw: Any) -> Any:
    """Makes a tensor, or a view of one: transposed, a slice, with an axis of stride 0."""
    shape, dtype = draw(SHAPES), draw(st.sampled_from(DTYPES))
    view = draw(st.sampled_from(["none", "none", "transposed", "slice", "expanded"]))

    def make(new: Any) -> Tensor:
        tensor = new(*shape, dtype=dtype)
        if view == "transposed" and len(shape) > 1:
            return tensor.transpose(0, -1)
        if view == "slice" and shape and shape[-1] != ROWS:
            return new(*shape[:-1], shape[-1] + 2, dtype=dtype)[..., 1:-1]
        if view == "expanded" and shape:
            return tensor[..., :1].expand(tensor.shape) if shape[-1] != ROWS else tensor
        return tensor

    return make


POINTWISE = [
    aten.add.Tensor,
    aten.mul.Tensor,
    aten.gt.Tensor,
    aten.maximum.default,
    aten.div.Tensor,
    aten.atan2.default,
]
ALONE = [aten.tanh.default, aten.neg.default, aten.isnan.default, aten.logical_not.default, aten.round.default]


@settings(deadline=None)
@given(st.sampled_from(POINTWISE), tensors(), tensors())
def test_pointwise_operations_of_two(func: Any, one: Any, other: Any) -> None:
    Both().check(lambda new: func(one(new), other(new)))


@settings(deadline=None)
@given(st.sampled_from(ALONE), tensors())
def test_pointwise_operations_of_one(func: Any, one: Any) -> None:
    Both().check(lambda new: func(one(new)))


@settings(deadline=None)
@given(st.sampled_from(POINTWISE[:3]), tensors(), st.sampled_from([2, 2.5, True]))
def test_pointwise_operations_with_numbers(func: Any, one: Any, number: Any) -> None:
    scalars = {aten.gt.Tensor: aten.gt.Scalar}
    Both().check(lambda new: scalars.get(func, func)(one(new), number))


@settings(deadline=None)
@given(tensors(), tensors())
def test_products(one: Any, other: Any) -> None:
    Both().check(lambda new: aten.mm.default(one(new), other(new)))


@settings(deadline=None)
@given(tensors(), tensors(), st.integers(-4, 3))
def test_joining(one: Any, other: Any, dim: int) -> None:
    Both().check(lambda new: aten.cat.default([one(new), other(new)], dim))


NUMBERS = st.none() | st.integers(-4, 4)


@settings(deadline=None)
@given(tensors(), st.integers(-4, 3), NUMBERS, NUMBERS, st.integers(1, 3))
def test_slices(one: Any, dim: int, start: Any, end: Any, step: int) -> None:
    Both().check(lambda new: aten.slice.Tensor(one(new), dim, start, end, step))


@settings(deadline=None)
@given(tensors())
def test_transposing_and_detaching(one: Any) -> None:
    Both().check(lambda new: [aten.detach.default(aten.t.default(one(new))), aten.sum.dim_IntList(one(new), [-1])])


@pytest.mark.parametrize("sizes", [(ROWS, 6), (4, 6)])
def test_several_results(sizes: Any) -> None:
    Both().check(lambda new: aten.split.Tensor(new(*sizes), 2, 1))
    Both().check(lambda new: aten.max.dim(new(*sizes), 1))


def test_what_is_changed_in_place_is_looked_at_again() -> None:
    def run(new: Any) -> Any:
        x = new(ROWS, 3)
        aten.tanh.default(x)  # remembers what x is like
        x.unsqueeze_(1)
        return aten.tanh.default(x)

    Both().check(run)


def test_torch_is_asked_once_for_all_traces() -> None:
    asked: list[Any] = []

    class Counting(FakeTensorMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            asked.append(func)
            return super().__torch_dispatch__(func, types, args, kwargs)

    class Mode(RememberingMode, Counting):
        pass

    memo._remembered.clear()
    for _ in range(2):
        mode = Mode(shape_env=AnyRows(), allow_non_fake_inputs=True)
        rows = mode.make_rows()
        with torch.no_grad(), mode, enable_python_dispatcher():
            aten.cumsum.default(torch.empty(rows, 17), 1)
    assert asked.count(aten.cumsum.default) == 1
