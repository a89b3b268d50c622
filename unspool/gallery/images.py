"""Cells whose states are images: convolutions where other cells have matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from unspool.cells.cell import RNNCell
from unspool.cells.layer import check_units
from unspool.cells.lstm import LSTMStateTuple


class ConvLSTMCell(RNNCell):
    """An LSTM of images, with peepholes (Shi et al., 2015, "Convolutional LSTM Network: A Machine Learning Approach for
    Precipitation Nowcasting", NIPS); `conv` keeps the size of an image.

        i, f, g, o = split(conv(x, W) + conv(h, U) + b, 4)
        c' = sigmoid(f + pf * c) * c + sigmoid(i + pi * c) * tanh(g)
        h' = sigmoid(o + po * c') * tanh(c')

    The peepholes p have a number for each pixel and start at zero. The paper leaves the initialisation open: kernels
    are Glorot's uniform, biases zero.

    Args:
        input_channels: the channels of x, which is `[batch, input_channels, height, width]`.
        channels: the channels of the state and the output.
        image_size: the height and width of all of them.
        kernel_size: the height and width of the kernels, an odd number.
        peepholes: whether gates see the memory.

    >>> cell = ConvLSTMCell(1, 2, (4, 5))
    >>> output, state = cell(torch.zeros(3, 1, 4, 5), cell.zero_state(3, torch.float32))
    >>> output.shape
    torch.Size([3, 2, 4, 5])
    """

    def __init__(
        self,
        input_channels: int,
        channels: int,
        image_size: Sequence[int],
        *,
        kernel_size: int = 3,
        peepholes: bool = True,
    ) -> None:
        super().__init__()
        self.input_channels, self.channels = _channels(input_channels, channels)
        self.image_size, self.kernel_size = _image_size(image_size), _kernel_size(kernel_size)
        self.peepholes = bool(peepholes)
        self.of_x = _convolution(input_channels, 4 * channels, kernel_size)
        self.of_h = _convolution(channels, 4 * channels, kernel_size, bias=False)
        size = torch.Size([channels, *self.image_size])
        if self.peepholes:
            self.of_c = nn.Parameter(torch.zeros(3, *size))
        self.state_size, self.output_size = LSTMStateTuple(size, size), size

    def forward(self, inputs: Tensor, state: LSTMStateTuple) -> tuple[Tensor, LSTMStateTuple]:
        """One step; the output is the new h."""
        c, h = state
        i, f, g, o = (self.of_x(inputs) + self.of_h(h)).chunk(4, 1)
        if self.peepholes:
            i, f = i + self.of_c[0] * c, f + self.of_c[1] * c
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        if self.peepholes:
            o = o + self.of_c[2] * c
        h = torch.sigmoid(o) * torch.tanh(c)
        return h, LSTMStateTuple(c, h)


class ConvGRUCell(RNNCell):
    """A gated recurrent unit of images (Ballas et al., 2016, "Delving Deeper into Convolutional Networks for Learning
    Video Representations", ICLR); `conv` keeps the size of an image.

        z, r, g = split(conv(x, W) + b, 3);  z, r += split(conv(h, U), 2)
        c       = tanh(g + conv(sigmoid(r) * h, Uc))
        h'      = (1 - sigmoid(z)) * h + sigmoid(z) * c

    The paper leaves the initialisation open: kernels are Glorot's uniform, biases zero.

    Args:
        input_channels: the channels of x, which is `[batch, input_channels, height, width]`.
        channels: the channels of the state and the output.
        image_size: the height and width of all of them.
        kernel_size: the height and width of the kernels, an odd number.

    >>> cell = ConvGRUCell(1, 2, (4, 5))
    >>> output, state = cell(torch.zeros(3, 1, 4, 5), cell.zero_state(3, torch.float32))
    >>> output.shape
    torch.Size([3, 2, 4, 5])
    """

    def __init__(self, input_channels: int, channels: int, image_size: Sequence[int], *, kernel_size: int = 3) -> None:
        super().__init__()
        self.input_channels, self.channels = _channels(input_channels, channels)
        self.image_size, self.kernel_size = _image_size(image_size), _kernel_size(kernel_size)
        self.of_x = _convolution(input_channels, 3 * channels, kernel_size)
        self.of_h = _convolution(channels, 2 * channels, kernel_size, bias=False)
        self.of_reset = _convolution(channels, channels, kernel_size, bias=False)
        self.state_size = self.output_size = torch.Size([channels, *self.image_size])

    def forward(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One step; the output is the new state."""
        h = state
        gates, candidate = self.of_x(inputs).split([2 * self.channels, self.channels], 1)
        z, r = torch.sigmoid(gates + self.of_h(h)).chunk(2, 1)
        h = (1 - z) * h + z * torch.tanh(candidate + self.of_reset(r * h))
        return h, h


class SpatioTemporalState(NamedTuple):
    """The state of an ST-LSTM: the memory `c` of time, the output `h`, and the memory `m` of space."""

    c: Any
    h: Any
    m: Any


class SpatioTemporalLSTMCell(RNNCell):
    """An ST-LSTM, with a second memory that passes through layers as well as through time (Wang et al., 2017, "PredRNN:
    Recurrent Neural Networks for Predictive Learning using Spatiotemporal LSTMs", NIPS); `conv` keeps the size of an
    image.

        i, f, g, i2, f2, g2, o = split(conv(x, W) + b, 7)
        i, f, g, o  += split(conv(h, U), 4);    i2, f2, g2 += split(conv(m, V), 3)
        c' = sigmoid(f) * c + sigmoid(i) * tanh(g)
        m' = sigmoid(f2) * m + sigmoid(i2) * tanh(g2)
        h' = sigmoid(o + conv([c', m'], Wo)) * tanh(conv1x1([c', m'], W1))

    Here m goes from a step to the next of the same cell; in a PredRNN the layer below passes it on. The paper leaves
    the initialisation open: kernels are Glorot's uniform, biases zero.

    Args:
        input_channels: the channels of x, which is `[batch, input_channels, height, width]`.
        channels: the channels of the memories and the output.
        image_size: the height and width of all of them.
        kernel_size: the height and width of the kernels, an odd number.

    >>> cell = SpatioTemporalLSTMCell(1, 2, (4, 5))
    >>> output, state = cell(torch.zeros(3, 1, 4, 5), cell.zero_state(3, torch.float32))
    >>> output.shape, state.m.shape
    (torch.Size([3, 2, 4, 5]), torch.Size([3, 2, 4, 5]))
    """

    def __init__(self, input_channels: int, channels: int, image_size: Sequence[int], *, kernel_size: int = 3) -> None:
        super().__init__()
        self.input_channels, self.channels = _channels(input_channels, channels)
        self.image_size, self.kernel_size = _image_size(image_size), _kernel_size(kernel_size)
        self.of_x = _convolution(input_channels, 7 * channels, kernel_size)
        self.of_h = _convolution(channels, 4 * channels, kernel_size, bias=False)
        self.of_m = _convolution(channels, 3 * channels, kernel_size, bias=False)
        self.of_memories = _convolution(2 * channels, channels, kernel_size, bias=False)
        self.mix = _convolution(2 * channels, channels, 1, bias=False)
        size = torch.Size([channels, *self.image_size])
        self.state_size, self.output_size = SpatioTemporalState(size, size, size), size

    def forward(self, inputs: Tensor, state: SpatioTemporalState) -> tuple[Tensor, SpatioTemporalState]:
        """One step; the output is the new h."""
        c, h, m = state
        xi, xf, xg, si, sf, sg, xo = self.of_x(inputs).chunk(7, 1)
        hi, hf, hg, ho = self.of_h(h).chunk(4, 1)
        mi, mf, mg = self.of_m(m).chunk(3, 1)
        c = torch.sigmoid(xf + hf) * c + torch.sigmoid(xi + hi) * torch.tanh(xg + hg)
        m = torch.sigmoid(sf + mf) * m + torch.sigmoid(si + mi) * torch.tanh(sg + mg)
        memories = torch.cat([c, m], 1)
        h = torch.sigmoid(xo + ho + self.of_memories(memories)) * torch.tanh(self.mix(memories))
        return h, SpatioTemporalState(c, h, m)


def _channels(input_channels: Any, channels: Any) -> tuple[int, int]:
    return check_units("input_channels", input_channels), check_units("channels", channels)


def _image_size(image_size: Any) -> tuple[int, int]:
    if not isinstance(image_size, Sequence) or len(image_size) != 2:  # pyright: ignore[reportUnknownArgumentType]
        raise ValueError(f"image_size must be a height and a width, but is {image_size!r}")
    height, width = image_size  # pyright: ignore[reportUnknownVariableType]
    return check_units("image_size[0]", height), check_units("image_size[1]", width)


def _kernel_size(kernel_size: Any) -> int:
    if check_units("kernel_size", kernel_size) % 2 == 0:
        raise ValueError(f"kernel_size must be odd, so that images keep their size, but is {kernel_size}")
    return kernel_size


def _convolution(inputs: int, outputs: int, kernel_size: int, *, bias: bool = True) -> nn.Conv2d:
    layer = nn.Conv2d(inputs, outputs, kernel_size, padding=kernel_size // 2, bias=bias)
    nn.init.xavier_uniform_(layer.weight)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer
