"""Optimisers that go down the gradient as it is, with or without momentum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from unspool.flags import checks_flags
from unspool.tf1.train import foreach
from unspool.tf1.train.optimizer import Numbers, Optimizer, Tensors


class GradientDescentOptimizer(Optimizer):
    """`weight -= learning_rate * gradient`.

    Args:
        learning_rate: a number or a scalar tensor.
        use_locking: accepted.
        name: of its operations.

    >>> from unspool import tf1 as tf
    >>> weight = tf.Variable(3.0)
    >>> step = tf.train.GradientDescentOptimizer(0.5).minimize(weight**2)
    >>> with tf.Session() as session:
    ...     session.run(tf.global_variables_initializer())
    ...     session.run(step)
    ...     session.run(weight)
    np.float32(0.0)
    """

    @checks_flags
    def __init__(self, learning_rate: Any, use_locking: bool = False, name: str = "GradientDescent") -> None:
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate

    def hyperparameters(self) -> Mapping[str, Any]:
        """The learning rate."""
        return {"learning_rate": self._learning_rate}

    def update(
        self,
        weights: Tensors,
        grads: Tensors,
        slots: Mapping[str, Tensors],
        shared: Mapping[str, torch.Tensor],
        numbers: Numbers,
    ) -> None:
        """One step down."""
        foreach.sub_(weights, foreach.mul(grads, numbers.rate))


class MomentumOptimizer(Optimizer):
    """`memory = momentum * memory + gradient`, then `weight -= learning_rate * memory`.

    Args:
        learning_rate: a number or a scalar tensor.
        momentum: how much of the memory stays.
        use_locking: accepted.
        name: of its operations and variables.
        use_nesterov: whether the weight moves by `gradient + momentum * memory` instead (Sutskever et al., 2013).
    """

    @checks_flags
    def __init__(
        self,
        learning_rate: Any,
        momentum: Any,
        use_locking: bool = False,
        name: str = "Momentum",
        use_nesterov: bool = False,
    ) -> None:
        super().__init__(use_locking, name)
        self._learning_rate, self._momentum, self._use_nesterov = learning_rate, momentum, use_nesterov

    def slot_values(self) -> Mapping[str, tuple[str, float]]:
        """The sum of past gradients."""
        return {"momentum": (self._name, 0.0)}

    def hyperparameters(self) -> Mapping[str, Any]:
        """The learning rate and the momentum."""
        return {"learning_rate": self._learning_rate, "momentum": self._momentum}

    def update(
        self,
        weights: Tensors,
        grads: Tensors,
        slots: Mapping[str, Tensors],
        shared: Mapping[str, torch.Tensor],
        numbers: Numbers,
    ) -> None:
        """One step down the sum."""
        memory = slots["momentum"]
        foreach.mul_(memory, numbers["momentum"])
        foreach.add_(memory, grads)
        moved = foreach.mul(memory, numbers.rate)
        if self._use_nesterov:
            foreach.mul_(moved, numbers["momentum"])
            foreach.add_(moved, foreach.mul(grads, numbers.rate))
        foreach.sub_(weights, moved)
