"""Training an `RNN` layer inside `torch.compile(fullgraph=True, dynamic=True)`: against the layer as it is.

What torch itself takes around any operation of somebody else's, guards, wrappers and autograd, is measured beside it:
an operation with the operands, results and gradients of the layer that computes nothing, compiled and as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.harness import Case, Contender, Options, main
from benchmarks.problem import QUICK, Shape
from unspool import RNN, LSTMCell

SHAPES = [Shape(32, 100, 64, 128), Shape(8, 50, 64, 128), Shape(16, 500, 128, 256)]

_library = torch.library.Library("unspool_benchmarks", "DEF")
_library.define("nothing(Tensor x, Tensor[] weights, int units) -> Tensor[]")
_library.define("nothing_backward(Tensor x, Tensor[] weights, Tensor[] results, Tensor?[] gradients) -> Tensor[]")


def _nothing(x: Tensor, weights: list[Tensor], units: int) -> list[Tensor]:
    rows, steps = x.shape[:2]
    outputs = x.new_empty(steps, rows, units).transpose(0, 1)
    return [outputs, x.new_empty(rows, units), x.new_empty(rows, units)]


def _nothing_backward(x: Tensor, weights: list[Tensor], results: list[Tensor], gradients: list[Any]) -> list[Tensor]:
    return [torch.empty_like(each) for each in (x, *weights)]


def _keep(ctx: Any, inputs: tuple[Tensor, list[Tensor], int], output: list[Tensor]) -> None:
    x, weights, _ = inputs
    ctx.weights = len(weights)
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(x, *weights, *output)


def _gradients(ctx: Any, gradients: list[Any]) -> tuple[Tensor, list[Tensor], None]:
    x, *others = ctx.saved_tensors
    weights, results = others[: ctx.weights], others[ctx.weights :]
    found = torch.ops.unspool_benchmarks.nothing_backward(x, weights, results, gradients)
    return found[0], found[1:], None


for _name, _function in (("nothing", _nothing), ("nothing_backward", _nothing_backward)):
    _library.impl(_name, _function, "CompositeExplicitAutograd")
    torch.library.register_fake(f"unspool_benchmarks::{_name}", _function, lib=_library)
torch.library.register_autograd("unspool_benchmarks::nothing", _gradients, setup_context=_keep, lib=_library)


class Nothing(nn.Module):
    """Has the weights of a layer, and computes nothing."""

    def __init__(self, layer: RNN) -> None:
        super().__init__()
        self.cell = layer.cell

    def forward(self, x: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Outputs and final states, unwritten."""
        outputs, c, h = torch.ops.unspool_benchmarks.nothing(x, list(self.cell.parameters()), self.cell.output_size)
        return outputs, (c, h)


def cases(options: Options) -> Iterator[Case]:
    """One for every shape."""
    for shape in [QUICK] if options.quick else SHAPES:
        torch.manual_seed(0)
        layer = RNN(LSTMCell(shape.units, input_size=shape.depth)).to(options.device)
        x = torch.randn(shape.batch, shape.steps, shape.depth, device=options.device, requires_grad=True)
        gradient = torch.randn(shape.batch, shape.steps, shape.units, device=options.device)
        sources = [x, *layer.parameters()]

        def trained(
            model: Any, x: Tensor = x, sources: list[Tensor] = sources, gradient: Tensor = gradient
        ) -> Callable[[], list[Tensor]]:
            def step() -> list[Tensor]:
                outputs, _ = model(x)
                return [outputs.detach(), *torch.autograd.grad(outputs, sources, gradient)]

            return step

        compiled = [torch.compile(each, fullgraph=True, dynamic=True) for each in (layer, Nothing(layer))]
        yield Case(
            f"RNN of LSTMCell, {shape}",
            shape.steps,
            [
                Contender("RNN", trained(layer), "unspool"),
                Contender("RNN, compiled", trained(compiled[0]), "unspool"),
                Contender("nothing, compiled", trained(compiled[1]), same=False),
                Contender("nothing", trained(Nothing(layer)), same=False),
            ],
        )


if __name__ == "__main__":
    main(__doc__, cases)
