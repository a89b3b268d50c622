"""Activations by name, for code that says `activation="relu"` as TensorFlow lets it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

Activation = Callable[[Tensor], Tensor]


def _hard_sigmoid(x: Tensor) -> Tensor:
    # Keras' slope is 0.2; torch's own hardsigmoid has 1/6.
    return torch.clamp(0.2 * x + 0.5, 0.0, 1.0)


def _leaky_relu(x: Tensor) -> Tensor:
    return F.leaky_relu(x, 0.2)  # TensorFlow's slope; torch's is 0.01


def _linear(x: Tensor) -> Tensor:
    return x


def _log_softmax(x: Tensor) -> Tensor:
    return torch.log_softmax(x, -1)


def _softmax(x: Tensor) -> Tensor:
    return torch.softmax(x, -1)


def _softplus(x: Tensor) -> Tensor:
    # torch's own softplus is linear above 20, which float64 can see.
    return torch.logaddexp(x, x.new_zeros(()))


BY_NAME: dict[str, Activation] = {
    "elu": F.elu,
    "exponential": torch.exp,
    "gelu": F.gelu,
    "hard_sigmoid": _hard_sigmoid,
    "leaky_relu": _leaky_relu,
    "linear": _linear,
    "log_softmax": _log_softmax,
    "mish": F.mish,
    "relu": torch.relu,
    "relu6": F.relu6,
    "selu": torch.selu,
    "sigmoid": torch.sigmoid,
    "silu": F.silu,
    "softmax": _softmax,
    "softplus": _softplus,
    "softsign": F.softsign,
    "swish": F.silu,
    "tanh": torch.tanh,
}


def as_activation(activation: Activation | str | None) -> Activation:
    """The function that `activation` names or is; tanh for None.

    >>> as_activation("relu")(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    if activation is None:
        return torch.tanh
    if isinstance(activation, str):
        if activation in BY_NAME:
            return BY_NAME[activation]
        raise ValueError(f"activation {activation!r} is unknown; known are {', '.join(BY_NAME)}")
    if isinstance(activation, type):
        raise TypeError(f"activation is the class {activation.__name__}: give a function, or an object made from it")
    if not callable(activation):
        raise TypeError(f"activation must be a function or its name, but got {activation!r}")
    return activation
