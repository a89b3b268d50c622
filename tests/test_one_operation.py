"""Under `torch.compile` a loop is one operation of the graph, with the results and gradients that it has without."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import unspool
from tests.compiled_graphs import (
    CELLS,
    CLOSE,
    DEPTH,
    MARKS,
    SHAPES,
    UNITS,
    Centred,
    Tagger,
    check_as_eager,
    counter,
    gradients,
    some,
    whole,
)
from tests.compiled_graphs import fresh as fresh  # for every test here
from unspool import GRUCell, LSTMCell, dynamic_rnn
from unspool.dynamo.residuals import Residuals

pytestmark = MARKS


@pytest.mark.parametrize("with_lengths", [False, True], ids=["full", "lengths"])
@pytest.mark.parametrize("name", CELLS)
def test_one_compilation_for_all_shapes_with_the_gradients_of_eager(name: str, with_lengths: bool) -> None:
    torch.manual_seed(0)
    model, graphs = Tagger(CELLS[name]()), counter()
    run = whole(model, graphs, dynamic=True)
    for rows, steps in SHAPES:
        check_as_eager(model, run, *some(rows, steps, with_lengths))
    assert graphs.frame_count == 1
    called = [node.target for node in graphs.graphs[0].graph.nodes if "unspool" in str(node.target)]
    assert called == [torch.ops.unspool.loop]


@pytest.mark.parametrize("name", ["lstm", "dict"])
def test_inductor_may_reuse_memory_around_it(name: str) -> None:
    """Inductor computes `relu(...)` again in backward, and writes over outputs that it needs no more."""
    torch.manual_seed(0)
    model = Tagger(CELLS[name](), memory=unspool.Recompute())

    def run(inputs: Tensor, lengths: Tensor) -> Tensor:
        return model(inputs * 2, lengths) * 3 + 1

    compiled = whole(run, "inductor", dynamic=True)
    for rows, steps in SHAPES:
        given = some(rows, steps)
        found, expected = gradients(model, compiled, *given), gradients(model, run, *given)
        torch.testing.assert_close(found, expected, **CLOSE)


@pytest.mark.parametrize("memory", [unspool.Keep(), unspool.Recompute(), unspool.Checkpoint(every=2)], ids=str)
def test_policies(memory: Any) -> None:
    model = Tagger(CELLS["lstm"](), memory=memory, parallel_iterations=3)
    check_as_eager(model, whole(model), *some(4, 7))


def test_the_plan_runs_and_its_guard_is_checked_at_every_call() -> None:
    torch.manual_seed(0)
    model, graphs = Tagger(CELLS["lstm"]()), counter()
    run = whole(model, graphs)
    with unspool.strict():
        check_as_eager(model, run, *some(4, 6))
        model.cell.forget_bias = 3.0
        check_as_eager(model, run, *some(4, 6))
    assert graphs.frame_count == 1


def test_a_cell_without_a_plan_runs_in_the_plain_loop_and_says_so() -> None:
    class Other(Centred):
        """Which nobody has warned of yet."""

    torch.manual_seed(0)
    model = Tagger(Other(UNITS))
    run = whole(model, dynamic=True)
    with pytest.warns(unspool.PerformanceWarning, match="mean works across rows"):
        run(*some(4, 6, False))
    for shape in SHAPES:
        check_as_eager(model, run, *some(*shape))
    with pytest.raises(unspool.StrictError), unspool.strict():
        run(*some(4, 6))


def test_each_call_in_a_graph_draws_its_own_numbers_and_those_of_eager() -> None:
    cell, inputs = unspool.DropoutWrapper(GRUCell(UNITS, input_size=DEPTH), 0.5, 0.5, 0.5), torch.randn(4, 6, DEPTH)
    model = nn.ModuleList([cell])
    dynamic_rnn(cell, inputs, dtype=torch.float32)  # which builds the wrapper

    def twice(inputs: Tensor) -> Tensor:
        return torch.stack([dynamic_rnn(cell, inputs, dtype=torch.float32)[0] for _ in range(2)])

    results = list[Any]()
    for run in (whole(twice, "inductor"), twice):
        torch.manual_seed(1)
        results.append(gradients(model, run, inputs))
    torch.testing.assert_close(*results, **CLOSE)
    assert not torch.equal(*results[0][0])
    cell.eval()
    found = whole(twice)(inputs)
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=0)


def test_two_calls_before_the_first_backward() -> None:
    model, one, other = Tagger(CELLS["gru"]()), some(4, 6), some(4, 6)
    run = whole(model)
    first, second = run(*one), run(*other)
    for found, given in ((first, one), (second, other)):
        expected = gradients(model, model, *given)[1][1:]
        wanted = torch.autograd.grad(found.square().mean(), list(model.parameters()), retain_graph=True)
        torch.testing.assert_close(list(wanted), expected, **CLOSE)
        again = torch.autograd.grad(found.square().mean(), list(model.parameters()))
        torch.testing.assert_close(again, wanted, rtol=0, atol=0)


def test_residuals_live_as_long_as_the_graph() -> None:
    model = Tagger(CELLS["lstm"]())
    run = whole(model)
    before = len(Residuals._alive)
    found = run(*some(4, 6))
    assert len(Residuals._alive) == before + 1
    del found
    gc.collect()
    assert len(Residuals._alive) == before
    with torch.no_grad():
        run(*some(4, 6))
    assert len(Residuals._alive) == before


def test_what_a_call_keeps_is_freed_without_the_collector() -> None:
    cell = LSTMCell(UNITS, input_size=DEPTH)
    compiled = whole(lambda x: dynamic_rnn(cell, x)[0].sum())
    x = torch.randn(2, 3, DEPTH, requires_grad=True)
    for _ in range(2):
        compiled(x).backward()
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        compiled(x).backward()
        gc.collect()
        assert not [each for each in gc.garbage if type(each) is Tensor]  # Dynamo leaves fakes behind
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("dropout", [False, True], ids=["plain", "dropout"])
def test_activation_checkpointing_around_it(dropout: bool, backend: str) -> None:
    torch.manual_seed(0)
    cell: Any = CELLS["gru"]()
    model = Tagger(unspool.DropoutWrapper(cell, 0.5, 0.5) if dropout else cell)

    def run(inputs: Tensor, lengths: Tensor) -> Tensor:
        return checkpoint(model, inputs, lengths, use_reentrant=False) * 2

    given = some(4, 6)
    model(*given)  # which builds the wrapper
    results = list[Any]()
    for each in (whole(run, backend), run):
        torch.manual_seed(1)
        results.append(gradients(model, each, *given))
    torch.testing.assert_close(*results, **CLOSE)


def test_functional_call_around_it() -> None:
    torch.manual_seed(0)
    model, other, given = Tagger(CELLS["lstm"]()), Tagger(CELLS["lstm"]()), some(4, 6)
    weights = {name: each.detach().clone().requires_grad_() for name, each in other.named_parameters()}

    def run(weights: dict[str, Tensor], *given: Any) -> Tensor:
        return torch.func.functional_call(model, weights, given)

    found = whole(run)(weights, *given)
    wanted = torch.autograd.grad(found.square().mean(), list(weights.values()))
    expected = gradients(other, other, *given)
    torch.testing.assert_close((found, list(wanted)), (expected[0], expected[1][1:]), **CLOSE)
