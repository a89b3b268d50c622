"""Keras' recurrent layers in a graph: their own equations, and the loops of `tf.nn`."""

from __future__ import annotations

from typing import Any

from unspool.flags import checks_flags
from unspool.structure import Structure, flatten
from unspool.tf1.keras import activations
from unspool.tf1.layers.base import Layer
from unspool.tf1.ops.array import concat
from unspool.tf1.ops.creation import ones
from unspool.tf1.ops.joining import reverse, split
from unspool.tf1.ops.math import matmul
from unspool.tf1.ops.nn import bias_add
from unspool.tf1.rnn.cell import RNNCell
from unspool.tf1.rnn.loops import loop
from unspool.tf1.shapes import TensorShape


class _Recurrent(Layer):
    """A recurrent layer over `[batch, time, depth]`.

    Args:
        units: the width of the state.
        activation: a function or its name.
        recurrent_activation: the same for gates.
        use_bias: whether there is a bias.
        kernel_initializer, recurrent_initializer, bias_initializer: first values, by name too.
        kernel_regularizer, recurrent_regularizer, bias_regularizer: functions of these whose results are added to the
            regularisation losses.
        dropout, recurrent_dropout: 0; for others use `tf.nn.rnn_cell.DropoutWrapper`.
        return_sequences: whether outputs of all steps are returned; else the last.
        return_state: whether the final state follows them.
        go_backwards: whether it goes from the last step to the first; outputs are in the order of the steps it takes.
        stateful: not supported.
        unroll: accepted.
        more: see `tf.layers.Layer`.
    """

    gates: int
    states = 1

    @checks_flags
    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        recurrent_activation: Any = "hard_sigmoid",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        **more: Any,
    ) -> None:
        super().__init__(**more)
        if dropout or recurrent_dropout:
            raise NotImplementedError("dropout is not supported: use tf.nn.rnn_cell.DropoutWrapper")
        if stateful:
            raise NotImplementedError("stateful is not supported: give initial_state, and fetch the final state")
        self.units, self.use_bias = int(units), use_bias
        self.activation, self.recurrent_activation = activations.get(activation), activations.get(recurrent_activation)
        self._starts = kernel_initializer, recurrent_initializer, bias_initializer
        self._regularizers = kernel_regularizer, recurrent_regularizer, bias_regularizer
        self.return_sequences, self.return_state, self.go_backwards = return_sequences, return_state, go_backwards
        self.kernel: Any = None
        self.recurrent_kernel: Any = None
        self.bias: Any = None
        self._cell = _Cell(self)

    def build(self, input_shape: Any) -> None:
        """Makes the kernels and the bias."""
        from unspool.tf1.keras.layers import initializer

        depth, wide = TensorShape(input_shape)[-1].value, self.gates * self.units
        if depth is None:
            raise ValueError("The last dimension of the inputs should be defined. Found `None`.")
        shapes: dict[str, list[int]] = {"kernel": [depth, wide], "recurrent_kernel": [self.units, wide], "bias": [wide]}
        for (name, sizes), start, regularizer in zip(shapes.items(), self._starts, self._regularizers, strict=True):
            if name == "bias":
                if not self.use_bias:
                    continue
                start = self.bias_start(initializer(start))
            made = self.add_variable(name, sizes, initializer=initializer(start), regularizer=regularizer)
            setattr(self, name, made)
        self.built = True

    def bias_start(self, start: Any) -> Any:
        """How the bias begins."""
        return start

    def step(self, inputs: Any, states: tuple[Any, ...]) -> tuple[Any, ...]:
        """The states after a step, the output first."""
        raise NotImplementedError

    def projected(self, inputs: Any) -> Any:
        """What a step reads of its inputs, for all gates."""
        made = matmul(inputs, self.kernel)
        return made if self.bias is None else bias_add(made, self.bias)

    def call(self, inputs: Any, *args: Any, initial_state: Structure = None, **kwargs: Any) -> Any:
        """The outputs of all steps, or the last; and, if they are asked for, the final states."""
        start = None if initial_state is None else tuple(flatten(initial_state))
        if start is not None and len(start) != self.states:
            raise ValueError(f"Layer {self.name} expects {self.states} states, but it received {len(start)}")
        if kwargs.get("mask") is not None:
            raise NotImplementedError("masks are not supported: use tf.nn.dynamic_rnn with sequence_length")
        given = reverse(inputs, [1]) if self.go_backwards else inputs
        outputs, state = loop(self._cell, given, None, start, inputs.dtype, False)
        made = outputs if self.return_sequences else state[0]
        return [made, *state] if self.return_state else made


class _Cell(RNNCell):
    """The step of a layer."""

    def __init__(self, layer: _Recurrent) -> None:
        super().__init__()
        self._layer = layer
        self.built = True

    @property
    def state_size(self) -> Structure:
        """As many states as the layer has."""
        return (self._layer.units,) * self._layer.states

    @property
    def output_size(self) -> Structure:
        """The width of a state."""
        return self._layer.units

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:
        """One step, in the layer's scope."""
        made = self._layer.step(inputs, tuple(state))
        return made[0], made


class SimpleRNN(_Recurrent):
    """`h = activation(x @ kernel + h @ recurrent_kernel + bias)`.

    >>> from unspool import tf1 as tf
    >>> tf.keras.layers.SimpleRNN(4)(tf.zeros([2, 5, 3])).shape
    TensorShape([2, 4])
    """

    gates = 1

    def __init__(self, units: int, activation: Any = "tanh", use_bias: bool = True, **more: Any) -> None:
        super().__init__(units, activation, use_bias=use_bias, **more)

    def step(self, inputs: Any, states: tuple[Any, ...]) -> tuple[Any, ...]:
        """One step."""
        return (self.activation(self.projected(inputs) + matmul(states[0], self.recurrent_kernel)),)


class GRU(_Recurrent):
    """Keras' GRU, in which the reset gate comes before the product, and gates are hard sigmoids.

    >>> from unspool import tf1 as tf
    >>> tf.keras.layers.GRU(4, return_sequences=True)(tf.zeros([2, 5, 3])).shape
    TensorShape([2, 5, 4])
    """

    gates = 3

    def step(self, inputs: Any, states: tuple[Any, ...]) -> tuple[Any, ...]:
        """One step."""
        (h,), n = states, self.units
        x_z, x_r, x_h = split(self.projected(inputs), 3, 1)
        gates = matmul(h, self.recurrent_kernel[:, : 2 * n])
        z = self.recurrent_activation(x_z + gates[:, :n])
        r = self.recurrent_activation(x_r + gates[:, n:])
        candidate = self.activation(x_h + matmul(r * h, self.recurrent_kernel[:, 2 * n :]))
        return (z * h + (1 - z) * candidate,)


class LSTM(_Recurrent):
    """Keras' LSTM, whose gates are hard sigmoids and begin with a forget bias of 1; its states are `h` and `c`.

    Args:
        unit_forget_bias: whether the bias of the forget gate begins with 1.
        more: see `GRU`; all of its arguments are there.

    >>> from unspool import tf1 as tf
    >>> outputs, h, c = tf.keras.layers.LSTM(4, return_sequences=True, return_state=True)(tf.zeros([2, 5, 3]))
    >>> outputs.shape, c.shape
    (TensorShape([2, 5, 4]), TensorShape([2, 4]))
    """

    gates, states = 4, 2

    def __init__(self, units: int, *args: Any, unit_forget_bias: bool = True, **more: Any) -> None:
        super().__init__(units, *args, **more)
        self.unit_forget_bias = unit_forget_bias

    def bias_start(self, start: Any) -> Any:
        """Ones for the forget gate."""
        if not self.unit_forget_bias:
            return start
        n = self.units

        def filled(shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
            return concat([start([n], dtype), ones([n], dtype), start([2 * n], dtype)], 0)

        return filled

    def step(self, inputs: Any, states: tuple[Any, ...]) -> tuple[Any, ...]:
        """One step."""
        h, c = states
        i, f, g, o = split(self.projected(inputs) + matmul(h, self.recurrent_kernel), 4, 1)
        i, f, o = (self.recurrent_activation(each) for each in (i, f, o))
        new = f * c + i * self.activation(g)
        return o * self.activation(new), new
