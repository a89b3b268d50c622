"""The simplest recurrent cell."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from unspool.cells.activations import as_activation
from unspool.cells.layer import LayerRNNCell, check_units
from unspool.flags import checks_flags


class BasicRNNCell(LayerRNNCell):
    """`h' = activation([x, h] @ kernel + bias)`; the output is `h'`.

    Args:
        num_units: the width N of the state and the output.
        activation: a function or its name; tanh by default.
        reuse: only None or False; a cell owns its weights.
        name: the cell's name among TensorFlow's variables.
        dtype: the dtype of the weights; by default that of the first inputs.
        trainable: whether the weights require gradients.
        input_size: the depth D of the inputs, to build the weights at once.

    Weights: `kernel [D + N, N]`, `bias [N]`.

    >>> cell = BasicRNNCell(3)
    >>> output, state = cell(torch.zeros(2, 5), cell.zero_state(2, torch.float32))
    >>> output is state, cell.kernel.shape
    (True, torch.Size([8, 3]))
    """

    kernel: Tensor
    bias: Tensor

    @checks_flags
    def __init__(
        self,
        num_units: int,
        activation: Any = None,
        reuse: bool | None = None,
        name: str | None = None,
        dtype: Any = None,
        *,
        trainable: bool = True,
        input_size: int | None = None,
    ) -> None:
        super().__init__(name, dtype, reuse, trainable)
        self.num_units = check_units("num_units", num_units)
        self.activation = as_activation(activation)
        self.state_size = self.output_size = self.num_units
        self.declare(input_size)

    def shapes(self, depth: int) -> dict[str, tuple[int, ...]]:
        """The shapes of the weights."""
        return {"kernel": (depth + self.num_units, self.num_units), "bias": (self.num_units,)}

    def forward(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One step; the output is the new state."""
        kernel = self.kernel  # read once: a parametrisation computes it at every read
        self.check_step(inputs, kernel, state=(state, self.num_units))
        output = self.activation(torch.addmm(self.bias, torch.cat([inputs, state], 1), kernel))
        return output, output
