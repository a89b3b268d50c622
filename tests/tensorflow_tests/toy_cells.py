"""Cells small enough to know their results by heart."""

from __future__ import annotations

import torch
from torch import nn

from unspool import LSTMStateTuple, RNNCell, TensorArray, tf_variables

HALF = 0.5


def fill_kernels(cell, value=HALF):
    """Sets every weight of a built cell but the biases, as a constant initialiser of TensorFlow's scopes does."""
    for name, weight in tf_variables(cell).items():
        if not name.endswith("bias"):
            nn.init.constant_(weight, value)
    return cell


def fill_all(cell, seed, scale=0.5):
    """Draws every weight of a built cell, biases too: the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in cell.parameters():
            weight.copy_(scale * torch.randn(weight.shape, generator=generator, dtype=torch.float64))
    return cell


class PlusOne(RNNCell):
    """`output = inputs + 1`, `state' = state + 1`: the state counts the steps of each row."""

    def __init__(self, width=5):
        super().__init__()
        self.state_size = self.output_size = width

    def forward(self, inputs, state):
        return inputs + 1, state + 1


class Echo(RNNCell):
    """`output = inputs`, `state' = inputs`: shows what reaches the cell."""

    def __init__(self, width):
        super().__init__()
        self.state_size = self.output_size = width

    def forward(self, inputs, state):
        return inputs, inputs


class ScalarState(RNNCell):
    """Its state is one number for the whole batch: the steps that ran."""

    output_size = 1
    state_size = torch.Size([])

    def zero_state(self, batch_size, dtype, device=None):
        return torch.zeros((), dtype=torch.int32)

    def forward(self, inputs, state):
        return inputs, state + 1


class UnbalancedOutput(RNNCell):
    """Two outputs of different widths."""

    output_size = (torch.Size([1]), torch.Size([2]))
    state_size = torch.Size([])

    def zero_state(self, batch_size, dtype, device=None):
        return torch.zeros((), dtype=torch.int32)

    def forward(self, inputs, state):
        return (inputs, torch.cat([inputs, inputs], 1)), state + 1


class TensorArrayState(RNNCell):
    """Writes every input into a `TensorArray` that it carries along; `()` is how a part without a size is declared."""

    output_size = 1
    state_size = (torch.Size([]), ())

    def zero_state(self, batch_size, dtype, device=None):
        return torch.zeros((), dtype=torch.int32), TensorArray(dtype)

    def forward(self, inputs, state):
        time, array = state
        return inputs, (time + 1, array.write(time, inputs))


class Brick(RNNCell):
    """An elementwise recurrence over inputs of any shape: `c' = c / 2 + x`, `h' = sin(c')`."""

    def __init__(self, shape):
        super().__init__()
        self.output_size = torch.Size(shape)
        self.state_size = LSTMStateTuple(self.output_size, self.output_size)

    def forward(self, inputs, state):
        c = state.c / 2 + inputs
        h = torch.sin(c) + state.h / 4
        return h, LSTMStateTuple(c, h)


class Pair(RNNCell):
    """Two recurrences side by side: inputs, outputs and states are pairs."""

    def __init__(self, width):
        super().__init__()
        self.output_size = (width, width)
        self.state_size = (width, width)

    def forward(self, inputs, state):
        first = torch.sin(state[0] + inputs[0])
        second = torch.cos(state[1] * inputs[1])
        return (second, first), (first, second)
