"""An LSTM over time and frequency, for spectrograms."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from unspool.cells.layer import check_units
from unspool.cells.lstm import one_tensor
from unspool.flags import checks_flags
from unspool.gallery.contrib.layer import ContribCell, joined, shards


class TimeFreqLSTMCell(ContribCell):
    """An LSTM that runs over windows of a step's frequencies as over time (Sainath & Li, 2016, "Modeling Time-Frequency
    Patterns with LSTM vs. Convolutional Architectures for LVCSR Tasks", INTERSPEECH).

        i, j, f, o = split([x_k, h_k, h'_(k-1)] @ W + B, 4)                   for window k, with h'_(-1) = 0
        c'_k = sigmoid(f + forget_bias + W_F_diag * c_k) * c_k + sigmoid(i + W_I_diag * c_k) * tanh(j)
        h'_k = sigmoid(o + W_O_diag * c'_k) * tanh(c'_k)

    The state is `[c_0, h_0, c_1, h_1, ...]` as one tensor, the output `[h_0, h_1, ...]`. How many windows there are is
    known with the depth of the inputs: before, the sizes are those of one, which is what TensorFlow says of them.

    Args:
        num_units: the width N of a window's memory and output.
        use_peepholes: whether gates see the memory.
        cell_clip: bound of the memory's absolute value.
        initializer: fills the kernel and the diagonals; Glorot's uniform by default.
        num_unit_shards: in how many pieces W is kept.
        forget_bias: added to the forget gate.
        feature_size: how wide a window is.
        frequency_skip: how far it is to the next.
        reuse, name, dtype, trainable: see `unspool.LSTMCell`.
        input_size: the depth of the inputs, to build the weights at once.

    >>> cell = TimeFreqLSTMCell(3, feature_size=2, frequency_skip=2, input_size=6)
    >>> output, state = cell(torch.zeros(2, 6), cell.zero_state(2, torch.float32))
    >>> output.shape, state.shape
    (torch.Size([2, 9]), torch.Size([2, 18]))
    """

    B: Tensor
    W_F_diag: Tensor
    W_I_diag: Tensor
    W_O_diag: Tensor
    first_kernel = "W_0"
    zeros = ("B",)

    @checks_flags
    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        cell_clip: float | None = None,
        initializer: Any = None,
        num_unit_shards: int = 1,
        forget_bias: float = 1.0,
        feature_size: int | None = None,
        frequency_skip: int = 1,
        reuse: bool | None = None,
        *,
        name: str | None = None,
        dtype: Any = None,
        trainable: bool = True,
        input_size: int | None = None,
    ) -> None:
        super().__init__(num_units, initializer, reuse, name, dtype, trainable)
        self.use_peepholes, self.cell_clip, self.forget_bias = use_peepholes, cell_clip, forget_bias
        self.num_unit_shards = self.pieces = check_units("num_unit_shards", num_unit_shards)
        self.feature_size = check_units("feature_size", feature_size)
        self.frequency_skip = check_units("frequency_skip", frequency_skip)
        self.windows = 1
        self.declare(input_size)

    @property
    def state_size(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Memory and output of all windows."""
        return 2 * self.num_units * self.windows

    @property
    def output_size(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The outputs of all windows."""
        return self.num_units * self.windows

    @property
    def input_size(self) -> int | None:
        """The depth of the inputs; None until the weights are made."""
        return self.built_for

    def build(self, input_size: Any, **where: Any) -> None:
        """Makes the weights, and counts the windows."""
        self.windows = (int(input_size) - self.feature_size) // self.frequency_skip + 1
        if self.windows < 1:
            raise ValueError(f"{self.name}: feature_size is {self.feature_size}, but inputs have depth {input_size}")
        super().build(input_size, **where)

    def shapes(self, depth: int) -> dict[str, tuple[int, ...]]:
        """The shapes of the weights."""
        units = self.num_units
        shapes: dict[str, tuple[int, ...]] = {
            **shards("W", self.feature_size + 2 * units, 4 * units, self.num_unit_shards),
            "B": (4 * units,),
        }
        if self.use_peepholes:
            shapes.update(W_F_diag=(units,), W_I_diag=(units,), W_O_diag=(units,))
        return shapes

    def forward(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One step; the output is that of all windows."""
        kernel = joined(self, "W", self.num_unit_shards)
        parts = one_tensor(state, self.name).chunk(2 * self.windows, 1)
        below = torch.zeros_like(parts[0])
        made: list[Tensor] = []
        for k in range(self.windows):
            window = inputs[:, k * self.frequency_skip : k * self.frequency_skip + self.feature_size]
            c, h = parts[2 * k], parts[2 * k + 1]
            i, j, f, o = torch.addmm(self.B, torch.cat([window, h, below], 1), kernel).chunk(4, 1)
            f = f + self.forget_bias
            if self.use_peepholes:
                f, i = f + self.W_F_diag * c, i + self.W_I_diag * c
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(j)
            if self.cell_clip is not None:
                c = c.clamp(-self.cell_clip, self.cell_clip)
            below = torch.sigmoid(o + self.W_O_diag * c if self.use_peepholes else o) * torch.tanh(c)
            made += [c, below]
        return torch.cat(made[1::2], 1), torch.cat(made, 1)
