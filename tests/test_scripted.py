"""Scripted modules and functions in a step: planned from their graphs, unless they do more than compute."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.comparison import check, wanting_gradients
from tests.idioms.table import DEPTH, UNITS, Step
from unspool import dynamic_rnn, explain, static_rnn
from unspool.engine.reasons import Code
from unspool.engine.trace.scripted import FromGraphs

BATCH, STEPS = 4, 3


def scripted(what: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # which people who have some know
        return torch.jit.script(what)


def inputs() -> Tensor:
    torch.manual_seed(0)
    return torch.randn(BATCH, STEPS, DEPTH, dtype=torch.float64)


def after(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    return torch.tanh(cell.mixed(x, h) + cell.layer(h))


def both(cell: Any) -> tuple[Tensor, Tensor]:
    """What a plan computes, and what the plain loop does."""
    x = inputs()
    assert explain(cell, x, dtype=torch.float64).planned
    found, _ = dynamic_rnn(cell, x, dtype=torch.float64)
    expected, _ = static_rnn(cell, [*x.unbind(1)], dtype=torch.float64)
    return found, torch.stack(expected, 1)


class Layer(nn.Module):
    """Weights, buffers, attributes and other modules, and code that branches and repeats by them."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(UNITS, UNITS)
        self.times, self.scale, self.kind = 2, 0.5, "soft"
        self.register_buffer("shift", torch.full((UNITS,), 0.1))
        self.offset = torch.full((UNITS,), 0.2, dtype=torch.float64)

    def forward(self, h: Tensor) -> Tensor:
        rows = h.size(0)
        assert h.dim() == 2, f"{h.dim()} axes"
        parts: list[Tensor] = []
        for k in range(self.times):
            h = self.linear(h) * self.scale + self.shift
            parts.append(h.view(rows, -1) + k)
        total = torch.stack(parts).sum(0)
        if self.training and self.kind == "soft":
            total = torch.softmax(total, dim=-1)
        return total + self.offset


CHANGES: dict[str, Callable[[Any], Any]] = {
    "a number": lambda layer: setattr(layer, "scale", -1.5),
    "how often": lambda layer: setattr(layer, "times", 4),
    "a text": lambda layer: setattr(layer, "kind", "hard"),
    "the mode": lambda layer: layer.eval(),
    "a tensor": lambda layer: setattr(layer, "offset", torch.full((UNITS,), 3.0, dtype=torch.float64)),
    "a parameter": lambda layer: setattr(layer.linear, "weight", nn.Parameter(torch.eye(UNITS, dtype=torch.float64))),
    "a buffer in place": lambda layer: layer.shift.add_(1),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_scripted_module_holds_may_change_between_calls(change: str) -> None:
    cell: Any = Step(after, layer=scripted(Layer())).double()
    before, expected = both(cell)
    torch.testing.assert_close(before, expected)
    with torch.no_grad():
        CHANGES[change](cell.layer)
    found, expected = both(cell)
    torch.testing.assert_close(found, expected)
    assert not torch.equal(found, before)


def test_each_scripted_module_has_its_own_plan() -> None:
    first, second = (Step(after, layer=scripted(Layer())).double() for _ in range(2))
    for cell in (first, second, first):
        found, expected = both(cell)
        torch.testing.assert_close(found, expected)


def test_what_has_been_optimised_for_tensors_with_values_is_planned() -> None:
    gate = scripted(_gate)
    cell = Step(lambda cell, x, h: gate(cell.mixed(x, h), h, scale=0.5) + cell.layer(h), layer=scripted(Layer()))
    x = inputs()
    for _ in range(3):
        outputs, _ = static_rnn(cell.double(), [*x.unbind(1)], dtype=torch.float64)
        sum(each.sum() for each in outputs).backward()
    assert explain(cell, x, dtype=torch.float64).planned
    state = torch.zeros(BATCH, UNITS, dtype=torch.float64)
    check(cell, torch.float64, [3, 0, 2, 1], wanting_gradients(x), wanting_gradients(state))


def _gate(x: Tensor, h: Tensor, scale: float = 1.0) -> Tensor:
    return scale * torch.sigmoid(x).reshape(h.shape[0], h.shape[1]) * h + x


# -- what is not planned ----------------------------------------------------------------------------------------------


class Printing(nn.Module):
    def forward(self, h: Tensor) -> Tensor:
        print("a step")
        return h


class Warns(nn.Module):
    def forward(self, h: Tensor) -> Tensor:
        warnings.warn("a step")  # noqa: B028  # scripts know no level
        return h


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.steps = 0

    def forward(self, h: Tensor) -> Tensor:
        self.steps += 1
        return h


class Listing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scales = [1.0, 2.0]

    def forward(self, h: Tensor) -> Tensor:
        return h * self.scales[0]


class Leaving(nn.Module):
    def forward(self, h: Tensor) -> Tensor:
        return self.unscripted(h)

    @torch.jit.ignore
    def unscripted(self, h):  # whose annotations, which are texts here, scripts would not understand
        return 2 * h


OBSTACLES = {
    Printing: "whose code prints",
    Counting: "whose code changes an attribute",
    Listing: "whose code reads scales, a list that may change unseen",
    Leaving: "whose code calls Python code that was not scripted",
}


@pytest.mark.parametrize("kind", OBSTACLES)
def test_a_scripted_module_that_does_more_than_compute_is_not_planned(kind: type[nn.Module]) -> None:
    cell = Step(after, layer=scripted(kind())).double()
    reason = explain(cell, inputs(), dtype=torch.float64).reason
    assert reason is not None
    assert reason.code is Code.UNGUARDED
    assert OBSTACLES[kind] in reason.message


def test_a_scripted_module_that_is_no_part_of_the_cell_is_not_planned() -> None:
    outside = scripted(nn.Linear(UNITS, UNITS)).double()
    cell = Step(lambda cell, x, h: torch.tanh(cell.mixed(x, h) + outside(h))).double()
    reason = explain(cell, inputs(), dtype=torch.float64).reason
    assert reason is not None
    assert reason.code is Code.OUTSIDE


def test_torch_calls_scripted_code_itself_after_a_trace() -> None:
    kinds: Any = (torch._C.ScriptFunction, torch._C.ScriptMethod)
    before = [kind.__call__ for kind in kinds]
    cell = Step(after, layer=scripted(Layer())).double()
    dynamic_rnn(cell, inputs(), dtype=torch.float64)
    assert [kind.__call__ for kind in kinds] == before


def test_other_threads_call_scripted_code_as_ever_during_a_trace() -> None:
    gate, found = scripted(_gate), list[Tensor]()
    x, h = torch.randn(2, UNITS), torch.randn(2, UNITS)
    with FromGraphs():
        thread = threading.Thread(target=lambda: found.append(gate(x, h, scale=0.5)))
        thread.start()
        thread.join()
        found.append(gate(x, h, scale=0.5))
    for each in found:
        torch.testing.assert_close(each, _gate(x, h, 0.5))


@pytest.mark.parametrize(("action", "planned"), [("default", True), ("always", False)])
def test_a_warning_of_scripted_code_is_given_once_or_keeps_it_from_a_plan(action: Any, planned: bool) -> None:
    cell = Step(after, layer=scripted(Warns()))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter(action)
        assert explain(cell.double(), inputs(), dtype=torch.float64).planned is planned
    assert [str(each.message) for each in seen] == ["a step"] * planned
