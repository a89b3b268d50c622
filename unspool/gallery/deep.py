"""Cells with a network inside: a step of many layers, and weights that another cell scales."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unspool.cells.cell import RNNCell
from unspool.cells.layer import check_units
from unspool.gallery.arguments import check_between, check_sizes
from unspool.gallery.weights import of_inputs, of_state


class RHNCell(RNNCell):
    """Highway layers, one after the other, in every step (Zilly et al., 2017, "Recurrent Highway Networks", ICML).

        for layer l = 1 .. depth:
            n, t = split(W x + R_l s + b_l, 2)    without W x if l > 1
            s    = sigmoid(t) * tanh(n) + (1 - sigmoid(t)) * s

    The state is the last s, which is the output. Carry and transform gate are coupled, as in the paper's experiments.
    As published: weights are uniform within 0.04, the biases of the gates negative, so that states are carried.

    Args:
        input_size: the width D of the inputs.
        num_units: the width N of the state, which is the output.
        depth: the number of layers.
        transform_bias: of the gates at first.

    >>> cell = RHNCell(5, 3, depth=4)
    >>> output, state = cell(torch.zeros(2, 5), cell.zero_state(2, torch.float32))
    >>> output is state, len(cell.of_state)
    (True, 4)
    """

    def __init__(self, input_size: int, num_units: int, *, depth: int = 5, transform_bias: float = -2.0) -> None:
        super().__init__()
        self.input_size, self.num_units = check_sizes(input_size, num_units)
        self.depth = check_units("depth", depth)
        self.transform_bias = check_between("transform_bias", transform_bias, -20, 20)
        self.state_size = self.output_size = num_units
        self.of_input = nn.Linear(input_size, 2 * num_units, bias=False)
        layers = [nn.Linear(num_units, 2 * num_units) for _ in range(depth)]
        for layer in (self.of_input, *layers):
            nn.init.uniform_(layer.weight, -0.04, 0.04)
        for layer in layers:
            nn.init.zeros_(layer.bias[:num_units])
            nn.init.constant_(layer.bias[num_units:], transform_bias)
        self.of_state = nn.ModuleList(layers)

    def forward(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One step; the output is the new state."""
        for number, layer in enumerate(self.of_state):
            sums = layer(state) if number else self.of_input(inputs) + layer(state)
            n, t = sums.chunk(2, 1)
            t = torch.sigmoid(t)
            state = t * torch.tanh(n) + (1 - t) * state
        return state, state


class HyperLSTMState(NamedTuple):
    """The state of a `HyperLSTMCell`: memory and output, then those of the small LSTM that scales its weights."""

    c: Any
    h: Any
    hyper_c: Any
    hyper_h: Any


class HyperLSTMCell(RNNCell):
    """An LSTM whose weights another LSTM scales at every step (Ha, Dai & Le, 2017, "HyperNetworks", ICLR).

        I, G, F, O = split(LN(V [h, x] + S e + b), 4)
        d' = sigmoid(F) * d + sigmoid(I) * tanh(G)
        e' = sigmoid(O) * tanh(LN(d'))
        for each gate y of i, g, f, o:
            z_h, z_x, z_b = A_h e' + a_h, A_x e' + a_x, A_b e'
            y = LN((P_h z_h) * (R h) + (P_x z_x) * (W x) + P_b z_b + b_y)
        c' = sigmoid(f) * c + sigmoid(i) * tanh(g)
        h' = sigmoid(o) * tanh(LN(c'))

    As published: at first A_h, A_x and P_b are zero, a_h and a_x one, P_h and P_x such that every scale is 0.1, A_b is
    Gaussian of deviation 0.01; W is Glorot's here and R has orthogonal blocks.

    Args:
        input_size: the width D of the inputs.
        num_units: the width N of memory and output.
        hyper_units: the width of the small LSTM; an eighth of N by default, about as in the paper.
        embedding: the width of each z.

    >>> cell = HyperLSTMCell(5, 16, hyper_units=4)
    >>> output, state = cell(torch.zeros(2, 5), cell.zero_state(2, torch.float32))
    >>> output is state.h, state.hyper_h.shape
    (True, torch.Size([2, 4]))
    """

    def __init__(self, input_size: int, num_units: int, *, hyper_units: int | None = None, embedding: int = 4) -> None:
        super().__init__()
        self.input_size, self.num_units = check_sizes(input_size, num_units)
        self.hyper_units = hyper = check_units(
            "hyper_units", max(num_units // 8, 1) if hyper_units is None else hyper_units
        )
        self.embedding = check_units("embedding", embedding)
        self.state_size, self.output_size = HyperLSTMState(num_units, num_units, hyper, hyper), num_units
        self.hyper_of_input = of_inputs(num_units + input_size, 4 * hyper, bias=False)
        self.hyper_of_state = of_state(hyper, 4)
        self.hyper_norm, self.hyper_norm_memory = nn.LayerNorm(4 * hyper), nn.LayerNorm(hyper)
        self.of_input = of_inputs(input_size, 4 * num_units, bias=False)
        self.of_state = of_state(num_units, 4)
        self.embed_h, self.embed_x = nn.Linear(hyper, 4 * embedding), nn.Linear(hyper, 4 * embedding)
        for layer in (self.embed_h, self.embed_x):
            nn.init.zeros_(layer.weight)
            nn.init.ones_(layer.bias)
        self.embed_b = nn.Linear(hyper, 4 * embedding, bias=False)
        nn.init.normal_(self.embed_b.weight, std=0.01)
        shape = (4, embedding, num_units)
        self.scale_h, self.scale_x = (nn.Parameter(torch.full(shape, 0.1 / embedding)) for _ in range(2))
        self.shift = nn.Parameter(torch.zeros(shape))
        self.bias = nn.Parameter(torch.zeros(4, num_units))
        self.norm_gain, self.norm_bias = nn.Parameter(torch.ones(4, num_units)), nn.Parameter(torch.zeros(4, num_units))
        self.norm_memory = nn.LayerNorm(num_units)

    def forward(self, inputs: Tensor, state: HyperLSTMState) -> tuple[Tensor, HyperLSTMState]:
        """One step; the output is `h'`."""
        c, h, d, e = state
        sums = self.hyper_of_input(torch.cat([h, inputs], 1)) + self.hyper_of_state(e)
        i, g, f, o = self.hyper_norm(sums).chunk(4, 1)
        d = torch.sigmoid(f) * d + torch.sigmoid(i) * torch.tanh(g)
        e = torch.sigmoid(o) * torch.tanh(self.hyper_norm_memory(d))
        scaled = self._by_gate(self.embed_h(e), self.scale_h) * self.of_state(h).unflatten(1, (4, -1))
        scaled = scaled + self._by_gate(self.embed_x(e), self.scale_x) * self.of_input(inputs).unflatten(1, (4, -1))
        sums = scaled + self._by_gate(self.embed_b(e), self.shift) + self.bias
        i, g, f, o = (F.layer_norm(sums, (self.num_units,)) * self.norm_gain + self.norm_bias).unbind(1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(self.norm_memory(c))
        return h, HyperLSTMState(c, h, d, e)

    @staticmethod
    def _by_gate(embedded: Tensor, projection: Tensor) -> Tensor:
        """Each gate's embedding `[batch, gate, embedding]` to the width of the units, by its own matrix."""
        return torch.einsum("bgz,gzn->bgn", embedded.unflatten(1, (4, -1)), projection)
