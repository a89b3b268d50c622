"""LSTMs of TensorFlow's contrib with coupled gates, and with normalised sums."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unspool.cells.activations import as_activation
from unspool.cells.building import Initializer
from unspool.cells.layer import check_units
from unspool.cells.lstm import LSTMStateTuple, one_tensor, two_states
from unspool.flags import checks_flags
from unspool.gallery.arguments import check_between
from unspool.gallery.contrib.layer import ContribCell, joined, lstm_sizes, shards

EPSILON = 1e-12
"""What TensorFlow's layer norm adds to the variance."""


class _Normalized(ContribCell):
    """A cell some sums of which have a layer norm, with weights `scope/gamma` and `scope/beta`."""

    norm_gain: float
    norm_shift: float

    def norm_shapes(self, *scopes: str) -> dict[str, tuple[int, ...]]:
        """The shapes of the weights of norms."""
        return {f"{scope}_{each}": (self.num_units,) for scope in scopes for each in ("gamma", "beta")}

    def norm(self, sums: Tensor, scope: str) -> Tensor:
        """Sums with mean 0 and variance 1, scaled and shifted."""
        gamma, beta = getattr(self, f"{scope}_gamma"), getattr(self, f"{scope}_beta")
        return F.layer_norm(sums, [self.num_units], gamma, beta, EPSILON)

    def initializer_of(self, weight: str) -> Initializer:
        """What fills a weight."""
        if weight.endswith(("_gamma", "_beta")):
            return partial(nn.init.constant_, val=self.norm_gain if weight.endswith("_gamma") else self.norm_shift)
        return super().initializer_of(weight)


def _norm_names(*scopes: str) -> dict[str, str]:
    return {f"{scope}_{each}": f"{scope}/{each}" for scope in scopes for each in ("gamma", "beta")}


class LayerNormBasicLSTMCell(_Normalized):
    """An LSTM with a norm of every gate and of the memory, and dropout of what is new (Ba, Kiros & Hinton, 2016, "Layer
    Normalization"; Semeniuta, Severyn & Barth, 2016, "Recurrent Dropout without Memory Loss").

        i, j, f, o = split([x, h] @ kernel, 4)
        c' = LN(sigmoid(LN(f) + forget_bias) * c + sigmoid(LN(i)) * dropout(activation(LN(j))))
        h' = activation(c') * sigmoid(LN(o))

    The memory that is carried is the normalised one. Like torch's own dropout, that of this cell does nothing in
    `eval()` mode.

    Args:
        num_units: the width N of memory and output.
        forget_bias: added to the forget gate.
        input_size: the depth D of the inputs, to build the weights at once; TensorFlow does not use it.
        activation: a function or its name; tanh by default.
        layer_norm: whether there are norms; a bias is there without.
        norm_gain, norm_shift: what the norms' gamma and beta begin with.
        dropout_keep_prob: the probability to keep an element; a number or a scalar tensor.
        dropout_prob_seed: makes the draws repeatable.
        reuse, name, dtype, trainable: see `unspool.LSTMCell`.

    >>> cell = LayerNormBasicLSTMCell(3)
    >>> output, (c, h) = cell(torch.zeros(2, 5), cell.zero_state(2, torch.float32))
    >>> output is h, [name for name, _ in cell.variables()][:3]
    (True, ['layer_norm_basic_lstm_cell/kernel', 'layer_norm_basic_lstm_cell/input/gamma', \
'layer_norm_basic_lstm_cell/input/beta'])
    """

    kernel: Tensor
    bias: Tensor
    variable_names = _norm_names("input", "transform", "forget", "output", "state")

    @checks_flags
    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        input_size: int | None = None,
        activation: Any = None,
        layer_norm: bool = True,
        norm_gain: float = 1.0,
        norm_shift: float = 0.0,
        dropout_keep_prob: Any = 1.0,
        dropout_prob_seed: int | None = None,
        reuse: bool | None = None,
        *,
        name: str | None = None,
        dtype: Any = None,
        trainable: bool = True,
    ) -> None:
        super().__init__(num_units, None, reuse, name, dtype, trainable)
        self.forget_bias, self.activation, self.layer_norm = forget_bias, as_activation(activation), layer_norm
        self.norm_gain, self.norm_shift = norm_gain, norm_shift
        is_tensor = isinstance(dropout_keep_prob, Tensor)
        self.dropout_keep_prob: Any = (
            dropout_keep_prob if is_tensor else check_between("dropout_keep_prob", dropout_keep_prob, 0, 1)
        )
        self.dropout_prob_seed = dropout_prob_seed
        self._generators: dict[torch.device, torch.Generator] = {}
        self.state_size, self.output_size = lstm_sizes(self.num_units, None)
        self.declare(input_size)

    def shapes(self, depth: int) -> dict[str, tuple[int, ...]]:
        """The shapes of the weights."""
        kernel = {"kernel": (depth + self.num_units, 4 * self.num_units)}
        if not self.layer_norm:
            return {**kernel, "bias": (4 * self.num_units,)}
        return {**kernel, **self.norm_shapes("input", "transform", "forget", "output", "state")}

    def forward(self, inputs: Tensor, state: LSTMStateTuple) -> tuple[Tensor, LSTMStateTuple]:
        """One step; the output is `h'`."""
        c, h = two_states(state, self.name)
        self.check_step(inputs, self.kernel, c=(c, self.num_units), h=(h, self.num_units))
        sums = torch.cat([inputs, h], 1) @ self.kernel
        i, j, f, o = (sums if self.layer_norm else sums + self.bias).chunk(4, 1)
        if self.layer_norm:
            i, j = self.norm(i, "input"), self.norm(j, "transform")
            f, o = self.norm(f, "forget"), self.norm(o, "output")
        c = c * torch.sigmoid(f + self.forget_bias) + torch.sigmoid(i) * self._dropout(self.activation(j))
        if self.layer_norm:
            c = self.norm(c, "state")
        h = self.activation(c) * torch.sigmoid(o)
        return h, LSTMStateTuple(c, h)

    def _dropout(self, new: Tensor) -> Tensor:
        keep = self.dropout_keep_prob
        if not self.training or (not isinstance(keep, Tensor) and keep == 1):
            return new
        options: dict[str, Any] = {"dtype": new.dtype, "device": new.device}
        if self.dropout_prob_seed is not None:
            if new.device not in self._generators:
                self._generators[new.device] = torch.Generator(new.device).manual_seed(self.dropout_prob_seed)
            options["generator"] = self._generators[new.device]
        draw = torch.rand(new.shape, **options)
        return torch.where(draw >= 1 - keep, new / keep, new.new_zeros(()))


class CoupledInputForgetGateLSTMCell(_Normalized):
    """An LSTM that forgets as much as it takes in (Greff et al., 2017, "LSTM: A Search Space Odyssey", IEEE
    Transactions on Neural Networks and Learning Systems).

        j, f, o = split([x, h] @ W + B, 3)
        f  = sigmoid(f + forget_bias + W_F_diag * c)
        c' = f * c + (1 - f) * activation(j)
        h' = clip((sigmoid(o + W_O_diag * c') * activation(c')) @ W_P, proj_clip)

    The diagonals are there with `use_peepholes`, `W_P` with `num_proj`. With `layer_norm`, j, f, o and c' are
    normalised, and B is not added.

    Args:
        num_units: the width N of the memory.
        use_peepholes: whether gates see the memory.
        initializer: fills kernels and diagonals; Glorot's uniform by default.
        num_proj: the width of the output; None for N, without a projection.
        proj_clip: bound of the projection's absolute value.
        num_unit_shards, num_proj_shards: in how many pieces W and W_P are kept.
        forget_bias: added to the forget gate.
        state_is_tuple: whether the state is an `LSTMStateTuple` or one tensor `[c, h]`.
        activation: a function or its name; tanh by default.
        layer_norm: whether there are norms.
        norm_gain, norm_shift: what the norms' gamma and beta begin with.
        reuse, name, dtype, trainable: see `unspool.LSTMCell`.
        input_size: the depth D of the inputs, to build the weights at once.

    >>> cell = CoupledInputForgetGateLSTMCell(3)
    >>> output, (c, h) = cell(torch.zeros(2, 5), cell.zero_state(2, torch.float32))
    >>> output is h, [name for name, _ in cell.variables()][0]
    (True, 'coupled_input_forget_gate_lstm_cell/W_0')
    """

    B: Tensor
    W_F_diag: Tensor
    W_O_diag: Tensor
    first_kernel = "W_0"
    zeros = ("B",)
    variable_names = _norm_names("transform", "forget", "output", "state")

    @checks_flags
    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        initializer: Any = None,
        num_proj: int | None = None,
        proj_clip: float | None = None,
        num_unit_shards: int = 1,
        num_proj_shards: int = 1,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Any = None,
        reuse: bool | None = None,
        layer_norm: bool = False,
        norm_gain: float = 1.0,
        norm_shift: float = 0.0,
        *,
        name: str | None = None,
        dtype: Any = None,
        trainable: bool = True,
        input_size: int | None = None,
    ) -> None:
        super().__init__(num_units, initializer, reuse, name, dtype, trainable)
        self.use_peepholes, self.layer_norm, self.state_is_tuple = use_peepholes, layer_norm, state_is_tuple
        self.num_proj = None if num_proj is None else check_units("num_proj", num_proj)
        self.num_unit_shards = self.pieces = check_units("num_unit_shards", num_unit_shards)
        self.num_proj_shards = check_units("num_proj_shards", num_proj_shards)
        self.proj_clip, self.forget_bias, self.activation = proj_clip, forget_bias, as_activation(activation)
        self.norm_gain, self.norm_shift = norm_gain, norm_shift
        both, self.output_size = lstm_sizes(self.num_units, self.num_proj)
        self.state_size = both if state_is_tuple else sum(both)
        self.declare(input_size)

    def shapes(self, depth: int) -> dict[str, tuple[int, ...]]:
        """The shapes of the weights."""
        units = self.num_units
        shapes: dict[str, tuple[int, ...]] = {
            **shards("W", depth + self.output_size, 3 * units, self.num_unit_shards),
            "B": (3 * units,),
        }
        if self.layer_norm:
            shapes.update(self.norm_shapes("transform", "forget", "output"))
        if self.use_peepholes:
            shapes.update(W_F_diag=(units,), W_O_diag=(units,))
        if self.layer_norm:
            shapes.update(self.norm_shapes("state"))
        if self.num_proj is not None:
            shapes.update(shards("W_P", units, self.num_proj, self.num_proj_shards))
        return shapes

    def forward(self, inputs: Tensor, state: Any) -> tuple[Tensor, Any]:
        """One step; the output is `h'`."""
        units, width = self.num_units, self.output_size
        if self.state_is_tuple:
            c, h = two_states(state, self.name)
        else:
            state = one_tensor(state, self.name)
            c, h = state[:, :units], state[:, units:]
        kernel = joined(self, "W", self.num_unit_shards)
        self.check_step(inputs, kernel, c=(c, units), h=(h, width))
        sums = torch.cat([inputs, h], 1) @ kernel
        j, f, o = (sums if self.layer_norm else sums + self.B).chunk(3, 1)
        if self.layer_norm:
            j, f, o = self.norm(j, "transform"), self.norm(f, "forget"), self.norm(o, "output")
        f = f + self.forget_bias
        f = torch.sigmoid(f + self.W_F_diag * c if self.use_peepholes else f)
        c = f * c + (1 - f) * self.activation(j)
        if self.layer_norm:
            c = self.norm(c, "state")
        h = torch.sigmoid(o + self.W_O_diag * c if self.use_peepholes else o) * self.activation(c)
        if self.num_proj is not None:
            h = h @ joined(self, "W_P", self.num_proj_shards)
            if self.proj_clip is not None:
                h = h.clamp(-self.proj_clip, self.proj_clip)
        return h, LSTMStateTuple(c, h) if self.state_is_tuple else torch.cat([c, h], 1)
