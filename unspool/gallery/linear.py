"""Cells whose units never mix: no product with the state, so that only pointwise work is left to the loop."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unspool.cells.cell import RNNCell
from unspool.cells.layer import check_units
from unspool.gallery.arguments import check_between, check_sizes
from unspool.gallery.weights import normal, of_inputs, uniform


class IndRNNCell(RNNCell):
    """An RNN each unit of which sees only itself (Li et al., 2018, "Independently Recurrent Neural Network: Building a
    Longer and Deeper RNN", CVPR).

        h' = relu(W x + u * h + b)

    The recurrent weights u are drawn uniformly from [0, recurrent_max], which the paper sets to 2^(1/T) for sequences
    of T steps. Settled here: Kaiming's uniform for W, as fits relu.

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
    """A GRU whose gate sees only the input (Feng et al., 2024, "Were RNNs All We Needed?").

        z  = sigmoid(W_z x + b_z)
        h' = (1 - z) * h + z * (W_n x + b_n)

    Settled here: Glorot's uniform for the matrices, biases of zero.

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
    """An LSTM whose gates see only the input and add up to one (Feng et al., 2024, "Were RNNs All We Needed?").

        f, i = sigmoid(W_f x + b_f), sigmoid(W_i x + b_i)
        h'   = f / (f + i) * h + i / (f + i) * (W_n x + b_n)

    Settled here: Glorot's uniform for the matrices, biases of zero.

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
    """A simple recurrent unit with a highway around it (Lei et al., 2018, "Simple Recurrent Units for Highly
    Parallelizable Recurrence", EMNLP).

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
    """A quasi-recurrent layer: a convolution over time, then fo-pooling (Bradbury et al., 2017, "Quasi-Recurrent Neural
    Networks", ICLR).

        z, f, o = split(W [x_(t-k+1), ..., x_t] + b, 3)
        c' = sigmoid(f) * c + (1 - sigmoid(f)) * tanh(z)
        h  = sigmoid(o) * c'

    The output is h. The state is c, and what the inputs so far add to the sums of the k - 1 steps to come: zeros at
    first, since nothing is before the first step. So no product is left to the loop. Settled here: Glorot's
    uniform for W, a bias of zero.

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


class LRUCell(RNNCell):
    """A linear recurrent unit: a complex diagonal state (Orvieto et al., 2023, "Resurrecting Recurrent Neural Networks
    for Long Sequences", ICML).

        lambda = exp(-exp(nu) + i exp(theta))
        s'     = lambda * s + exp(gamma) * (B x)
        y      = Re(C s') + D * x

    The output y has the width of x; the state is s as two tensors, real and imaginary parts. As published: lambda is
    uniform on the ring between the radii r_min and r_max with a phase of at most max_phase, exp(gamma) is
    sqrt(1 - |lambda|^2), B and C are complex Gaussians scaled by their fans, D is Gaussian.

    Args:
        input_size: the width D of the inputs and the outputs.
        num_units: the number N of complex states.
        r_min: the smallest absolute value of lambda at first.
        r_max: the largest.
        max_phase: the largest phase of lambda at first.

    >>> cell = LRUCell(5, 3, r_min=0.9, r_max=0.999)
    >>> output, (real, imaginary) = cell(torch.zeros(2, 5), cell.zero_state(2, torch.float32))
    >>> output.shape, real.shape
    (torch.Size([2, 5]), torch.Size([2, 3]))
    """

    def __init__(
        self,
        input_size: int,
        num_units: int,
        *,
        r_min: float = 0.0,
        r_max: float = 1.0,
        max_phase: float = 2 * math.pi,
    ) -> None:
        super().__init__()
        self.input_size, self.num_units = check_sizes(input_size, num_units)
        self.r_max = check_between("r_max", r_max, 0, 1)
        self.r_min = check_between("r_min", r_min, 0, r_max)
        self.max_phase = check_between("max_phase", max_phase, 0, 2 * math.pi)
        self.state_size, self.output_size = (num_units, num_units), input_size
        # 1 - U[0, 1) is never 0, and so no logarithm is infinite.
        ring = (1 - torch.rand(num_units)) * (r_max**2 - r_min**2) + r_min**2
        self.nu = nn.Parameter((-0.5 * ring.clamp(1e-12, 1 - 1e-6).log()).log())
        self.theta = nn.Parameter(((1 - torch.rand(num_units)) * max_phase).log())
        self.gamma = nn.Parameter(0.5 * torch.log1p(-torch.exp(-2 * self.nu.detach().exp())))
        deviation = 1 / math.sqrt(2 * input_size)
        self.b_real, self.b_imaginary = (normal(num_units, input_size, deviation=deviation) for _ in range(2))
        deviation = 1 / math.sqrt(num_units)
        self.c_real, self.c_imaginary = (normal(input_size, num_units, deviation=deviation) for _ in range(2))
        self.d = normal(input_size, deviation=1)

    def forward(self, inputs: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """One step; the output is `y`."""
        real, imaginary = state
        size, phase, scale = torch.exp(-torch.exp(self.nu)), torch.exp(self.theta), torch.exp(self.gamma)
        a, b = size * torch.cos(phase), size * torch.sin(phase)
        new_real = a * real - b * imaginary + scale * F.linear(inputs, self.b_real)
        new_imaginary = a * imaginary + b * real + scale * F.linear(inputs, self.b_imaginary)
        y = F.linear(new_real, self.c_real) - F.linear(new_imaginary, self.c_imaginary) + self.d * inputs
        return y, (new_real, new_imaginary)


class SelectiveStateCell(RNNCell):
    """A selective state space: what is kept depends on the input (Gu & Dao, 2023, "Mamba: Linear-Time Sequence Modeling
    with Selective State Spaces").

        u, z    = silu(W_u x), silu(W_z x)
        r, b, c = split(W_s u, [rank, M, M])
        delta   = softplus(W_d r + b_d)
        S'      = exp(-delta exp(A)) * S + (delta * u) b^T
        y       = (S' c + D * u) * z

    The output is y, the state S is a matrix [N, M]; A has its shape. It is Mamba's block without the convolution over
    time and the last projection. As published: exp(A) is 1 .. M for every unit, D is one, W_d is uniform within
    rank^-0.5 and b_d such that delta lies between 0.001 and 0.1, uniform in its logarithm. Settled here: Glorot's
    uniform for the other matrices.

    Args:
        input_size: the width of the inputs.
        num_units: the number N of channels, the width of the output.
        state_width: the number M of states for each of them.
        rank: the width of what delta is made from; a sixteenth of the units by default, rounded up.

    >>> cell = SelectiveStateCell(5, 8, state_width=4)
    >>> output, state = cell(torch.zeros(2, 5), cell.zero_state(2, torch.float32))
    >>> output.shape, state.shape
    (torch.Size([2, 8]), torch.Size([2, 8, 4]))
    """

    def __init__(self, input_size: int, num_units: int, *, state_width: int = 16, rank: int | None = None) -> None:
        super().__init__()
        self.input_size, self.num_units = check_sizes(input_size, num_units)
        self.state_width = check_units("state_width", state_width)
        self.rank = -(-num_units // 16) if rank is None else check_units("rank", rank)
        self.state_size, self.output_size = torch.Size([num_units, state_width]), num_units
        self.of_input = of_inputs(input_size, 2 * num_units, bias=False)
        self.select = of_inputs(num_units, self.rank + 2 * state_width, bias=False)
        self.delta = nn.Linear(self.rank, num_units)
        nn.init.uniform_(self.delta.weight, -(self.rank**-0.5), self.rank**-0.5)
        step = torch.exp(torch.empty(num_units).uniform_(math.log(0.001), math.log(0.1)))
        with torch.no_grad():
            self.delta.bias.copy_(step + torch.log(-torch.expm1(-step)))  # softplus takes it back to `step`
        self.a = nn.Parameter(torch.arange(1.0, state_width + 1).log().repeat(num_units, 1))
        self.d = nn.Parameter(torch.ones(num_units))

    def forward(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One step; the output is `y`."""
        u, z = F.silu(self.of_input(inputs)).chunk(2, 1)
        low, b, c = self.select(u).split([self.rank, self.state_width, self.state_width], 1)
        delta = F.softplus(self.delta(low))
        decay = torch.exp(-delta.unsqueeze(2) * torch.exp(self.a))
        state = decay * state + (delta * u).unsqueeze(2) * b.unsqueeze(1)
        y = (state * c.unsqueeze(1)).sum(2) + self.d * u
        return y * z, state
