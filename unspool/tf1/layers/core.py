"""Layers that every network has: dense ones, dropout, flattening."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from unspool.flags import checks_flags
from unspool.tf1.initializers import zeros_initializer
from unspool.tf1.layers.base import Layer, is_true
from unspool.tf1.layers.weighted import WeightedLayer
from unspool.tf1.operations import apply, as_tensor
from unspool.tf1.ops.array import identity, reshape, transpose
from unspool.tf1.ops.math import matmul
from unspool.tf1.ops.nn import bias_add
from unspool.tf1.ops.nn import dropout as drop
from unspool.tf1.shapes import TensorShape
from unspool.tf1.tensor import Operators
from unspool.tf1.variables import Variable


class Dense(WeightedLayer):
    """`activation(inputs @ kernel + bias)`, along the last axis.

    Args:
        units: how many outputs there are.
        activation: a function of the sum; None for the sum itself.
        use_bias: whether there is a bias.
        kernel_initializer: by default the scope's, else Glorot's uniform.
        bias_initializer: by default zeros.
        kernel_regularizer: a function of the kernel whose result is added to the regularisation losses.
        bias_regularizer: the same for the bias.
        activity_regularizer: the same for the output.
        kernel_constraint: not supported.
        bias_constraint: not supported.
        trainable: whether optimisers change the variables by default.
        name: of the scope of its variables, made unique; "dense" by default.
        more: see `Layer`.

    >>> from unspool import tf1 as tf
    >>> layer = tf.layers.Dense(4, activation=tf.tanh, name="projection")
    >>> layer(tf.placeholder(tf.float32, [None, 7, 3])).shape, layer.kernel.name
    (TensorShape([None, 7, 4]), 'projection/kernel:0')
    """

    least_rank = 2

    @checks_flags
    def __init__(
        self,
        units: int,
        activation: Callable[[Any], Any] | None = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = zeros_initializer,
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        trainable: bool = True,
        name: str | None = None,
        **more: Any,
    ) -> None:
        super().__init__(
            activation,
            use_bias,
            (kernel_initializer, kernel_regularizer, kernel_constraint),
            (bias_initializer, bias_regularizer, bias_constraint),
            trainable=trainable,
            name=name,
            activity_regularizer=activity_regularizer,
            **more,
        )
        if int(units) <= 0:
            raise ValueError(f"units must be positive, but is {units}")
        self.units = int(units)

    def build(self, input_shape: Any) -> None:
        """Makes the kernel and the bias; takes the shape of an input, or its last size."""
        size = input_shape if isinstance(input_shape, int) else TensorShape(input_shape)[-1].value
        if size is None:
            raise ValueError("The last dimension of the inputs to `Dense` should be defined. Found `None`.")
        self.make_kernel(self.kernel_name, [size, self.units])
        self.make_bias(self.units)
        self.built = True

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """The activation of the sum."""
        made = matmul(inputs, self.kernel)
        if self.bias is not None:
            made = bias_add(made, self.bias)
        return made if self.activation is None else self.activation(made)

    def module_parts(self) -> tuple[Variable, Variable | None, Callable[[Any], Any] | None]:
        """The kernel, the bias and the activation, for what computes with them itself."""
        if not self.built:
            raise RuntimeError(f"layer {self.name} has no variables yet: call it, or build(input_size)")
        return self.kernel, self.bias, self.activation


@checks_flags
def dense(
    inputs: Any,
    units: int,
    activation: Callable[[Any], Any] | None = None,
    use_bias: bool = True,
    kernel_initializer: Any = None,
    bias_initializer: Any = zeros_initializer,
    kernel_regularizer: Any = None,
    bias_regularizer: Any = None,
    activity_regularizer: Any = None,
    kernel_constraint: Any = None,
    bias_constraint: Any = None,
    trainable: bool = True,
    name: str | None = None,
    reuse: Any = None,
) -> Any:
    """`Dense(units, ...)(inputs)`; a name is the scope's as it is, and with `reuse` its variables are shared.

    >>> from unspool import tf1 as tf
    >>> x = tf.placeholder(tf.float32, [None, 3])
    >>> one = tf.layers.dense(x, 4, name="shared")
    >>> other = tf.layers.dense(x, 4, name="shared", reuse=True)
    >>> [variable.name for variable in tf.global_variables("shared")]
    ['shared/kernel:0', 'shared/bias:0']
    """
    layer = Dense(
        units,
        activation,
        use_bias,
        kernel_initializer,
        bias_initializer,
        kernel_regularizer,
        bias_regularizer,
        activity_regularizer,
        kernel_constraint,
        bias_constraint,
        trainable,
        name,
        _scope=name,
        _reuse=reuse,
    )
    return layer(inputs)


class Dropout(Layer):
    """Drops elements at random while training, and scales what is kept.

    Args:
        rate: the probability to drop one; a number or a scalar tensor.
        noise_shape: the shape of the draw, 1 where elements are dropped together.
        seed: makes the draws repeatable.
        name: of its operations.
        more: see `Layer`.
    """

    def __init__(
        self, rate: Any = 0.5, noise_shape: Any = None, seed: int | None = None, name: str | None = None, **more: Any
    ) -> None:
        super().__init__(name=name, **more)
        self.rate, self.noise_shape, self.seed = rate, noise_shape, seed

    def call(self, inputs: Any, *args: Any, training: Any = False, **kwargs: Any) -> Any:
        """The input, with elements dropped if `training`, which is a bool, or a scalar bool tensor."""
        flag = args[0] if args else training
        known = is_true(flag)
        if known is False:
            return identity(inputs)
        return drop(inputs, rate=self._chance(inputs, flag, known), noise_shape=self.noise_shape, seed=self.seed)

    def _chance(self, inputs: Any, flag: Any, known: bool | None) -> Any:
        if known and not isinstance(self.rate, Operators):
            return self.rate
        rate = as_tensor(self.rate, inputs.dtype)
        if known:
            return rate
        return apply("Rate", _if_training, rate, flag, outputs=[(rate.dtype, ())])


def _if_training(rate: torch.Tensor, training: torch.Tensor) -> torch.Tensor:
    return torch.where(training.bool(), rate, torch.zeros_like(rate))


def dropout(
    inputs: Any,
    rate: Any = 0.5,
    noise_shape: Any = None,
    seed: int | None = None,
    training: Any = False,
    name: str | None = None,
) -> Any:
    """Drops elements at random if `training`, which is a bool, or a scalar bool tensor; see `Dropout`."""
    return Dropout(rate, noise_shape, seed, name)(inputs, training=training)


class Flatten(Layer):
    """All axes but the first as one; of inputs with channels first, these come last in a row.

    Args:
        data_format: "channels_last" or "channels_first".
        more: see `Layer`.
    """

    least_rank = 1

    def __init__(self, data_format: str = "channels_last", **more: Any) -> None:
        super().__init__(**more)
        self.data_format = data_format

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """The input in rows."""
        dims = inputs.dims
        if dims is None:
            raise ValueError(f"inputs must have a known number of axes, but {inputs!r} has not")
        if self.data_format == "channels_first" and len(dims) > 2:
            inputs = transpose(inputs, [0, *range(2, len(dims)), 1])
            dims = inputs.dims
        rows, rest = dims[0], dims[1:]
        if None not in rest:
            return reshape(inputs, [-1 if rows is None else rows, math.prod(int(each) for each in rest)])
        return apply("Reshape", _rows, inputs, outputs=[(inputs.dtype, (rows, None))])


def _rows(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(x.shape[0], -1)


def flatten(inputs: Any, name: str | None = None, data_format: str = "channels_last") -> Any:
    """All axes but the first as one; "channels_first" if channels come first, and are to be last in a row.

    >>> from unspool import tf1 as tf
    >>> tf.layers.flatten(tf.placeholder(tf.float32, [None, 3, 4])).shape
    TensorShape([None, 12])
    """
    return Flatten(name=name, data_format=data_format)(inputs)
