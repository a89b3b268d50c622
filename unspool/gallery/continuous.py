"""Cells in continuous time: what happens in a step depends on when it happens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unspool.cells.cell import RNNCell
from unspool.cells.gru import GRUCell
from unspool.cells.layer import check_units, glorot_uniform
from unspool.cells.lstm import LSTMStateTuple
from unspool.gallery.arguments import check_above, check_between, check_choice, check_sizes
from unspool.gallery.weights import glorot
from unspool.structure import Structure


class PhasedLSTMCell(RNNCell):
    """An LSTM whose units open in turn, each by its own clock (Neil, Pfeiffer & Liu, 2016, "Phased LSTM", NIPS).

        phi     = ((time - shift) mod period) / period
        k       = 2 phi / on           while phi < on / 2
                  2 - 2 phi / on       while phi < on
                  leak * phi           otherwise
        i, f, g, o = split(x @ W + h @ U + b, 4)
        c~      = sigmoid(f + pf * c) * c + sigmoid(i + pi * c) * tanh(g)
        h~      = sigmoid(o + po * c~) * tanh(c~)
        c', h'  = k * c~ + (1 - k) * c, k * h~ + (1 - k) * h

    Inputs are `(x, time)`, with the time itself, not the gap, as `[batch, 1]`. Periods start as exp(U(0, 3)), shifts as
    U(0, period), both as published; gates leave their initialisation open and have Glorot's. The paper does not say
    which memory the output gate sees: here it is the proposed one.

    Args:
        input_size: the depth of x.
        num_units: the width of the state and the output.
        on: the part of its period in which a unit is open, at first; it is learnt.
        leak: how much passes closed units in training; nothing does in evaluation.

    >>> cell = PhasedLSTMCell(5, 3)
    >>> output, state = cell((torch.zeros(2, 5), torch.ones(2, 1)), cell.zero_state(2, torch.float32))
    >>> output.shape
    torch.Size([2, 3])
    """

    def __init__(self, input_size: int, num_units: int, *, on: float = 0.05, leak: float = 0.001) -> None:
        super().__init__()
        self.input_size, self.num_units = check_sizes(input_size, num_units)
        self.on, self.leak = check_between("on", on, 1e-6, 1), check_between("leak", leak, 0, 1)
        self.of_x, self.of_h = nn.Linear(input_size, 4 * num_units), nn.Linear(num_units, 4 * num_units, bias=False)
        glorot(self.of_x, self.of_h)
        self.peepholes = nn.Parameter(torch.zeros(3, num_units))
        self.period = nn.Parameter(torch.empty(num_units).uniform_(0, 3).exp())
        self.shift = nn.Parameter(torch.rand(num_units) * self.period.detach())
        self.open = nn.Parameter(torch.full((num_units,), self.on))
        self.state_size, self.output_size = LSTMStateTuple(num_units, num_units), num_units

    def forward(self, inputs: tuple[Tensor, Tensor], state: LSTMStateTuple) -> tuple[Tensor, LSTMStateTuple]:
        """One step at a time; the output is the new h."""
        (x, time), (c, h) = inputs, state
        turns = (time - self.shift) / self.period
        phase = turns - torch.floor(turns)
        rise = 2 * phase / self.open
        closed = phase * (self.leak if self.training else 0.0)
        k = torch.where(phase < self.open / 2, rise, torch.where(phase < self.open, 2 - rise, closed))
        i, f, g, o = (self.of_x(x) + self.of_h(h)).chunk(4, 1)
        of_i, of_f, of_o = self.peepholes.unbind(0)
        memory = torch.sigmoid(f + of_f * c) * c + torch.sigmoid(i + of_i * c) * torch.tanh(g)
        output = torch.sigmoid(o + of_o * memory) * torch.tanh(memory)
        c, h = k * memory + (1 - k) * c, k * output + (1 - k) * h
        return h, LSTMStateTuple(c, h)


class TLSTMCell(RNNCell):
    """A time-aware LSTM, which forgets what is short-term between steps (Baytas et al., 2017, "Patient Subtyping via
    Time-Aware LSTM Networks", KDD).

        short   = tanh(c @ D + d)
        c*      = c - short + short * decay(gap)
        i, f, g, o = split(x @ W + h @ U + b, 4)
        c'      = sigmoid(f) * c* + sigmoid(i) * tanh(g)
        h'      = sigmoid(o) * tanh(c')

    Inputs are `(x, gap)`, the time since the last step as `[batch, 1]`. The paper leaves the initialisation open:
    Glorot's uniform, biases zero.

    Args:
        input_size: the depth of x.
        num_units: the width of the state and the output.
        decay: "log" is 1 / log(e + gap), for long gaps; "reciprocal" is 1 / gap, for short ones that are never zero.

    >>> cell = TLSTMCell(5, 3)
    >>> output, state = cell((torch.zeros(2, 5), torch.ones(2, 1)), cell.zero_state(2, torch.float32))
    >>> output.shape
    torch.Size([2, 3])
    """

    def __init__(self, input_size: int, num_units: int, *, decay: str = "log") -> None:
        super().__init__()
        self.input_size, self.num_units = check_sizes(input_size, num_units)
        self.decay = check_choice("decay", decay, ["log", "reciprocal"])
        self.of_x, self.of_h = nn.Linear(input_size, 4 * num_units), nn.Linear(num_units, 4 * num_units, bias=False)
        self.of_c = nn.Linear(num_units, num_units)
        glorot(self.of_x, self.of_h, self.of_c)
        self.state_size, self.output_size = LSTMStateTuple(num_units, num_units), num_units

    def forward(self, inputs: tuple[Tensor, Tensor], state: LSTMStateTuple) -> tuple[Tensor, LSTMStateTuple]:
        """One step; the output is the new h."""
        (x, gap), (c, h) = inputs, state
        kept = 1 / (torch.log(math.e + gap) if self.decay == "log" else gap)
        short = torch.tanh(self.of_c(c))
        i, f, g, o = (self.of_x(x) + self.of_h(h)).chunk(4, 1)
        c = torch.sigmoid(f) * (c - short + short * kept) + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        return h, LSTMStateTuple(c, h)


class GRUDState(NamedTuple):
    """The state of a GRU-D: `h`, the last value seen of each variable, and how long ago if the last step missed it."""

    h: Any
    last: Any
    waited: Any


class GRUDCell(RNNCell):
    """A GRU for series with missing values, which decay to their mean (Che et al., 2018, "Recurrent Neural Networks for
    Multivariate Time Series with Missing Values", Scientific Reports).

        since   = gap + waited                    waited' = (1 - mask) * since
        decay_x = exp(-relu(wx * since + bx))     decay_h = exp(-relu(since @ Wh + bh))
        x^      = x where mask, else decay_x * last + (1 - decay_x) * mean;     last' = x where mask, else last
        h^      = decay_h * h
        r, z    = split(sigmoid(x^ @ W + mask @ V + b + h^ @ U), 2)
        c       = tanh(x^ @ Wc + mask @ Vc + bc + (r * h^) @ Uc)
        h'      = (1 - z) * h^ + z * c

    Inputs are `(x, mask, gap)`: a mask of ones and zeros like x, and the time since the last step (0 at first) as
    `[batch, 1]`. What x has where the mask is zero is not read, so it may be NaN. Before a variable is first seen, its
    last value is its mean. The paper leaves the initialisation open: Glorot's uniform, biases zero.

    Args:
        input_size: the depth of x.
        num_units: the width of h and the output.
        mean: the mean of each variable over the training data; zeros by default.

    >>> cell = GRUDCell(5, 3)
    >>> x, mask, gap = torch.full((2, 5), torch.nan), torch.zeros(2, 5), torch.ones(2, 1)
    >>> cell((x, mask, gap), cell.zero_state(2, torch.float32))[0].isnan().any()
    tensor(False)
    """

    mean: Tensor

    def __init__(self, input_size: int, num_units: int, *, mean: Tensor | Sequence[float] | None = None) -> None:
        super().__init__()
        self.input_size, self.num_units = check_sizes(input_size, num_units)
        means = torch.zeros(input_size) if mean is None else torch.as_tensor(mean, dtype=torch.get_default_dtype())
        if means.shape != (input_size,):
            raise ValueError(f"mean must have shape [{input_size}], like x, but has {list(means.shape)}")
        self.register_buffer("mean", means)
        self.of_x, self.of_mask = nn.Linear(input_size, 3 * num_units), nn.Linear(input_size, 3 * num_units, bias=False)
        self.of_h, self.of_reset = (nn.Linear(num_units, n * num_units, bias=False) for n in (2, 1))
        self.decay_h = nn.Linear(input_size, num_units)
        glorot(self.of_x, self.of_mask, self.of_h, self.of_reset, self.decay_h)
        self.decay_x = nn.Parameter(torch.empty(input_size))
        self.decay_x_bias = nn.Parameter(torch.zeros(input_size))
        glorot_uniform(self.decay_x)
        self.state_size, self.output_size = GRUDState(num_units, input_size, input_size), num_units

    def zero_state(self, batch_size: int | Tensor, dtype: Any, device: Any = None) -> Structure:
        """Zeros, but for the values that were last seen, which are the means."""
        zeros: Any = super().zero_state(batch_size, dtype, device)
        return zeros._replace(last=zeros.last + self.mean.to(zeros.last))

    def forward(self, inputs: tuple[Tensor, Tensor, Tensor], state: GRUDState) -> tuple[Tensor, GRUDState]:
        """One step; the output is the new h."""
        (x, mask, gap), (h, last, waited) = inputs, state
        since = gap + waited
        decay = torch.exp(-torch.relu(self.decay_x * since + self.decay_x_bias))
        seen = mask != 0
        filled = torch.where(seen, x, decay * last + (1 - decay) * self.mean)
        h = torch.exp(-torch.relu(self.decay_h(since))) * h
        gates, candidate = (self.of_x(filled) + self.of_mask(mask)).split([2 * self.num_units, self.num_units], 1)
        r, z = torch.sigmoid(gates + self.of_h(h)).chunk(2, 1)
        h = (1 - z) * h + z * torch.tanh(candidate + self.of_reset(r * h))
        return h, GRUDState(h, torch.where(seen, x, last), (1 - mask) * since)


class ODERNNCell(RNNCell):
    """A GRU whose state follows an ordinary differential equation between observations (Rubanova et al., 2019, "Latent
    ODEs for Irregularly-Sampled Time Series", NeurIPS).

        f(h) = tanh(h @ A + a) @ B + b
        h    = the solution of dh/dt = f(h) from h, after the gap
        h'   = GRU(x, h)

    Inputs are `(x, gap)`, the time since the last observation as `[batch, 1]`. The weights of f are N(0, 0.1^2), its
    biases zero, as in the authors' experiments; those of the GRU Glorot's.

    Args:
        input_size: the depth of x.
        num_units: the width of the state and the output.
        hidden_size: the width of f's hidden layer; num_units by default.
        solver: "euler", or "rk4" for the classical Runge-Kutta method of fourth order.
        substeps: how many steps of the solver a gap is divided into.

    >>> cell = ODERNNCell(5, 3, solver="rk4")
    >>> output, state = cell((torch.zeros(2, 5), torch.ones(2, 1)), cell.zero_state(2, torch.float32))
    >>> output.shape
    torch.Size([2, 3])
    """

    def __init__(
        self,
        input_size: int,
        num_units: int,
        *,
        hidden_size: int | None = None,
        solver: str = "euler",
        substeps: int = 1,
    ) -> None:
        super().__init__()
        self.input_size, self.num_units = check_sizes(input_size, num_units)
        self.hidden_size = check_units("hidden_size", num_units if hidden_size is None else hidden_size)
        self.solver = check_choice("solver", solver, ["euler", "rk4"])
        self.substeps = check_units("substeps", substeps)
        self.hidden, self.slope = nn.Linear(num_units, self.hidden_size), nn.Linear(self.hidden_size, num_units)
        for layer in (self.hidden, self.slope):
            nn.init.normal_(layer.weight, 0, 0.1)
            nn.init.zeros_(layer.bias)
        self.update = GRUCell(num_units, input_size=input_size)
        self.state_size = self.output_size = num_units

    def derivative(self, h: Tensor) -> Tensor:
        """The right-hand side f of the differential equation."""
        return self.slope(torch.tanh(self.hidden(h)))

    def forward(self, inputs: tuple[Tensor, Tensor], state: Tensor) -> tuple[Tensor, Tensor]:
        """Solves up to the observation, then takes it in; the output is the new state."""
        (x, gap), h, f = inputs, state, self.derivative
        dt = gap / self.substeps
        for _ in range(self.substeps):
            a = f(h)
            if self.solver == "rk4":
                b = f(h + dt / 2 * a)
                c = f(h + dt / 2 * b)
                a = (a + 2 * b + 2 * c + f(h + dt * c)) / 6
            h = h + dt * a
        return self.update(x, h)


class LTCCell(RNNCell):
    """A liquid time-constant network, whose inputs set how fast it changes (Hasani et al., 2021, "Liquid Time-constant
    Networks", AAAI), by the paper's fused solver, which is implicit where the equation is linear.

        dh/dt = -(1 / tau + f) * h + f * A,     f = sigmoid(x @ W + h @ U + b)
        h'    = (h + dt * f * A) / (1 + dt * (1 / tau + f)),    `unfolds` times with dt = step / unfolds

    The paper leaves the nonlinearity of f open; a sigmoid keeps the denominator positive. So that tau stays positive
    too, `softplus(rate)` is 1 / tau. It starts at 1 and A at -1 or 1, as reversal potentials do; W and U are Glorot's.

    Args:
        input_size: the depth of x.
        num_units: the width of the state and the output.
        unfolds: how many steps of the solver each input gets.
        step: the time from one input to the next.

    >>> cell = LTCCell(5, 3)
    >>> output, state = cell(torch.zeros(2, 5), cell.zero_state(2, torch.float32))
    >>> output.shape
    torch.Size([2, 3])
    """

    def __init__(self, input_size: int, num_units: int, *, unfolds: int = 6, step: float = 1.0) -> None:
        super().__init__()
        self.input_size, self.num_units = check_sizes(input_size, num_units)
        self.unfolds, self.step = check_units("unfolds", unfolds), check_above("step", step)
        self.of_x, self.of_h = nn.Linear(input_size, num_units), nn.Linear(num_units, num_units, bias=False)
        glorot(self.of_x, self.of_h)
        self.rate = nn.Parameter(torch.full((num_units,), math.log(math.e - 1)))
        self.reversal = nn.Parameter(torch.randint(2, (num_units,)) * 2.0 - 1)
        self.state_size = self.output_size = num_units

    def forward(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One step; the output is the new state."""
        h, drive, dt = state, self.of_x(inputs), self.step / self.unfolds
        rate = F.softplus(self.rate)
        for _ in range(self.unfolds):
            f = torch.sigmoid(drive + self.of_h(h))
            h = (h + dt * f * self.reversal) / (1 + dt * (rate + f))
        return h, h


class CfCCell(RNNCell):
    """A closed-form continuous-time cell: a gate of the time that passed chooses between two states (Hasani et al.,
    2022, "Closed-form continuous-time neural networks", Nature Machine Intelligence).

        z       = 1.7159 * tanh(2 / 3 * ([x, h] @ W + b))
        f, g, k = split(z @ V + v, 3)
        gate    = sigmoid(-f * gap)
        h'      = gate * tanh(g) + (1 - gate) * tanh(k)

    Inputs are `(x, gap)`, the time since the last step as `[batch, 1]`. The three networks share a backbone z, with
    the scaled tanh of the authors' experiments; weights are Glorot's, as there, and biases zero.

    Args:
        input_size: the depth of x.
        num_units: the width of the state and the output.
        backbone_size: the width of z; num_units by default.

    >>> cell = CfCCell(5, 3)
    >>> output, state = cell((torch.zeros(2, 5), torch.ones(2, 1)), cell.zero_state(2, torch.float32))
    >>> output.shape
    torch.Size([2, 3])
    """

    def __init__(self, input_size: int, num_units: int, *, backbone_size: int | None = None) -> None:
        super().__init__()
        self.input_size, self.num_units = check_sizes(input_size, num_units)
        self.backbone_size = check_units("backbone_size", num_units if backbone_size is None else backbone_size)
        self.backbone = nn.Linear(input_size + num_units, self.backbone_size)
        self.heads = nn.Linear(self.backbone_size, 3 * num_units)
        glorot(self.backbone, self.heads)
        self.state_size = self.output_size = num_units

    def forward(self, inputs: tuple[Tensor, Tensor], state: Tensor) -> tuple[Tensor, Tensor]:
        """One step; the output is the new state."""
        x, gap = inputs
        z = 1.7159 * torch.tanh(2 / 3 * self.backbone(torch.cat([x, state], 1)))
        f, g, k = self.heads(z).chunk(3, 1)
        gate = torch.sigmoid(-f * gap)
        h = gate * torch.tanh(g) + (1 - gate) * torch.tanh(k)
        return h, h
