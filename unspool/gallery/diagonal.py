"""State spaces with a diagonal transition, in their recurrent form, and the time mixing that is close to them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unspool.cells.cell import RNNCell
from unspool.cells.layer import check_units
from unspool.gallery.arguments import check_between, check_sizes
from unspool.gallery.states import NOTHING_YET
from unspool.gallery.weights import normal, of_inputs, of_state
from unspool.structure import Structure


class LRUCell(RNNCell):
    """A linear recurrent unit: a complex diagonal state (Orvieto et al., 2023, Resurrecting RNNs for Long Sequences).

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
        self.nu = nn.Parameter((-0.5 * ring.clamp(max=1 - 1e-6).log()).log())
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
    """A selective state space: what is kept depends on the input (Gu and Dao, 2023, Mamba).

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


class TimeMixingState(NamedTuple):
    """The state of a `TimeMixingCell`: the last input, both sums, and the logarithm that they are divided by."""

    last: Any
    weighted: Any
    weights: Any
    log_scale: Any


class TimeMixingCell(RNNCell):
    """An average of all values so far, older ones weighing less (Peng et al., 2023, RWKV: Reinventing RNNs).

        r, k, v = W_r (m_r * x + (1 - m_r) * x_last), and the same for k and v
        y  = W_o (sigmoid(r) * (a + exp(u + k) * v) / (b + exp(u + k)))
        a' = exp(-exp(w)) * a + exp(k) * v
        b' = exp(-exp(w)) * b + exp(k)

    The state is x_last, and a and b divided by the exp of a running maximum, which is carried too: nothing overflows.
    As published for a first layer: W_r, W_k and W_o are zero, W_v orthogonal, and w, u and the m's are functions of the
    number of the unit, so that some forget at once and others hardly.

    Args:
        input_size: the width D of the inputs.
        num_units: the width N of the sums and the output.

    >>> cell = TimeMixingCell(5, 3)
    >>> output, state = cell(torch.zeros(2, 5), cell.zero_state(2, torch.float32))
    >>> output.shape, state.last.shape
    (torch.Size([2, 3]), torch.Size([2, 5]))
    """

    def __init__(self, input_size: int, num_units: int) -> None:
        super().__init__()
        self.input_size, self.num_units = check_sizes(input_size, num_units)
        self.state_size = TimeMixingState(input_size, num_units, num_units, num_units)
        self.output_size = num_units
        channel, unit = torch.arange(input_size) / input_size, torch.arange(num_units)
        self.mix_r, self.mix_k, self.mix_v = (nn.Parameter(share * channel) for share in (0.5, 1.0, 1.0))
        self.decay = nn.Parameter(-5 + 8 * (unit / max(num_units - 1, 1)) ** 0.7)
        self.bonus = nn.Parameter(0.5 * ((unit + 1) % 3 - 1) + math.log(0.3))
        self.receptance, self.key, self.value = (of_inputs(input_size, num_units, bias=False) for _ in range(3))
        nn.init.orthogonal_(self.value.weight)
        self.output = of_state(num_units)
        for layer in (self.receptance, self.key, self.output):
            nn.init.zeros_(layer.weight)

    def zero_state(self, batch_size: int | Tensor, dtype: Any, device: Any = None) -> Structure:
        """Sums of nothing, whose maximum is smaller than any key."""
        zeros: Any = super().zero_state(batch_size, dtype, device)
        return zeros._replace(log_scale=torch.full_like(zeros.log_scale, NOTHING_YET))

    def forward(self, inputs: Tensor, state: TimeMixingState) -> tuple[Tensor, TimeMixingState]:
        """One step; the output is `y`."""
        last, a, b, scale = state
        r, k, v = (
            layer(mix * inputs + (1 - mix) * last)
            for layer, mix in ((self.receptance, self.mix_r), (self.key, self.mix_k), (self.value, self.mix_v))
        )
        top = torch.maximum(scale, self.bonus + k)
        old, new = torch.exp(scale - top), torch.exp(self.bonus + k - top)
        y = self.output(torch.sigmoid(r) * (old * a + new * v) / (old * b + new))
        faded = scale - torch.exp(self.decay)
        top = torch.maximum(faded, k)
        old, new = torch.exp(faded - top), torch.exp(k - top)
        return y, TimeMixingState(inputs, old * a + new * v, old * b + new, top)
