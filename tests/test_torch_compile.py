"""`torch.compile` has a loop in its graph, or compiles what is around it and calls it: see test_one_operation.py."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo import utils
from torch._dynamo.testing import CompileCounterWithBackend

import unspool
from tests.cells import Duck
from unspool import GRUCell, LSTMCell, RNNCell, dynamic_rnn
from unspool.engine import entry

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning"),
    # Dynamo asks every tensor that crosses a break of the graph for its gradient, and only hides what torch says to it.
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"),
]

ROWS, STEPS, DEPTH, UNITS = 4, 6, 5, 8


class Leaky(RNNCell):
    def __init__(self, units: int) -> None:
        super().__init__()
        self.state_size = self.output_size = units

    def build(self, input_size: int) -> None:
        self.mix = nn.Linear(input_size + self.state_size, self.output_size)

    def forward(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        state = 0.9 * state + 0.1 * torch.tanh(self.mix(torch.cat([inputs, state], 1)))
        return state, state


CELLS: dict[str, Any] = {"lstm": LSTMCell, "gru": GRUCell, "user": Leaky}


class Tagger(nn.Module):
    def __init__(self, cell: Any) -> None:
        super().__init__()
        self.first, self.cell, self.last = nn.Linear(DEPTH, UNITS), cell, nn.Linear(UNITS, 3)

    def forward(self, inputs: Tensor, lengths: Tensor | None = None) -> Tensor:
        outputs, _ = dynamic_rnn(self.cell, torch.relu(self.first(inputs)), lengths, dtype=torch.float32)
        return self.last(outputs)


class Graphs:
    """Counts what Dynamo does."""

    def __init__(self) -> None:
        # It takes graphs apart for autograd as inductor does, but compiles nothing.
        self.backend = CompileCounterWithBackend("aot_eager")

    @property
    def count(self) -> int:
        return self.backend.frame_count

    @property
    def breaks(self) -> int:
        return sum(utils.counters["graph_break"].values())


@pytest.fixture
def graphs() -> Iterator[Graphs]:
    torch._dynamo.reset()
    utils.counters.clear()
    yield Graphs()
    torch._dynamo.reset()


def train(model: Any, with_lengths: bool, steps: int = 20) -> None:
    torch.manual_seed(1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    for _ in range(steps):
        inputs, lengths = torch.randn(ROWS, STEPS, DEPTH), torch.randint(0, STEPS + 1, (ROWS,))
        optimizer.zero_grad()
        model(inputs, lengths if with_lengths else None).square().mean().backward()
        optimizer.step()


def check_same_weights(one: nn.Module, other: nn.Module) -> None:
    for weight, expected in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(weight, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("with_lengths", [False, True], ids=["full", "lengths"])
@pytest.mark.parametrize("name", CELLS)
def test_training_gives_the_weights_that_it_gives_without(name: str, with_lengths: bool, graphs: Graphs) -> None:
    torch.manual_seed(0)
    eager = Tagger(CELLS[name](UNITS))
    eager(torch.randn(ROWS, STEPS, DEPTH))
    model = copy.deepcopy(eager)
    train(torch.compile(model, backend=graphs.backend), with_lengths)
    train(eager, with_lengths)
    check_same_weights(model, eager)
    assert (graphs.count, graphs.breaks) == (1, 0)


def test_a_drop_in_is_run_by_the_engine(graphs: Graphs, monkeypatch: pytest.MonkeyPatch) -> None:
    eager: Any = nn.Sequential(nn.Linear(DEPTH, UNITS), unspool.nn.LSTM(UNITS, UNITS, 2, bidirectional=True))
    inputs, requests, run = torch.randn(STEPS, ROWS, DEPTH), [], entry.run
    expected = torch.autograd.grad(eager(inputs)[0].square().sum(), list(eager.parameters()))
    monkeypatch.setattr(entry, "run", lambda request, scope: (requests.append(request), run(request, scope))[1])
    outputs, _ = torch.compile(eager, backend=graphs.backend)(inputs)
    assert len(requests) == 4
    for one, other in zip(torch.autograd.grad(outputs.square().sum(), list(eager.parameters())), expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


def test_the_loop_runs_by_its_plan(graphs: Graphs) -> None:
    cell, inputs = GRUCell(UNITS, input_size=DEPTH), torch.randn(ROWS, STEPS, DEPTH)

    @torch.compile(backend=graphs.backend)
    def planned(inputs: Tensor) -> tuple[bool, Tensor]:
        return unspool.explain(cell, inputs * 2, dtype=torch.float32).planned, inputs * 3

    assert planned(inputs)[0]


def test_other_numbers_of_rows_and_steps_compile_nothing_anew(graphs: Graphs) -> None:
    model = Tagger(GRUCell(UNITS, input_size=UNITS))
    compiled = torch.compile(model, backend=graphs.backend, dynamic=True)
    for rows, steps in [(4, 6), (7, 6), (3, 11), (9, 2)]:
        inputs, lengths = torch.randn(rows, steps, DEPTH), torch.randint(0, steps + 1, (rows,))
        found = compiled(inputs, lengths)
        found.sum().backward()
        torch.testing.assert_close(found, model(inputs, lengths), rtol=0, atol=1e-6)
    assert (graphs.count, graphs.breaks) == (1, 0)


@pytest.mark.parametrize("name", CELLS)
def test_cells_are_built_inside(name: str, graphs: Graphs) -> None:
    inputs, lengths = torch.randn(ROWS, STEPS, DEPTH), torch.tensor([6, 2, 0, 3])
    gradients = list[list[Tensor]]()
    for compiled in (True, False):
        torch.manual_seed(0)
        model = Tagger(CELLS[name](UNITS))
        run: Any = torch.compile(model, backend=graphs.backend) if compiled else model
        run(inputs, lengths).sin().sum().backward()
        gradients.append([weight.grad for weight in model.parameters() if weight.grad is not None])
    torch.testing.assert_close(gradients[0], gradients[1], rtol=0, atol=1e-6)
    assert graphs.breaks >= 1  # where there are no weights yet


def test_backward_inside_of_what_is_compiled(graphs: Graphs) -> None:
    """The backward pass of the plan is called while Dynamo looks for frames to compile."""
    eager, inputs = Tagger(LSTMCell(UNITS, input_size=UNITS)), torch.randn(ROWS, STEPS, DEPTH)
    model = copy.deepcopy(eager)

    def step(model: nn.Module, inputs: Tensor) -> None:
        model(inputs, [6, 2, 0, 3]).square().mean().backward()

    torch.compile(step, backend=graphs.backend)(model, inputs)
    step(eager, inputs)
    for weight, expected in zip(model.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(weight.grad, expected.grad, rtol=0, atol=1e-6)
    assert len(utils.counters["graph_break"]) == 1  # backward() itself


def test_fullgraph_says_why_not(graphs: Graphs) -> None:
    cell = GRUCell(UNITS, input_size=DEPTH)

    @torch.compile(backend=graphs.backend, fullgraph=True)
    def run(inputs: Tensor) -> Tensor:
        return unspool.static_rnn(cell, list(inputs.unbind(1)), dtype=torch.float32)[1]

    with pytest.raises(Exception, match=r"can be one operation of a graph: leave fullgraph=True away"):
        run(torch.randn(ROWS, STEPS, DEPTH))


def test_strict_export_says_what_to_use(graphs: Graphs) -> None:
    with pytest.raises(Exception, match=r"call torch\.export\.export with strict=False"):
        torch.export.export(Tagger(GRUCell(UNITS, input_size=UNITS)), (torch.randn(ROWS, STEPS, DEPTH),), strict=True)


def test_cells_themselves_can_be_compiled_whole(graphs: Graphs) -> None:
    cell = LSTMCell(UNITS, input_size=DEPTH)

    def steps(inputs: Tensor) -> Tensor:
        state = cell.zero_state(inputs.shape[0], torch.float32)
        for time in range(3):
            output, state = cell(inputs[:, time], state)
        return output

    inputs = torch.randn(ROWS, STEPS, DEPTH)
    found = torch.compile(steps, backend=graphs.backend, fullgraph=True)(inputs)
    torch.testing.assert_close(found, steps(inputs), rtol=0, atol=1e-6)


def _loops() -> dict[str, Any]:
    one, other = GRUCell(UNITS, input_size=DEPTH), GRUCell(UNITS, input_size=DEPTH)
    lengths, embedding, layer = torch.tensor([6, 2, 0, 3]), nn.Embedding(10, DEPTH), nn.Linear(UNITS, 10)
    start = torch.zeros(ROWS, UNITS)
    float32 = dict(dtype=torch.float32)

    def raw(x: Tensor) -> Tensor:
        def loop_fn(time: int, output: Any, state: Any, loop_state: Any) -> Any:
            state = one.zero_state(ROWS, torch.float32) if output is None else state
            return time >= lengths, x[:, min(time, STEPS - 1)], state, output, None

        return unspool.raw_rnn(one, loop_fn)[0].stack() * 2

    def taught(x: Tensor) -> Tensor:
        decoder = unspool.BasicDecoder(one, unspool.TrainingHelper(x * 2, lengths), start, layer)
        return unspool.dynamic_decode(decoder)[0].rnn_output * 2

    def greedy(x: Tensor) -> Tensor:
        helper = unspool.GreedyEmbeddingHelper(embedding, [1] * ROWS, end_token=2)
        decoder = unspool.BasicDecoder(one, helper, start + x.sum(), layer)
        return unspool.dynamic_decode(decoder, maximum_iterations=4)[0].rnn_output * 2

    def streamed(x: Tensor) -> Tensor:
        helper = unspool.GreedyEmbeddingHelper(embedding, [1] * ROWS, end_token=2)
        total = x.sum() * 0
        for each in unspool.stream(unspool.BasicDecoder(one, helper, start, layer), 4):
            total = total + each.rnn_output.sum()
        return total

    return {
        "bidirectional": lambda x: unspool.bidirectional_dynamic_rnn(one, other, x * 2, lengths, **float32)[0][1] * 2,
        "layers": lambda x: unspool.stack_bidirectional_dynamic_rnn(
            [one], [other], x * 2, sequence_length=lengths, **float32
        )[0],
        "static": lambda x: unspool.static_rnn(one, list(x.unbind(1)), sequence_length=lengths, **float32)[1],
        "raw": raw,
        "taught": taught,
        "greedy": greedy,
        "streamed": streamed,
        "duck": lambda x: dynamic_rnn(Duck(), x[..., :3] * 2, lengths, **float32)[0] * 2,
    }


@pytest.mark.parametrize("name", _loops())
def test_every_loop_is_called_as_it_is(name: str, graphs: Graphs) -> None:
    torch.manual_seed(0)
    loop, inputs = _loops()[name], torch.randn(ROWS, STEPS, DEPTH)
    found = torch.compile(loop, backend=graphs.backend)(inputs)
    torch.testing.assert_close(found, loop(inputs), rtol=0, atol=1e-6)
    assert graphs.breaks <= 1
    assert graphs.count <= 3  # before, after, and the loop
