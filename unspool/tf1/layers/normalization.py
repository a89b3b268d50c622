"""Batch normalisation, with averages for when there is no batch."""

from __future__ import annotations

import math
from typing import Any

import torch

from unspool.flags import checks_flags
from unspool.tf1.graph import get_default_graph
from unspool.tf1.initializers import ones_initializer, zeros_initializer
from unspool.tf1.layers.base import Layer, is_true, listed
from unspool.tf1.operations import apply, as_tensor
from unspool.tf1.shapes import TensorShape, described
from unspool.tf1.tensor import Tensor
from unspool.tf1.variables import GraphKeys


class BatchNormalization(Layer):
    """Normalises each feature by its mean and variance: the batch's while training, averages of these afterwards.

        (inputs - mean) / sqrt(variance + epsilon) * gamma + beta

    While training, two operations in the collection `tf.GraphKeys.UPDATE_OPS` bring the averages up to date; programs
    run them with the training step.

    Args:
        axis: of the features.
        momentum: how much of the averages stays.
        epsilon: added to the variance.
        center: whether there is a beta.
        scale: whether there is a gamma.
        beta_initializer: by default zeros.
        gamma_initializer: by default ones.
        moving_mean_initializer: by default zeros.
        moving_variance_initializer: by default ones.
        beta_regularizer: a function of beta whose result is added to the regularisation losses.
        gamma_regularizer: the same for gamma.
        trainable: whether optimisers change beta and gamma by default.
        fused: False for the variance of the batch as it is in the averages of images too. TensorFlow's operation for
            images, which have four axes, averages `n / (n - 1)` of it.
        name: of the scope of its variables.
        more: see `Layer`.
    """

    beta_first = False
    """Whether beta is made before gamma."""
    fused_ranks: tuple[int, ...] = (4,)
    """How many axes inputs have for TensorFlow's operation for images."""

    @checks_flags
    def __init__(
        self,
        axis: int | list[int] = -1,
        momentum: float = 0.99,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = zeros_initializer,
        gamma_initializer: Any = ones_initializer,
        moving_mean_initializer: Any = zeros_initializer,
        moving_variance_initializer: Any = ones_initializer,
        beta_regularizer: Any = None,
        gamma_regularizer: Any = None,
        trainable: bool = True,
        fused: bool | None = None,
        name: str | None = None,
        **more: Any,
    ) -> None:
        super().__init__(trainable, name, **more)
        (self.axis,) = listed(axis)
        self.momentum, self.epsilon, self.center, self.scale, self.fused = momentum, epsilon, center, scale, fused
        self._starts = beta_initializer, gamma_initializer, moving_mean_initializer, moving_variance_initializer
        self._regularizers = beta_regularizer, gamma_regularizer
        self.gamma: Any = None
        self.beta: Any = None
        self.updates_collection: str | None = GraphKeys.UPDATE_OPS

    def build(self, input_shape: Any) -> None:
        """Makes gamma, beta and the averages."""
        shape = TensorShape(input_shape)
        size = None if shape.ndims is None else shape[self.axis].value
        if size is None:
            raise ValueError(f"inputs must have a known size along axis {self.axis}, but their shape is {shape}")
        beta, gamma, mean, variance = self._starts
        both = [("gamma", self.scale, gamma, self._regularizers[1]), ("beta", self.center, beta, self._regularizers[0])]
        for name, wanted, start, regularizer in reversed(both) if self.beta_first else both:
            if wanted:
                setattr(self, name, self.add_variable(name, [size], initializer=start, regularizer=regularizer))
        self.moving_mean = self.add_variable("moving_mean", [size], initializer=mean, trainable=False)
        self.moving_variance = self.add_variable("moving_variance", [size], initializer=variance, trainable=False)
        self.built = True

    def call(self, inputs: Any, *args: Any, training: Any = False, **kwargs: Any) -> Any:
        """The normalised input; `training` is a bool, or a scalar bool tensor."""
        flag = args[0] if args else training
        known = is_true(flag)
        if inputs.dims is None:
            raise ValueError(f"inputs must have a known number of axes, but {inputs!r} has shape {described(None)}")
        given = [each for each in (self.gamma, self.beta) if each is not None]
        now = [as_tensor(flag)] if known is None else []
        size = self.moving_mean.dims
        made, mean, variance = apply(
            "FusedBatchNorm",
            _Normalize(self, known, len(inputs.dims)),
            inputs,
            self.moving_mean,
            self.moving_variance,
            *given,
            *now,
            outputs=[(inputs.dtype, inputs.dims), (inputs.dtype, size), (inputs.dtype, size)],
        )
        if known is not False:
            self._update(mean, variance)
        return made

    def _update(self, mean: Tensor, variance: Tensor) -> None:
        graph = get_default_graph()
        for average, new in ((self.moving_mean, mean), (self.moving_variance, variance)):
            kept = as_tensor(self.momentum, average.dtype)
            change = apply(
                "AssignMovingAvg",
                _step_back,
                average,
                new,
                kept,
                outputs=[(average.dtype, average.dims)],
            )
            self.updates.append(average.assign_sub(change))
            if self.updates_collection:
                graph.add_to_collection(self.updates_collection, self.updates[-1])


def _step_back(old: torch.Tensor, new: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
    return (old - new) * (1 - kept)


class _Normalize:
    """The normalised input, and what the averages should come nearer to: themselves while not training."""

    def __init__(self, layer: BatchNormalization, training: bool | None, rank: int) -> None:
        self._training, self._epsilon = training, layer.epsilon
        self._scale, self._center = layer.scale, layer.center
        self._axis = layer.axis % rank
        self._unbiased = rank in layer.fused_ranks and layer.fused is not False

    def __call__(
        self, x: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor, *rest: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        given = list(rest)
        gamma = given.pop(0) if self._scale else None
        beta = given.pop(0) if self._center else None
        training = bool(given[0]) if given else bool(self._training)
        averaged = variance
        if training:
            others = [axis for axis in range(x.dim()) if axis != self._axis]
            mean, variance = x.mean(others), x.var(others, correction=0)
            count = math.prod(x.shape[axis] for axis in others)
            averaged = variance * (count / max(count - 1, 1)) if self._unbiased else variance
        shape = [x.shape[self._axis] if axis == self._axis else 1 for axis in range(x.dim())]
        factor = torch.rsqrt(variance + self._epsilon)
        factor = factor if gamma is None else factor * gamma
        made = (x - mean.reshape(shape)) * factor.reshape(shape)
        return made if beta is None else made + beta.reshape(shape), mean, averaged


@checks_flags
def batch_normalization(
    inputs: Any,
    axis: int | list[int] = -1,
    momentum: float = 0.99,
    epsilon: float = 1e-3,
    center: bool = True,
    scale: bool = True,
    beta_initializer: Any = zeros_initializer,
    gamma_initializer: Any = ones_initializer,
    moving_mean_initializer: Any = zeros_initializer,
    moving_variance_initializer: Any = ones_initializer,
    beta_regularizer: Any = None,
    gamma_regularizer: Any = None,
    beta_constraint: Any = None,
    gamma_constraint: Any = None,
    training: Any = False,
    trainable: bool = True,
    name: str | None = None,
    reuse: Any = None,
    fused: bool | None = None,
) -> Any:
    """`BatchNormalization(...)(inputs, training)`.

    >>> from unspool import tf1 as tf
    >>> training = tf.placeholder(tf.bool, [])
    >>> made = tf.layers.batch_normalization(tf.placeholder(tf.float32, [None, 3]), training=training)
    >>> len(tf.get_default_graph().get_collection(tf.GraphKeys.UPDATE_OPS))
    2
    """
    if beta_constraint is not None or gamma_constraint is not None:
        raise NotImplementedError("beta_constraint and gamma_constraint are not supported")
    layer = BatchNormalization(
        axis,
        momentum,
        epsilon,
        center,
        scale,
        beta_initializer,
        gamma_initializer,
        moving_mean_initializer,
        moving_variance_initializer,
        beta_regularizer,
        gamma_regularizer,
        trainable,
        fused,
        name,
        _scope=name,
        _reuse=reuse,
    )
    return layer(inputs, training=training)
