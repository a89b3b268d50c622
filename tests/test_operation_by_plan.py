"""Inside of `torch.compile`, the plan of a loop is called as it is, with no autograd graph around it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from functorch.compile import make_boxed_func
from torch import Tensor, nn
from torch._dynamo.backends.common import aot_autograd

import unspool
from tests.compiled_graphs import (
    CELLS,
    CLOSE,
    DEPTH,
    MARKS,
    SHAPES,
    UNITS,
    Tagger,
    check_as_eager,
    counter,
    gradients,
    some,
    whole,
)
from tests.compiled_graphs import fresh as fresh  # for every test here
from unspool import GRUCell, RNNCell, dynamic_rnn
from unspool.dynamo import by_plan
from unspool.engine import entry

pytestmark = MARKS


class Calls:
    """Counts how sites come to their plans."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.prepared = self.recorded = 0
        prepare, run = by_plan.prepare, entry.run

        def prepared(*given: Any) -> Any:
            self.prepared += 1
            return prepare(*given)

        def recorded(*given: Any) -> Any:
            self.recorded += 1
            return run(*given)

        monkeypatch.setattr(by_plan, "prepare", prepared)
        monkeypatch.setattr(entry, "run", recorded)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    return Calls(monkeypatch)


@pytest.mark.parametrize("with_lengths", [False, True], ids=["full", "lengths"])
@pytest.mark.parametrize("name", ["lstm", "layer-norm", "dict"])
def test_the_third_call_of_a_shape_only_checks_the_guard(name: str, with_lengths: bool, calls: Calls) -> None:
    torch.manual_seed(0)
    model = Tagger(CELLS[name]())
    run = whole(model, dynamic=True)
    for _ in range(2):
        for shape in SHAPES:
            gradients(model, run, *some(*shape, with_lengths))
    calls.prepared = calls.recorded = 0
    given = [some(*shape, with_lengths) for shape in SHAPES]
    found = [gradients(model, run, *each) for each in given]
    assert (calls.prepared, calls.recorded) == (0, 0)
    torch.testing.assert_close(found, [gradients(model, model, *each) for each in given], **CLOSE)


def test_a_site_remembers_so_many_shapes_and_runs_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_plan, "MOST", 1)
    model = Tagger(CELLS["gru"]())
    run = whole(model, dynamic=True)
    for shape in [*SHAPES, *SHAPES, *SHAPES]:
        check_as_eager(model, run, *some(*shape))


def test_what_has_changed_since_is_seen() -> None:
    model = Tagger(CELLS["lstm"]())
    run, given = whole(model, dynamic=True), some(4, 6)
    for _ in range(3):
        check_as_eager(model, run, *given)
    model.cell.forget_bias = 3.0
    check_as_eager(model, run, *given)
    model.cell.kernel = nn.Parameter(model.cell.kernel.detach() * 2)
    for _ in range(3):
        check_as_eager(model, run, *given)
    with torch.no_grad():
        model.cell.kernel.mul_(0.5)
    check_as_eager(model, run, *given)
    assert not torch.equal(run(*given), run(given[0], None))  # nor are lengths forgotten


def test_rows_of_length_zero_after_others() -> None:
    model = Tagger(CELLS["lstm"]())
    run, inputs = whole(model, dynamic=True), torch.randn(4, 6, DEPTH)
    for lengths in ([6, 2, 0, 3], [1, 1, 1, 1], [5, 6, 6, 0], [0, 0, 0, 0], [6, 6, 6, 6], [2, 0, 0, 0]):
        check_as_eager(model, run, inputs, torch.tensor(lengths))
    with pytest.raises(ValueError, match=r"sequence_length\[2\] is 9, but inputs have only 6 steps"):
        run(inputs, torch.tensor([6, 0, 9, 3]))


def test_a_cell_that_puts_nothing_out() -> None:
    def step(x: Tensor, h: Tensor) -> tuple[None, Tensor]:
        return None, torch.tanh(x * h + x)

    cell, state = unspool.cell(step), torch.randn(4, DEPTH, requires_grad=True)
    inputs, gradient = torch.randn(4, 6, DEPTH, requires_grad=True), torch.randn(4, DEPTH)
    run = lambda x, h: dynamic_rnn(cell, x, [6, 2, 0, 3], h)[1]  # noqa: E731
    expected = torch.autograd.grad(run(inputs, state), [inputs, state], gradient)
    compiled = whole(run, dynamic=True)
    for _ in range(3):
        found = torch.autograd.grad(compiled(inputs, state), [inputs, state], gradient)
        torch.testing.assert_close(found, expected, **CLOSE)


def test_zeros_to_start_from_are_never_handed_out() -> None:
    class Held(RNNCell):
        state_size, output_size = DEPTH, DEPTH

        def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
            return torch.sin(x) + h, h

    cell = Held()
    run, inputs = whole(lambda x: dynamic_rnn(cell, x)), torch.randn(2, 3, DEPTH, requires_grad=True)
    for _ in range(5):
        outputs, state = run(inputs)
        assert not state.any()
        torch.testing.assert_close(outputs, inputs.sin(), **CLOSE)
        with torch.no_grad():
            state.add_(1)


def test_an_initial_state_that_is_drawn_is_drawn_at_every_call() -> None:
    class Drawn(GRUCell):
        def zero_state(self, batch_size: int, dtype: Any, device: Any = None) -> Tensor:
            return torch.randn(batch_size, UNITS, dtype=dtype)

    model, given = Tagger(Drawn(UNITS, input_size=UNITS)), some(4, 6)
    run = whole(model, dynamic=True)
    for seed in range(4):
        results = list[Any]()
        for each in (run, model):
            torch.manual_seed(seed)
            results.append(gradients(model, each, *given))
        torch.testing.assert_close(*results, **CLOSE)


def test_a_sequence_begins_once_a_call() -> None:
    class Counting(GRUCell):
        begun = 0

        def start_sequence(self) -> None:
            type(self).begun += 1

    model, given = Tagger(Counting(UNITS, input_size=UNITS)), some(4, 6)
    run = whole(model)
    run(*given)
    Counting.begun = 0
    for number in range(1, 4):
        run(*given)
        assert Counting.begun == number


class Partly(RNNCell):
    """Has weights that its step does not use, or not yet."""

    def __init__(self) -> None:
        super().__init__()
        self.state_size = self.output_size = DEPTH
        self.used, self.other, self.gated = nn.Linear(DEPTH, DEPTH), nn.Linear(DEPTH, DEPTH), False

    def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.tanh(self.used(x) + h)
        return h, h * torch.sigmoid(self.other(x)) if self.gated else h


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_weight_that_no_gradient_reaches_has_none(backend: str) -> None:
    cell, inputs = Partly(), torch.randn(2, 3, DEPTH)
    run = whole(lambda x: dynamic_rnn(cell, x)[0].sum(), backend)
    for _ in range(3):
        cell.zero_grad()
        run(inputs).backward()
        assert [name for name, weight in cell.named_parameters() if weight.grad is None] == [
            "other.weight",
            "other.bias",
        ]
    cell.gated = True
    with pytest.raises(RuntimeError, match=r"a weight gets a gradient .*: call torch\.compiler\.reset\(\)"):
        run(inputs)
    torch.compiler.reset()
    run(inputs).backward()
    assert all(weight.grad is not None for weight in cell.parameters())


def graphs_of(run: Any, *given: Any) -> list[torch.fx.GraphModule]:
    """The forward and the backward graph that AOTAutograd makes of a function."""
    found = list[torch.fx.GraphModule]()

    def keep(graph: torch.fx.GraphModule, _: Any) -> Any:
        found.append(graph)
        return make_boxed_func(graph.forward)

    backend: Any = aot_autograd(fw_compiler=keep, bw_compiler=keep)
    torch.compile(run, fullgraph=True, backend=backend)(*given).sum().backward()
    return found


@pytest.mark.parametrize(("memory", "lent"), [(unspool.Keep(), 0), (unspool.Recompute(), 3)], ids=str)
def test_what_the_graphs_of_autograd_have(memory: Any, lent: int) -> None:
    """No autograd kernel runs in them, and no results wait for backward where a policy keeps all that it needs."""
    forward, backward = graphs_of(Tagger(CELLS["lstm"](), memory=memory), *some(4, 6))
    ran = [node.target for node in forward.graph.nodes if "unspool" in str(node.target)]
    assert ran == [torch.ops.unspool.loop_forward.default]
    (node,) = [node for node in backward.graph.nodes if node.target is torch.ops.unspool.loop_backward.default]
    assert len(node.args[2]) == lent


def key_of(cell: Any, inputs: Tensor) -> str:
    graphs = counter()
    torch.compiler.reset()
    torch.compile(lambda x: dynamic_rnn(cell, x), backend=graphs, fullgraph=True)(inputs)
    (node,) = [node for node in graphs.graphs[0].graph.nodes if node.target is torch.ops.unspool.loop]
    return node.args[2].split()[-1]


def test_a_key_tells_what_the_loop_returns() -> None:
    """torch keeps graphs on disk by what Dynamo recorded, and two cells may have weights of the same shapes."""

    class Copies(RNNCell):
        def __init__(self, copies: int) -> None:
            super().__init__()
            self.state_size, self.output_size, self.mix = DEPTH, copies * DEPTH, nn.Linear(DEPTH, DEPTH)

        def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
            h = torch.tanh(self.mix(x) + h)
            return h.repeat(1, self.output_size // DEPTH), h

    inputs = torch.randn(4, 6, DEPTH)
    one, same, other = (key_of(Copies(copies), inputs) for copies in (1, 1, 2))
    assert one == same != other
    assert key_of(Copies(1), torch.randn(3, 9, DEPTH)) == one
