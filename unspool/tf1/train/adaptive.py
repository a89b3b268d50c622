"""Optimisers with a rate for each element, from the gradients that it had. The formulas are those of TensorFlow 1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from unspool.flags import checks_flags
from unspool.tf1.train import foreach
from unspool.tf1.train.optimizer import Number, Numbers, Optimizer, Tensors


class AdamOptimizer(Optimizer):
    """Adam (Kingma and Ba, 2015).

        m = beta1 * m + (1 - beta1) * gradient
        v = beta2 * v + (1 - beta2) * gradient ** 2
        weight -= learning_rate * sqrt(1 - beta2 ** t) / (1 - beta1 ** t) * m / (sqrt(v) + epsilon)

    Args:
        learning_rate: a number or a scalar tensor.
        beta1, beta2: how much of the means stays.
        epsilon: added to the root as it is, without the correction: the "epsilon hat" of the paper.
        use_locking: accepted.
        name: of its operations and variables.

    >>> from unspool import tf1 as tf
    >>> tf.reset_default_graph()
    >>> weight = tf.Variable([1.0], name="weight")
    >>> step = tf.train.AdamOptimizer(0.1).minimize(tf.reduce_sum(weight))
    >>> [variable.op.name for variable in tf.global_variables()]
    ['weight', 'beta1_power', 'beta2_power', 'weight/Adam', 'weight/Adam_1']
    """

    by_rows = False

    @checks_flags
    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "Adam",
    ) -> None:
        super().__init__(use_locking, name)
        self._learning_rate, self._beta1, self._beta2, self._epsilon = learning_rate, beta1, beta2, epsilon

    def slot_values(self) -> Mapping[str, tuple[str, float]]:
        """The means of gradients and of their squares."""
        return {"m": (self._name, 0.0), "v": (self._name, 0.0)}

    def shared_values(self) -> Mapping[str, Any]:
        """The powers of the betas."""
        return {"beta1_power": self._beta1, "beta2_power": self._beta2}

    def hyperparameters(self) -> Mapping[str, Any]:
        """The learning rate, the betas and epsilon."""
        return {
            "learning_rate": self._learning_rate,
            "beta1": self._beta1,
            "beta2": self._beta2,
            "epsilon": self._epsilon,
        }

    def update(
        self,
        weights: Tensors,
        grads: Tensors,
        slots: Mapping[str, Tensors],
        shared: Mapping[str, torch.Tensor],
        numbers: Numbers,
    ) -> None:
        """One step of Adam."""
        rate = _corrected(numbers.rate, shared["beta1_power"], shared["beta2_power"], weights[0].dtype)
        if isinstance(rate, float):
            betas = dict(beta1=numbers["beta1"], beta2=numbers["beta2"], eps=numbers["epsilon"])
            foreach.adam_(weights, grads, slots["m"], slots["v"], rate, **betas)
            return
        foreach.lerp_(slots["m"], grads, numbers.rest("beta1"))
        foreach.lerp_(slots["v"], foreach.mul(grads, grads), numbers.rest("beta2"))
        scale = foreach.sqrt(slots["v"])
        foreach.add_(scale, numbers["epsilon"])
        moved = foreach.mul(slots["m"], rate)
        foreach.div_(moved, scale)
        foreach.sub_(weights, moved)

    def finish(self, shared: Mapping[str, torch.Tensor], numbers: Numbers) -> None:
        """The next powers."""
        shared["beta1_power"].mul_(numbers["beta1"])
        shared["beta2_power"].mul_(numbers["beta2"])


def _corrected(rate: Number, beta1_power: torch.Tensor, beta2_power: torch.Tensor, dtype: torch.dtype) -> Number:
    """Adam's learning rate, rounded as TensorFlow rounds it: a number where that does not have to wait for a GPU."""
    kind = _KINDS.get(dtype)
    if kind is None or beta1_power.device.type != "cpu":
        return rate * torch.sqrt(1 - beta2_power.to(dtype)) / (1 - beta1_power.to(dtype))
    one, powers = kind(1), (kind(beta1_power.item()), kind(beta2_power.item()))
    return float(kind(float(rate)) * np.sqrt(one - powers[1]) / (one - powers[0]))


_KINDS = {torch.float32: np.float32, torch.float64: np.float64}
"""NumPy's numbers: arithmetic on one of them takes no time beside that on a tensor."""


class RMSPropOptimizer(Optimizer):
    """RMSProp (Tieleman and Hinton, 2012).

        rms = decay * rms + (1 - decay) * gradient ** 2
        memory = momentum * memory + learning_rate * gradient / sqrt(rms + epsilon)
        weight -= memory

    Args:
        learning_rate: a number or a scalar tensor.
        decay: how much of the mean stays; it begins with ones.
        momentum: how much of the memory stays.
        epsilon: added inside the root.
        use_locking: accepted.
        centered: whether the square of the mean gradient is taken off under the root.
        name: of its operations and variables.
    """

    @checks_flags
    def __init__(
        self,
        learning_rate: Any,
        decay: Any = 0.9,
        momentum: Any = 0.0,
        epsilon: Any = 1e-10,
        use_locking: bool = False,
        centered: bool = False,
        name: str = "RMSProp",
    ) -> None:
        super().__init__(use_locking, name)
        self._learning_rate, self._decay, self._momentum = learning_rate, decay, momentum
        self._epsilon, self._centered = epsilon, centered

    def slot_values(self) -> Mapping[str, tuple[str, float]]:
        """The mean of squares, that of gradients if it is needed, and the memory."""
        mean = {"mg": (self._name, 0.0)} if self._centered else {}
        return {"rms": (self._name, 1.0), **mean, "momentum": (self._name, 0.0)}

    def hyperparameters(self) -> Mapping[str, Any]:
        """The learning rate, the decay, the momentum and epsilon."""
        return {
            "learning_rate": self._learning_rate,
            "decay": self._decay,
            "momentum": self._momentum,
            "epsilon": self._epsilon,
        }

    def update(
        self,
        weights: Tensors,
        grads: Tensors,
        slots: Mapping[str, Tensors],
        shared: Mapping[str, torch.Tensor],
        numbers: Numbers,
    ) -> None:
        """One step of RMSProp."""
        memory, rest = slots["momentum"], numbers.rest("decay")
        foreach.lerp_(slots["rms"], foreach.mul(grads, grads), rest)
        if self._centered:
            foreach.lerp_(slots["mg"], grads, rest)
            scale = foreach.sub(slots["rms"], foreach.mul(slots["mg"], slots["mg"]))
            foreach.add_(scale, numbers["epsilon"])
        else:
            scale = foreach.add(slots["rms"], numbers["epsilon"])
        foreach.sqrt_(scale)
        moved = foreach.mul(grads, numbers.rate)
        foreach.div_(moved, scale)
        foreach.mul_(memory, numbers["momentum"])
        foreach.add_(memory, moved)
        foreach.sub_(weights, memory)


class AdagradOptimizer(Optimizer):
    """Adagrad (Duchi et al., 2011): `total += gradient ** 2`, then `weight -= learning_rate * gradient / sqrt(total)`.

    Args:
        learning_rate: a number or a scalar tensor.
        initial_accumulator_value: what the totals begin with; larger than 0.
        use_locking: accepted.
        name: of its operations and variables.
    """

    @checks_flags
    def __init__(
        self,
        learning_rate: Any,
        initial_accumulator_value: float = 0.1,
        use_locking: bool = False,
        name: str = "Adagrad",
    ) -> None:
        if initial_accumulator_value <= 0.0:
            raise ValueError(f"initial_accumulator_value must be positive: {initial_accumulator_value}")
        super().__init__(use_locking, name)
        self._learning_rate, self._start = learning_rate, initial_accumulator_value

    def slot_values(self) -> Mapping[str, tuple[str, float]]:
        """The totals."""
        return {"accumulator": (self._name, self._start)}

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
        """One step of Adagrad."""
        total = slots["accumulator"]
        foreach.addcmul_(total, grads, grads)
        moved = foreach.mul(grads, numbers.rate)
        foreach.mul_(moved, foreach.rsqrt(total))
        foreach.sub_(weights, moved)


class AdadeltaOptimizer(Optimizer):
    """Adadelta (Zeiler, 2012).

        total = rho * total + (1 - rho) * gradient ** 2
        move = sqrt(moves + epsilon) / sqrt(total + epsilon) * gradient
        moves = rho * moves + (1 - rho) * move ** 2
        weight -= learning_rate * move

    Args:
        learning_rate: a number or a scalar tensor; the paper's is 1.
        rho: how much of the means stays.
        epsilon: added inside the roots.
        use_locking: accepted.
        name: of its operations and variables.
    """

    @checks_flags
    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: Any = 0.95,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "Adadelta",
    ) -> None:
        super().__init__(use_locking, name)
        self._learning_rate, self._rho, self._epsilon = learning_rate, rho, epsilon

    def slot_values(self) -> Mapping[str, tuple[str, float]]:
        """The means of squares of gradients and of moves."""
        return {"accum": (self._name, 0.0), "accum_update": (self._name, 0.0)}

    def hyperparameters(self) -> Mapping[str, Any]:
        """The learning rate, rho and epsilon."""
        return {"learning_rate": self._learning_rate, "rho": self._rho, "epsilon": self._epsilon}

    def update(
        self,
        weights: Tensors,
        grads: Tensors,
        slots: Mapping[str, Tensors],
        shared: Mapping[str, torch.Tensor],
        numbers: Numbers,
    ) -> None:
        """One step of Adadelta."""
        total, moves, rho, rest = slots["accum"], slots["accum_update"], numbers["rho"], numbers.rest("rho")
        foreach.mul_(total, rho)
        foreach.addcmul_(total, grads, grads, rest)
        moved = foreach.sqrt(foreach.add(moves, numbers["epsilon"]))
        foreach.mul_(moved, foreach.rsqrt(foreach.add(total, numbers["epsilon"])))
        foreach.mul_(moved, grads)
        foreach.mul_(moves, rho)
        foreach.addcmul_(moves, moved, moved, rest)
        foreach.sub_(weights, foreach.mul(moved, numbers.rate))


class FtrlOptimizer(Optimizer):
    """Follow the regularised leader (McMahan et al., 2013), which makes weights exactly 0 where they matter little.

    Args:
        learning_rate: a number or a scalar tensor.
        learning_rate_power: how the rate falls with the total of squares; not above 0.
        initial_accumulator_value: what the totals begin with; not below 0.
        l1_regularization_strength, l2_regularization_strength: penalties of the proximal step; not below 0.
        use_locking: accepted.
        name: of its operations and variables.
        accum_name, linear_name: of its variables, if other than `name`.
        l2_shrinkage_regularization_strength: a penalty of the weights' size, added to the gradient; not below 0.
    """

    @checks_flags
    def __init__(
        self,
        learning_rate: Any,
        learning_rate_power: float = -0.5,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "Ftrl",
        accum_name: str | None = None,
        linear_name: str | None = None,
        l2_shrinkage_regularization_strength: float = 0.0,
    ) -> None:
        super().__init__(use_locking, name)
        if learning_rate_power > 0.0:
            raise ValueError(f"learning_rate_power {learning_rate_power} needs to be negative or zero")
        self._numbers = {
            "initial_accumulator_value": initial_accumulator_value,
            "l1_regularization_strength": l1_regularization_strength,
            "l2_regularization_strength": l2_regularization_strength,
            "l2_shrinkage_regularization_strength": l2_shrinkage_regularization_strength,
        }
        for argument, value in self._numbers.items():
            if value < 0.0:
                raise ValueError(f"{argument} {value} needs to be positive or zero")
        self._learning_rate, self._power = learning_rate, learning_rate_power
        self._names = accum_name or name, linear_name or name

    def slot_values(self) -> Mapping[str, tuple[str, float]]:
        """The totals of squares, and the linear terms."""
        accum, linear = self._names
        return {"accum": (accum, self._numbers["initial_accumulator_value"]), "linear": (linear, 0.0)}

    def hyperparameters(self) -> Mapping[str, Any]:
        """The learning rate, its power, and the penalties."""
        return {"learning_rate": self._learning_rate, "power": self._power, **self._numbers}

    def update(
        self,
        weights: Tensors,
        grads: Tensors,
        slots: Mapping[str, Tensors],
        shared: Mapping[str, torch.Tensor],
        numbers: Numbers,
    ) -> None:
        """One step."""
        power, rate = numbers["power"], numbers.rate
        l1, l2 = numbers["l1_regularization_strength"], numbers["l2_regularization_strength"]
        shrinkage = numbers["l2_shrinkage_regularization_strength"]
        for weight, grad, total, linear in zip(weights, grads, slots["accum"], slots["linear"], strict=True):
            after = total + grad * grad
            root = after.pow(-power)
            shrunk = grad + 2 * shrinkage * weight if shrinkage else grad
            linear.add_(shrunk - (root - total.pow(-power)) / rate * weight)
            pulled = l1 * linear.sign() - linear
            weight.copy_(torch.where(linear.abs() > l1, pulled / (root / rate + 2 * l2), 0.0))
            total.copy_(after)
