"""ConvLSTMs of lines, images and volumes, with channels last and no peepholes, as TensorFlow has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unspool.cells.building import Initializer
from unspool.cells.cell import RNNCell
from unspool.cells.layer import check_initializer, check_units
from unspool.cells.lstm import LSTMStateTuple, two_states
from unspool.flags import checks_flags

_CONVOLUTIONS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


class ConvLSTMCell(RNNCell):
    """An LSTM of images of one to three dimensions (Shi et al., 2015, "Convolutional LSTM Network: A Machine Learning
    Approach for Precipitation Nowcasting", NIPS); `conv` keeps the size of an image.

        i, j, f, o = split(conv([x, h], kernel) + biases, 4)
        c' = sigmoid(f + forget_bias) * c + sigmoid(i) * tanh(j)
        h' = tanh(c') * sigmoid(o)

    Args:
        conv_ndims: of an image, 1, 2 or 3.
        input_shape: of an input without its batch: the sizes of an image, then its channels.
        output_channels: the channels of state and output.
        kernel_shape: the sizes of the kernel.
        use_bias: whether there are biases.
        skip_connection: whether the output has the input's channels too, after its own; the state has not.
        forget_bias: added to the forget gate.
        initializers: fills the kernel; Glorot's uniform by default.
        name: the cell's name among TensorFlow's variables.
        dtype, trainable: see `unspool.LSTMCell`.

    >>> cell = ConvLSTMCell(2, [4, 5, 1], 2, [3, 3])
    >>> output, state = cell(torch.zeros(3, 4, 5, 1), cell.zero_state(3, torch.float32))
    >>> output.shape, cell.kernel.shape
    (torch.Size([3, 4, 5, 2]), torch.Size([3, 3, 3, 8]))
    """

    kernel: Tensor
    biases: Tensor

    @checks_flags
    def __init__(
        self,
        conv_ndims: int,
        input_shape: Sequence[int],
        output_channels: int,
        kernel_shape: Sequence[int],
        use_bias: bool = True,
        skip_connection: bool = False,
        forget_bias: float = 1.0,
        initializers: Any = None,
        name: str | None = "conv_lstm_cell",
        *,
        dtype: Any = None,
        trainable: bool = True,
    ) -> None:
        super().__init__(trainable, name, dtype)
        self.conv_ndims = check_units("conv_ndims", conv_ndims)
        if self.conv_ndims > 3:
            raise ValueError(f"conv_ndims must be 1, 2 or 3, but is {conv_ndims}")
        if len(input_shape) != conv_ndims + 1:
            raise ValueError(f"Invalid input_shape {input_shape} for conv_ndims={conv_ndims}.")
        if len(kernel_shape) != conv_ndims:
            raise ValueError(f"Invalid kernel_shape {kernel_shape} for conv_ndims={conv_ndims}.")
        self.input_shape = [check_units("each of input_shape", each) for each in input_shape]
        self.kernel_shape = [check_units("each of kernel_shape", each) for each in kernel_shape]
        self.output_channels = check_units("output_channels", output_channels)
        self.use_bias, self.skip_connection, self.forget_bias = use_bias, skip_connection, forget_bias
        self.initializers: Initializer | None = check_initializer("initializers", initializers)
        *sizes, channels = self.input_shape
        size = torch.Size([*sizes, self.output_channels])
        self.state_size = LSTMStateTuple(size, size)
        self.output_size = torch.Size([*sizes, self.output_channels + channels]) if skip_connection else size
        self.declare_weights("kernel", *(["biases"] if use_bias else []))

    def build(self, input_size: Any, **where: Any) -> None:
        """Makes the weights."""
        if torch.Size(self.input_shape) != input_size:
            raise ValueError(f"{self.name}: inputs have rows {list(input_size)}, but input_shape is {self.input_shape}")
        channels, gates = self.input_shape[-1] + self.output_channels, 4 * self.output_channels
        fill = self.initializers or _glorot_kernel
        self.add_weight("kernel", (*self.kernel_shape, channels, gates), fill, **where)
        if self.use_bias:
            self.add_weight("biases", (gates,), nn.init.zeros_, **where)

    def forward(self, inputs: Tensor, state: LSTMStateTuple) -> tuple[Tensor, LSTMStateTuple]:
        """One step; the output is `h'`."""
        c, h = two_states(state, self.name)
        channels = self.input_shape[-1]
        of_input, of_state = self.kernel[..., :channels, :], self.kernel[..., channels:, :]
        sums = self._convolution(inputs, of_input) + self._convolution(h, of_state)
        i, j, f, o = (sums + self.biases if self.use_bias else sums).chunk(4, -1)
        c = torch.sigmoid(f + self.forget_bias) * c + torch.sigmoid(i) * torch.tanh(j)
        h = torch.tanh(c) * torch.sigmoid(o)
        return torch.cat([h, inputs], -1) if self.skip_connection else h, LSTMStateTuple(c, h)

    def _convolution(self, images: Tensor, kernel: Tensor) -> Tensor:
        """Channels last, and images of the same size: what an even kernel lacks is added after an image."""
        axes = range(self.conv_ndims)
        moved = images.movedim(-1, 1)
        if all(each % 2 for each in self.kernel_shape):
            padding = [each // 2 for each in self.kernel_shape]
        else:
            around = [side for each in reversed(self.kernel_shape) for side in ((each - 1) // 2, each // 2)]
            moved, padding = F.pad(moved, around), [0] * self.conv_ndims
        # A copy: where an axis has one place, torch takes a permuted kernel for contiguous, and fails in its gradient.
        kernel = kernel.permute(self.conv_ndims + 1, self.conv_ndims, *axes).clone(
            memory_format=torch.contiguous_format
        )
        return _CONVOLUTIONS[self.conv_ndims](moved, kernel, padding=padding).movedim(1, -1)


class Conv1DLSTMCell(ConvLSTMCell):
    """An LSTM of lines (Shi et al., 2015, "Convolutional LSTM Network: A Machine Learning Approach for Precipitation
    Nowcasting", NIPS).

        i, j, f, o = split(conv([x, h], kernel) + biases, 4)
        c' = sigmoid(f + forget_bias) * c + sigmoid(i) * tanh(j)
        h' = tanh(c') * sigmoid(o)

    Args:
        name: the cell's name among TensorFlow's variables.
        options: the other arguments of `ConvLSTMCell`, by name.

    >>> Conv1DLSTMCell(input_shape=[4, 1], output_channels=2, kernel_shape=[3]).output_size
    torch.Size([4, 2])
    """

    def __init__(self, name: str = "conv_1d_lstm_cell", **options: Any) -> None:
        super().__init__(1, name=name, **options)

    def get_config(self) -> dict[str, Any]:
        """The arguments that make another cell like this one."""
        return _config(self)


class Conv2DLSTMCell(ConvLSTMCell):
    """An LSTM of images, channels last (Shi et al., 2015, "Convolutional LSTM Network: A Machine Learning Approach for
    Precipitation Nowcasting", NIPS).

        i, j, f, o = split(conv([x, h], kernel) + biases, 4)
        c' = sigmoid(f + forget_bias) * c + sigmoid(i) * tanh(j)
        h' = tanh(c') * sigmoid(o)

    Args:
        name: the cell's name among TensorFlow's variables.
        options: the other arguments of `ConvLSTMCell`, by name.

    >>> Conv2DLSTMCell(input_shape=[4, 5, 1], output_channels=2, kernel_shape=[3, 3]).output_size
    torch.Size([4, 5, 2])
    """

    def __init__(self, name: str = "conv_2d_lstm_cell", **options: Any) -> None:
        super().__init__(2, name=name, **options)

    def get_config(self) -> dict[str, Any]:
        """The arguments that make another cell like this one."""
        return _config(self)


class Conv3DLSTMCell(ConvLSTMCell):
    """An LSTM of volumes (Shi et al., 2015, "Convolutional LSTM Network: A Machine Learning Approach for Precipitation
    Nowcasting", NIPS).

        i, j, f, o = split(conv([x, h], kernel) + biases, 4)
        c' = sigmoid(f + forget_bias) * c + sigmoid(i) * tanh(j)
        h' = tanh(c') * sigmoid(o)

    Args:
        name: the cell's name among TensorFlow's variables.
        options: the other arguments of `ConvLSTMCell`, by name.

    >>> Conv3DLSTMCell(input_shape=[4, 5, 6, 1], output_channels=2, kernel_shape=[3, 3, 3]).output_size
    torch.Size([4, 5, 6, 2])
    """

    def __init__(self, name: str = "conv_3d_lstm_cell", **options: Any) -> None:
        super().__init__(3, name=name, **options)

    def get_config(self) -> dict[str, Any]:
        """The arguments that make another cell like this one."""
        return _config(self)


_OPTIONS = "input_shape output_channels kernel_shape use_bias skip_connection forget_bias initializers dtype trainable"


def _config(cell: ConvLSTMCell) -> dict[str, Any]:
    return {each: getattr(cell, each) for each in ["name", *_OPTIONS.split()]}


def _glorot_kernel(weight: Tensor) -> None:
    """Glorot's uniform for a kernel `[sizes, inputs, outputs]`: a fan counts every place of an image."""
    places, (inputs, outputs) = weight[..., 0, 0].numel(), weight.shape[-2:]
    limit = (6.0 / (places * (inputs + outputs))) ** 0.5
    nn.init.uniform_(weight, -limit, limit)
