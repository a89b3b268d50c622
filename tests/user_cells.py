"""Cells as users write them: the table that tests of the engine run through, next to the built-in ones of the zoo."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

import unspool
from unspool.sizes import shape_of
from unspool.structure import map_structure


@dataclass(frozen=True)
class UserCell:
    """A cell, and what it can be run on."""

    make: Callable[[], Any]
    """Makes the cell, built, in float64."""
    inputs: Callable[[int, int], Any]
    """Random batch-major inputs of (batch, steps), in float64, or ids."""
    state: Callable[[int], Any]
    """A random initial state of (batch) rows, in the structure of the cell's `state_size`."""
    dtype: torch.dtype = torch.float64
    """The dtype of the outputs."""


# -- LSTMs -------------------------------------------------------------------------------------------------------------


class LSTMTwoLinears(unspool.RNNCell):
    """The LSTM with one matrix for the inputs and one for the state, gates in torch's order."""

    def __init__(self, input_size: int, units: int) -> None:
        super().__init__()
        self.state_size, self.output_size = (units, units), units
        self.of_x = nn.Linear(input_size, 4 * units)
        self.of_h = nn.Linear(units, 4 * units)

    def forward(self, x: Tensor, state: Any) -> Any:
        h, c = state
        i, f, g, o = (self.of_x(x) + self.of_h(h)).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        return h, (h, c)


class LayerNormLSTM(unspool.RNNCell):
    """The LSTM with layer normalisation of both pre-activations and of the memory."""

    def __init__(self, input_size: int, units: int) -> None:
        super().__init__()
        self.state_size, self.output_size = (units, units), units
        self.of_x = nn.Linear(input_size, 4 * units, bias=False)
        self.of_h = nn.Linear(units, 4 * units)
        self.norm_x, self.norm_h, self.norm_c = nn.LayerNorm(4 * units), nn.LayerNorm(4 * units), nn.LayerNorm(units)

    def forward(self, x: Tensor, state: Any) -> Any:
        h, c = state
        gates = self.norm_x(self.of_x(x)) + self.norm_h(self.of_h(h))
        i, f, g, o = gates.chunk(4, dim=-1)
        c = torch.sigmoid(f + 1) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(self.norm_c(c))
        return h, (h, c)


class PeepholeProjection(unspool.RNNCell):
    """The LSTM with peepholes and a projection, written naively: a matrix a gate, inputs and state side by side."""

    def __init__(self, input_size: int, units: int, projected: int) -> None:
        super().__init__()
        self.state_size, self.output_size = {"c": units, "h": projected}, projected
        self.i = nn.Linear(input_size + projected, units)
        self.f = nn.Linear(input_size + projected, units)
        self.g = nn.Linear(input_size + projected, units)
        self.o = nn.Linear(input_size + projected, units)
        self.peep_i, self.peep_f, self.peep_o = (nn.Parameter(0.5 * torch.randn(units)) for _ in range(3))
        self.project = nn.Linear(units, projected, bias=False)

    def forward(self, x: Tensor, state: Any) -> Any:
        c = state["c"]
        both = torch.cat([x, state["h"]], 1)
        i = torch.sigmoid(self.i(both) + self.peep_i * c)
        f = torch.sigmoid(self.f(both) + self.peep_f * c)
        c = f * c + i * torch.tanh(self.g(both))
        o = torch.sigmoid(self.o(both) + self.peep_o * c)
        h = self.project(o * torch.tanh(c))
        return h, {"c": c, "h": h}


class OutputHead(unspool.RNNCell):
    """An LSTM whose output is the log-probabilities of a small network on top of it."""

    def __init__(self, input_size: int, units: int, classes: int) -> None:
        super().__init__()
        self.lstm = LSTMTwoLinears(input_size, units)
        self.state_size, self.output_size = self.lstm.state_size, classes
        self.head = nn.Sequential(nn.Linear(units, units), nn.ReLU(), nn.Linear(units, classes))

    def forward(self, x: Tensor, state: Any) -> Any:
        h, state = self.lstm(x, state)
        return F.log_softmax(self.head(h), dim=-1), state


class ConvLSTM(unspool.RNNCell):
    """The LSTM of images: its one matrix is a convolution."""

    def __init__(self, channels_in: int, channels: int) -> None:
        super().__init__()
        image = torch.Size([channels, 4, 4])
        self.state_size, self.output_size = (image, image), image
        self.gates = nn.Conv2d(channels_in + channels, 4 * channels, 3, padding=1)

    def forward(self, x: Tensor, state: Any) -> Any:
        h, c = state
        i, f, g, o = self.gates(torch.cat([x, h], 1)).chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        return h, (h, c)


class TorchLSTMCell(unspool.RNNCell):
    """torch's own cell inside, with a residual connection around it."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.state_size, self.output_size = (units, units), units
        self.cell = nn.LSTMCell(units, units)

    def forward(self, x: Tensor, state: Any) -> Any:
        h, c = self.cell(x, state)
        return x + h, (h, c)


# -- GRUs --------------------------------------------------------------------------------------------------------------


class MinimalGRU(unspool.RNNCell):
    """A GRU without a reset gate, its parts slices of one product; built at first use."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.state_size = self.output_size = units

    def build(self, input_size: int) -> None:
        self.both = nn.Linear(input_size + self.state_size, 2 * self.state_size)

    def forward(self, x: Tensor, h: Tensor) -> Any:
        n = self.state_size
        z = self.both(torch.cat([x, h], -1))
        update, candidate = torch.sigmoid(z[:, :n]), torch.tanh(z[:, n:])
        h = (1 - update) * h + update * candidate
        return h, h


class NNGRUCopy(unspool.RNNCell):
    """The equations of `nn.GRU`, which resets after the recurrent product."""

    def __init__(self, input_size: int, units: int) -> None:
        super().__init__()
        self.state_size = self.output_size = units
        self.ih = nn.Linear(input_size, 3 * units)
        self.hh = nn.Linear(units, 3 * units)

    def forward(self, x: Tensor, h: Tensor) -> Any:
        xr, xz, xn = self.ih(x).chunk(3, 1)
        hr, hz, hn = self.hh(h).chunk(3, 1)
        r, z = torch.sigmoid(xr + hr), torch.sigmoid(xz + hz)
        n = torch.tanh(xn + r * hn)
        h = (1 - z) * n + z * h
        return h, h


class EmbeddingIds(unspool.RNNCell):
    """Token ids `[B, 1]`, embedded, into a GRU that resets before its product."""

    def __init__(self, vocabulary: int, depth: int, units: int) -> None:
        super().__init__()
        self.state_size = self.output_size = units
        self.embed = nn.Embedding(vocabulary, depth)
        self.gates = nn.Linear(depth + units, 2 * units)
        self.candidate = nn.Linear(depth + units, units)

    def forward(self, ids: Tensor, h: Tensor) -> Any:
        x = self.embed(ids.squeeze(-1))
        r, z = torch.sigmoid(self.gates(torch.cat([x, h], 1))).chunk(2, 1)
        candidate = torch.tanh(self.candidate(torch.cat([x, r * h], 1)))
        h = z * h + (1 - z) * candidate
        return h, h


# -- weights in odd places ---------------------------------------------------------------------------------------------


class WeightNormed(unspool.RNNCell):
    """A plain recurrent layer whose recurrent matrix is normalised whenever it is read."""

    def __init__(self, input_size: int, units: int) -> None:
        super().__init__()
        self.state_size = self.output_size = units
        self.of_x = nn.Linear(input_size, units)
        self.of_h = weight_norm(nn.Linear(units, units, bias=False))

    def forward(self, x: Tensor, h: Tensor) -> Any:
        h = torch.tanh(self.of_x(x) + self.of_h(h))
        return h, h


class Tied(unspool.RNNCell):
    """One layer used twice in a step, and a second layer that shares its matrix."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.state_size = self.output_size = units
        self.shared = nn.Linear(units, units)
        self.readout = nn.Linear(units, units, bias=False)
        self.readout.weight = self.shared.weight

    def forward(self, x: Tensor, h: Tensor) -> Any:
        h = torch.tanh(self.shared(x) - 0.5 * self.shared(torch.relu(h)))
        return self.readout(h), h


class MultiHead(unspool.RNNCell):
    """Heads that each have a recurrent matrix of their own, in a state `[heads, k]`."""

    def __init__(self, input_size: int, heads: int, k: int) -> None:
        super().__init__()
        self.state_size = torch.Size([heads, k])
        self.output_size = heads * k
        self.of_x = nn.Linear(input_size, heads * k)
        self.of_h = nn.Parameter(torch.randn(heads, k, k) / k)

    def forward(self, x: Tensor, h: Tensor) -> Any:
        mixed = torch.einsum("bhk,hkj->bhj", h, self.of_h)
        h = torch.tanh(self.of_x(x).view(x.shape[0], *self.state_size) + mixed)
        return h.flatten(1), h


# -- states and inputs of many kinds -----------------------------------------------------------------------------------


class DictStateDtypes(unspool.RNNCell):
    """Carries two floating dtypes, a count of each row's steps and which units were ever positive."""

    def __init__(self, input_size: int, units: int, slow: int) -> None:
        super().__init__()
        self.state_size = {"h": units, "steps": torch.Size([]), "seen": units, "slow": slow}
        self.output_size = units + slow
        self.mix = nn.Linear(input_size + units + slow, units)
        self.smooth = nn.Linear(units, slow)

    def forward(self, x: Tensor, state: Any) -> Any:
        rate = 1 / (state["steps"] + 1).to(x.dtype).unsqueeze(1)
        h = torch.tanh(self.mix(torch.cat([x, state["h"], state["slow"].to(x.dtype)], 1)))
        h = torch.where(state["seen"], h, (1 + rate) * h)
        slow = 0.75 * state["slow"] + 0.25 * self.smooth(h).to(state["slow"].dtype)
        output = torch.cat([h, slow.to(x.dtype)], 1)
        return output, {"h": h, "steps": state["steps"] + 1, "seen": state["seen"] | (h > 0), "slow": slow}


class ScalarState(unspool.RNNCell):
    """A leaky integrator of one number a row, with a learned decay."""

    def __init__(self, input_size: int) -> None:
        super().__init__()
        self.state_size = self.output_size = torch.Size([])
        self.drive = nn.Linear(input_size, 1)
        self.decay = nn.Parameter(torch.tensor(0.3))

    def forward(self, x: Tensor, level: Tensor) -> Any:
        keep = torch.sigmoid(self.decay)
        level = keep * level + (1 - keep) * self.drive(x).squeeze(1)
        return level, level


class AttentionMemory(unspool.RNNCell):
    """Looks at every step into a memory `[M, k]` that comes with the inputs."""

    def __init__(self, input_size: int, k: int, units: int) -> None:
        super().__init__()
        self.state_size, self.output_size = units, units + k
        self.query = nn.Linear(units, k)
        self.mix = nn.Linear(input_size + k + units, units)

    def forward(self, inputs: Any, h: Tensor) -> Any:
        memory = inputs["memory"]
        scores = torch.einsum("bmk,bk->bm", memory, self.query(h))
        weights = torch.softmax(scores, 1)
        context = torch.bmm(weights.unsqueeze(1), memory).squeeze(1)
        h = torch.tanh(self.mix(torch.cat([inputs["x"], context, h], 1)))
        return torch.cat([h, context], 1), h


class NTM(unspool.RNNCell):
    """A memory of `slots` vectors in the state, addressed by content, erased, written and read at every step."""

    def __init__(self, input_size: int, units: int, slots: int, width: int) -> None:
        super().__init__()
        self.state_size = {"h": units, "memory": torch.Size([slots, width]), "read": width}
        self.output_size = width
        self.controller = nn.Linear(input_size + width + units, units)
        self.interface = nn.Linear(units, 3 * width + 1)
        self.width = width

    def forward(self, x: Tensor, state: Any) -> Any:
        h = torch.tanh(self.controller(torch.cat([x, state["read"], state["h"]], 1)))
        key, erase, add, sharpness = self.interface(h).split([self.width, self.width, self.width, 1], dim=1)
        similarity = F.cosine_similarity(state["memory"], key.unsqueeze(1), dim=-1)
        where = torch.softmax(F.softplus(sharpness) * similarity, -1)
        erased = state["memory"] * (1 - where.unsqueeze(-1) * torch.sigmoid(erase).unsqueeze(1))
        memory = erased + where.unsqueeze(-1) * torch.tanh(add).unsqueeze(1)
        read = (where.unsqueeze(1) @ memory).squeeze(1)
        return read, {"h": h, "memory": memory, "read": read}


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


# -- the table ---------------------------------------------------------------------------------------------------------


def _built(cell: Any, input_size: Any) -> Any:
    cell.build(input_size)
    return cell.double()


def _vectors(*shape: int) -> Callable[[int, int], Tensor]:
    return lambda batch, steps: torch.randn(batch, steps, *shape, dtype=torch.float64)


def _states(sizes: Any) -> Callable[[int], Any]:
    return lambda batch: map_structure(lambda size: torch.randn(batch, *shape_of(size), dtype=torch.float64), sizes)


def _with_memory(batch: int, steps: int) -> Any:
    memory = torch.randn(batch, 1, 5, 2, dtype=torch.float64).expand(-1, steps, -1, -1)
    return {"x": torch.randn(batch, steps, 3, dtype=torch.float64), "memory": memory}


def _of_several_dtypes(batch: int) -> Any:
    return {
        "h": torch.randn(batch, 4, dtype=torch.float64),
        "steps": torch.randint(3, (batch,)),
        "seen": torch.rand(batch, 4) < 0.3,
        "slow": torch.randn(batch, 2),
    }


IMAGE = torch.Size([2, 4, 4])

USER_CELLS: dict[str, UserCell] = {
    "layer_norm_lstm": UserCell(lambda: _built(LayerNormLSTM(3, 4), 3), _vectors(3), _states((4, 4))),
    "peephole_projection": UserCell(
        lambda: _built(PeepholeProjection(3, 4, 2), 3), _vectors(3), _states({"c": 4, "h": 2})
    ),
    "dict_state_dtypes": UserCell(lambda: _built(DictStateDtypes(3, 4, 2), 3), _vectors(3), _of_several_dtypes),
    "embedding_ids": UserCell(
        lambda: _built(EmbeddingIds(5, 3, 4), 1), lambda batch, steps: torch.randint(5, (batch, steps, 1)), _states(4)
    ),
    "output_head": UserCell(lambda: _built(OutputHead(3, 4, 5), 3), _vectors(3), _states((4, 4))),
    "weight_normed": UserCell(lambda: _built(WeightNormed(3, 4), 3), _vectors(3), _states(4)),
    "conv_lstm": UserCell(
        lambda: _built(ConvLSTM(3, 2), torch.Size([3, 4, 4])), _vectors(3, 4, 4), _states((IMAGE, IMAGE))
    ),
    "attention_memory": UserCell(
        lambda: _built(AttentionMemory(3, 2, 4), {"x": 3, "memory": torch.Size([5, 2])}), _with_memory, _states(4)
    ),
    "ntm": UserCell(
        lambda: _built(NTM(3, 5, 4, 2), 3), _vectors(3), _states({"h": 5, "memory": torch.Size([4, 2]), "read": 2})
    ),
    "dropout_zoneout": UserCell(lambda: _built(DropoutZoneout(3, 4), 3), _vectors(3), _states((4, 4))),
    "locked_dropout": UserCell(lambda: _built(LockedDropout(3, 4), 3), _vectors(3), _states(4)),
    "softmax_mixture": UserCell(lambda: _built(SoftmaxMixture(3, 4, 3), 3), _vectors(3), _states(4)),
    "scalar_state": UserCell(lambda: _built(ScalarState(3), 3), _vectors(3), _states(torch.Size([]))),
    "minimal_gru": UserCell(lambda: _built(MinimalGRU(4), 3), _vectors(3), _states(4)),
    "nn_gru_copy": UserCell(lambda: _built(NNGRUCopy(3, 4), 3), _vectors(3), _states(4)),
    "inplace": UserCell(lambda: _built(Inplace(3, 5), 3), _vectors(3), _states(5)),
    "detach_and_no_grad": UserCell(lambda: _built(DetachAndNoGrad(3, 4), 3), _vectors(3), _states(4)),
    "custom_function": UserCell(lambda: _built(CustomFunction(3, 4), 3), _vectors(3), _states((4, 4))),
    "stacked": UserCell(
        lambda: _built(unspool.MultiRNNCell([LayerNormLSTM(3, 4), NNGRUCopy(4, 2)]), 3),
        _vectors(3),
        _states(((4, 4), 2)),
    ),
    "lstm_two_linears": UserCell(lambda: _built(LSTMTwoLinears(3, 4), 3), _vectors(3), _states((4, 4))),
    "tied": UserCell(lambda: _built(Tied(4), 4), _vectors(4), _states(4)),
    "multi_head": UserCell(lambda: _built(MultiHead(3, 2, 3), 3), _vectors(3), _states(torch.Size([2, 3]))),
    "nas_like": UserCell(lambda: _built(NASLike(3, 4), 3), _vectors(3), _states((4, 4))),
    "torch_lstm_cell": UserCell(lambda: _built(TorchLSTMCell(4), 4), _vectors(4), _states((4, 4))),
    "top_k": UserCell(lambda: _built(TopK(3, 5), 3), _vectors(3), _states(5)),
    "branching": UserCell(lambda: _built(Branching(3, 4), 3), _vectors(3), _states(4)),
    "clockwork": UserCell(lambda: _built(Clockwork(3, 2), 3), _vectors(3), _states((2, 2))),
}

RANDOM = ["dropout_zoneout", "locked_dropout"]
"""The cells that draw numbers as they run."""
