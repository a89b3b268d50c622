"""Cells with weights in odd places, and with states and inputs of many kinds."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

import unspool

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
