"""Distributions of fractions."""

from __future__ import annotations

import math
from typing import Any

from unspool.tf1.distributions.distribution import (
    Distribution,
    log_standard_normal_cdf,
    same_floats,
    standard_normal_cdf,
)
from unspool.tf1.ops.creation import ones_like, zeros_like
from unspool.tf1.ops.math import add, divide, greater_equal, is_nan, less, log, logical_or, multiply, square, subtract
from unspool.tf1.ops.random import random_normal, random_uniform
from unspool.tf1.ops.reductions import reduce_sum
from unspool.tf1.ops.slicing import where
from unspool.tf1.shapes import TensorShape
from unspool.tf1.tensor import Tensor


class Normal(Distribution):
    """Normal numbers; draws have gradients by the mean and the deviation (Kingma and Welling, 2014).

    Args:
        loc: the means.
        scale: the standard deviations.
        validate_args, allow_nan_stats: unused.
        name: above the operations.

    >>> from unspool import tf1 as tf
    >>> normal = tf.distributions.Normal(loc=[0.0, 1.0], scale=2.0)
    >>> normal.sample(3).shape, tf.Session().run(normal.log_prob(0.0))
    (TensorShape([3, 2]), array([-1.6120857, -1.7370857], dtype=float32))
    """

    def __init__(
        self, loc: Any, scale: Any, validate_args: bool = False, allow_nan_stats: bool = True, name: str = "Normal"
    ) -> None:
        self.loc, self.scale = same_floats(name, loc, scale)
        super().__init__(self.loc.dtype, name, {"loc": self.loc, "scale": self.scale})

    @property
    def batch_like(self) -> Tensor:
        """The means, stretched to the deviations."""
        return add(self.loc, zeros_like(self.scale))

    def draw(self, sizes: Tensor, seed: int | None) -> Tensor:
        """Standard normal numbers, stretched and moved."""
        drawn = random_normal(sizes, dtype=self.dtype, seed=seed)
        return add(multiply(drawn, self.scale), self.loc)

    def _z(self, value: Tensor) -> Tensor:
        return divide(subtract(value, self.loc), self.scale)

    def log_prob_of(self, value: Tensor) -> Tensor:
        """The logarithm of the density."""
        normalization = add(log(self.scale), 0.5 * math.log(2 * math.pi))
        return subtract(multiply(square(self._z(value)), -0.5), normalization)

    def cdf_of(self, value: Tensor) -> Tensor:
        """The area to the left."""
        return standard_normal_cdf(self._z(value))

    def log_cdf_of(self, value: Tensor) -> Tensor:
        """Its logarithm."""
        return log_standard_normal_cdf(self._z(value))

    def entropy(self, name: str = "entropy") -> Tensor:
        """The entropy."""
        scale = multiply(self.scale, ones_like(self.loc))
        return add(log(scale), 0.5 + 0.5 * math.log(2 * math.pi))

    def mean(self, name: str = "mean") -> Tensor:
        """The mean."""
        return multiply(self.loc, ones_like(self.scale))

    mode = mean

    def stddev(self, name: str = "stddev") -> Tensor:
        """The standard deviation."""
        return multiply(self.scale, ones_like(self.loc))

    def divergence(self, other: Normal) -> Tensor:
        """Of another normal distribution from this one."""
        ratio = divide(square(self.scale), square(other.scale))
        moved = divide(square(subtract(self.loc, other.loc)), multiply(square(other.scale), 2.0))
        return add(moved, multiply(subtract(subtract(ratio, 1.0), log(ratio)), 0.5))


class Uniform(Distribution):
    """Uniform numbers from `low` up to `high`.

    Args:
        low, high: the bounds.
        validate_args, allow_nan_stats: unused.
        name: above the operations.
    """

    def __init__(
        self,
        low: Any = 0.0,
        high: Any = 1.0,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Uniform",
    ) -> None:
        self.low, self.high = same_floats(name, low, high)
        super().__init__(self.low.dtype, name, {"low": self.low, "high": self.high})

    @property
    def batch_like(self) -> Tensor:
        """The widths."""
        return self.range()

    def range(self, name: str = "range") -> Tensor:
        """How far the bounds are from each other."""
        return subtract(self.high, self.low)

    def draw(self, sizes: Tensor, seed: int | None) -> Tensor:
        """Numbers from 0 up to 1, stretched and moved."""
        drawn = random_uniform(sizes, dtype=self.dtype, seed=seed)
        return add(self.low, multiply(drawn, self.range()))

    def prob_of(self, value: Tensor) -> Tensor:
        """The density."""
        spread = multiply(value, ones_like(self.range()))
        outside = logical_or(less(spread, self.low), greater_equal(spread, self.high))
        inside = multiply(divide(ones_like(self.range()), self.range()), ones_like(spread))
        return where(is_nan(spread), spread, where(outside, zeros_like(spread), inside))

    def log_prob_of(self, value: Tensor) -> Tensor:
        """The logarithm of the density."""
        return log(self.prob_of(value))

    def cdf_of(self, value: Tensor) -> Tensor:
        """The part of the way from one bound to the other."""
        spread = multiply(value, ones_like(self.range()))
        inside = divide(subtract(spread, self.low), self.range())
        return where(
            less(spread, multiply(self.low, ones_like(spread))),
            zeros_like(spread),
            where(greater_equal(spread, multiply(self.high, ones_like(spread))), ones_like(spread), inside),
        )

    def entropy(self, name: str = "entropy") -> Tensor:
        """The entropy."""
        return log(self.range())

    def mean(self, name: str = "mean") -> Tensor:
        """The middle."""
        return divide(add(self.low, self.high), 2.0)

    def stddev(self, name: str = "stddev") -> Tensor:
        """The standard deviation."""
        return divide(self.range(), math.sqrt(12.0))


class MultivariateNormalDiag(Normal):
    """Vectors of independent normal numbers, along the last axis of the parameters.

    Args:
        loc: the means; zeros by default.
        scale_diag: the standard deviations; ones by default.
        validate_args, allow_nan_stats: unused.
        name: above the operations.

    >>> from unspool import tf1 as tf
    >>> normal = tf.contrib.distributions.MultivariateNormalDiag(tf.zeros([5, 3]), tf.ones([5, 3]))
    >>> normal.sample().shape, normal.log_prob(tf.zeros([5, 3])).shape
    (TensorShape([5, 3]), TensorShape([5]))
    """

    def __init__(
        self,
        loc: Any = None,
        scale_diag: Any = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "MultivariateNormalDiag",
    ) -> None:
        if loc is None and scale_diag is None:
            raise ValueError("Must specify at least one of `loc`, `scale_diag`.")
        given = scale_diag if loc is None else loc
        super().__init__(
            zeros_like(given) if loc is None else loc, ones_like(given) if scale_diag is None else scale_diag, name=name
        )

    @property
    def event_shape(self) -> TensorShape:
        """The length of a vector."""
        return super().batch_like.shape[-1:]

    @property
    def batch_shape(self) -> TensorShape:
        """The axes before the vectors."""
        return super().batch_like.shape[:-1]

    def log_prob_of(self, value: Tensor) -> Tensor:
        """The logarithm of the density."""
        return reduce_sum(super().log_prob_of(value), -1)

    def entropy(self, name: str = "entropy") -> Tensor:
        """The entropy."""
        return reduce_sum(super().entropy(), -1)

    def divergence(self, other: Normal) -> Tensor:
        """Of another one from this one."""
        return reduce_sum(super().divergence(other), -1)
