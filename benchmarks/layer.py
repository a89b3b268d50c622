"""Training an `RNN` layer with resets, all states or truncation: against the layer without them, and loops by hand.

Resets are those of batches of reinforcement learning, where a row starts anew in one step of twenty. The peers do the
same with the same weights: a Python loop that masks the state at every step, and TorchRL's `LSTMModule`, where it is
installed, by its padded sequences, its Python loop and its scan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.harness import Case, Contender, Options, main
from benchmarks.problem import QUICK, Shape
from unspool import RNN

SHAPES = [Shape(32, 100, 64, 128), Shape(16, 256, 32, 64), Shape(4, 500, 32, 64)]
EVERY = 20


class Batch:
    """Inputs, resets and weights that all contenders of a case share."""

    def __init__(self, shape: Shape, options: Options) -> None:
        torch.manual_seed(0)
        self.lstm = nn.LSTM(shape.depth, shape.units, batch_first=True, device=options.device)
        self.cell = nn.LSTMCell(shape.depth, shape.units, device=options.device)
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            setattr(self.cell, name, getattr(self.lstm, f"{name}_l0"))
        self.x = torch.randn(shape.batch, shape.steps, shape.depth, device=options.device, requires_grad=True)
        self.resets = torch.rand(shape.batch, shape.steps, device=options.device) < 1 / EVERY
        self.gradient = torch.randn(shape.batch, shape.steps, shape.units, device=options.device)

    def trained(self, run: Callable[[], Tensor]) -> Callable[[], list[Tensor]]:
        """The outputs of a run, and every gradient."""
        sources = [self.x, *self.lstm.parameters()]

        def step() -> list[Tensor]:
            outputs = run()
            return [outputs.detach(), *torch.autograd.grad(outputs, sources, self.gradient)]

        return step

    def by_hand(self) -> Tensor:
        """The loop that people write."""
        h = c = self.x.new_zeros(self.x.shape[0], self.cell.hidden_size)
        outputs: list[Tensor] = []
        for step in range(self.x.shape[1]):
            kept = ~self.resets[:, step, None]
            h, c = self.cell(self.x[:, step], (h * kept, c * kept))
            outputs.append(h)
        return torch.stack(outputs, 1)


def torchrl(batch: Batch) -> tuple[list[Contender], dict[str, str]]:
    """TorchRL's module, by each of its ways; or why it is absent."""
    try:
        from tensordict import TensorDict  # pyright: ignore[reportMissingImports]
        from torchrl.modules import LSTMModule, set_recurrent_mode  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        return [], {"TorchRL": str(error)}
    rows, steps = batch.x.shape[:2]
    zeros = batch.x.new_zeros(rows, steps, 1, batch.cell.hidden_size)
    keys: dict[str, Any] = {"in_key": "x", "out_key": "y"}

    def run(module: Any) -> Tensor:
        given = {
            "x": batch.x,
            "is_init": batch.resets[..., None],
            "recurrent_state_h": zeros,
            "recurrent_state_c": zeros,
        }
        with set_recurrent_mode(True):
            return module(TensorDict(given, [rows, steps]))["y"]

    def contender(name: str, **options: Any) -> Contender:
        module = LSTMModule(
            input_size=batch.x.shape[2], hidden_size=batch.cell.hidden_size, device=batch.x.device, **keys, **options
        )
        for name_of_weight, weight in batch.lstm.named_parameters():
            setattr(module.lstm, name_of_weight, weight)
        return Contender(name, batch.trained(lambda: run(module)))

    ways: dict[str, dict[str, Any]] = {
        "TorchRL, padded": {},
        "TorchRL, Python loop": {"python_based": True},
        "TorchRL, scan": {"recurrent_backend": "scan"},
    }
    found: list[Contender] = []
    absent: dict[str, str] = {}
    for name, options in ways.items():
        try:
            found.append(contender(name, **options))
        except NotImplementedError as error:  # its scan is a package of its own
            absent[name] = str(error)
    return found, absent


def cases(options: Options) -> Iterator[Case]:
    """With resets, against those who have them; then what each option costs."""
    for shape in [QUICK] if options.quick else SHAPES:
        batch = Batch(shape, options)
        layer, every = RNN(batch.cell), RNN(batch.cell, return_states="all")
        truncated = RNN(batch.cell, detach_every=EVERY)
        resets = Contender("RNN, resets", batch.trained(lambda b=batch, n=layer: n(b.x, resets=b.resets)[0]), "unspool")
        rivals, absent = torchrl(batch)
        loop = Contender("Python loop", batch.trained(batch.by_hand))
        yield Case(f"resets, {shape}", shape.steps, [resets, loop, *rivals], absent=absent)
        plain = Contender("RNN", batch.trained(lambda b=batch, n=layer: n(b.x)[0]), "unspool")
        states = Contender("all states", batch.trained(lambda b=batch, n=every: n(b.x)[0]), "unspool")
        cut = Contender("truncated", batch.trained(lambda b=batch, n=truncated: n(b.x)[0]), "unspool", same=False)
        yield Case(f"options, {shape}", shape.steps, [plain, replace(resets, same=False), states, cut])


if __name__ == "__main__":
    main(__doc__, cases)
