"""Every rule of the proof of rows, with rows in every place where a tensor may have them: refused, or right."""

from __future__ import annotations

import itertools
import math
import operator
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, fx

import unspool
from tests.row_rule_cases import CASES, ELSEWHERE, Case, Given
from unspool.engine.ops.table import OPS, Op
from unspool.engine.reasons import CannotPlanError, Code
from unspool.engine.rows.labels import SHARED, SUMMED, Axis, Label
from unspool.engine.rows.proof import follow_rows
from unspool.engine.rows.rules import aligned
from unspool.engine.trace.graph import aten
from unspool.engine.trace.shapes.memo import RememberingMode
from unspool.engine.trace.shapes.symbolic_rows import AnyRows, without_reports

ROWS = 3


@dataclass(frozen=True)
class Placed:
    """Where the rows are in a tensor argument.

    Args:
        axis: along which axis; None if they are summed.
        outer, inner: what they are merged with there.
    """

    axis: int | None
    outer: int = 1
    inner: int = 1

    def source_shape(self, shape: tuple[int, ...], rows: Any) -> tuple[Any, ...]:
        """The shape of the argument before rows are merged or summed."""
        if self.axis is None:
            return (rows, *shape)
        outer, inner = ([size] if size > 1 else [] for size in (self.outer, self.inner))
        return (*shape[: self.axis], *outer, rows, *inner, *shape[self.axis + 1 :])

    @property
    def target(self) -> Any:
        """The operation that makes the argument of its source; None if that is the argument."""
        if self.axis is None:
            return aten.sum.dim_IntList
        return aten.view.default if self.outer > 1 or self.inner > 1 else None

    def argument(self, source: Tensor) -> list[Any]:
        """What the operation is given besides the source."""
        if self.axis is None:
            return [0]
        shape, last = source.shape, self._last
        return [*shape[: self.axis], math.prod(shape[self.axis : last + 1]), *shape[last + 1 :]]

    def of_source(self, source: Tensor) -> Tensor:
        """The argument."""
        if self.axis is None:
            return source.sum(0)
        return source if self._last == self.axis else source.flatten(self.axis, self._last)

    @property
    def _last(self) -> int:
        """The last of the axes of the source that are merged."""
        assert self.axis is not None
        return self.axis + (self.outer > 1) + (self.inner > 1)

    def row(self, source: Tensor, row: int) -> Tensor:
        """The source of one row alone."""
        axis = 0 if self.axis is None else self.axis + (self.outer > 1)
        return source.narrow(axis, row, 1).contiguous()


def placements(given: Sequence[Given]) -> Iterator[tuple[Placed | None, ...]]:
    """All ways to put rows into one, several or all arguments."""
    plain = [[None, *(Placed(axis) for axis in range(len(each.shape)))] for each in given]
    yield from itertools.product(*plain)
    for outer, inner in ((2, 1), (1, 2)) if len(given) < 3 else ():
        merged = [[None, *(Placed(axis, outer, inner) for axis in range(len(each.shape)))] for each in given]
        yield from itertools.product(*merged)
    if len(given) == 2:
        for first, second in itertools.product(*(range(len(each.shape)) for each in given)):
            yield Placed(first, 2, 1), Placed(second, 1, 2)
    summed = [[None] if each.most or each.is_mask else [None, Placed(None)] for each in given]
    yield from itertools.product(*summed)
    if len(given) == 2:
        for first in range(len(given[0].shape)):
            yield Placed(first), Placed(None)


class Tracer:
    """Makes graphs of one operation, for any number of rows."""

    def __init__(self) -> None:
        self.sizes = AnyRows()
        self.mode = RememberingMode(shape_env=self.sizes, allow_non_fake_inputs=True)
        self.rows = self.mode.make_rows()

    @property
    def spoilt(self) -> bool:
        """Whether something has become known of the number of rows."""
        try:
            self.sizes.check()
        except CannotPlanError:
            return True
        return False

    def graph(self, case: Case, placed: Sequence[Placed | None]) -> tuple[fx.Graph, fx.Node, list[fx.Node]]:
        """The graph, its number of rows, and the results of the operation."""
        graph = fx.Graph()
        count = graph.placeholder("rows")
        count.meta["val"] = self.rows
        made: list[fx.Node] = []
        with self.mode, without_reports():
            for number, (given, place) in enumerate(zip(case.given, placed, strict=True)):
                node = graph.placeholder(f"given_{number}")
                node.meta["val"] = given.empty(source_shape(given, place, self.rows))
                if place is not None and place.target is not None:
                    node = _call(graph, place.target, node, place.argument(node.meta["val"]))
                made.append(node)
            result = _call(graph, case.target, *case.filled(made, self.rows))
            several = isinstance(result.meta["val"], tuple | list)
            parts = range(len(result.meta["val"])) if several else ()
            results = [_call(graph, operator.getitem, result, number) for number in parts] or [result]
        self.sizes.check()
        graph.output(results)
        return graph, count, results


def _call(graph: fx.Graph, target: Any, *args: Any) -> fx.Node:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Raw SymInt value")  # sizes stand here for the nodes that compute them
        node = graph.call_function(target, args)
    node.meta["val"] = target(*fx.map_arg(args, lambda each: each.meta["val"]))
    return node


def source_shape(given: Given, place: Placed | None, rows: Any) -> tuple[Any, ...]:
    return given.shape if place is None else place.source_shape(given.shape, rows)


def checked(case: Case, placed: Sequence[Placed | None], tracer: Tracer) -> bool:
    """Whether the proof accepts an operation with rows there; if it does, asserts that it is right."""
    try:
        graph, count, results = tracer.graph(case, placed)
        labels = follow_rows(graph, count)
    except Exception:
        return False  # such sizes do not go together, or not for every number of rows, or rows would meet

    def apply(sources: Sequence[Tensor], rows: int) -> list[Tensor]:
        pairs = zip(sources, placed, strict=True)
        result = case.target(*case.filled([s if place is None else place.of_source(s) for s, place in pairs], rows))
        return list(result) if isinstance(result, tuple | list) else [result]

    torch.manual_seed(0)
    sources = [each.made(source_shape(each, place, ROWS)) for each, place in zip(case.given, placed, strict=True)]
    try:
        together = apply(sources, ROWS)
    except (IndexError, RuntimeError):
        return False  # tensors without values let some sizes pass that no others do
    alone: list[list[Tensor]] = []
    for row in range(ROWS):
        pairs = zip(sources, placed, strict=True)
        alone.append(apply([s if place is None else place.row(s, row) for s, place in pairs], 1))
    for number, node in enumerate(results):
        _assert_right(labels[node], together[number], [each[number] for each in alone])
    return True


def _assert_right(label: Label, together: Tensor, alone: list[Tensor]) -> None:
    """In float64; rows by themselves are other shapes to a product, which may sum in another order."""
    if isinstance(label, Axis):
        found = [_row_of(together, label, row, ROWS) for row in range(ROWS)]
        expected = [_row_of(each, label, 0, 1) for each in alone]
    elif label == SHARED:
        found, expected = [together] * ROWS, alone
    else:
        assert label == SUMMED
        found, expected = [together], [torch.stack(alone).sum(0)]
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def _row_of(tensor: Tensor, label: Axis, row: int, rows: int) -> Tensor:
    assert tensor.shape[label.index] == label.outer * rows * label.inner
    return tensor.unflatten(label.index, (label.outer, rows, label.inner)).select(label.index + 1, row)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_with_rows_in_any_argument_an_operation_is_refused_or_right(case: Case) -> None:
    tracer = Tracer()
    for placed in placements(case.given):
        if any(placed):
            try:
                accepted = checked(case, placed, tracer)
            except Exception as error:
                raise AssertionError(f"with rows at {placed}: {error}") from error
            if not accepted and tracer.spoilt:
                tracer = Tracer()


def is_ordinary(op: Op) -> bool:
    """Whether it is one of the many of which torch itself says that they are pointwise, and is nothing else."""
    tagged = torch.Tag.pointwise in getattr(op.target, "tags", ())
    return tagged and op.rule is aligned and op.linear is None and getattr(op.scalar, "condition", None) is None


def test_every_rule_is_tested() -> None:
    rules = {
        op.target
        for op in OPS.values()
        if (op.rule or op.axes or op.linear or op.shape_at is not None) and not is_ordinary(op)
    }
    assert rules - {case.target for case in CASES} <= ELSEWHERE


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_state_for_filters_is_refused(dtype: torch.dtype) -> None:
    """Every row is folded with the states of all rows."""

    class Filtering(unspool.RNNCell):
        state_size = output_size = torch.Size([4, 1])

        def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
            h = torch.tanh(torch.nn.functional.conv1d(x, h).sum(1)).unsqueeze(2)
            return h, h

    inputs = torch.randn(3, 5, 4, 4, dtype=dtype)
    state = torch.randn(3, 4, 1, dtype=dtype)
    explanation = unspool.explain(Filtering(), inputs, initial_state=state)
    assert not explanation.planned
    assert explanation.reason is not None
    assert explanation.reason.code in (Code.MIXED_ROWS, Code.ROW_COUNT)
    outputs, _ = unspool.dynamic_rnn(Filtering(), inputs, [5, 2, 3], initial_state=state)
    expected, _ = unspool.static_rnn(Filtering(), list(inputs.unbind(1)), state, sequence_length=[5, 2, 3])
    torch.testing.assert_close(outputs, torch.stack(expected, 1), rtol=0, atol=0)
