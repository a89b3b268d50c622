"""Sums with exponential weights, kept in range by a running maximum of their logarithms: RWKV's and xLSTM's cells."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unspool.cells.cell import RNNCell
from unspool.gallery.arguments import check_divides, check_sizes
from unspool.gallery.weights import fill, of_inputs, of_state
from unspool.structure import Structure

NOTHING_YET = -1e30
"""The logarithm of an empty sum: smaller than any that comes, but finite, so that differences of two are."""


class TimeMixingState(NamedTuple):
    """The state of a `TimeMixingCell`: the last input, both sums, and the logarithm that they are divided by."""

    last: Any
    weighted: Any
    weights: Any
    log_scale: Any


class TimeMixingCell(RNNCell):
    """An average of all values so far, older ones weighing less (Peng et al., 2023, "RWKV: Reinventing RNNs for the
    Transformer Era", EMNLP).

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
        self.mix_r, self.mix_k, self.mix_v = (nn.Parameter(channel**power) for power in (0.5, 1.0, 1.0))
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


def _small(inputs: int, outputs: int) -> nn.Linear:
    """A linear map with Gaussian weights of variance 2 / (5 D), as xLSTM has them, and a bias of zeros."""
    layer = of_inputs(inputs, outputs)
    nn.init.normal_(layer.weight, std=math.sqrt(2 / (5 * inputs)))
    return layer


class SLSTMState(NamedTuple):
    """The state of an `SLSTMCell`: memory, normaliser, output, and the running maximum of the gates' logarithms."""

    c: Any
    n: Any
    h: Any
    m: Any


class SLSTMCell(RNNCell):
    """An LSTM with an exponential input gate and a normaliser (Beck et al., 2024, "xLSTM: Extended Long Short-Term
    Memory", NeurIPS).

        z, i, f, o = split(W x + R h + b, 4)
        m' = max(log sigmoid(f) + m, i)
        F, I = exp(log sigmoid(f) + m - m'), exp(i - m')
        c' = F * c + I * tanh(z)
        n' = F * n + I
        h' = sigmoid(o) * c' / n'

    R mixes the units of a head with each other alone. Of the two forget gates of the paper it has the sigmoid. As
    published: R is zero at first, W small, and the bias of f falls from 5 to -7 over the units of a head, by a power.

    Args:
        input_size: the width D of the inputs.
        num_units: the width N of memory and output.
        heads: the number of heads, which divides N.

    >>> cell = SLSTMCell(5, 4, heads=2)
    >>> output, state = cell(torch.zeros(2, 5), cell.zero_state(2, torch.float32))
    >>> output is state.h, cell.of_state.shape
    (True, torch.Size([2, 2, 8]))
    """

    def __init__(self, input_size: int, num_units: int, *, heads: int = 1) -> None:
        super().__init__()
        self.input_size, self.num_units = check_sizes(input_size, num_units)
        self.heads = check_divides("heads", heads, num_units)
        self.state_size, self.output_size = SLSTMState(num_units, num_units, num_units, num_units), num_units
        self.of_input = _small(input_size, 4 * num_units)
        width = num_units // heads
        self.of_state = nn.Parameter(torch.zeros(heads, width, 4 * width))
        with torch.no_grad():
            # Rows are heads first, then gates, then the units of a head.
            self.of_input.bias.view(heads, 4, width)[:, 2] = 5 - 12 * (torch.arange(width) / max(width - 1, 1)) ** 0.3

    def zero_state(self, batch_size: int | Tensor, dtype: Any, device: Any = None) -> Structure:
        """Sums of nothing, whose maximum is smaller than any gate: the first step divides by its own gate alone."""
        zeros: Any = super().zero_state(batch_size, dtype, device)
        return zeros._replace(m=torch.full_like(zeros.m, NOTHING_YET))

    def forward(self, inputs: Tensor, state: SLSTMState) -> tuple[Tensor, SLSTMState]:
        """One step; the output is `h'`."""
        c, n, h, m = state
        mixed = torch.einsum("bhi,hij->bhj", h.unflatten(1, (self.heads, -1)), self.of_state)
        sums = self.of_input(inputs).unflatten(1, (self.heads, -1)) + mixed
        z, i, f, o = (each.flatten(1) for each in sums.chunk(4, 2))
        kept = m - F.softplus(-f)  # log sigmoid(f) is -softplus(-f)
        m = torch.maximum(kept, i)
        forget, admit = torch.exp(kept - m), torch.exp(i - m)
        c = forget * c + admit * torch.tanh(z)
        n = forget * n + admit
        h = torch.sigmoid(o) * c / n
        return h, SLSTMState(c, n, h, m)


class MLSTMState(NamedTuple):
    """The state of an `MLSTMCell`, by heads: the matrix memory, its normaliser, the running maximum of the gates."""

    c: Any
    n: Any
    m: Any


class MLSTMCell(RNNCell):
    """An LSTM with a matrix for its memory, written and read by keys (Beck et al., 2024, "xLSTM: Extended Long
    Short-Term Memory", NeurIPS).

        q, k, v = W_q x + b_q, (W_k x + b_k) / sqrt(d), W_v x + b_v
        i, f    = w_i x + b_i, w_f x + b_f
        m' = max(log sigmoid(f) + m, i)
        F, I = exp(log sigmoid(f) + m - m'), exp(i - m')
        C' = F * C + I * v k^T
        n' = F * n + I * k
        h  = sigmoid(W_o x + b_o) * (C' q) / max(|n' q|, exp(-m'))

    All but the output gate by heads of width d = N / heads, each with one i and one f. The output is h, which no gate
    sees. As published: the gates i and f do not depend on x at first, f's bias goes from 3 to 6 over the heads and i's
    is Gaussian of deviation 0.1.

    Args:
        input_size: the width D of the inputs.
        num_units: the width N of the output.
        heads: the number of heads, which divides N.

    >>> cell = MLSTMCell(5, 4, heads=2)
    >>> output, state = cell(torch.zeros(2, 5), cell.zero_state(2, torch.float32))
    >>> output.shape, state.c.shape
    (torch.Size([2, 4]), torch.Size([2, 2, 2, 2]))
    """

    def __init__(self, input_size: int, num_units: int, *, heads: int = 1) -> None:
        super().__init__()
        self.input_size, self.num_units = check_sizes(input_size, num_units)
        self.heads = check_divides("heads", heads, num_units)
        width = num_units // heads
        self.state_size = MLSTMState(torch.Size([heads, width, width]), torch.Size([heads, width]), heads)
        self.output_size = num_units
        self.query, self.key, self.value = (_small(input_size, num_units) for _ in range(3))
        self.admit = fill(nn.Linear(input_size, heads), 0.0, 0.1 * torch.randn(heads))
        self.forget = fill(nn.Linear(input_size, heads), 0.0, torch.linspace(3, 6, heads))
        self.gate = _small(input_size, num_units)

    def forward(self, inputs: Tensor, state: MLSTMState) -> tuple[Tensor, MLSTMState]:
        """One step; the output is `h`."""
        c, n, m = state
        q, k, v = (layer(inputs).unflatten(1, (self.heads, -1)) for layer in (self.query, self.key, self.value))
        k = k / math.sqrt(k.shape[2])
        i, kept = self.admit(inputs), m - F.softplus(-self.forget(inputs))
        m = torch.maximum(kept, i)
        forget, admit = torch.exp(kept - m).unsqueeze(2), torch.exp(i - m).unsqueeze(2)
        c = forget.unsqueeze(3) * c + (admit * v).unsqueeze(3) * k.unsqueeze(2)
        n = forget * n + admit * k
        read, weight = (c * q.unsqueeze(2)).sum(3), (n * q).sum(2, keepdim=True)
        h = read / torch.maximum(weight.abs(), torch.exp(-m).unsqueeze(2))
        return torch.sigmoid(self.gate(inputs)) * h.flatten(1), MLSTMState(c, n, m)
