"""Loops that cannot be one operation of a graph: `torch.compile` calls them as they are, and says why."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import unspool
from tests.compiled_graphs import (
    CELLS,
    CLOSE,
    MARKS,
    UNITS,
    Centred,
    Tagger,
    check_as_eager,
    counter,
    some,
    whole,
)
from tests.compiled_graphs import fresh as fresh  # for every test here
from unspool import GRUCell, LSTMCell

pytestmark = MARKS


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


def test_packed_rows_of_a_layer_break_the_graph_and_run() -> None:
    layer = unspool.RNN(nn.GRUCell(4, 8))
    packed = nn.utils.rnn.pack_sequence([torch.randn(5, 4), torch.randn(3, 4)])
    outputs, _ = torch.compile(layer, backend="eager")(packed)
    torch.testing.assert_close(outputs.data, layer(packed)[0].data, rtol=0, atol=0)


class Making(nn.Module):
    """Makes its cell anew in every call, of a step of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(7, 3)

    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.tanh(self.mix(torch.cat([x, h], 1)))
        return h, h

    def forward(self, x: Tensor) -> Tensor:
        return unspool.RNN(unspool.cell(self.step))(x, x.new_zeros(x.shape[0], 3))[0]


@pytest.mark.filterwarnings("ignore:.*lru_cache.*")  # Dynamo's, of functions that it looks into
def test_a_cell_that_compiled_code_makes_breaks_the_graph_and_runs() -> None:
    model, x = Making(), torch.randn(2, 5, 4)
    torch.testing.assert_close(torch.compile(model, backend="eager")(x), model(x), rtol=0, atol=0)
