"""Torch's layers inside a step."""

from __future__ import annotations

import warnings
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import unspool
from tests.idioms.table import DEPTH, UNITS, Step, add, idiom


def _after(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    return torch.tanh(cell.mixed(x, h) + cell.layer(h))


def _gate(x: Tensor, h: Tensor) -> Tensor:
    kept, new = torch.chunk(torch.cat([x + h, x - h], 1), 2, 1)
    return torch.sigmoid(kept) * torch.tanh(new) + h


def _by_a_scripted_function() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        gate: Any = torch.jit.script(_gate)
    return Step(lambda cell, x, h: gate(cell.mixed(x, h), h))


def _scripted(module: nn.Module) -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # which people who have some know
        return torch.jit.script(module)


def _by_a_cell(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    new, _ = cell.layer(cell.mixed(x, h))
    return new + 0.1 * h


def _one_step(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    outputs, _ = cell.layer(x[:, None], h[None])
    return outputs[:, 0]


def _one_step_of_an_lstm(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    outputs, (_, c) = cell.layer(x[None], (h[None], torch.zeros_like(h)[None]))
    return outputs[0] + 0.1 * c[0]


class ByLSTMCell(unspool.RNNCell):
    def __init__(self) -> None:
        super().__init__()
        self.state_size, self.output_size = (UNITS, UNITS), UNITS
        self.cell = nn.LSTMCell(DEPTH, UNITS)

    def forward(self, x: Tensor, state: Any) -> Any:
        h, c = self.cell(x, state)
        return h, (h, c)


class Image(unspool.RNNCell):
    """A state of images."""

    def __init__(self, layer: nn.Module, channels: int = 2, size: int = 4) -> None:
        super().__init__()
        self.state_size = self.output_size = torch.Size([channels, size, size])
        self.layer = layer

    def forward(self, x: Tensor, h: Tensor) -> Any:
        h = torch.tanh(self.layer(torch.cat([x, h], 1)))
        return h, h


class Surrogate(torch.autograd.Function):
    """A spike, with the gradient of something smooth."""

    @staticmethod
    def forward(ctx: Any, v: Tensor) -> Tensor:
        ctx.save_for_backward(v)
        return (v > 0).to(v.dtype)

    @staticmethod
    def backward(ctx: Any, d: Tensor) -> Any:
        return d / (1 + ctx.saved_tensors[0].abs()) ** 2


class SpikingImage(Image):
    """A convolution beside a function of one's own."""

    def forward(self, x: Tensor, h: Tensor) -> Any:
        h = torch.tanh(self.layer(torch.cat([x, h], 1)))
        return Surrogate.apply(h), h


def images(batch: int, steps: int) -> Tensor:
    return torch.randn(batch, steps, 2, 4, 4)


def _inner_loop(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    outputs, _ = unspool.dynamic_rnn(cell.inner, x[:, :, None].expand(-1, -1, UNITS), initial_state=h)
    return torch.tanh(cell.mixed(x, outputs[:, -1]))


BOTH = (torch.float32, torch.float64)

idiom("nn.GRU for one step", _one_step, layer=lambda: nn.GRU(DEPTH, UNITS, batch_first=True))
idiom("nn.RNN for one step", _one_step, layer=lambda: nn.RNN(DEPTH, UNITS, batch_first=True))
idiom("nn.LSTM for one step", _one_step_of_an_lstm, layer=lambda: nn.LSTM(DEPTH, UNITS))
add("nn.LSTMCell", ByLSTMCell)
idiom("nn.GRUCell", lambda cell, x, h: cell.layer(x, h), layer=lambda: nn.GRUCell(DEPTH, UNITS))
idiom("nn.RNNCell", lambda cell, x, h: cell.layer(x, h), layer=lambda: nn.RNNCell(DEPTH, UNITS))
add("a scripted function", _by_a_scripted_function)
idiom("a scripted layer", _after, layer=lambda: _scripted(nn.Sequential(nn.Linear(UNITS, UNITS), nn.Tanh())))
idiom("a scripted nn.LSTMCell", _by_a_cell, layer=lambda: _scripted(nn.LSTMCell(UNITS, UNITS)))
idiom(
    "a scripted Transformer layer",
    lambda cell, x, h: cell.layer(cell.mixed(x, h)[:, None])[:, 0],
    layer=lambda: _scripted(nn.TransformerEncoderLayer(UNITS, 2, 8, dropout=0.0, batch_first=True)),
)
idiom("PReLU", _after, layer=lambda: nn.PReLU(UNITS))
idiom("PReLU with one weight", _after, layer=nn.PReLU)
idiom("Hardswish", lambda cell, x, h: torch.tanh(F.hardswish(3 * cell.mixed(x, h))))
idiom("LogSigmoid", lambda cell, x, h: F.logsigmoid(cell.mixed(x, h)))
idiom("GroupNorm", _after, layer=lambda: nn.GroupNorm(2, UNITS))
idiom("BatchNorm in eval", _after, layer=lambda: nn.BatchNorm1d(UNITS).eval())
idiom(
    "InstanceNorm",
    lambda cell, x, h: torch.tanh(cell.mixed(x, h) + cell.layer(h[:, None])[:, 0]),
    layer=lambda: nn.InstanceNorm1d(1),
)
idiom(
    "a bilinear layer", lambda cell, x, h: torch.tanh(cell.layer(x, h)), layer=lambda: nn.Bilinear(DEPTH, UNITS, UNITS)
)
add("a convolution", lambda: Image(nn.Conv2d(4, 2, 3, padding=1)), images, dtypes=BOTH)
add("a convolution in groups", lambda: Image(nn.Conv2d(4, 2, 3, padding=1, groups=2)), images, dtypes=BOTH)
add(
    "a convolution that pads by reflection",
    lambda: Image(nn.Conv2d(4, 2, 3, padding=1, padding_mode="reflect")),
    images,
    dtypes=BOTH,
)
add(
    "a convolution that pads in circles",
    lambda: Image(nn.Conv2d(4, 2, 3, padding=1, padding_mode="circular")),
    images,
    dtypes=BOTH,
)
add("a convolution and a surrogate gradient", lambda: SpikingImage(nn.Conv2d(4, 2, 3, padding=1)), images, dtypes=BOTH)
add("a transposed convolution", lambda: Image(nn.ConvTranspose2d(4, 2, 3, padding=1)), images, dtypes=BOTH)
add(
    "pixel shuffle",
    lambda: Image(nn.Sequential(nn.Conv2d(4, 8, 3, stride=2, padding=1), nn.PixelShuffle(2))),
    images,
    dtypes=BOTH,
)
add(
    "upsampling",
    lambda: Image(nn.Sequential(nn.AvgPool2d(2), nn.Upsample(scale_factor=2, mode="nearest"), nn.Conv2d(4, 2, 1))),
    images,
)
add(
    "bilinear upsampling",
    lambda: Image(nn.Sequential(nn.AvgPool2d(2), nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(4, 2, 1))),
    images,
)
add(
    "instance norm of images",
    lambda: Image(nn.Sequential(nn.Conv2d(4, 2, 1), nn.InstanceNorm2d(2, affine=True))),
    images,
)
idiom(
    "a convolution over a vector",
    lambda cell, x, h: torch.tanh(cell.layer(cell.mixed(x, h)[:, None])[:, 0]),
    layer=lambda: nn.Conv1d(1, 1, 3, padding=1),
)
idiom("a loop inside a step", _inner_loop, layer=nn.Identity, inner=lambda: unspool.GRUCell(UNITS, input_size=UNITS))
