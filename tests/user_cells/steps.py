"""Cells with steps of many kinds: softmax, writes in place, custom gradients, branches, random numbers."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import unspool
from tests.user_cells.gated import LSTMTwoLinears

# -- steps of many kinds -----------------------------------------------------------------------------------------------


class SoftmaxMixture(unspool.RNNCell):
    """Mixes several candidate transitions, by a softmax of adjustable temperature."""

    def __init__(self, input_size: int, units: int, candidates: int) -> None:
        super().__init__()
        self.state_size = self.output_size = units
        self.temperature = 1.0
        self.gate = nn.Linear(input_size + units, candidates)
        self.candidates = nn.ModuleList(nn.Linear(input_size + units, units) for _ in range(candidates))

    def forward(self, x: Tensor, h: Tensor) -> Any:
        both = torch.cat([x, h], 1)
        w = torch.softmax(self.gate(both) / self.temperature, 1)
        cands = torch.stack([torch.tanh(candidate(both)) for candidate in self.candidates], 1)
        h = (w.unsqueeze(-1) * cands).sum(1)
        return h, h


class NASLike(unspool.RNNCell):
    """A searched architecture: a tree of pointwise operations."""

    def __init__(self, input_size: int, units: int) -> None:
        super().__init__()
        self.state_size, self.output_size = (units, units), units
        self.of_x = nn.Linear(input_size, 6 * units)
        self.of_h = nn.Linear(units, 6 * units, bias=False)

    def forward(self, x: Tensor, state: Any) -> Any:
        h, c = state
        a, b = self.of_x(x).chunk(6, 1), self.of_h(h).chunk(6, 1)
        first = torch.relu(a[0] + b[0])
        second = torch.sigmoid(a[1]) * b[1]
        third = torch.tanh(torch.max(a[2], b[2]))
        fourth = torch.sin(a[3]) + b[3]
        fifth = torch.sigmoid(a[4] - b[4].abs())
        sixth = (a[5] * b[5]).clamp(-1, 1)
        c = torch.tanh(first + c) * fifth + third * second
        h = torch.tanh(c * sixth + 0.5 * fourth)
        return h, (h, c)


class Inplace(unspool.RNNCell):
    """Fills what it has made in place, piece by piece, as NumPy users do."""

    def __init__(self, input_size: int, units: int) -> None:
        super().__init__()
        self.state_size = self.output_size = units
        self.mix = nn.Linear(input_size + units, units)
        self.gate = nn.Linear(input_size, units)

    def forward(self, x: Tensor, h: Tensor) -> Any:
        candidate = self.mix(torch.cat([x, h], 1))
        new = torch.zeros_like(h)
        new[:, :2] = torch.tanh(candidate[:, :2])
        new[:, 2:] = torch.sigmoid(candidate[:, 2:])
        new.mul_(torch.sigmoid(self.gate(x))).add_(0.5 * h)
        new[:, 0] -= 0.1
        return new * 2, new


class DetachAndNoGrad(unspool.RNNCell):
    """Sends no gradient through one of its paths, nor through the scale that keeps its state small."""

    def __init__(self, input_size: int, units: int) -> None:
        super().__init__()
        self.state_size = self.output_size = units
        self.of_x = nn.Linear(input_size, units)
        self.of_h = nn.Linear(units, units)
        self.skip = nn.Linear(units, units)

    def forward(self, x: Tensor, h: Tensor) -> Any:
        with torch.no_grad():
            scale = 1 / (1 + h.norm(dim=1, keepdim=True))
        h = torch.tanh(self.of_x(x) + self.of_h(h) * scale + self.skip(h.detach()))
        return h * scale, h


class Spike(torch.autograd.Function):
    """A step function whose gradient is that of a fast sigmoid."""

    @staticmethod
    def forward(ctx: Any, potential: Tensor, slope: float) -> Tensor:
        ctx.save_for_backward(potential)
        ctx.slope = slope
        return (potential > 0).to(potential.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        (potential,) = ctx.saved_tensors
        return gradient / (1 + ctx.slope * potential.abs()) ** 2, None


class CustomFunction(unspool.RNNCell):
    """Spiking neurons, trained through a surrogate of the gradient they do not have."""

    def __init__(self, input_size: int, units: int) -> None:
        super().__init__()
        self.state_size, self.output_size = (units, units), units
        self.of_x = nn.Linear(input_size, units)
        self.of_spikes = nn.Linear(units, units, bias=False)

    def forward(self, x: Tensor, state: Any) -> Any:
        potential, spikes = state
        potential = 0.8 * potential + 4 * self.of_x(x) + self.of_spikes(spikes) - 0.5 * spikes
        spikes = Spike.apply(potential - 0.5, 5.0)
        return spikes, (potential, spikes)


class TopK(unspool.RNNCell):
    """Keeps the two largest units of its state and scatters them into a vector of zeros."""

    def __init__(self, input_size: int, units: int) -> None:
        super().__init__()
        self.state_size = self.output_size = units
        self.of_x = nn.Linear(input_size, units)
        self.of_h = nn.Linear(units, units)

    def forward(self, x: Tensor, h: Tensor) -> Any:
        values, where = torch.topk(self.of_x(x) + self.of_h(h), 2, dim=1)
        h = torch.zeros_like(h).scatter(1, where, torch.tanh(values))
        return h, h


class Branching(unspool.RNNCell):
    """Looks at its numbers and, if any row has grown too large, scales such rows back."""

    def __init__(self, input_size: int, units: int) -> None:
        super().__init__()
        self.state_size = self.output_size = units
        self.mix = nn.Linear(input_size + units, units)

    def forward(self, x: Tensor, h: Tensor) -> Any:
        h = h + self.mix(torch.cat([x, h], 1))
        size = h.norm(dim=1, keepdim=True)
        if (size > 1).any():
            h = torch.where(size > 1, h / size, h)
        return h, h


class Clockwork(unspool.RNNCell):
    """Counts steps in Python, from the start of a sequence; half of its units move only at every second one."""

    def __init__(self, input_size: int, units: int) -> None:
        super().__init__()
        self.state_size, self.output_size = (units, units), 2 * units
        self.fast = nn.Linear(input_size + units, units)
        self.slow = nn.Linear(2 * units, units)
        self.time = 0

    def start_sequence(self) -> None:
        self.time = 0

    def forward(self, x: Tensor, state: Any) -> Any:
        fast, slow = state
        fast = torch.tanh(self.fast(torch.cat([x, fast], 1)))
        if self.time % 2 == 0:
            slow = torch.tanh(self.slow(torch.cat([fast, slow], 1)))
        self.time += 1
        return torch.cat([fast, slow], 1), (fast, slow)


# -- random steps ------------------------------------------------------------------------------------------------------


class DropoutZoneout(unspool.RNNCell):
    """Drops inputs and, by zoneout, updates of units; in `eval()` mode it takes the expectation of both."""

    def __init__(self, input_size: int, units: int, drop: float = 0.3, zoneout: float = 0.25) -> None:
        super().__init__()
        self.state_size, self.output_size = (units, units), units
        self.drop, self.zoneout = drop, zoneout
        self.lstm = LSTMTwoLinears(input_size, units)

    def forward(self, x: Tensor, state: Any) -> Any:
        x = F.dropout(x, self.drop, self.training)
        _, (h, c) = self.lstm(x, state)
        h, c = self._zone(h, state[0]), self._zone(c, state[1])
        return h, (h, c)

    def _zone(self, new: Tensor, old: Tensor) -> Tensor:
        if not self.training:
            return self.zoneout * old + (1 - self.zoneout) * new
        keep_old = (torch.rand_like(new) < self.zoneout).to(new.dtype)
        return keep_old * old + (1 - keep_old) * new


class LockedDropout(unspool.RNNCell):
    """Draws a mask of its state at the first step of a sequence and keeps it to the end."""

    def __init__(self, input_size: int, units: int, drop: float = 0.5) -> None:
        super().__init__()
        self.state_size = self.output_size = units
        self.drop = drop
        self.mask: Tensor | None = None
        self.mix = nn.Linear(input_size + units, units)

    def start_sequence(self) -> None:
        self.mask = None

    def forward(self, x: Tensor, h: Tensor) -> Any:
        if self.mask is None:
            self.mask = torch.bernoulli(torch.full_like(h, 1 - self.drop)) / (1 - self.drop)
        masked = h * self.mask if self.training else h
        h = torch.tanh(self.mix(torch.cat([x, masked], 1)))
        return h, h
