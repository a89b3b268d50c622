"""Training `unspool.nn.LSTM` against the module that it stands in for, `nn.LSTM`: layers, directions, packed input."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

import unspool
from benchmarks.harness import Case, Contender, Options, main
from benchmarks.problem import Shape, shapes

KINDS: dict[str, dict[str, Any]] = {
    "": {},
    "two layers, both directions, ": {"num_layers": 2, "bidirectional": True},
}
"""What the modules are made with, by what a report calls it."""


def cases(options: Options) -> Iterator[Case]:
    """For every shape one of each kind, with full length and packed."""
    for shape in shapes(options):
        for words, arguments in KINDS.items():
            for packed in (False, True)[: min(shape.batch, 2)]:  # a row alone has no padding
                yield case(shape, f"LSTM, {words}{shape}{', packed' * packed}", arguments, packed, options)


def case(shape: Shape, title: str, arguments: dict[str, Any], packed: bool, options: Options) -> Case:
    """Both modules on the same weights and inputs."""
    torch.manual_seed(0)
    ours = unspool.nn.LSTM(shape.depth, shape.units, **arguments, device=options.device)
    theirs = nn.LSTM(shape.depth, shape.units, **arguments, device=options.device)
    theirs.load_state_dict(ours.state_dict())
    rows = torch.randn(shape.steps, shape.batch, shape.depth, device=options.device)
    inputs: Tensor | PackedSequence = rows.requires_grad_()
    if packed:
        lengths = torch.randint(1, shape.steps + 1, (shape.batch,))
        lengths[0] = shape.steps
        found = pack_padded_sequence(rows, lengths, enforce_sorted=False)
        inputs = found._replace(data=found.data.detach().requires_grad_())
    width = shape.units * (2 if arguments else 1)
    gradient = torch.randn(*_data(inputs).shape[:-1], width, device=options.device)
    return Case(
        title,
        shape.steps,
        [
            training("unspool.nn.LSTM", ours, inputs, gradient, "unspool"),
            training("torch.nn.LSTM", theirs, inputs, gradient, "torch"),
        ],
    )


def training(name: str, module: nn.LSTM, inputs: Any, gradient: Tensor, framework: str) -> Contender:
    """Forward, and backward to inputs and weights: the outputs, the final states and all gradients."""
    sources = [_data(inputs), *module.parameters()]

    def run() -> Sequence[Tensor]:
        outputs, states = module(inputs)
        gradients = torch.autograd.grad(_data(outputs), sources, gradient)
        return [each.detach() for each in (_data(outputs), *states, *gradients)]

    return Contender(name, run, framework)


def _data(rows: Any) -> Tensor:
    return rows.data if isinstance(rows, PackedSequence) else rows


if __name__ == "__main__":
    main(__doc__, cases)
