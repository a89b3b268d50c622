"""What a loop inside of `torch.compile` is given and returns: directions, structures, states, lengths, options."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounterWithBackend

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
from unspool import GRUCell, LSTMCell, RNNCell, bidirectional_dynamic_rnn, dynamic_rnn
from unspool.dynamo.structures import encode

pytestmark = MARKS


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
