"""Training an `RNN` layer inside `torch.compile(fullgraph=True, dynamic=True)`: against the layer as it is.

What torch itself takes for any operation of somebody else's, guards, wrappers and autograd, is measured beside it: an
operation with the operands, results and gradients of an LSTM that computes nothing. It is called beside the layer as it
is, since a call from which everything is still in the caches would take half the time: "and nothing compiled" less "and
nothing" is what compiling costs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import torch
from torch import Tensor, nn

from benchmarks.harness import Case, Contender, Options, main
from benchmarks.problem import QUICK, Shape
from unspool import RNN, GRUCell, LSTMCell, RNNCell, gallery

SHAPES = [Shape(32, 100, 64, 128), Shape(8, 50, 64, 128), Shape(16, 500, 128, 256)]

_library = torch.library.Library("unspool_benchmarks", "DEF")
_library.define("nothing(Tensor x, Tensor[] weights, int units) -> Tensor[]")
_library.define("nothing_forward(Tensor x, Tensor[] weights, int units) -> Tensor[]")
_library.define("nothing_backward(Tensor token, Tensor x, Tensor[] weights, Tensor?[] gradients) -> Tensor[]")


def _nothing(x: Tensor, weights: list[Tensor], units: int) -> list[Tensor]:
    rows, steps = x.shape[:2]
    outputs = x.new_empty(steps, rows, units).transpose(0, 1)
    token = torch.empty(1, dtype=torch.int64)  # behind which the layer's operation keeps what its gradients need
    return [outputs, x.new_empty(rows, units), x.new_empty(rows, units), token]


def _nothing_backward(token: Tensor, x: Tensor, weights: list[Tensor], gradients: list[Any]) -> list[Tensor]:
    return [torch.empty_like(each) for each in (x, *weights)]


class _Differentiated(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, units: int, x: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
        results = torch.ops.unspool_benchmarks.nothing_forward(x, list(weights), units)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, *weights, results[-1])
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        x, *weights, token = ctx.saved_tensors
        return None, *torch.ops.unspool_benchmarks.nothing_backward(token, x, weights, gradients[:-1])


def _differentiated(x: Tensor, weights: list[Tensor], units: int) -> list[Tensor]:
    return list(cast(Any, _Differentiated).apply(units, x, *weights))


for _name, _function in (
    ("nothing", _nothing),
    ("nothing_forward", _nothing),
    ("nothing_backward", _nothing_backward),
):
    _library.impl(_name, _function, "CompositeExplicitAutograd")
    torch.library.register_fake(f"unspool_benchmarks::{_name}", _function, lib=_library)
_library.impl("nothing", _differentiated, "Autograd")
_library.impl("nothing_forward", torch.library.fallthrough_kernel, "Autograd")


class Nothing(nn.Module):
    """Has the weights of a layer, and computes nothing."""

    def __init__(self, layer: RNN) -> None:
        super().__init__()
        self.cell = layer.cell

    def forward(self, x: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Outputs and final states, unwritten."""
        outputs, c, h, _ = torch.ops.unspool_benchmarks.nothing(x, list(self.cell.parameters()), self.cell.output_size)
        return outputs, (c, h)


class Slow(RNNCell):
    """A gated state beside a slow average of it, in a dict, as a user writes it."""

    def __init__(self, units: int, depth: int) -> None:
        super().__init__()
        self.state_size, self.output_size = {"slow": units, "fast": units}, units
        self.mix = nn.Linear(depth + units, units)

    def forward(self, inputs: Tensor, state: dict[str, Tensor]) -> tuple[Any, Any]:
        """One step."""
        fast = torch.tanh(self.mix(torch.cat([inputs, state["fast"]], 1)))
        return fast, {"slow": 0.9 * state["slow"] + 0.1 * fast, "fast": fast}


CELLS: dict[str, Callable[[Shape], Any]] = {
    "LSTMCell": lambda shape: LSTMCell(shape.units, input_size=shape.depth),
    "GRUCell": lambda shape: GRUCell(shape.units, input_size=shape.depth),
    "LayerNormLSTMCell": lambda shape: gallery.LayerNormLSTMCell(shape.depth, shape.units),
    "a user's cell": lambda shape: Slow(shape.units, shape.depth),
}


def cases(options: Options) -> Iterator[Case]:
    """An LSTM of every shape, and every cell of one, with and without lengths."""
    if options.quick:
        yield _case(options, QUICK, "LSTMCell", ragged=False)
        return
    for shape in SHAPES:
        yield _case(options, shape, "LSTMCell", ragged=False)
    for name in CELLS:
        for ragged in (False, True) if name != "LSTMCell" else (True,):
            yield _case(options, SHAPES[0], name, ragged)


def _case(options: Options, shape: Shape, name: str, ragged: bool) -> Case:
    torch.compiler.reset()  # or the limit of recompilations, which counts all layers, would be reached
    torch.manual_seed(0)
    layer = RNN(CELLS[name](shape)).to(options.device)
    x = torch.randn(shape.batch, shape.steps, shape.depth, device=options.device, requires_grad=True)
    gradient = torch.randn(shape.batch, shape.steps, shape.units, device=options.device)
    lengths = torch.randint(1, shape.steps + 1, (shape.batch,)) if ragged else None
    sources = [x, *layer.parameters()]

    def trained(run: Callable[[], Tensor]) -> list[Tensor]:
        outputs = run()
        return [outputs.detach(), *torch.autograd.grad(outputs, sources, gradient)]

    nothing = Nothing(layer)
    compiled, empty = (torch.compile(each, fullgraph=True, dynamic=True) for each in (layer, nothing))

    def beside(other: Any) -> list[Tensor]:
        found, made = layer(x, lengths=lengths)[0], other(x)[0]
        torch.autograd.grad(made, sources, gradient)
        return trained(lambda: found)

    return Case(
        f"RNN of {name}, {shape}{', lengths' if ragged else ''}",
        shape.steps,
        [
            Contender("RNN", lambda: trained(lambda: layer(x, lengths=lengths)[0]), "unspool"),
            Contender("RNN, compiled", lambda: trained(lambda: compiled(x, lengths=lengths)[0]), "unspool"),
            Contender("RNN, and nothing compiled", lambda: beside(empty), same=False),
            Contender("RNN, and nothing", lambda: beside(nothing), same=False),
        ],
    )


if __name__ == "__main__":
    main(__doc__, cases)
