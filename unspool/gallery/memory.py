"""Cells with a memory that they look things up in: their own, or one that comes with the inputs."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unspool.cells.cell import RNNCell
from unspool.cells.layer import check_units
from unspool.cells.lstm import LSTMCell, LSTMStateTuple
from unspool.gallery.arguments import check_above, check_between, check_sizes
from unspool.gallery.weights import glorot
from unspool.structure import Structure


class _Machine(RNNCell):
    """An LSTM that controls heads on a memory. The output is a linear function of its own and of what they read."""

    def __init__(
        self,
        input_size: int,
        num_units: int,
        *,
        slots: int = 16,
        width: int = 8,
        read_heads: int = 1,
        output_size: int | None = None,
    ) -> None:
        super().__init__()
        self.input_size, self.num_units = check_sizes(input_size, num_units)
        self.slots, self.width = check_units("slots", slots), check_units("width", width)
        self.read_heads = check_units("read_heads", read_heads)
        self.output_size = check_units("output_size", num_units if output_size is None else output_size)
        self.controller = LSTMCell(num_units, input_size=input_size + read_heads * width)
        heads = self._make_heads()
        self.readout = nn.Linear(num_units + read_heads * width, self.output_size)
        glorot(*heads, self.readout)

    def _make_heads(self) -> list[nn.Linear]:
        """Sets `state_size`, and returns the maps of the controller's output to what heads do."""
        raise NotImplementedError


class NTMState(NamedTuple):
    """The state of a neural Turing machine: its controller's, what was read, where each head is, and the memory."""

    controller: Any
    reads: Any
    weights: Any
    memory: Any


class NTMCell(_Machine):
    """A neural Turing machine: an LSTM with heads on a memory (Graves et al., 2014, "Neural Turing Machines").

        h       = LSTM([x, reads]);     key, strength, gate, shift, sharpness = h @ Wi + bi, for each head
        content = softmax(softplus(strength) * cosine(key, memory))
        w       = sigmoid(gate) * content + (1 - sigmoid(gate)) * weights
        w       = circular convolution of w with softmax(shift), one place at most to either side
        weights'= w^s / sum(w^s) with s = 1 + softplus(sharpness)
        memory' = memory * (1 - outer(w_write, sigmoid(erase))) + outer(w_write, add)
        reads'  = w_read @ memory';     output = [h, reads'] @ Wo + bo

    The paper leaves the order and the start open: heads look at the memory as it was, reads are from what was written;
    the memory starts at 1e-6, all heads at the first slot. Weights are Glorot's. There is one head that writes, and it
    is the first.

    Args:
        input_size: the depth of x.
        num_units: the width of the controller.
        slots, width: the shape of the memory.
        read_heads: the number of heads that read.
        output_size: the width of the output; num_units by default.

    >>> cell = NTMCell(5, 3, slots=4, width=6)
    >>> output, state = cell(torch.zeros(2, 5), cell.zero_state(2, torch.float32))
    >>> output.shape, state.memory.shape
    (torch.Size([2, 3]), torch.Size([2, 4, 6]))
    """

    def _make_heads(self) -> list[nn.Linear]:
        heads = self.read_heads + 1
        self.interface = nn.Linear(self.num_units, heads * (self.width + 6) + 2 * self.width)
        places = torch.Size([heads, self.slots]), torch.Size([self.slots, self.width])
        controller = LSTMStateTuple(self.num_units, self.num_units)
        self.state_size = NTMState(controller, self.read_heads * self.width, *places)
        return [self.interface]

    def zero_state(self, batch_size: int | Tensor, dtype: Any, device: Any = None) -> Structure:
        """Zeros, but for a memory of 1e-6 and heads at its first slot."""
        zeros: Any = super().zero_state(batch_size, dtype, device)
        first = F.pad(torch.ones_like(zeros.weights[..., :1]), (0, self.slots - 1))
        return zeros._replace(weights=first, memory=zeros.memory + 1e-6)

    def address(self, heads: Any, weights: Tensor, memory: Tensor) -> Tensor:
        """Where the heads go, `[batch, heads, slots]`."""
        key, strength, gate, shift, sharpness = heads.split([self.width, 1, 1, 3, 1], 2)
        content = torch.softmax(F.softplus(strength) * cosine(key, memory), 2)
        w = content * (gate := torch.sigmoid(gate)) + weights * (1 - gate)
        ahead, same, back = torch.softmax(shift, 2).chunk(3, 2)
        following, before = torch.cat([w[..., 1:], w[..., :1]], 2), torch.cat([w[..., -1:], w[..., :-1]], 2)
        w = ahead * following + same * w + back * before
        w = (w + 1e-12) ** (1 + F.softplus(sharpness))  # away from zero, where powers have no gradient
        return w / w.sum(2, keepdim=True)

    def forward(self, inputs: Tensor, state: NTMState) -> tuple[Tensor, NTMState]:
        """One step; the output is a linear function of the controller's and of what is read."""
        h, controller = self.controller(torch.cat([inputs, state.reads], 1), state.controller)
        count = self.read_heads + 1
        sizes = [count * (self.width + 6), self.width, self.width]
        heads, erase, add = self.interface(h).split(sizes, 1)
        weights = self.address(heads.unflatten(1, (count, self.width + 6)), state.weights, state.memory)
        place = weights[:, 0, :, None]
        memory = state.memory * (1 - place * torch.sigmoid(erase)[:, None, :]) + place * add[:, None, :]
        reads = (weights[:, 1:] @ memory).flatten(1)
        return self.readout(torch.cat([h, reads], 1)), NTMState(controller, reads, weights, memory)


class DNCState(NamedTuple):
    """The state of a differentiable neural computer; slots are numbered by i and j."""

    controller: Any
    reads: Any  # what the heads have read
    memory: Any
    usage: Any  # how much i is in use
    precedence: Any  # how much i was the last to be written
    link: Any  # how much i was written right after j
    written: Any  # where the last step wrote, and
    read: Any  # where its heads read


class DNCCell(_Machine):
    """A differentiable neural computer: an LSTM with a memory whose slots it allocates, and whose order of writing it
    remembers (Graves et al., 2016, "Hybrid computing using a neural network with dynamic external memory", Nature).

        h          = LSTM([x, reads]);    the keys, strengths, gates and vectors below are parts of h @ Wi + bi
        usage'     = (usage + written - usage * written) * product over heads of (1 - free * read)
        allocation = (1 - usage'[i]) * product of usage'[j] over the slots j that are used less, or as much before i
        written'   = write_gate * (allocation_gate * allocation + (1 - allocation_gate) * content(write key, memory))
        memory'    = memory * (1 - outer(written', erase)) + outer(written', vector)
        link'[i,j] = (1 - written'[i] - written'[j]) * link[i,j] + written'[i] * precedence[j],  0 where i = j
        precedence'= (1 - sum(written')) * precedence + written'
        read'      = mode[0] * link'^T read + mode[1] * content(read key, memory') + mode[2] * link' read
        reads'     = read' @ memory';     output = [h, reads'] @ Wo + bo

    `content` is softmax((1 + softplus(strength)) * cosine). Usages are held 1e-6 away from zero in products, whose
    gradients would vanish there. The paper leaves the initialisation open: Glorot's uniform, biases zero.

    Args:
        input_size: the depth of x.
        num_units: the width of the controller.
        slots, width: the shape of the memory.
        read_heads: the number of heads that read.
        output_size: the width of the output; num_units by default.

    >>> cell = DNCCell(5, 3, slots=4, width=6)
    >>> output, state = cell(torch.zeros(2, 5), cell.zero_state(2, torch.float32))
    >>> output.shape, state.link.shape
    (torch.Size([2, 3]), torch.Size([2, 4, 4]))
    """

    earlier: Tensor
    others: Tensor

    def _make_heads(self) -> list[nn.Linear]:
        units, slots = self.num_units, self.slots
        self.of_reading = nn.Linear(units, self.read_heads * (self.width + 5))
        self.of_writing = nn.Linear(units, 3 * self.width + 3)
        ones = torch.ones(slots, slots)
        self.register_buffer("earlier", ones.triu(1) > 0, persistent=False)
        self.register_buffer("others", ones - torch.eye(slots), persistent=False)
        links, heads = torch.Size([slots, slots]), torch.Size([self.read_heads, slots])
        controller, memory = LSTMStateTuple(units, units), torch.Size([slots, self.width])
        reads = self.read_heads * self.width
        self.state_size = DNCState(controller, reads, memory, slots, slots, links, slots, heads)
        return [self.of_reading, self.of_writing]

    def allocation(self, usage: Tensor) -> Tensor:
        """Free slots first: the paper's product in the order of usage, by comparing all pairs instead of sorting."""
        usage = 1e-6 + (1 - 1e-6) * usage
        j, i = usage[:, :, None], usage[:, None, :]
        before = (j < i) | ((j == i) & self.earlier)
        return (1 - usage) * torch.exp(torch.where(before, torch.log(j), 0.0).sum(1))

    def forward(self, inputs: Tensor, state: DNCState) -> tuple[Tensor, DNCState]:
        """One step; the output is a linear function of the controller's and of what is read."""
        h, controller = self.controller(torch.cat([inputs, state.reads], 1), state.controller)
        heads = self.of_reading(h).unflatten(1, (self.read_heads, self.width + 5))
        keys, strengths, free, modes = heads.split([self.width, 1, 1, 3], 2)
        key, erase, vector, scalars = self.of_writing(h)[:, None, :].split([*[self.width] * 3, 3], 2)
        strength, allocate, write = scalars.split(1, 2)

        kept = 1 - torch.sigmoid(free) * state.read
        usage = state.usage + state.written - state.usage * state.written
        for head in kept.unbind(1):
            usage = usage * head
        chosen = torch.sigmoid(allocate).squeeze(2)
        place = chosen * self.allocation(usage) + (1 - chosen) * content(key, strength, state.memory).squeeze(1)
        written = torch.sigmoid(write).squeeze(2) * place
        to, at = written[:, :, None], written[:, None, :]
        memory = state.memory * (1 - to * torch.sigmoid(erase)) + to * vector
        link = ((1 - to - at) * state.link + to * state.precedence[:, None, :]) * self.others
        precedence = (1 - written.sum(1, keepdim=True)) * state.precedence + written

        backward, alike, onward = torch.softmax(modes, 2).chunk(3, 2)
        read = backward * (state.read @ link) + onward * (state.read @ link.transpose(1, 2))
        read = read + alike * content(keys, strengths, memory)
        reads = (read @ memory).flatten(1)
        output = self.readout(torch.cat([h, reads], 1))
        return output, DNCState(controller, reads, memory, usage, precedence, link, written, read)


class FastWeightsState(NamedTuple):
    """The state of a cell with fast weights: `h`, which is the output, and the matrix `fast`."""

    h: Any
    fast: Any


class FastWeightsCell(RNNCell):
    """A recurrent unit with fast weights, which attend to its recent states (Ba et al., 2016, "Using Fast Weights to
    Attend to the Recent Past", NIPS).

        fast' = decay * fast + rate * outer(h, h)
        start = h @ W + x @ C + b
        h'    = relu(start), and then `steps` times  h' = relu(layer_norm(start + fast' h'))

    As published, W starts as 0.05 times the identity and C uniform within 1 / sqrt(num_units); b starts at zero.

    Args:
        input_size: the depth of x.
        num_units: the width of h and the output.
        steps: the steps of the inner loop.
        decay: what is left of the fast weights after a step.
        rate: how fast they learn.

    >>> cell = FastWeightsCell(5, 3)
    >>> output, state = cell(torch.zeros(2, 5), cell.zero_state(2, torch.float32))
    >>> output.shape, state.fast.shape
    (torch.Size([2, 3]), torch.Size([2, 3, 3]))
    """

    def __init__(
        self, input_size: int, num_units: int, *, steps: int = 1, decay: float = 0.95, rate: float = 0.5
    ) -> None:
        super().__init__()
        self.input_size, self.num_units = check_sizes(input_size, num_units)
        self.steps, self.rate = check_units("steps", steps), check_above("rate", rate)
        self.decay = check_between("decay", decay, 0, 1)
        self.of_x, self.of_h = nn.Linear(input_size, num_units), nn.Linear(num_units, num_units, bias=False)
        nn.init.uniform_(self.of_x.weight, -1 / math.sqrt(num_units), 1 / math.sqrt(num_units))
        nn.init.zeros_(self.of_x.bias)
        with torch.no_grad():
            self.of_h.weight.copy_(0.05 * torch.eye(num_units))
        self.norm = nn.LayerNorm(num_units)
        size = torch.Size([num_units, num_units])
        self.state_size, self.output_size = FastWeightsState(num_units, size), num_units

    def forward(self, inputs: Tensor, state: FastWeightsState) -> tuple[Tensor, FastWeightsState]:
        """One step; the output is the new h."""
        h = state.h
        fast = self.decay * state.fast + self.rate * h[:, :, None] * h[:, None, :]
        start = self.of_x(inputs) + self.of_h(h)
        h = torch.relu(start)
        for _ in range(self.steps):
            h = torch.relu(self.norm(start + (fast @ h[:, :, None]).squeeze(2)))
        return h, FastWeightsState(h, fast)


class BahdanauDecoderCell(RNNCell):
    """A step of a decoder that looks at a sentence while it writes another (Bahdanau et al., 2015, "Neural Machine
    Translation by Jointly Learning to Align and Translate", ICLR).

        energy  = tanh(s @ Wa + memory @ Ua) @ va
        context = softmax(energy) @ memory
        z, r    = split(sigmoid([x, context] @ W + b + s @ U), 2)
        s'      = (1 - z) * s + z * tanh([x, context] @ Wc + bc + (r * s) @ Uc)
        output  = maxout([s, x, context] @ Wo + bo)

    Inputs are `(x, memory)`: the last word's embedding, and all annotations as `[batch, places, memory_size]` in every
    step (`memory[:, None].expand(-1, steps, -1, -1)` takes no space). A maxout unit takes the larger of two numbers,
    here of the halves of what is linear. As published, U and Uc are orthogonal, Wa and Ua are N(0, 0.001^2), va and
    biases zero, the others N(0, 0.01^2).

    Args:
        input_size: the depth of x.
        num_units: the width of the state and the output.
        memory_size: the depth of the annotations.
        attention_size: the width of the layer that aligns; num_units by default.

    >>> cell = BahdanauDecoderCell(5, 3, memory_size=4)
    >>> output, state = cell((torch.zeros(2, 5), torch.zeros(2, 7, 4)), cell.zero_state(2, torch.float32))
    >>> output.shape
    torch.Size([2, 3])
    """

    def __init__(self, input_size: int, num_units: int, *, memory_size: int, attention_size: int | None = None) -> None:
        super().__init__()
        self.input_size, self.num_units = check_sizes(input_size, num_units)
        self.memory_size = check_units("memory_size", memory_size)
        self.attention_size = check_units("attention_size", num_units if attention_size is None else attention_size)
        self.of_memory = nn.Linear(memory_size, self.attention_size, bias=False)
        self.of_query = nn.Linear(num_units, self.attention_size, bias=False)
        self.energy = nn.Linear(self.attention_size, 1, bias=False)
        self.of_x = nn.Linear(input_size + memory_size, 3 * num_units)
        self.of_s, self.of_reset = (nn.Linear(num_units, n * num_units, bias=False) for n in (2, 1))
        self.readout = nn.Linear(num_units + input_size + memory_size, 2 * num_units)
        for layer, deviation in [
            (self.of_memory, 1e-3),
            (self.of_query, 1e-3),
            (self.of_x, 0.01),
            (self.readout, 0.01),
        ]:
            nn.init.normal_(layer.weight, 0, deviation)
        for square in (*self.of_s.weight.detach().chunk(2), self.of_reset.weight):
            nn.init.orthogonal_(square)
        for vector in (self.energy.weight, self.of_x.bias, self.readout.bias):
            nn.init.zeros_(vector)
        self.state_size = self.output_size = num_units

    def forward(self, inputs: tuple[Tensor, Tensor], state: Tensor) -> tuple[Tensor, Tensor]:
        """One step; the output is a maxout layer, for a softmax over words to read."""
        (x, memory), s = inputs, state
        energy = self.energy(torch.tanh(self.of_query(s)[:, None, :] + self.of_memory(memory)))
        context = (torch.softmax(energy, 1) * memory).sum(1)
        seen = torch.cat([x, context], 1)
        gates, candidate = self.of_x(seen).split([2 * self.num_units, self.num_units], 1)
        z, r = torch.sigmoid(gates + self.of_s(s)).chunk(2, 1)
        output = torch.maximum(*self.readout(torch.cat([s, seen], 1)).chunk(2, 1))
        return output, (1 - z) * s + z * torch.tanh(candidate + self.of_reset(r * s))


def content(keys: Tensor, strengths: Tensor, memory: Tensor) -> Tensor:
    """Where the memory is like the keys: `[batch, heads, slots]`."""
    return torch.softmax((1 + F.softplus(strengths)) * cosine(keys, memory), 2)


def cosine(keys: Tensor, memory: Tensor) -> Tensor:
    """How alike keys `[batch, heads, width]` and slots `[batch, slots, width]` are: `[batch, heads, slots]`."""
    return _normalized(keys) @ _normalized(memory).transpose(1, 2)


def _normalized(vectors: Tensor) -> Tensor:
    return vectors * torch.rsqrt(vectors.square().sum(2, keepdim=True) + 1e-8)  # the same for a slot that is zero
