"""Cells whose units never mix: no product with the state, so that only pointwise work is left to the loop."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from unspool.cells.cell import RNNCell
from unspool.cells.layer import check_units
from unspool.gallery.arguments import check_between, check_sizes
from unspool.gallery.weights import of_inputs, uniform


class IndRNNCell(RNNCell):
    """An RNN each unit of which sees only itself (Li, Li, Cook, Zhu and Gao, 2018, Independently Recurrent Network).

        h' = relu(W x + u * h + b)

    The recurrent weights u are drawn uniformly from [0, recurrent_max], which the paper sets to 2^(1/T) for sequences
    of T steps; it leaves W open: Kaiming's uniform, for relu.

    Args:
        input_size: the width D of the inputs.
        num_units: the width N of the state, which is the output.
        recurrent_max: the largest recurrent weight at first.

    >>> cell = IndRNNCell(5, 3, recurrent_max=2 ** (1 / 100))
    >>> output, state = cell(torch.zeros(2, 5), cell.zero_state(2, torch.float32))
    >>> output is state, cell.recurrent.shape
    (True, torch.Size([3]))
    """

    def __init__(self, input_size: int, num_units: int, *, recurrent_max: float = 1.0) -> None:
        super().__init__()
        self.input_size, self.num_units = check_sizes(input_size, num_units)
        self.recurrent_max = check_between("recurrent_max", recurrent_max, 0, 2)
        self.state_size = self.output_size = num_units
        self.of_input = of_inputs(input_size, num_units)
        nn.init.kaiming_uniform_(self.of_input.weight, nonlinearity="relu")
        self.recurrent = uniform(num_units, low=0, high=recurrent_max)

    def forward(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One step; the output is the new state."""
        h = torch.relu(self.of_input(inputs) + self.recurrent * state)
        return h, h


class MinGRUCell(RNNCell):
    """A GRU whose gate sees only the input (Feng et al., 2024, Were RNNs All We Needed?).

        z  = sigmoid(W_z x + b_z)
        h' = (1 - z) * h + z * (W_n x + b_n)

    Glorot's uniform for the matrices, biases of zero: the paper gives no initialisation.

    Args:
        input_size: the width D of the inputs.
        num_units: the width N of the state, which is the output.

    >>> cell = MinGRUCell(5, 3)
    >>> output, state = cell(torch.zeros(2, 5), cell.zero_state(2, torch.float32))
    >>> output is state
    True
    """

    def __init__(self, input_size: int, num_units: int) -> None:
        super().__init__()
        self.input_size, self.num_units = check_sizes(input_size, num_units)
        self.state_size = self.output_size = num_units
        self.gate = of_inputs(input_size, num_units)
        self.new = of_inputs(input_size, num_units)

    def forward(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One step; the output is the new state."""
        z = torch.sigmoid(self.gate(inputs))
        h = (1 - z) * state + z * self.new(inputs)
        return h, h


class MinLSTMCell(RNNCell):
    """An LSTM whose gates see only the input and add up to one (Feng et al., 2024, Were RNNs All We Needed?).

        f, i = sigmoid(W_f x + b_f), sigmoid(W_i x + b_i)
        h'   = f / (f + i) * h + i / (f + i) * (W_n x + b_n)

    Glorot's uniform for the matrices, biases of zero: the paper gives no initialisation.

    Args:
        input_size: the width D of the inputs.
        num_units: the width N of the state, which is the output.

    >>> cell = MinLSTMCell(5, 3)
    >>> output, state = cell(torch.zeros(2, 5), cell.zero_state(2, torch.float32))
    >>> output is state
    True
    """

    def __init__(self, input_size: int, num_units: int) -> None:
        super().__init__()
        self.input_size, self.num_units = check_sizes(input_size, num_units)
        self.state_size = self.output_size = num_units
        self.forget = of_inputs(input_size, num_units)
        self.admit = of_inputs(input_size, num_units)
        self.new = of_inputs(input_size, num_units)

    def forward(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One step; the output is the new state."""
        f, i = torch.sigmoid(self.forget(inputs)), torch.sigmoid(self.admit(inputs))
        share = f / (f + i)
        h = share * state + (1 - share) * self.new(inputs)
        return h, h


class SRUCell(RNNCell):
    """A simple recurrent unit with a highway around it (Lei, Zhang, Wang, Dai and Artzi, 2018, Simple Recurrent Units).

        f  = sigmoid(W_f x + v_f * c + b_f)
        r  = sigmoid(W_r x + v_r * c + b_r)
        c' = f * c + (1 - f) * (W x)
        h  = r * c' + (1 - r) * alpha * x

    The output is h, the state c. As published: matrices are uniform within sqrt(3 / D), b_r is `highway_bias` and
    alpha is sqrt(1 + 2 exp(highway_bias)), which keeps the variance of the highway. Settled here: v is uniform within
    sqrt(3 / N), and where the widths of x and h differ, a fourth matrix stands before x.

    Args:
        input_size: the width D of the inputs.
        num_units: the width N of the state and the output.
        highway_bias: of the gate r at first; negative to let the input pass.

    >>> cell = SRUCell(3, 3, highway_bias=-2)
    >>> output, state = cell(torch.zeros(2, 3), cell.zero_state(2, torch.float32))
    >>> output.shape, cell.of_input.weight.shape
    (torch.Size([2, 3]), torch.Size([9, 3]))
    """

    def __init__(self, input_size: int, num_units: int, *, highway_bias: float = 0.0) -> None:
        super().__init__()
        self.input_size, self.num_units = check_sizes(input_size, num_units)
        self.highway_bias = check_between("highway_bias", highway_bias, -20, 20)
        self.state_size = self.output_size = num_units
        self.scale = math.sqrt(1 + 2 * math.exp(highway_bias))
        self.projected = input_size != num_units
        self.of_input = nn.Linear(input_size, (4 if self.projected else 3) * num_units, bias=False)
        nn.init.uniform_(self.of_input.weight, -math.sqrt(3 / input_size), math.sqrt(3 / input_size))
        limit = math.sqrt(3 / num_units)
        self.forget_of_state = uniform(num_units, low=-limit, high=limit)
        self.reset_of_state = uniform(num_units, low=-limit, high=limit)
        self.forget_bias = nn.Parameter(torch.zeros(num_units))
        self.reset_bias = nn.Parameter(torch.full((num_units,), self.highway_bias))

    def forward(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One step; the new state is the memory `c'`."""
        parts = self.of_input(inputs).chunk(4 if self.projected else 3, 1)
        skipped = parts[3] if self.projected else inputs
        f = torch.sigmoid(parts[1] + self.forget_of_state * state + self.forget_bias)
        r = torch.sigmoid(parts[2] + self.reset_of_state * state + self.reset_bias)
        c = f * state + (1 - f) * parts[0]
        return r * c + (1 - r) * self.scale * skipped, c


class QRNNPoolingCell(RNNCell):
    """A quasi-recurrent layer: a convolution over time, then fo-pooling (Bradbury, Merity, Xiong and Socher, 2017).

        z, f, o = split(W [x_(t-k+1), ..., x_t] + b, 3)
        c' = sigmoid(f) * c + (1 - sigmoid(f)) * tanh(z)
        h  = sigmoid(o) * c'

    The output is h. The state is c, and what the inputs so far add to the sums of the k - 1 steps to come: zeros at
    first, since nothing is before the first step. So no product is left to the loop. Glorot's uniform for W, a bias of
    zero: the paper gives no initialisation.

    Args:
        input_size: the width D of the inputs.
        num_units: the width N of the memory and the output.
        window: the steps k that the convolution sees, at least 2.

    >>> cell = QRNNPoolingCell(5, 3)
    >>> output, (c, pending) = cell(torch.zeros(2, 5), cell.zero_state(2, torch.float32))
    >>> output.shape, pending.shape
    (torch.Size([2, 3]), torch.Size([2, 1, 9]))
    """

    def __init__(self, input_size: int, num_units: int, *, window: int = 2) -> None:
        super().__init__()
        self.input_size, self.num_units = check_sizes(input_size, num_units)
        self.window = check_units("window", window)
        if window < 2:
            raise ValueError(f"window is {window}, but must be at least 2: the input and what came before it")
        self.state_size, self.output_size = (num_units, torch.Size([window - 1, 3 * num_units])), num_units
        # Rows are lags first, the matrix of x_t, of x_(t-1) and so on, then z, f and o.
        self.convolution = nn.Linear(input_size, window * 3 * num_units, bias=False)
        limit = math.sqrt(6 / (window * (input_size + 3 * num_units)))
        nn.init.uniform_(self.convolution.weight, -limit, limit)
        self.bias = nn.Parameter(torch.zeros(3 * num_units))

    def forward(self, inputs: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """One step; the output is `h`."""
        c, pending = state
        pending = torch.cat([pending, torch.zeros_like(pending[:, :1])], 1)
        sums = self.convolution(inputs).unflatten(1, (self.window, -1)) + pending
        z, f, o = (sums[:, 0] + self.bias).chunk(3, 1)
        f = torch.sigmoid(f)
        c = f * c + (1 - f) * torch.tanh(z)
        return torch.sigmoid(o) * c, (c, sums[:, 1:])
