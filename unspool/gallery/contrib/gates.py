"""Gated cells of TensorFlow's contrib: one gate, gates through depth, coupled gates, groups, and a searched cell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from unspool.cells.activations import as_activation
from unspool.cells.layer import check_units
from unspool.cells.lstm import LSTMStateTuple, two_states
from unspool.flags import checks_flags
from unspool.gallery.arguments import check_divides
from unspool.gallery.contrib.layer import ContribCell, lstm_sizes


class UGRNNCell(ContribCell):
    """An update gate recurrent network, between an RNN and a GRU (Collins, Sohl-Dickstein & Sussillo, 2017, "Capacity
    and Trainability in Recurrent Neural Networks", ICLR).

        g, c = split([x, h] @ kernel + bias, 2)
        h'   = sigmoid(g + forget_bias) * h + (1 - sigmoid(g + forget_bias)) * activation(c)

    Args:
        num_units: the width N of the state, which is the output.
        initializer: fills the kernel; Glorot's uniform by default.
        forget_bias: added to the gate.
        activation: a function or its name; tanh by default.
        reuse, name, dtype, trainable: see `unspool.LSTMCell`.
        input_size: the depth D of the inputs, to build the weights at once.

    >>> cell = UGRNNCell(3)
    >>> output, state = cell(torch.zeros(2, 5), cell.zero_state(2, torch.float32))
    >>> output is state, cell.kernel.shape
    (True, torch.Size([8, 6]))
    """

    kernel: Tensor
    bias: Tensor

    @checks_flags
    def __init__(
        self,
        num_units: int,
        initializer: Any = None,
        forget_bias: float = 1.0,
        activation: Any = None,
        reuse: bool | None = None,
        *,
        name: str | None = None,
        dtype: Any = None,
        trainable: bool = True,
        input_size: int | None = None,
    ) -> None:
        super().__init__(num_units, initializer, reuse, name, dtype, trainable)
        self.forget_bias, self.activation = forget_bias, as_activation(activation)
        self.state_size = self.output_size = self.num_units
        self.declare(input_size)

    def shapes(self, depth: int) -> dict[str, tuple[int, ...]]:
        """The shapes of the weights."""
        return {"kernel": (depth + self.num_units, 2 * self.num_units), "bias": (2 * self.num_units,)}

    def forward(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One step; the output is the new state."""
        self.check_step(inputs, self.kernel, state=(state, self.num_units))
        g, c = torch.addmm(self.bias, torch.cat([inputs, state], 1), self.kernel).chunk(2, 1)
        g = torch.sigmoid(g + self.forget_bias)
        h = g * state + (1 - g) * self.activation(c)
        return h, h


class IntersectionRNNCell(ContribCell):
    """A +RNN, gated through time and through depth, for deep stacks (Collins, Sohl-Dickstein & Sussillo, 2017,
    "Capacity and Trainability in Recurrent Neural Networks", ICLR).

        x              = x @ in_kernel + in_bias    if x is not N wide
        gh, h, gy, y   = split([x, s] @ kernel + bias, 4)
        s'             = sigmoid(gh + forget_bias) * s + (1 - sigmoid(gh + forget_bias)) * tanh(h)
        y'             = sigmoid(gy + forget_bias) * x + (1 - sigmoid(gy + forget_bias)) * y_activation(y)

    Args:
        num_units: the width N of state and output.
        num_in_proj: N for inputs that are not N wide, as in the first layer of a stack.
        initializer: fills kernels; Glorot's uniform by default.
        forget_bias: added to both gates.
        y_activation: of what passes through depth; ReLU by default.
        reuse, name, dtype, trainable: see `unspool.LSTMCell`.
        input_size: the depth D of the inputs, to build the weights at once.

    Raises:
        ValueError: if inputs are not N wide, and there is no `num_in_proj`.

    >>> cell = IntersectionRNNCell(3, num_in_proj=3)
    >>> output, state = cell(torch.zeros(2, 5), cell.zero_state(2, torch.float32))
    >>> cell.in_kernel.shape, cell.kernel.shape
    (torch.Size([5, 3]), torch.Size([6, 12]))
    """

    in_kernel: Tensor
    in_bias: Tensor
    kernel: Tensor
    bias: Tensor
    variable_names = {"in_kernel": "in_projection/kernel", "in_bias": "in_projection/bias"}

    @checks_flags
    def __init__(
        self,
        num_units: int,
        num_in_proj: int | None = None,
        initializer: Any = None,
        forget_bias: float = 1.0,
        y_activation: Any = "relu",
        reuse: bool | None = None,
        *,
        name: str | None = None,
        dtype: Any = None,
        trainable: bool = True,
        input_size: int | None = None,
    ) -> None:
        super().__init__(num_units, initializer, reuse, name, dtype, trainable)
        self.num_in_proj, self.forget_bias = num_in_proj, forget_bias
        self.y_activation = as_activation(y_activation)
        self.state_size = self.output_size = self.num_units
        self.declare_weights("kernel", "bias")
        if input_size is not None:
            self.build(input_size)

    def variables(self) -> Iterator[tuple[str, Tensor]]:
        """The projection's weights, if there is one, before the others."""
        found = dict(super().variables())
        yield from sorted(found.items(), key=lambda each: "in_projection" not in each[0])

    @property
    def input_size(self) -> int | None:
        """The depth of the inputs; None until the weights have shapes."""
        if not self.built:
            return None
        return self.in_kernel.shape[0] if "in_kernel" in self._parameters else self.num_units

    def shapes(self, depth: int) -> dict[str, tuple[int, ...]]:
        """The shapes of the weights."""
        units = self.num_units
        own: dict[str, tuple[int, ...]] = {"kernel": (2 * units, 4 * units), "bias": (4 * units,)}
        if depth == units:
            return own
        if not self.num_in_proj:
            raise ValueError(
                f"{self.name}: Must have input size == output size for Intersection RNN, but depth is {depth}, "
                f"and num_units is {units}; to project them, num_in_proj should be set to num_units"
            )
        return {"in_kernel": (depth, units), "in_bias": (units,), **own}

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any, **kwargs: Any) -> None:
        if not self.built and prefix + "kernel" in state_dict:  # whether there is a projection is known now
            loaded = state_dict.get(prefix + "in_kernel")
            self.build(self.num_units if loaded is None else loaded.shape[0])
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    def forward(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One step; the output is what passes through depth."""
        if "in_kernel" in self._parameters:
            inputs = torch.addmm(self.in_bias, inputs, self.in_kernel)
        gh, h, gy, y = torch.addmm(self.bias, torch.cat([inputs, state], 1), self.kernel).chunk(4, 1)
        gh, gy = torch.sigmoid(gh + self.forget_bias), torch.sigmoid(gy + self.forget_bias)
        return gy * inputs + (1 - gy) * self.y_activation(y), gh * state + (1 - gh) * torch.tanh(h)


class NASCell(ContribCell):
    """A cell that was found by a search (Zoph & Le, 2017, "Neural Architecture Search with Reinforcement Learning",
    ICLR).

        m_0 .. m_7 = split(h @ recurrent_kernel + bias, 8);    x_0 .. x_7 = split(x @ kernel, 8)
        a  = tanh(sigmoid(x_0 + m_0) * relu(x_1 + m_1));       b = tanh(sigmoid(x_2 + m_2) + relu(x_3 * m_3))
        d  = tanh(tanh(x_4 + m_4) * sigmoid(x_5 + m_5));       e = sigmoid(tanh(x_6 + m_6) + sigmoid(x_7 + m_7))
        c' = tanh(a + c) * b
        h' = tanh(c' * tanh(d + e)) @ projection_weights

    Args:
        num_units: the width N of the memory.
        num_proj: the width of the output; None for N, without a projection.
        use_biases: whether there is a bias.
        reuse, name, dtype, trainable: see `unspool.LSTMCell`.
        input_size: the depth D of the inputs, to build the weights at once.

    >>> cell = NASCell(4, num_proj=3)
    >>> output, state = cell(torch.zeros(2, 5), cell.zero_state(2, torch.float32))
    >>> output is state.h, state.c.shape, cell.recurrent_kernel.shape
    (True, torch.Size([2, 4]), torch.Size([3, 32]))
    """

    recurrent_kernel: Tensor
    kernel: Tensor
    bias: Tensor
    projection_weights: Tensor

    @checks_flags
    def __init__(
        self,
        num_units: int,
        num_proj: int | None = None,
        use_biases: bool = False,
        reuse: bool | None = None,
        *,
        name: str | None = None,
        dtype: Any = None,
        trainable: bool = True,
        input_size: int | None = None,
    ) -> None:
        super().__init__(num_units, None, reuse, name, dtype, trainable)
        self.num_proj = None if num_proj is None else check_units("num_proj", num_proj)
        self.use_biases = use_biases
        self.state_size, self.output_size = lstm_sizes(self.num_units, self.num_proj)
        self.declare(input_size)

    def depth_of(self, rows: int) -> int:
        """All rows of the kernel are the inputs'."""
        return rows

    def shapes(self, depth: int) -> dict[str, tuple[int, ...]]:
        """The shapes of the weights."""
        units, width = self.num_units, self.output_size
        shapes: dict[str, tuple[int, ...]] = {"recurrent_kernel": (width, 8 * units), "kernel": (depth, 8 * units)}
        if self.use_biases:
            shapes["bias"] = (8 * units,)
        if self.num_proj is not None:
            shapes["projection_weights"] = (units, width)
        return shapes

    def forward(self, inputs: Tensor, state: LSTMStateTuple) -> tuple[Tensor, LSTMStateTuple]:
        """One step; the output is `h'`."""
        c, h = two_states(state, self.name)
        self.check_step(inputs, self.kernel, c=(c, self.num_units), h=(h, self.output_size))
        of_state = h @ self.recurrent_kernel
        m = (of_state + self.bias if self.use_biases else of_state).chunk(8, 1)
        x = (inputs @ self.kernel).chunk(8, 1)
        a = torch.tanh(torch.sigmoid(x[0] + m[0]) * torch.relu(x[1] + m[1]))
        b = torch.tanh(torch.sigmoid(x[2] + m[2]) + torch.relu(x[3] * m[3]))
        d = torch.tanh(torch.tanh(x[4] + m[4]) * torch.sigmoid(x[5] + m[5]))
        e = torch.sigmoid(torch.tanh(x[6] + m[6]) + torch.sigmoid(x[7] + m[7]))
        c = torch.tanh(a + c) * b
        h = torch.tanh(c * torch.tanh(d + e))
        if self.num_proj is not None:
            h = h @ self.projection_weights
        return h, LSTMStateTuple(c, h)


class GLSTMCell(ContribCell):
    """An LSTM in groups that share no weights (Kuchaiev & Ginsburg, 2017, "Factorization Tricks for LSTM Networks",
    ICLR workshop).

        i_k, j_k, f_k, o_k = split([x_k, h_k] @ kernel_k, 4)    for each group k of inputs and output
        c' = sigmoid(f + bias_f + forget_bias) * c + sigmoid(i + bias_i) * tanh(j + bias_j)
        h' = sigmoid(o + bias_o) * activation(c') @ projection

    Args:
        num_units: the width N of the memory.
        initializer: fills kernels; Glorot's uniform by default.
        num_proj: the width of the output; None for N, without a projection.
        number_of_groups: into how many parts inputs, memory and output are cut; divides all of them.
        forget_bias: added to the forget gate.
        activation: of the memory, a function or its name; tanh by default.
        reuse, name, dtype, trainable: see `unspool.LSTMCell`.
        input_size: the depth D of the inputs, to build the weights at once.

    >>> cell = GLSTMCell(4, number_of_groups=2)
    >>> output, (c, h) = cell(torch.zeros(2, 6), cell.zero_state(2, torch.float32))
    >>> output is h, cell.group0_kernel.shape
    (True, torch.Size([5, 8]))
    """

    bias_i: Tensor
    bias_j: Tensor
    bias_f: Tensor
    bias_o: Tensor
    projection_kernel: Tensor
    first_kernel = "group0_kernel"
    zeros = ("bias_i", "bias_j", "bias_f", "bias_o")

    @checks_flags
    def __init__(
        self,
        num_units: int,
        initializer: Any = None,
        num_proj: int | None = None,
        number_of_groups: int = 1,
        forget_bias: float = 1.0,
        activation: Any = None,
        reuse: bool | None = None,
        *,
        name: str | None = None,
        dtype: Any = None,
        trainable: bool = True,
        input_size: int | None = None,
    ) -> None:
        super().__init__(num_units, initializer, reuse, name, dtype, trainable)
        self.number_of_groups = check_divides("number_of_groups", number_of_groups, self.num_units)
        self.num_proj = None if num_proj is None else check_units("num_proj", num_proj)
        if self.num_proj is not None and self.num_proj % self.number_of_groups:
            raise ValueError(f"number_of_groups is {number_of_groups}, but must divide num_proj, which is {num_proj}")
        self.forget_bias, self.activation = forget_bias, as_activation(activation)
        self.state_size, self.output_size = lstm_sizes(self.num_units, self.num_proj)
        kernels = {f"group{k}_kernel": f"group{k}/kernel" for k in range(self.number_of_groups)}
        self.variable_names = {**kernels, "projection_kernel": "projection/kernel"}
        self.declare(input_size)

    def depth_of(self, rows: int) -> int:
        """Each group has a kernel, with rows for its part of the inputs and of the output."""
        return rows * self.number_of_groups - self.output_size

    def shapes(self, depth: int) -> dict[str, tuple[int, ...]]:
        """The shapes of the weights."""
        groups, units = self.number_of_groups, self.num_units
        if depth % groups:
            raise ValueError(f"{self.name}: inputs have depth {depth}, which number_of_groups, {groups}, must divide")
        rows = (depth + self.output_size) // groups
        shapes: dict[str, tuple[int, ...]] = {f"group{k}_kernel": (rows, 4 * units // groups) for k in range(groups)}
        shapes.update(dict.fromkeys(self.zeros, (units,)))
        if self.num_proj is not None:
            shapes["projection_kernel"] = (units, self.num_proj)
        return shapes

    def forward(self, inputs: Tensor, state: LSTMStateTuple) -> tuple[Tensor, LSTMStateTuple]:
        """One step; the output is `h'`."""
        c, h = two_states(state, self.name)
        groups = zip(inputs.chunk(self.number_of_groups, 1), h.chunk(self.number_of_groups, 1), strict=True)
        parts = [(torch.cat(both, 1) @ getattr(self, f"group{k}_kernel")).chunk(4, 1) for k, both in enumerate(groups)]
        i, j, f, o = (torch.cat(gate, 1) for gate in zip(*parts, strict=True))
        kept = torch.sigmoid(f + self.bias_f + self.forget_bias) * c
        c = kept + torch.sigmoid(i + self.bias_i) * torch.tanh(j + self.bias_j)
        h = torch.sigmoid(o + self.bias_o) * self.activation(c)
        if self.num_proj is not None:
            h = h @ self.projection_kernel
        return h, LSTMStateTuple(c, h)
