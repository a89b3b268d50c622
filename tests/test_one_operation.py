"""Under `torch.compile` a loop is one operation of the graph, with the results and gradients that it has without."""

from __future__ import annotations

import gc
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounterWithBackend
from torch.utils.checkpoint import checkpoint

import unspool
from unspool import GRUCell, LSTMCell, RNNCell, bidirectional_dynamic_rnn, dynamic_rnn, gallery
from unspool.dynamo import capture
from unspool.dynamo.residuals import Residuals
from unspool.dynamo.structures import encode

pytestmark = [
    pytest.mark.skipif(not capture.SUPPORTED, reason="this torch's Dynamo cannot take a cell as a constant"),
    pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning"),
    # Dynamo asks every tensor that crosses a break of the graph for its gradient, and only hides what torch says to it.
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"),
]

DEPTH, UNITS = 5, 8
SHAPES = [(4, 6), (7, 3), (3, 11)]
CLOSE = dict(rtol=0, atol=1e-6)  # float32; means of some dozen numbers of size one


class Slow(RNNCell):
    """A gated state beside a slow average of it, in a dict."""

    def __init__(self, units: int, input_size: int) -> None:
        super().__init__()
        self.state_size, self.output_size = {"slow": units, "fast": units}, (units, units)
        self.mix = nn.Linear(input_size + units, units)

    def forward(self, x: Tensor, state: dict[str, Tensor]) -> tuple[Any, Any]:
        fast = torch.tanh(self.mix(torch.cat([x, state["fast"]], 1)))
        return (fast, state["slow"]), {"slow": 0.9 * state["slow"] + 0.1 * fast, "fast": fast}


class Centred(RNNCell):
    """Rows meet: it has no plan."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.state_size = self.output_size = units
        self.mix = nn.Linear(units, units)

    def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.tanh(self.mix(x + h - h.mean(0)))
        return h, h


CELLS: dict[str, Callable[[], Any]] = {
    "lstm": lambda: LSTMCell(UNITS, input_size=UNITS),
    "gru": lambda: GRUCell(UNITS, input_size=UNITS),
    "layer-norm": lambda: gallery.LayerNormLSTMCell(UNITS, UNITS),
    "dict": lambda: Slow(UNITS, UNITS),
    "torch": lambda: nn.LSTMCell(UNITS, UNITS),
    "projected": lambda: LSTMCell(UNITS, input_size=UNITS, num_proj=3, use_peepholes=True),
}


class Tagger(nn.Module):
    def __init__(self, cell: Any, **options: Any) -> None:
        super().__init__()
        self.first, self.cell, self.options = nn.Linear(DEPTH, UNITS), cell, options

    def forward(self, inputs: Tensor, lengths: Any = None) -> Tensor:
        outputs, state = dynamic_rnn(
            self.cell, torch.relu(self.first(inputs)), lengths, dtype=torch.float32, **self.options
        )
        flat = [each.flatten() for each in encode((outputs, state))[0]]
        return torch.cat(flat).sin()


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def counter(backend: str = "aot_eager") -> Any:
    return CompileCounterWithBackend(backend)


def whole(function: Any, backend: Any = None, **options: Any) -> Any:
    return torch.compile(function, backend=backend or counter(), fullgraph=True, **options)


def gradients(model: nn.Module, run: Any, *given: Any) -> tuple[Tensor, list[Tensor]]:
    inputs = [
        each.clone().requires_grad_() if torch.is_tensor(each) and each.is_floating_point() else each for each in given
    ]
    model.zero_grad()
    found = run(*inputs)
    found.square().mean().backward()
    wanted = [each for each in [*inputs, *model.parameters()] if torch.is_tensor(each) and each.requires_grad]
    return found.detach(), [torch.zeros_like(each) if each.grad is None else each.grad.clone() for each in wanted]


def check_as_eager(model: nn.Module, run: Any, *given: Any) -> None:
    found, expected = gradients(model, run, *given), gradients(model, model, *given)
    torch.testing.assert_close(found, expected, **CLOSE)


def some(rows: int, steps: int, with_lengths: bool = True) -> list[Any]:
    lengths = torch.randint(0, steps + 1, (rows,)) if with_lengths else None
    return [torch.randn(rows, steps, DEPTH), lengths]


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
        assert not [each for each in gc.garbage if isinstance(each, Tensor)]
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


def test_both_directions_and_one_cell_in_both() -> None:
    torch.manual_seed(0)

    class Both(nn.Module):
        def __init__(self, shared: bool) -> None:
            super().__init__()
            self.fw = GRUCell(UNITS, input_size=DEPTH)
            self.bw = self.fw if shared else LSTMCell(UNITS, input_size=DEPTH)

        def forward(self, inputs: Tensor, lengths: Tensor) -> Tensor:
            (fw, bw), state = bidirectional_dynamic_rnn(self.fw, self.bw, inputs, lengths, dtype=torch.float32)
            return torch.cat([each.flatten() for each in encode((fw, bw, state))[0]])

    for shared in (False, True):
        model, graphs = Both(shared), counter()
        run = whole(model, graphs, dynamic=True)
        for shape in SHAPES:
            check_as_eager(model, run, *some(*shape))
        assert graphs.frame_count == 1


def test_layers_of_both_directions() -> None:
    torch.manual_seed(0)

    class Layers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cells = nn.ModuleList(GRUCell(4, input_size=depth) for depth in (DEPTH, DEPTH, 8, 8))

        def forward(self, inputs: Tensor, lengths: Tensor) -> Tensor:
            cells = list(self.cells)
            found = unspool.stack_bidirectional_dynamic_rnn(
                cells[::2], cells[1::2], inputs, dtype=torch.float32, sequence_length=lengths
            )
            return torch.cat([each.flatten() for each in encode(found)[0]])

    model = Layers()
    check_as_eager(model, whole(model), *some(4, 6))


class Pair(NamedTuple):
    left: Any
    right: Any


def test_structures_of_inputs_states_and_outputs() -> None:
    class Nested(RNNCell):
        state_size = Pair(UNITS, [UNITS, {"b": UNITS, "a": UNITS}])
        output_size = OrderedDict(z=UNITS, y=(UNITS,))

        def forward(self, inputs: Any, state: Any) -> tuple[Any, Any]:
            (x, number), (left, (middle, rest)) = (inputs["x"], inputs["step"]), state
            left = torch.tanh(left + x + number[:, None])
            return OrderedDict(z=left, y=(middle,)), Pair(left, [middle + left, {"b": rest["a"], "a": rest["b"] * x}])

    cell, x = Nested(), torch.randn(4, 6, UNITS)
    state = Pair(torch.randn(4, UNITS), [torch.randn(4, UNITS), {k: torch.randn(4, UNITS) for k in "ba"}])

    def run(x: Tensor, state: Any) -> Any:
        return dynamic_rnn(cell, {"x": x, "step": unspool.StepIndex()}, [6, 0, 2, 3], state)

    found, expected = whole(run)(x, state), run(x, state)
    assert type(found[0]) is OrderedDict
    assert list(found[0]) == ["z", "y"]
    assert type(found[1]) is Pair
    assert list(found[1].right[1]) == list(expected[1].right[1])
    torch.testing.assert_close(encode(found)[0], encode(expected)[0], **CLOSE)


def test_outputs_of_an_unknown_size_and_of_other_dtypes() -> None:
    def step(x: Tensor, h: Tensor) -> tuple[Any, Tensor]:
        h = 0.9 * h + 0.1 * torch.tanh(x)
        return {"level": h.sum(1), "active": h > 0, "nothing": None}, h

    cell = unspool.cell(step)
    run = lambda x, h: dynamic_rnn(cell, x, [5, 2, 0], h, time_major=True)  # noqa: E731
    x, h = torch.randn(5, 3, 4), torch.randn(3, 4)
    found, expected = whole(run, dynamic=True)(x, h), run(x, h)
    assert found[0]["nothing"] is None
    assert found[0]["active"].dtype == torch.bool
    torch.testing.assert_close(encode(found)[0], encode(expected)[0], **CLOSE)


def test_autocast_inside_of_what_is_compiled() -> None:
    torch.manual_seed(0)
    model, given = Tagger(CELLS["gru"]()), some(4, 6)

    def run(*given: Any) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return model(*given)

    found, expected = gradients(model, whole(run), *given), gradients(model, run, *given)
    torch.testing.assert_close(found, expected, **CLOSE)
    assert not torch.equal(found[0], model(*given))


def test_an_initial_state_that_is_learned_and_a_sequence_that_starts() -> None:
    class Learned(GRUCell):
        def __init__(self) -> None:
            super().__init__(UNITS, input_size=UNITS)
            self.start, self.scale = nn.Parameter(torch.randn(UNITS)), nn.Parameter(torch.ones(UNITS))

        def start_sequence(self) -> None:
            self.scaled = self.scale * 2

        def zero_state(self, batch_size: int, dtype: Any, device: Any = None) -> Tensor:
            return self.start.to(dtype).expand(batch_size, -1)

        def forward(self, inputs: Any, state: Any) -> Any:
            return super().forward(inputs * self.scaled, state)

    model = Tagger(Learned())
    run = whole(model, dynamic=True)
    for shape in SHAPES:
        check_as_eager(model, run, *some(*shape))
    assert type(model.cell.scaled) is Tensor  # and no fake one


def test_lengths_are_checked_at_every_call() -> None:
    model = Tagger(CELLS["gru"]())
    run, inputs = whole(model, dynamic=True), torch.randn(4, 6, DEPTH)
    run(inputs, torch.tensor([6, 0, 2, 3]))
    with pytest.raises(ValueError, match=r"sequence_length\[2\] is 9, but inputs have only 6 steps"):
        run(inputs, torch.tensor([6, 0, 9, 3]))


def test_wrong_arguments_are_named_when_the_graph_is_recorded() -> None:
    model = Tagger(CELLS["gru"]())
    with pytest.raises(Exception, match="sequence_length has 3 entries, but inputs have a batch of 4"):
        whole(model)(torch.randn(4, 6, DEPTH), torch.tensor([6, 0, 2]))
    with pytest.raises(Exception, match="sequence_length must hold ints"):
        whole(model)(torch.randn(4, 6, DEPTH), torch.tensor([6.0, 0, 2, 3]))


def test_a_list_of_lengths_is_no_constant() -> None:
    model, graphs, inputs = Tagger(CELLS["gru"]()), counter(), torch.randn(4, 6, DEPTH)
    run = whole(model, graphs, dynamic=True)
    for lengths in ([6, 2, 3, 3], [5, 4, 2, 6]):
        torch.testing.assert_close(run(inputs, lengths), model(inputs, lengths), **CLOSE)
    assert graphs.frame_count == 1


# -- what is called as it is ------------------------------------------------------------------------------------------


def test_a_cell_that_is_not_built_says_what_to_do_and_is_captured_later() -> None:
    torch.manual_seed(0)
    model = Tagger(LSTMCell(UNITS))
    with pytest.raises(Exception, match="LSTMCell has no weights yet: run the loop once before"):
        whole(model)(*some(4, 6))
    graphs = counter()
    torch.compile(model, backend=graphs)(*some(4, 6))
    check_as_eager(model, torch.compile(model, backend=graphs), *some(4, 6))
    assert any("unspool" in str(node.target) for graph in graphs.graphs for node in graph.graph.nodes)


def test_lazy_layers_break_the_graph() -> None:
    class Lazy(Centred):
        def __init__(self) -> None:
            super().__init__(UNITS)
            self.mix = nn.LazyLinear(UNITS)

        def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
            h = torch.tanh(self.mix(x + h))
            return h, h

    model = Tagger(Lazy())
    with pytest.raises(Exception, match="Lazy has lazy layers"):
        whole(model)(*some(4, 6))
    torch.compile(model, backend=counter())(*some(4, 6))
    check_as_eager(model, torch.compile(model, backend=counter()), *some(4, 6))


def test_weights_that_are_no_parameters_of_the_cell_break_the_graph() -> None:
    weight = nn.Parameter(torch.randn(UNITS))

    class Closed(Centred):
        def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
            h = torch.tanh(self.mix(x * weight + h))
            return h, h

    model = Tagger(Closed(UNITS))
    with pytest.raises(Exception, match="Closed reads a weight that is none of its parameters"):
        whole(model)(*some(4, 6))
    torch.compile(model, backend=counter())(*some(4, 6)).sum().backward()
    assert weight.grad is not None


def test_attributes_that_are_set_in_what_is_compiled_break_the_graph() -> None:
    class Scaled(GRUCell):
        scale: Any = 1.0

        def forward(self, inputs: Any, state: Any) -> Any:
            return super().forward(inputs * self.scale, state)

    class Sets(Tagger):
        def forward(self, inputs: Tensor, lengths: Any = None) -> Tensor:
            self.cell.scale = inputs.mean()
            return super().forward(inputs, lengths)

    model = Sets(Scaled(UNITS, input_size=UNITS))
    with pytest.raises(Exception, match=r"Scaled\.scale is set in what is compiled"):
        whole(model)(*some(4, 6))
    given = some(4, 6)
    found = torch.compile(model, backend=counter())(*given)
    torch.testing.assert_close(found, model(*given), **CLOSE)


def test_a_gradient_that_would_be_lost_is_an_error() -> None:
    model = Tagger(CELLS["gru"]())
    run = whole(model)
    weight = nn.Parameter(torch.randn(UNITS))
    model.cell.activation = lambda x: torch.tanh(x * weight)
    run_again = whole(model)
    with pytest.raises(Exception, match="register it in the cell"):
        run_again(*some(4, 6))
    with pytest.raises(RuntimeError, match="register it in the cell"):
        run(*some(4, 6))


@pytest.mark.parametrize(
    "options", [{}, {"bidirectional": True}, {"detach_every": 3}, {"return_states": "all"}], ids=str
)
def test_a_layer_is_one_operation_with_all_its_options(options: dict[str, Any]) -> None:
    layer = unspool.RNN(unspool.GRUCell(4, input_size=3), initial_state="learned", **options)
    counter = CompileCounterWithBackend("eager")
    compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend=counter)
    for rows, steps in ((4, 7), (3, 9), (5, 6)):
        x, lengths = torch.randn(rows, steps, 3), torch.randint(1, steps + 1, (rows,))
        resets = torch.rand(rows, steps) < 0.3
        found = []
        for each in (compiled, layer):  # in this order: the graph is recorded by a layer that never ran
            outputs = each(x, lengths=lengths, resets=resets)[0]
            found.append([outputs, *torch.autograd.grad(outputs.square().sum(), list(layer.parameters()))])
        for one, other in zip(*found, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=1e-6)  # the same engine, gradients added by other nodes
    assert counter.frame_count == 1
