"""LSTMs and GRUs with the weights of TensorFlow's fused kernels, and those that cuDNN's weights fit."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from unspool.cells.building import Initializer
from unspool.cells.gru import GRUCell
from unspool.cells.layer import check_initializer, glorot_uniform
from unspool.cells.lstm import LSTMStateTuple, two_states
from unspool.flags import checks_flags
from unspool.gallery.contrib.layer import ContribCell, lstm_sizes


class LSTMBlockCell(ContribCell):
    """An LSTM as TensorFlow's fused kernel computes it (Zaremba, Sutskever & Vinyals, 2014, "Recurrent Neural Network
    Regularization").

        i, j, f, o = split([x, h] @ kernel + bias, 4)
        c' = clip(sigmoid(f + forget_bias + w_f * c) * c + sigmoid(i + w_i * c) * tanh(j), cell_clip)
        h' = sigmoid(o + w_o * c') * tanh(c')

    The numbers are those of `unspool.LSTMCell`, but for the gradient of a memory that is clipped: it passes, as if it
    were not.

    Args:
        num_units: the width N of memory and output.
        forget_bias: added to the forget gate.
        cell_clip: bound of the memory's absolute value; none if it is None or not positive.
        use_peephole: whether gates see the memory.
        dtype, reuse, name, trainable: see `unspool.LSTMCell`.
        input_size: the depth D of the inputs, to build the weights at once.

    >>> cell = LSTMBlockCell(3, use_peephole=True)
    >>> output, (c, h) = cell(torch.zeros(2, 5), cell.zero_state(2, torch.float32))
    >>> output is h, [name for name, _ in cell.variables()][2]
    (True, 'lstm_cell/w_i_diag')
    """

    kernel: Tensor
    bias: Tensor
    w_i_diag: Tensor
    w_f_diag: Tensor
    w_o_diag: Tensor

    @checks_flags
    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        cell_clip: float | None = None,
        use_peephole: bool = False,
        dtype: Any = None,
        reuse: bool | None = None,
        name: str | None = "lstm_cell",
        *,
        trainable: bool = True,
        input_size: int | None = None,
    ) -> None:
        super().__init__(num_units, None, reuse, name, dtype, trainable)
        self.forget_bias, self.cell_clip, self.use_peephole = forget_bias, cell_clip, use_peephole
        self.state_size, self.output_size = lstm_sizes(self.num_units, None)
        self.declare(input_size)

    def shapes(self, depth: int) -> dict[str, tuple[int, ...]]:
        """The shapes of the weights."""
        units = self.num_units
        shapes: dict[str, tuple[int, ...]] = {"kernel": (depth + units, 4 * units), "bias": (4 * units,)}
        if self.use_peephole:
            shapes.update(w_i_diag=(units,), w_f_diag=(units,), w_o_diag=(units,))
        return shapes

    def forward(self, inputs: Tensor, state: LSTMStateTuple) -> tuple[Tensor, LSTMStateTuple]:
        """One step; the output is `h'`."""
        c, h = two_states(state, self.name)
        kernel = self.kernel
        self.check_step(inputs, kernel, c=(c, self.num_units), h=(h, self.num_units))
        i, j, f, o = torch.addmm(self.bias, torch.cat([inputs, h], 1), kernel).chunk(4, 1)
        f = f + self.forget_bias
        if self.use_peephole:
            f, i = f + self.w_f_diag * c, i + self.w_i_diag * c
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(j)
        if self.cell_clip is not None and self.cell_clip > 0:
            c = c + (c.clamp(-self.cell_clip, self.cell_clip) - c).detach()
        h = torch.sigmoid(o + self.w_o_diag * c if self.use_peephole else o) * torch.tanh(c)
        return h, LSTMStateTuple(c, h)


class GRUBlockCell(GRUCell):
    """A GRU with the names of TensorFlow's fused kernel (Cho et al., 2014, "Learning Phrase Representations using RNN
    Encoder-Decoder for Statistical Machine Translation", EMNLP).

        r, u = split(sigmoid([x, h] @ w_ru + b_ru), 2)
        h'   = u * h + (1 - u) * tanh([x, r * h] @ w_c + b_c)

    Args:
        num_units: the width N of the state, which is the output.
        cell_size: its older name.
        reuse, name, dtype, trainable: see `unspool.GRUCell`.
        input_size: the depth D of the inputs, to build the weights at once.

    >>> cell = GRUBlockCell(3, input_size=5)
    >>> [name for name, _ in cell.variables()]
    ['gru_cell/w_ru', 'gru_cell/b_ru', 'gru_cell/w_c', 'gru_cell/b_c']
    """

    variable_names = {
        "gates_kernel": "w_ru",
        "gates_bias": "b_ru",
        "candidate_kernel": "w_c",
        "candidate_bias": "b_c",
    }

    @checks_flags
    def __init__(
        self,
        num_units: int | None = None,
        cell_size: int | None = None,
        reuse: bool | None = None,
        name: str | None = "gru_cell",
        *,
        dtype: Any = None,
        trainable: bool = True,
        input_size: int | None = None,
    ) -> None:
        if (cell_size is None) == (num_units is None):
            raise ValueError("Exactly one of num_units or cell_size must be provided.")
        self_size: Any = cell_size if num_units is None else num_units
        super().__init__(self_size, None, reuse, name=name, dtype=dtype, trainable=trainable, input_size=input_size)
        self.cell_size = None


class GRUBlockCellV2(GRUBlockCell):
    """A GRU of TensorFlow's fused kernel with the names of `unspool.GRUCell` (Cho et al., 2014, "Learning Phrase
    Representations using RNN Encoder-Decoder for Statistical Machine Translation", EMNLP).

        r, u = split(sigmoid([x, h] @ gates_kernel + gates_bias), 2)
        h'   = u * h + (1 - u) * tanh([x, r * h] @ candidate_kernel + candidate_bias)

    Args:
        num_units, cell_size, reuse, name, dtype, trainable, input_size: see `GRUBlockCell`.

    >>> cell = GRUBlockCellV2(3, input_size=5)
    >>> [name for name, _ in cell.variables()][0]
    'gru_cell/gates/kernel'
    """

    variable_names = GRUCell.variable_names


class CudnnCompatibleLSTMCell(LSTMBlockCell):
    """An LSTM that cuDNN's weights fit (Hochreiter & Schmidhuber, 1997, "Long Short-Term Memory", Neural Computation).

        i, j, f, o = split([x, h] @ kernel + bias, 4)
        c' = sigmoid(f) * c + sigmoid(i) * tanh(j)
        h' = sigmoid(o) * tanh(c')

    Args:
        num_units: the width N of memory and output.
        reuse, dtype, trainable, input_size: see `LSTMBlockCell`.

    >>> [name for name, _ in CudnnCompatibleLSTMCell(3, input_size=5).variables()][0]
    'cudnn_compatible_lstm_cell/kernel'
    """

    @checks_flags
    def __init__(
        self,
        num_units: int,
        reuse: bool | None = None,
        *,
        dtype: Any = None,
        trainable: bool = True,
        input_size: int | None = None,
    ) -> None:
        name = "cudnn_compatible_lstm_cell"
        super().__init__(num_units, 0.0, None, False, dtype, reuse, name, trainable=trainable, input_size=input_size)


class CudnnCompatibleGRUCell(ContribCell):
    """A GRU that cuDNN's weights fit: it resets after the recurrent product, as `torch.nn.GRU` does (Cho et al., 2014,
    "Learning Phrase Representations using RNN Encoder-Decoder for Statistical Machine Translation", EMNLP).

        r, u = split(sigmoid([x, h] @ gates_kernel + gates_bias), 2)
        c    = tanh(x @ input_kernel + input_bias + r * (h @ hidden_kernel + hidden_bias))
        h'   = u * h + (1 - u) * c

    Args:
        num_units: the width N of the state, which is the output.
        reuse, name, dtype, trainable: see `unspool.GRUCell`.
        kernel_initializer: fills kernels; Glorot's uniform by default.
        input_size: the depth D of the inputs, to build the weights at once.

    >>> cell = CudnnCompatibleGRUCell(3, input_size=5)
    >>> output, state = cell(torch.zeros(2, 5), cell.zero_state(2, torch.float32))
    >>> output is state, [name for name, _ in cell.variables()][2]
    (True, 'cudnn_compatible_gru_cell/candidate/input_projection/kernel')
    """

    gates_kernel: Tensor
    gates_bias: Tensor
    input_kernel: Tensor
    hidden_kernel: Tensor
    input_bias: Tensor
    hidden_bias: Tensor
    first_kernel = "gates_kernel"
    variable_names = {
        "gates_kernel": "gates/kernel",
        "gates_bias": "gates/bias",
        **{
            f"{which}_{each}": f"candidate/{which}_projection/{each}"
            for each in ("kernel", "bias")
            for which in ("input", "hidden")
        },
    }

    @checks_flags
    def __init__(
        self,
        num_units: int,
        reuse: bool | None = None,
        kernel_initializer: Any = None,
        *,
        name: str | None = None,
        dtype: Any = None,
        trainable: bool = True,
        input_size: int | None = None,
    ) -> None:
        super().__init__(num_units, None, reuse, name, dtype, trainable)
        self.kernel_initializer = check_initializer("kernel_initializer", kernel_initializer)
        self.state_size = self.output_size = self.num_units
        self.declare(input_size)

    def shapes(self, depth: int) -> dict[str, tuple[int, ...]]:
        """The shapes of the weights."""
        units = self.num_units
        return {
            "gates_kernel": (depth + units, 2 * units),
            "gates_bias": (2 * units,),
            "input_kernel": (depth, units),
            "hidden_kernel": (units, units),
            "input_bias": (units,),
            "hidden_bias": (units,),
        }

    def initializer_of(self, weight: str) -> Initializer:
        """What fills a weight."""
        if weight.endswith("kernel"):
            return self.kernel_initializer or glorot_uniform
        return torch.nn.init.ones_ if weight == "gates_bias" else torch.nn.init.zeros_

    def forward(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One step; the output is the new state."""
        self.check_step(inputs, self.gates_kernel, state=(state, self.num_units))
        gates = torch.addmm(self.gates_bias, torch.cat([inputs, state], 1), self.gates_kernel)
        r, u = torch.sigmoid(gates).chunk(2, 1)
        of_input = torch.addmm(self.input_bias, inputs, self.input_kernel)
        of_state = torch.addmm(self.hidden_bias, state, self.hidden_kernel)
        h = u * state + (1 - u) * torch.tanh(of_input + r * of_state)
        return h, h
