"""`tf.contrib.cudnn_rnn`: recurrent layers with one variable for all weights, and cells that take their checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import unspool.nn
from unspool.tf1.dtypes import as_dtype, float32
from unspool.tf1.graph import get_default_graph
from unspool.tf1.initializers import glorot_uniform_initializer, zeros_initializer
from unspool.tf1.layers.base import Layer
from unspool.tf1.namespace import missing
from unspool.tf1.operations import apply, as_tensor
from unspool.tf1.ops.array import reshape, shape, transpose
from unspool.tf1.ops.creation import zeros
from unspool.tf1.ops.joining import concat
from unspool.tf1.rnn.contrib import CudnnCompatibleGRUCell, CudnnCompatibleLSTMCell
from unspool.tf1.scopes import get_variable, get_variable_scope, variable_scope
from unspool.tf1.shapes import TensorShape
from unspool.tf1.train.saveable import Saveable
from unspool.tf1.variables import GraphKeys, Variable

__all__ = ["CudnnCompatibleGRUCell", "CudnnCompatibleLSTMCell", "CudnnGRU", "CudnnLSTM", "CudnnRNNRelu", "CudnnRNNTanh"]

CUDNN_RNN_UNIDIRECTION, CUDNN_RNN_BIDIRECTION = "unidirectional", "bidirectional"
CUDNN_LSTM, CUDNN_GRU, CUDNN_RNN_RELU, CUDNN_RNN_TANH = "lstm", "gru", "rnn_relu", "rnn_tanh"
CUDNN_INPUT_LINEAR_MODE, CUDNN_INPUT_SKIP_MODE, CUDNN_INPUT_AUTO_MODE = "linear_input", "skip_input", "auto_select"

_GATES = {CUDNN_LSTM: 4, CUDNN_GRU: 3, CUDNN_RNN_RELU: 1, CUDNN_RNN_TANH: 1}
_CELLS = {CUDNN_LSTM: "cudnn_compatible_lstm_cell", CUDNN_GRU: "cudnn_compatible_gru_cell"}


class _CudnnRNN(Layer):
    """Layers of a recurrent network over whole sequences, time first. All weights are in one variable.

    The variable has, layer by layer and in each direction, the matrices of the gates for inputs, then for the state,
    each `[num_units, width]`; then all biases in the same order. Checkpoints have the weights of the cells that compute
    the same too (`CudnnCompatibleLSTMCell` and so on, in `tf.nn.rnn_cell.MultiRNNCell` and `tf.nn.dynamic_rnn`), from
    which a restored layer takes them.

    Args:
        num_layers: how many layers there are.
        num_units: the width of each, in each direction.
        input_mode: "linear_input", or "auto_select" for inputs of another width: there is always a product with inputs.
        direction: "unidirectional" or "bidirectional".
        dropout: the probability to drop an output of a layer on its way to the next, while training.
        seed: of the initialiser.
        dtype: of weights and inputs.
        kernel_initializer: of each matrix; Glorot's uniform by default.
        bias_initializer: of each bias; zeros by default.
        name: of the scope of the variable; by default the class's.
    """

    rnn_mode: str

    def __init__(
        self,
        num_layers: int,
        num_units: int,
        input_mode: str = CUDNN_INPUT_LINEAR_MODE,
        direction: str = CUDNN_RNN_UNIDIRECTION,
        dropout: float = 0.0,
        seed: int | None = None,
        dtype: Any = float32,
        kernel_initializer: Any = None,
        bias_initializer: Any = None,
        name: str | None = None,
    ) -> None:
        kind = as_dtype(dtype)
        super().__init__(dtype=kind, name=name)
        if direction not in (CUDNN_RNN_UNIDIRECTION, CUDNN_RNN_BIDIRECTION):
            raise ValueError(f"Invalid direction: {direction}, expect unidirectional or bidirectional")
        if input_mode not in (CUDNN_INPUT_LINEAR_MODE, CUDNN_INPUT_SKIP_MODE, CUDNN_INPUT_AUTO_MODE):
            raise ValueError(f"Invalid input_mode: {input_mode}, expect linear_input, skip_input or auto_select")
        if kind.name not in ("float16", "float32", "float64"):
            raise ValueError(f"Only support float16, float32, float64, provided {kind!r}")
        self.num_layers, self.num_units, self.input_mode, self.direction = num_layers, num_units, input_mode, direction
        self._dropout, self._seed = dropout, seed
        self._starts = (
            kernel_initializer or glorot_uniform_initializer(seed=seed),
            bias_initializer or zeros_initializer(),
        )
        self._input_size: int | None = None
        self.kernel: Any = None
        self.saveable: CudnnSaveable | None = None

    @property
    def num_dirs(self) -> int:
        """How many directions there are."""
        return 1 if self.direction == CUDNN_RNN_UNIDIRECTION else 2

    @property
    def input_size(self) -> int:
        """The depth of the inputs, once the layer is built."""
        if self._input_size is None:
            raise ValueError("'input_size' is unknown since layer has not been built.")
        return self._input_size

    @property
    def canonical_weight_shapes(self) -> list[tuple[int, int]]:
        """The shape of each matrix, in the order of the variable."""
        units, gates = self.num_units, _GATES[self.rnn_mode]
        widths = [self.input_size] + [units * self.num_dirs] * (self.num_layers - 1)
        return [
            (units, width)
            for depth in widths
            for _ in range(self.num_dirs)
            for width in [depth] * gates + [units] * gates
        ]

    @property
    def canonical_bias_shapes(self) -> list[tuple[int]]:
        """The shape of each bias, in the order of the variable."""
        return [(self.num_units,)] * (2 * _GATES[self.rnn_mode] * self.num_dirs * self.num_layers)

    def state_shape(self, batch_size: Any) -> tuple[list[Any], ...]:
        """The shapes of a state: those of h and c for an LSTM, that of h for others."""
        one = [self.num_layers * self.num_dirs, batch_size, self.num_units]
        return (one, list(one)) if self.rnn_mode == CUDNN_LSTM else (one,)

    def build(self, input_shape: Any) -> None:
        """Makes the variable, and notes in which form checkpoints hold it."""
        if self.built:
            return
        sizes = TensorShape(input_shape)
        if sizes.ndims != 3:
            raise ValueError(f"Expecting input_shape with 3 dims, got {sizes.ndims}")
        if sizes[-1].value is None:
            raise ValueError("The last dimension of the inputs to `CudnnRNN` should be defined. Found `None`.")
        self._input_size = sizes[-1].value
        skips = self.input_mode == CUDNN_INPUT_SKIP_MODE
        if skips or (self.input_mode == CUDNN_INPUT_AUTO_MODE and self._input_size == self.num_units):
            raise ValueError(
                f"input_mode {self.input_mode!r} would leave out the product with inputs: use linear_input"
            )
        kernels, biases = self._starts
        parts = [kernels(list(each), self.dtype) for each in self.canonical_weight_shapes]
        parts += [biases(list(each), self.dtype) for each in self.canonical_bias_shapes]
        with variable_scope(self._entered(), reuse=self._reuse, auxiliary_name_scope=False):
            whole = concat([reshape(each, [-1]) for each in parts], 0)
            self.kernel = get_variable("opaque_kernel", initializer=whole)
        self._variables.append(self.kernel)
        if get_variable_scope().reuse is not True:
            self.saveable = CudnnSaveable(self, get_variable_scope().name)
            get_default_graph().add_to_collection(GraphKeys.SAVEABLE_OBJECTS, self.saveable)
        self.built = True

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """Runs all layers.

        Args:
            inputs: `[time, batch, depth]`, or batch first with `time_major=False`.
            args, kwargs: `initial_state`, a tuple of `[num_layers * num_dirs, batch, num_units]` (rows first with
                `time_major=False`), h and c for an LSTM; `sequence_lengths`, the length of each row; `time_major`, True
                by default; `training`, True by default, whether there is dropout.

        Returns:
            The outputs `[time, batch, num_dirs * num_units]`, and a state like `initial_state`.
        """
        return self._run(inputs, *args, **kwargs)

    def _run(
        self,
        inputs: Any,
        initial_state: Any = None,
        sequence_lengths: Any = None,
        time_major: bool = True,
        training: bool = True,
    ) -> tuple[Any, Any]:
        if initial_state is not None and not isinstance(initial_state, tuple):
            raise TypeError(f"Invalid initial_state type: {initial_state}, expecting tuple.")
        given = as_tensor(inputs, self.dtype)
        dims = given.dims or (None, None, None)
        rows = dims[1 if time_major else 0]
        if initial_state is None:
            count = shape(given)[1 if time_major else 0] if rows is None else rows
            state = tuple(zeros(each, self.dtype) for each in self.state_shape(count))
        else:
            state = tuple(as_tensor(each, self.dtype) for each in initial_state)
            state = state if time_major else tuple(transpose(each, [1, 0, 2]) for each in state)
        lengths = [] if sequence_lengths is None else [as_tensor(sequence_lengths)]
        first, second = dims[:2]
        outputs: list[Any] = [(self.dtype, (first, second, self.num_dirs * self.num_units))]
        outputs += [(self.dtype, (self.num_layers * self.num_dirs, rows, self.num_units))] * len(state)
        compute = _Forward(self, bool(training), time_major, len(state))
        made, *final = apply("CudnnRNN", compute, given, self.kernel, *state, *lengths, outputs=outputs)
        return made, tuple(final if time_major else [transpose(each, [1, 0, 2]) for each in final])


class CudnnLSTM(_CudnnRNN):
    """LSTM layers in the form of cuDNN.

    >>> from unspool import tf1 as tf
    >>> lstm = tf.contrib.cudnn_rnn.CudnnLSTM(2, 4)
    >>> outputs, (h, c) = lstm(tf.placeholder(tf.float32, [5, None, 3]))
    >>> outputs.shape, h.shape, lstm.kernel.name
    (TensorShape([5, None, 4]), TensorShape([2, None, 4]), 'cudnn_lstm/opaque_kernel:0')
    """

    rnn_mode = CUDNN_LSTM


class CudnnGRU(_CudnnRNN):
    """GRU layers in the form of cuDNN, which reset after the recurrent product."""

    rnn_mode = CUDNN_GRU


class CudnnRNNTanh(_CudnnRNN):
    """Layers of plain recurrent networks with tanh."""

    rnn_mode = CUDNN_RNN_TANH


class CudnnRNNRelu(_CudnnRNN):
    """Layers of plain recurrent networks with ReLU."""

    rnn_mode = CUDNN_RNN_RELU


class _Forward:
    """All layers on values: `unspool.nn`'s module of the same equations, with parts of the variable as weights."""

    def __init__(self, layer: _CudnnRNN, training: bool, time_major: bool, states: int) -> None:
        self._shapes = [*layer.canonical_weight_shapes, *layer.canonical_bias_shapes]
        self._gates, self._sides = _GATES[layer.rnn_mode], layer.num_layers * layer.num_dirs
        self._time_major, self._states = time_major, states
        kind: Any = {CUDNN_LSTM: unspool.nn.LSTM, CUDNN_GRU: unspool.nn.GRU}.get(layer.rnn_mode, unspool.nn.RNN)
        options: dict[str, Any] = {} if self._gates > 1 else {"nonlinearity": layer.rnn_mode.removeprefix("rnn_")}
        dropout = layer._dropout if layer.num_layers > 1 else 0.0  # pyright: ignore[reportPrivateUsage]
        options.update(num_layers=layer.num_layers, bidirectional=layer.num_dirs == 2, dropout=dropout)
        with torch.random.fork_rng(devices=[]):
            self._module: Any = kind(layer.input_size, layer.num_units, **options).train(training)

    def __call__(self, x: torch.Tensor, kernel: torch.Tensor, *rest: torch.Tensor) -> tuple[torch.Tensor, ...]:
        state, lengths = rest[: self._states], rest[self._states :]
        if x.is_meta:
            return self._blank(x, *state)
        rows: Any = x if self._time_major else x.transpose(0, 1)
        steps = rows.shape[0]
        if lengths:
            rows = pack_padded_sequence(rows, lengths[0].cpu().long(), enforce_sorted=False)
        first = state[0] if len(state) == 1 else (state[0], state[1])
        module = self._module if self._module.weight_ih_l0.dtype == x.dtype else self._module.to(x.dtype)
        outputs, final = torch.func.functional_call(module, self._weights(kernel), (rows, first))
        if lengths:
            outputs, _ = pad_packed_sequence(outputs, total_length=steps)
        return (outputs if self._time_major else outputs.transpose(0, 1)), *([final] if len(state) == 1 else final)

    def _weights(self, kernel: torch.Tensor) -> dict[str, torch.Tensor]:
        """The parts of the variable by torch's names, in torch's order of gates, which is cuDNN's."""
        pieces = kernel.split([int(np.prod(each)) for each in self._shapes])
        parts = [piece.view(size) for piece, size in zip(pieces, self._shapes, strict=True)]
        count, names = len(parts) // 2, [name for name, _ in self._module.named_parameters()]
        made: dict[str, torch.Tensor] = {}
        for side in range(self._sides):
            for kind, offset in (("weight", 0), ("bias", count)):
                start = offset + side * 2 * self._gates
                for which in range(2):
                    chosen = parts[start + which * self._gates : start + (which + 1) * self._gates]
                    name = names[side * 4 + which + (2 if kind == "bias" else 0)]
                    made[name] = torch.cat(chosen)
        return made

    def _blank(self, x: torch.Tensor, *state: torch.Tensor) -> tuple[torch.Tensor, ...]:
        width = self._module.hidden_size * (2 if self._module.bidirectional else 1)
        return x.new_empty(*x.shape[:2], width), *state


class CudnnSaveable(Saveable):
    """The variable of a layer as checkpoints hold it: the weights of the cells that compute the same.

    Args:
        layer: the layer, built.
        scope: before the names.
    """

    def __init__(self, layer: _CudnnRNN, scope: str) -> None:
        self._layer, self._scope = layer, scope
        self.variable: Variable = layer.kernel
        self.name = f"{layer.kernel.op.name}_saveable"

    def arrays(self, value: np.ndarray[Any, Any]) -> dict[str, np.ndarray[Any, Any]]:
        """The arrays by name, of a value of the variable."""
        layer, mode = self._layer, self._layer.rnn_mode
        shapes = [*layer.canonical_weight_shapes, *layer.canonical_bias_shapes]
        ends = np.cumsum([int(np.prod(each)) for each in shapes])
        parts = [part.reshape(size) for part, size in zip(np.split(value, ends[:-1]), shapes, strict=True)]
        made: dict[str, np.ndarray[Any, Any]] = {}
        gates, half = _GATES[mode], len(parts) // 2
        for side, prefix in enumerate(self._prefixes()):
            w = parts[side * 2 * gates : (side + 1) * 2 * gates]
            b = parts[half + side * 2 * gates : half + (side + 1) * 2 * gates]
            both = [np.concatenate([w[k], w[gates + k]], 1) for k in range(gates)]
            sums = [b[k] + b[gates + k] for k in range(gates)]
            if mode == CUDNN_GRU:
                made[f"{prefix}/gates/kernel"] = np.concatenate(both[:2]).T
                made[f"{prefix}/gates/bias"] = np.concatenate(sums[:2])
                for which, k in (("input", 2), ("hidden", 5)):
                    made[f"{prefix}/candidate/{which}_projection/kernel"] = w[k].T
                    made[f"{prefix}/candidate/{which}_projection/bias"] = b[k]
            else:  # cuDNN's gates are i, f, c, o, TensorFlow's i, c, f, o
                order = [0, 2, 1, 3] if mode == CUDNN_LSTM else [0]
                made[f"{prefix}/kernel"] = np.concatenate([both[k] for k in order]).T
                made[f"{prefix}/bias"] = np.concatenate([sums[k] for k in order])
        return made

    def value(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
        """A value of the variable for arrays by name; a bias that is saved as a sum is halved between its two."""
        layer, mode = self._layer, self._layer.rnn_mode
        weights: list[Any] = []
        biases: list[Any] = []
        for prefix in self._prefixes():
            if mode == CUDNN_GRU:
                both = np.split(arrays[f"{prefix}/gates/kernel"].T, 2)
                sums = np.split(arrays[f"{prefix}/gates/bias"] / 2, 2)
                new = f"{prefix}/candidate/input_projection", f"{prefix}/candidate/hidden_projection"
                sides = [
                    ([each[:, : -layer.num_units] for each in both], new[0]),
                    ([each[:, -layer.num_units :] for each in both], new[1]),
                ]
                for own, path in sides:
                    weights += [*own, arrays[f"{path}/kernel"].T]
                    biases += [*sums, arrays[f"{path}/bias"]]
                continue
            order = [0, 2, 1, 3] if mode == CUDNN_LSTM else [0]
            both = np.split(arrays[f"{prefix}/kernel"].T, len(order))
            sums = np.split(arrays[f"{prefix}/bias"] / 2, len(order))
            weights += [both[k][:, : -layer.num_units] for k in order] + [both[k][:, -layer.num_units :] for k in order]
            biases += [sums[k] for k in order] * 2
        return np.concatenate([each.reshape(-1) for each in [*weights, *biases]])

    def _prefixes(self) -> Iterator[str]:
        """The name of the cell of each layer and direction."""
        around = f"{self._scope}/" if self._scope else ""
        cell = _CELLS.get(self._layer.rnn_mode, "basic_rnn_cell")
        for layer in range(self._layer.num_layers):
            if self._layer.num_dirs == 1:
                yield f"{around}rnn/multi_rnn_cell/cell_{layer}/{cell}"
            else:
                for way in ("fw", "bw"):
                    yield f"{around}stack_bidirectional_rnn/cell_{layer}/bidirectional_rnn/{way}/{cell}"


def __getattr__(name: str) -> Any:
    raise missing("tf.contrib.cudnn_rnn", name, globals())
