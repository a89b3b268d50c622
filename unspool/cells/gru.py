"""The gated recurrent unit, as TensorFlow computes it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from unspool.cells.activations import as_activation
from unspool.cells.building import Initializer
from unspool.cells.layer import LayerRNNCell, check_initializer, check_units, glorot_uniform
from unspool.flags import checks_flags


class GRUCell(LayerRNNCell):
    """A gated recurrent unit (Cho et al., 2014); the output is the state.

        r, u = split(sigmoid([x, h] @ gates_kernel + gates_bias), 2)
        c    = activation([x, r * h] @ candidate_kernel + candidate_bias)
        h'   = u * h + (1 - u) * c

    The reset gate acts *before* the recurrent product, so `torch.nn.GRU`, which resets after it, is another cell.

    Args:
        num_units: the width N of the state and the output.
        activation: a function or its name; tanh by default.
        reuse: only None or False; a cell owns its weights.
        kernel_initializer: fills both kernels; Glorot's uniform by default.
        bias_initializer: fills both biases; by default the gates' are 1, to remember at first, the candidate's 0.
        name: the cell's name among TensorFlow's variables.
        dtype: the dtype of the weights; by default that of the first inputs.
        trainable: whether the weights require gradients.
        input_size: the depth D of the inputs, to build the weights at once.

    Weights: `gates_kernel [D + N, 2 N]`, `gates_bias [2 N]`, `candidate_kernel [D + N, N]`, `candidate_bias [N]`.

    >>> cell = GRUCell(3, input_size=5)
    >>> output, state = cell(torch.zeros(2, 5), cell.zero_state(2, torch.float32))
    >>> output.shape
    torch.Size([2, 3])
    """

    gates_kernel: Tensor
    gates_bias: Tensor
    candidate_kernel: Tensor
    candidate_bias: Tensor
    first_kernel = "gates_kernel"
    variable_names = {
        "gates_kernel": "gates/kernel",
        "gates_bias": "gates/bias",
        "candidate_kernel": "candidate/kernel",
        "candidate_bias": "candidate/bias",
    }

    @checks_flags
    def __init__(
        self,
        num_units: int,
        activation: Any = None,
        reuse: bool | None = None,
        kernel_initializer: Any = None,
        bias_initializer: Any = None,
        name: str | None = None,
        dtype: Any = None,
        *,
        trainable: bool = True,
        input_size: int | None = None,
    ) -> None:
        super().__init__(name, dtype, reuse, trainable)
        self.num_units = check_units("num_units", num_units)
        self.activation = as_activation(activation)
        self.kernel_initializer = check_initializer("kernel_initializer", kernel_initializer)
        self.bias_initializer = check_initializer("bias_initializer", bias_initializer)
        self.state_size = self.output_size = self.num_units
        self.declare(input_size)

    def shapes(self, depth: int) -> dict[str, tuple[int, ...]]:
        """The shapes of the weights."""
        rows, units = depth + self.num_units, self.num_units
        return {
            "gates_kernel": (rows, 2 * units),
            "gates_bias": (2 * units,),
            "candidate_kernel": (rows, units),
            "candidate_bias": (units,),
        }

    def initializer_of(self, weight: str) -> Initializer:
        """What fills a weight."""
        if weight.endswith("kernel"):
            return self.kernel_initializer or glorot_uniform
        return self.bias_initializer or (nn.init.ones_ if weight == "gates_bias" else nn.init.zeros_)

    def forward(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One step; the output is the new state."""
        gates_kernel = self.gates_kernel
        self.check_step(inputs, gates_kernel, state=(state, self.num_units))
        gates = torch.addmm(self.gates_bias, torch.cat([inputs, state], 1), gates_kernel)
        r, u = torch.sigmoid(gates).chunk(2, 1)
        candidate = torch.addmm(self.candidate_bias, torch.cat([inputs, r * state], 1), self.candidate_kernel)
        output = u * state + (1 - u) * self.activation(candidate)
        return output, output
