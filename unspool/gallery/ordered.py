"""Cells in which not all units change at every step: by their order, by a clock, by a gate, or by competition."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from unspool.cells.cell import RNNCell
from unspool.cells.layer import check_units
from unspool.cells.lstm import LSTMStateTuple
from unspool.gallery.arguments import check_divides, check_sizes
from unspool.gallery.weights import normal, of_inputs, of_state
from unspool.structure import Structure


class ONLSTMCell(RNNCell):
    """An LSTM with ordered neurons: to erase one is to erase all before it (Shen et al., 2019, "Ordered Neurons:
    Integrating Tree Structures into Recurrent Neural Networks", ICLR).

        i, f, o, g, a, b = split(W x + R h + w, [N, N, N, N, N / C, N / C])
        F, I = repeat(cumsum(softmax(a)), C), 1 - repeat(cumsum(softmax(b)), C)
        both = F * I
        c' = (sigmoid(f) * both + F - both) * c + (sigmoid(i) * both + I - both) * tanh(g)
        h' = sigmoid(o) * tanh(c')

    Settled here: Glorot's uniform for W, an orthogonal R, a bias of zero.

    Args:
        input_size: the width D of the inputs.
        num_units: the width N of memory and output.
        chunk: the number C of units that share a place in the order; divides N.

    >>> cell = ONLSTMCell(5, 6, chunk=2)
    >>> output, (c, h) = cell(torch.zeros(2, 5), cell.zero_state(2, torch.float32))
    >>> output is h, cell.of_input.weight.shape
    (True, torch.Size([30, 5]))
    """

    def __init__(self, input_size: int, num_units: int, *, chunk: int = 1) -> None:
        super().__init__()
        self.input_size, self.num_units = check_sizes(input_size, num_units)
        self.chunk = check_divides("chunk", chunk, num_units)
        self.state_size, self.output_size = LSTMStateTuple(num_units, num_units), num_units
        self.widths = [4 * num_units, num_units // chunk, num_units // chunk]
        self.of_input = of_inputs(input_size, sum(self.widths))
        self.of_state = nn.Linear(num_units, sum(self.widths), bias=False)
        nn.init.orthogonal_(self.of_state.weight)

    def forward(self, inputs: Tensor, state: LSTMStateTuple) -> tuple[Tensor, LSTMStateTuple]:
        """One step; the output is `h'`."""
        c, h = state
        gates, a, b = (self.of_input(inputs) + self.of_state(h)).split(self.widths, 1)
        i, f, o, g = gates.chunk(4, 1)
        erase, write = self._ordered(a), 1 - self._ordered(b)
        both = erase * write
        forget, admit = torch.sigmoid(f) * both + erase - both, torch.sigmoid(i) * both + write - both
        c = forget * c + admit * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        return h, LSTMStateTuple(c, h)

    def _ordered(self, sums: Tensor) -> Tensor:
        """A gate that grows from unit to unit, the same for those of a chunk."""
        places = torch.softmax(sums, 1).cumsum(1)
        return places.unsqueeze(2).expand(-1, -1, self.chunk).flatten(1)


class ClockworkCell(RNNCell):
    """An RNN in groups of units that run at clocks of their own (Koutnik et al., 2014, "A Clockwork RNN", ICML).

        n  = tanh(W x + R h + b)
        h' = where(t mod T = 0, n, h)

    T is the period of each unit's group; R leads from a group to those that are as fast or faster, not to slower ones.
    The state is h and t, which counts from 0 and starts again where all clocks do, so that every group runs at the
    first step. As published: weights are Gaussian of deviation 0.1.

    Args:
        input_size: the width D of the inputs.
        num_units: the width N of the state, which is the output.
        periods: of the groups, which are of the same width; powers of two by default, as in the paper.

    >>> cell = ClockworkCell(5, 6, periods=[1, 3])
    >>> output, (h, time) = cell(torch.zeros(2, 5), cell.zero_state(2, torch.float32))
    >>> output is h, time.shape
    (True, torch.Size([2, 1]))
    """

    period: Tensor
    connected: Tensor

    def __init__(self, input_size: int, num_units: int, *, periods: Sequence[int] = (1, 2, 4, 8)) -> None:
        super().__init__()
        self.input_size, self.num_units = check_sizes(input_size, num_units)
        self.periods = tuple(check_units("each of periods", each) for each in periods)
        groups = check_divides("the number of periods", len(self.periods), num_units)
        self.cycle = math.lcm(*self.periods)
        self.state_size, self.output_size = (num_units, 1), num_units
        period = torch.tensor(self.periods, dtype=torch.get_default_dtype()).repeat_interleave(num_units // groups)
        self.register_buffer("period", period, persistent=False)
        self.register_buffer("connected", period >= period.unsqueeze(1), persistent=False)
        self.of_input = nn.Linear(input_size, num_units)
        for weight in self.of_input.parameters():
            nn.init.normal_(weight, std=0.1)
        self.of_state = normal(num_units, num_units, deviation=0.1)

    def forward(self, inputs: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """One step; the output is `h'`."""
        h, time = state
        n = torch.tanh(self.of_input(inputs) + h @ torch.where(self.connected, self.of_state, 0).t())
        turns = time / self.period
        h = torch.where(turns == torch.floor(turns), n, h)
        return h, (h, torch.where(time + 1 == self.cycle, 0, time + 1))


class SkipRNNCell(RNNCell):
    """A GRU that learns which steps to skip (Campos et al., 2018, "Skip RNN: Learning to Skip State Updates in
    Recurrent Neural Networks", ICLR).

        k  = 1 if u > 0.5 else 0
        h' = k * GRU(x, h) + (1 - k) * h
        d  = sigmoid(w h' + b)
        u' = k * d + (1 - k) * (u + min(d, 1 - u))

    The output is h' and k, for a loss on the number of steps taken; the state is h and u. k passes its gradient on to u
    as it is (straight through). As published: u starts with 1 and b with 1, so that at first few steps are skipped.

    Args:
        input_size: the width D of the inputs.
        num_units: the width N of the state.

    >>> cell = SkipRNNCell(5, 3)
    >>> (output, taken), (h, u) = cell(torch.zeros(2, 5), cell.zero_state(2, torch.float32))
    >>> output is h, taken.tolist()
    (True, [[1.0], [1.0]])
    """

    def __init__(self, input_size: int, num_units: int) -> None:
        super().__init__()
        self.input_size, self.num_units = check_sizes(input_size, num_units)
        self.state_size = self.output_size = (num_units, 1)
        self.of_input = of_inputs(input_size, 3 * num_units)
        self.gates_of_state = of_state(num_units, 2)
        self.new_of_state = of_state(num_units)
        self.update = of_inputs(num_units, 1)
        nn.init.ones_(self.update.bias)

    def zero_state(self, batch_size: int | Tensor, dtype: Any, device: Any = None) -> Structure:
        """Zeros, and a gate that takes the first step."""
        zeros: Any = super().zero_state(batch_size, dtype, device)
        return zeros[0], torch.ones_like(zeros[1])

    def forward(
        self, inputs: Tensor, state: tuple[Tensor, Tensor]
    ) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """One step; the output is `h'` and whether the step was taken."""
        h, u = state
        x_gates, x_new = self.of_input(inputs).split([2 * self.num_units, self.num_units], 1)
        r, z = torch.sigmoid(x_gates + self.gates_of_state(h)).chunk(2, 1)
        new = z * h + (1 - z) * torch.tanh(x_new + self.new_of_state(r * h))
        taken = (u > 0.5).to(u.dtype) + (u - u.detach())  # adds nothing but the gradient
        h = taken * new + (1 - taken) * h
        d = torch.sigmoid(self.update(h))
        u = taken * d + (1 - taken) * (u + torch.minimum(d, 1 - u))
        return (h, taken), (h, u)


class RIMCell(RNNCell):
    """Mechanisms that compete for the input and tell each other what they know (Goyal et al., 2021, "Recurrent
    Independent Mechanisms", ICLR).

        s_k = (h_k Q_k) (E x) / sqrt(key_width)
        n_k = GRU_k(sigmoid(s_k) * V x, h_k)    for the `active` mechanisms with the largest s, and h_k for others
        h_k' = n_k + sum over j of softmax_j((n_k A_k) (n_j B_j) / sqrt(key_width)) (n_j C_j)    and h_k for others

    A mechanism attends to x and to an input of zeros, whose score is 0: the softmax of the two is sigmoid(s_k), and the
    largest s are the mechanisms that attend least to nothing. Both attentions have one head. Settled here: Glorot's
    uniform for matrices, biases of zero.

    Args:
        input_size: the width D of the inputs.
        num_units: the width N of the state of all mechanisms together, which is the output.
        mechanisms: how many there are; divides N.
        active: how many of them take part in a step.
        key_width: the width of the keys of both attentions.

    >>> cell = RIMCell(5, 12, mechanisms=4, active=2)
    >>> output, state = cell(torch.ones(1, 5), cell.zero_state(1, torch.float32))
    >>> (output.view(4, 3) != 0).any(1)
    tensor([ True,  True, False, False])
    """

    earlier: Tensor

    def __init__(
        self, input_size: int, num_units: int, *, mechanisms: int = 4, active: int = 2, key_width: int = 16
    ) -> None:
        super().__init__()
        self.input_size, self.num_units = check_sizes(input_size, num_units)
        self.mechanisms = check_divides("mechanisms", mechanisms, num_units)
        self.active, self.key_width = check_units("active", active), check_units("key_width", key_width)
        if active > mechanisms:
            raise ValueError(f"active is {active}, but there are only {mechanisms} mechanisms")
        self.state_size = self.output_size = num_units
        width = num_units // mechanisms
        self.input_key = of_inputs(input_size, key_width, bias=False)
        self.input_value = of_inputs(input_size, width, bias=False)
        self.input_query = self._matrices(width, key_width)
        self.of_input, self.of_state = self._matrices(width, 3 * width), self._matrices(width, 3 * width)
        self.bias = nn.Parameter(torch.zeros(mechanisms, 3 * width))
        self.query, self.key = self._matrices(width, key_width), self._matrices(width, key_width)
        self.value = self._matrices(width, width)
        self.register_buffer("earlier", torch.ones(mechanisms, mechanisms).tril(-1).bool(), persistent=False)

    def _matrices(self, inputs: int, outputs: int) -> nn.Parameter:
        """A matrix for each mechanism."""
        limit = math.sqrt(6 / (inputs + outputs))
        return nn.Parameter(torch.empty(self.mechanisms, inputs, outputs).uniform_(-limit, limit))

    def forward(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One step; the output is the new state."""
        h = state.reshape(-1, self.mechanisms, self.num_units // self.mechanisms)
        score = (_each(h, self.input_query) * self.input_key(inputs).unsqueeze(1)).sum(2) / math.sqrt(self.key_width)
        wins = self._largest(score).unsqueeze(2)
        read = torch.sigmoid(score).unsqueeze(2) * self.input_value(inputs).unsqueeze(1)
        n = torch.where(wins, self._gru(read, h), h)
        match = torch.einsum("bkc,bjc->bkj", _each(n, self.query), _each(n, self.key)) / math.sqrt(self.key_width)
        heard = torch.einsum("bkj,bjc->bkc", torch.softmax(match, 2), _each(n, self.value))
        h = torch.where(wins, n + heard, h).flatten(1)
        return h, h

    def _largest(self, score: Tensor) -> Tensor:
        """Whether each is among the largest; of equal ones, as in a state of zeros, the first are."""
        mine, others = score.unsqueeze(2), score.unsqueeze(1)
        ahead = (others > mine) | ((others == mine) & self.earlier)
        return ahead.to(score.dtype).sum(2) < self.active

    def _gru(self, x: Tensor, h: Tensor) -> Tensor:
        (x_r, x_z, x_n), (h_r, h_z, h_n) = (
            sums.chunk(3, 2) for sums in (_each(x, self.of_input) + self.bias, _each(h, self.of_state))
        )
        z = torch.sigmoid(x_z + h_z)
        return z * h + (1 - z) * torch.tanh(x_n + torch.sigmoid(x_r + h_r) * h_n)


def _each(rows: Tensor, matrices: Tensor) -> Tensor:
    """`[batch, mechanism, width]` times the matrix of each mechanism."""
    return torch.einsum("bki,kio->bko", rows, matrices)
