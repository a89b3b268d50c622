"""Loops inside of `torch.compile`: the cells and the comparison that the tests of them share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounterWithBackend

from unspool import GRUCell, LSTMCell, RNNCell, dynamic_rnn, gallery
from unspool.dynamo import capture
from unspool.dynamo.structures import encode

MARKS = [
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
