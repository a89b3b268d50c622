"""LSTMs and GRUs with another wiring: peepholes, normalised sums, zoneout, fewer gates, mogrified inputs, nesting."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from unspool.cells.cell import RNNCell
from unspool.cells.layer import check_units
from unspool.cells.lstm import LSTMStateTuple
from unspool.gallery.arguments import check_between, check_sizes
from unspool.gallery.weights import normal, of_inputs, of_state


class PeepholeLSTMCell(RNNCell):
    """An LSTM whose gates see the memory (Gers, Schraudolph & Schmidhuber, 2002, "Learning Precise Timing with LSTM
    Recurrent Networks", JMLR).

        i, f, o, g = split(W x + R h + b, 4)
        c' = sigmoid(f + p_f * c) * c + sigmoid(i + p_i * c) * tanh(g)
        h' = sigmoid(o + p_o * c') * tanh(c')

    The form with tanh for both activations, and Gaussian weights of deviation 0.1, are those of Greff et al. (2017,
    LSTM: A Search Space Odyssey).

    Args:
        input_size: the width D of the inputs.
        num_units: the width N of memory and output.

    >>> cell = PeepholeLSTMCell(5, 3)
    >>> output, (c, h) = cell(torch.zeros(2, 5), cell.zero_state(2, torch.float32))
    >>> output is h, cell.peephole_i.shape
    (True, torch.Size([3]))
    """

    def __init__(self, input_size: int, num_units: int) -> None:
        super().__init__()
        self.input_size, self.num_units = check_sizes(input_size, num_units)
        self.state_size, self.output_size = LSTMStateTuple(num_units, num_units), num_units
        self.of_input = nn.Linear(input_size, 4 * num_units)
        self.of_state = nn.Linear(num_units, 4 * num_units, bias=False)
        for weight in self.parameters():
            nn.init.normal_(weight, std=0.1)
        self.peephole_i, self.peephole_f, self.peephole_o = (normal(num_units, deviation=0.1) for _ in range(3))

    def forward(self, inputs: Tensor, state: LSTMStateTuple) -> tuple[Tensor, LSTMStateTuple]:
        """One step; the output is `h'`."""
        c, h = state
        i, f, o, g = (self.of_input(inputs) + self.of_state(h)).chunk(4, 1)
        kept = torch.sigmoid(f + self.peephole_f * c) * c
        c = kept + torch.sigmoid(i + self.peephole_i * c) * torch.tanh(g)
        h = torch.sigmoid(o + self.peephole_o * c) * torch.tanh(c)
        return h, LSTMStateTuple(c, h)


class LayerNormLSTMCell(RNNCell):
    """An LSTM with normalised sums (Ba, Kiros & Hinton, 2016, "Layer Normalization").

        i, f, o, g = split(LN(W x) + LN(R h), 4)
        c' = sigmoid(f) * c + sigmoid(i) * tanh(g)
        h' = sigmoid(o) * tanh(LN(c'))

    Each LN has a gain of ones and a bias of zeros at first, as published; the biases of the first two are that of the
    gates. Settled here: Glorot's uniform for W, orthogonal blocks for R.

    Args:
        input_size: the width D of the inputs.
        num_units: the width N of memory and output.
        epsilon: added to the variance.

    >>> cell = LayerNormLSTMCell(5, 3)
    >>> output, (c, h) = cell(torch.zeros(2, 5), cell.zero_state(2, torch.float32))
    >>> output is h
    True
    """

    def __init__(self, input_size: int, num_units: int, *, epsilon: float = 1e-5) -> None:
        super().__init__()
        self.input_size, self.num_units = check_sizes(input_size, num_units)
        self.epsilon = check_between("epsilon", epsilon, 0, 1)
        self.state_size, self.output_size = LSTMStateTuple(num_units, num_units), num_units
        self.of_input = of_inputs(input_size, 4 * num_units, bias=False)
        self.of_state = of_state(num_units, 4)
        self.norm_input = nn.LayerNorm(4 * num_units, eps=epsilon)
        self.norm_state = nn.LayerNorm(4 * num_units, eps=epsilon)
        self.norm_memory = nn.LayerNorm(num_units, eps=epsilon)

    def forward(self, inputs: Tensor, state: LSTMStateTuple) -> tuple[Tensor, LSTMStateTuple]:
        """One step; the output is `h'`."""
        c, h = state
        i, f, o, g = (self.norm_input(self.of_input(inputs)) + self.norm_state(self.of_state(h))).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(self.norm_memory(c))
        return h, LSTMStateTuple(c, h)


class LayerNormGRUCell(RNNCell):
    """A gated recurrent unit with normalised sums (Ba, Kiros & Hinton, 2016, "Layer Normalization").

        z, r = split(sigmoid(LN(W_g x) + LN(R_g h)), 2)
        n    = tanh(LN(W_n x) + r * LN(R_n h))
        h'   = (1 - z) * h + z * n

    Each LN has a gain of ones and a bias of zeros at first, as published. Settled here: Glorot's
    uniform for W, orthogonal blocks for R.

    Args:
        input_size: the width D of the inputs.
        num_units: the width N of the state, which is the output.
        epsilon: added to the variance.

    >>> cell = LayerNormGRUCell(5, 3)
    >>> output, state = cell(torch.zeros(2, 5), cell.zero_state(2, torch.float32))
    >>> output is state
    True
    """

    def __init__(self, input_size: int, num_units: int, *, epsilon: float = 1e-5) -> None:
        super().__init__()
        self.input_size, self.num_units = check_sizes(input_size, num_units)
        self.epsilon = check_between("epsilon", epsilon, 0, 1)
        self.state_size = self.output_size = num_units
        self.gates_of_input = of_inputs(input_size, 2 * num_units, bias=False)
        self.gates_of_state = of_state(num_units, 2)
        self.new_of_input = of_inputs(input_size, num_units, bias=False)
        self.new_of_state = of_state(num_units)
        self.norm_gates_input = nn.LayerNorm(2 * num_units, eps=epsilon)
        self.norm_gates_state = nn.LayerNorm(2 * num_units, eps=epsilon)
        self.norm_new_input = nn.LayerNorm(num_units, eps=epsilon)
        self.norm_new_state = nn.LayerNorm(num_units, eps=epsilon)

    def forward(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One step; the output is the new state."""
        gates = self.norm_gates_input(self.gates_of_input(inputs)) + self.norm_gates_state(self.gates_of_state(state))
        z, r = torch.sigmoid(gates).chunk(2, 1)
        n = torch.tanh(
            self.norm_new_input(self.new_of_input(inputs)) + r * self.norm_new_state(self.new_of_state(state))
        )
        h = (1 - z) * state + z * n
        return h, h


class ZoneoutLSTMCell(RNNCell):
    """An LSTM some units of which keep their values in a step (Krueger et al., 2017, "Zoneout: Regularizing RNNs by
    Randomly Preserving Hidden Activations", ICLR).

        i, f, o, g = split(W x + R h + b, 4)
        n  = sigmoid(f) * c + sigmoid(i) * tanh(g)
        c' = d_c * c + (1 - d_c) * n
        h' = d_h * h + (1 - d_h) * sigmoid(o) * tanh(n)

    In training each d is drawn at every step for every unit, 1 with the probability given; in eval mode it is that
    probability. Settled here: orthogonal blocks for R, Glorot's uniform for W, a bias of zero.

    Args:
        input_size: the width D of the inputs.
        num_units: the width N of memory and output.
        zoneout_c: how likely a unit of the memory stays; the paper's 0.5 for characters by default.
        zoneout_h: the same for the output.

    >>> cell = ZoneoutLSTMCell(5, 3).eval()
    >>> output, (c, h) = cell(torch.zeros(2, 5), cell.zero_state(2, torch.float32))
    >>> output is h
    True
    """

    def __init__(self, input_size: int, num_units: int, *, zoneout_c: float = 0.5, zoneout_h: float = 0.05) -> None:
        super().__init__()
        self.input_size, self.num_units = check_sizes(input_size, num_units)
        self.zoneout_c = check_between("zoneout_c", zoneout_c, 0, 1)
        self.zoneout_h = check_between("zoneout_h", zoneout_h, 0, 1)
        self.state_size, self.output_size = LSTMStateTuple(num_units, num_units), num_units
        self.of_input = of_inputs(input_size, 4 * num_units)
        self.of_state = of_state(num_units, 4)

    def forward(self, inputs: Tensor, state: LSTMStateTuple) -> tuple[Tensor, LSTMStateTuple]:
        """One step; the output is `h'`."""
        c, h = state
        i, f, o, g = (self.of_input(inputs) + self.of_state(h)).chunk(4, 1)
        new_c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        new_h = torch.sigmoid(o) * torch.tanh(new_c)
        c, h = self._zone_out(c, new_c, self.zoneout_c), self._zone_out(h, new_h, self.zoneout_h)
        return h, LSTMStateTuple(c, h)

    def _zone_out(self, old: Tensor, new: Tensor, probability: float) -> Tensor:
        if self.training:
            return torch.where(torch.rand_like(old) < probability, old, new)
        return probability * old + (1 - probability) * new


class MGUCell(RNNCell):
    """A minimal gated unit, with one gate (Zhou et al., 2016, "Minimal Gated Unit for Recurrent Neural Networks",
    International Journal of Automation and Computing).

        f  = sigmoid(W_f x + R_f h + b_f)
        n  = tanh(W_n x + R_n (f * h) + b_n)
        h' = (1 - f) * h + f * n

    Settled here: Glorot's uniform for W, orthogonal R, biases of zero.

    Args:
        input_size: the width D of the inputs.
        num_units: the width N of the state, which is the output.

    >>> cell = MGUCell(5, 3)
    >>> output, state = cell(torch.zeros(2, 5), cell.zero_state(2, torch.float32))
    >>> output is state
    True
    """

    def __init__(self, input_size: int, num_units: int) -> None:
        super().__init__()
        self.input_size, self.num_units = check_sizes(input_size, num_units)
        self.state_size = self.output_size = num_units
        self.of_input = of_inputs(input_size, 2 * num_units)
        self.gate_of_state = of_state(num_units)
        self.new_of_state = of_state(num_units)

    def forward(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One step; the output is the new state."""
        gate, new = self.of_input(inputs).chunk(2, 1)
        f = torch.sigmoid(gate + self.gate_of_state(state))
        n = torch.tanh(new + self.new_of_state(f * state))
        h = (1 - f) * state + f * n
        return h, h


class MogrifierLSTMCell(RNNCell):
    """An LSTM whose input and state gate each other first (Melis, Kocisky & Blunsom, 2020, "Mogrifier LSTM", ICLR).

        for round r = 1 .. rounds:
            x = 2 sigmoid(Q_r h) * x    if r is odd
            h = 2 sigmoid(Q_r x) * h    if r is even
        i, f, o, g = split(W x + R h + b, 4)
        c' = sigmoid(f) * c + sigmoid(i) * tanh(g)
        h' = sigmoid(o) * tanh(c')

    Each Q_r is full, or a product of two matrices of the given rank. Settled here: Glorot's uniform for W and Q_r,
    orthogonal blocks for R, biases of zero.

    Args:
        input_size: the width D of the inputs.
        num_units: the width N of memory and output.
        rounds: how often; 5 by default, the best of the paper.
        rank: of each Q_r; full by default.

    >>> cell = MogrifierLSTMCell(5, 3, rank=2)
    >>> output, (c, h) = cell(torch.zeros(2, 5), cell.zero_state(2, torch.float32))
    >>> output is h, len(cell.gating)
    (True, 5)
    """

    def __init__(self, input_size: int, num_units: int, *, rounds: int = 5, rank: int | None = None) -> None:
        super().__init__()
        self.input_size, self.num_units = check_sizes(input_size, num_units)
        self.rounds = check_units("rounds", rounds)
        self.rank = None if rank is None else check_units("rank", rank)
        self.state_size, self.output_size = LSTMStateTuple(num_units, num_units), num_units
        widths = [(input_size, num_units), (num_units, input_size)]
        self.gating = nn.ModuleList(self._gate(*widths[number % 2]) for number in range(1, rounds + 1))
        self.of_input = of_inputs(input_size, 4 * num_units)
        self.of_state = of_state(num_units, 4)

    def _gate(self, inputs: int, outputs: int) -> nn.Module:
        if self.rank is None:
            return of_inputs(inputs, outputs, bias=False)
        return nn.Sequential(of_inputs(inputs, self.rank, bias=False), of_inputs(self.rank, outputs, bias=False))

    def forward(self, inputs: Tensor, state: LSTMStateTuple) -> tuple[Tensor, LSTMStateTuple]:
        """One step; the output is `h'`."""
        x, (c, h) = inputs, state
        for number, gate in enumerate(self.gating, 1):
            if number % 2:
                x = 2 * torch.sigmoid(gate(h)) * x
            else:
                h = 2 * torch.sigmoid(gate(x)) * h
        i, f, o, g = (self.of_input(x) + self.of_state(h)).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        return h, LSTMStateTuple(c, h)


class NestedLSTMState(NamedTuple):
    """The state of a `NestedLSTMCell`: the inner memory, the outer memory (the inner output), and the output."""

    inner_c: Any
    c: Any
    h: Any


class NestedLSTMCell(RNNCell):
    """An LSTM whose memory is the output of another LSTM (Moniz & Krueger, 2017, "Nested LSTMs", ACML); two levels
    deep.

        i, f, o, g = split(W x + R h + b, 4)
        u, v       = sigmoid(i) * tanh(g), sigmoid(f) * c
        I, F, O, G = split(V u + S v + d, 4)
        e' = sigmoid(F) * e + sigmoid(I) * tanh(G)
        c' = sigmoid(O) * tanh(e')
        h' = sigmoid(o) * tanh(c')

    Settled here: Glorot's uniform for W and V, orthogonal blocks for R and S, biases of zero.

    Args:
        input_size: the width D of the inputs.
        num_units: the width N of both memories and the output.

    >>> cell = NestedLSTMCell(5, 3)
    >>> output, state = cell(torch.zeros(2, 5), cell.zero_state(2, torch.float32))
    >>> output is state.h, state.inner_c.shape
    (True, torch.Size([2, 3]))
    """

    def __init__(self, input_size: int, num_units: int) -> None:
        super().__init__()
        self.input_size, self.num_units = check_sizes(input_size, num_units)
        self.state_size, self.output_size = NestedLSTMState(num_units, num_units, num_units), num_units
        self.of_input = of_inputs(input_size, 4 * num_units)
        self.of_state = of_state(num_units, 4)
        self.inner_of_input = of_inputs(num_units, 4 * num_units)
        self.inner_of_state = of_state(num_units, 4)

    def forward(self, inputs: Tensor, state: NestedLSTMState) -> tuple[Tensor, NestedLSTMState]:
        """One step; the output is `h'`."""
        e, c, h = state
        i, f, o, g = (self.of_input(inputs) + self.of_state(h)).chunk(4, 1)
        u, v = torch.sigmoid(i) * torch.tanh(g), torch.sigmoid(f) * c
        inner_i, inner_f, inner_o, inner_g = (self.inner_of_input(u) + self.inner_of_state(v)).chunk(4, 1)
        e = torch.sigmoid(inner_f) * e + torch.sigmoid(inner_i) * torch.tanh(inner_g)
        c = torch.sigmoid(inner_o) * torch.tanh(e)
        h = torch.sigmoid(o) * torch.tanh(c)
        return h, NestedLSTMState(e, c, h)
