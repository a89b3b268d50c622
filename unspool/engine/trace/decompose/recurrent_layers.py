"""Torch's own recurrent layers and cells by their equations: each is one operation that nobody can look into."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

Weights = Sequence[Tensor]
Step = Callable[[Tensor, Any, Weights, bool], tuple[Tensor, Any]]
"""A step of a layer: from inputs, state and weights to output and state."""


def lstm_cell(
    x: Tensor,
    state: tuple[Tensor, Tensor],
    w_x: Tensor,
    w_h: Tensor,
    b_x: Tensor | None = None,
    b_h: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """`torch.lstm_cell`."""
    h, c = state
    i, f, g, o = (F.linear(x, w_x, b_x) + F.linear(h, w_h, b_h)).chunk(4, 1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def gru_cell(
    x: Tensor, h: Tensor, w_x: Tensor, w_h: Tensor, b_x: Tensor | None = None, b_h: Tensor | None = None
) -> Tensor:
    """`torch.gru_cell`."""
    x_r, x_z, x_n = F.linear(x, w_x, b_x).chunk(3, 1)
    h_r, h_z, h_n = F.linear(h, w_h, b_h).chunk(3, 1)
    z, n = torch.sigmoid(x_z + h_z), torch.tanh(x_n + torch.sigmoid(x_r + h_r) * h_n)
    return n + z * (h - n)


def _lstm_step(x: Tensor, state: Any, weights: Weights, biases: bool) -> tuple[Tensor, Any]:
    h, c = lstm_cell(x, state, *weights[: 4 if biases else 2])
    if len(weights) in (3, 5):  # a projection
        h = F.linear(h, weights[-1])
    return h, (h, c)


def _gru_step(x: Tensor, h: Any, weights: Weights, biases: bool) -> tuple[Tensor, Any]:
    h = gru_cell(x, h, *weights)
    return h, h


def _rnn_step(activation: Callable[[Tensor], Tensor]) -> Step:
    def step(x: Tensor, h: Any, weights: Weights, biases: bool) -> tuple[Tensor, Any]:
        w_x, w_h = weights[:2]
        b_x, b_h = weights[2:] if biases else (None, None)
        h = activation(F.linear(x, w_x, b_x) + F.linear(h, w_h, b_h))
        return h, h

    return step


def _layers(step: Step, states: int, native: Any) -> Callable[..., Any]:
    """A function like `torch.lstm`, of steps; `states` tensors are its state."""

    def run(x: Tensor, hx: Any, *options: Any) -> Any:
        if isinstance(hx, Tensor) and isinstance(options[0], Tensor | tuple) and not isinstance(options[1], bool):
            return native(x, hx, *options)  # of packed sequences
        weights, biases, layers, dropout, train, bidirectional, batch_first = options
        state = [hx] if states == 1 else list(hx)
        sequence = list((x.transpose(0, 1) if batch_first else x).unbind(0))
        directions = 2 if bidirectional else 1
        each = len(weights) // (layers * directions)
        finals: list[list[Tensor]] = [[] for _ in state]
        for layer in range(layers):
            outputs: list[list[Tensor]] = []
            for direction in range(directions):
                number = layer * directions + direction
                own = weights[number * each : (number + 1) * each]
                now: Any = state[0][number] if states == 1 else tuple(part[number] for part in state)
                found: list[Tensor] = []
                for one in reversed(sequence) if direction else sequence:
                    y, now = step(one, now, own, biases)
                    found.append(y)
                outputs.append(found[::-1] if direction else found)
                for final, part in zip(finals, [now] if states == 1 else now, strict=True):
                    final.append(part)
            sequence = [torch.cat(pair, -1) for pair in zip(*outputs, strict=True)] if bidirectional else outputs[0]
            if dropout and train and layer < layers - 1:
                sequence = list(F.dropout(torch.stack(sequence), dropout).unbind(0))
        stacked = torch.stack(sequence, 1 if batch_first else 0)
        return (stacked, *(torch.stack(final) for final in finals))

    return run


LAYERS: dict[Any, Callable[..., Any]] = {
    torch.lstm_cell: lstm_cell,
    torch.gru_cell: gru_cell,
    torch.lstm: _layers(_lstm_step, 2, torch.lstm),
    torch.gru: _layers(_gru_step, 1, torch.gru),
    torch.rnn_tanh: _layers(_rnn_step(torch.tanh), 1, torch.rnn_tanh),
    torch.rnn_relu: _layers(_rnn_step(torch.relu), 1, torch.rnn_relu),
}
"""By function of torch, one that does the same by simpler ones."""
