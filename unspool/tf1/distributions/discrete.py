"""Distributions of whole numbers."""

from __future__ import annotations

from typing import Any

from unspool.tf1.distributions.distribution import Distribution
from unspool.tf1.dtypes import as_dtype, int32
from unspool.tf1.operations import as_tensor
from unspool.tf1.ops.array import expand_dims, reshape, shape, transpose
from unspool.tf1.ops.creation import ones_like, zeros_like
from unspool.tf1.ops.joining import concat
from unspool.tf1.ops.math import (
    add,
    cast,
    exp,
    floordiv,
    greater,
    less,
    log,
    log1p,
    maximum,
    multiply,
    negative,
    sigmoid,
    sqrt,
    subtract,
)
from unspool.tf1.ops.nn import (
    log_softmax,
    sigmoid_cross_entropy_with_logits,
    softmax,
    softplus,
    sparse_softmax_cross_entropy_with_logits,
)
from unspool.tf1.ops.random import multinomial, random_uniform
from unspool.tf1.ops.reductions import argmax, reduce_prod, reduce_sum
from unspool.tf1.shapes import TensorShape
from unspool.tf1.tensor import Tensor


class Categorical(Distribution):
    """Classes, with the probabilities `softmax(logits)` along the last axis.

    Args:
        logits: the logarithms of the probabilities, up to a constant; or
        probs: the probabilities.
        dtype: of what is drawn.
        validate_args, allow_nan_stats: unused.
        name: above the operations.

    >>> from unspool import tf1 as tf
    >>> coin = tf.distributions.Categorical(probs=[0.25, 0.75])
    >>> coin.sample(5).shape, tf.Session().run(coin.mode())
    (TensorShape([5]), np.int32(1))
    """

    def __init__(
        self,
        logits: Any = None,
        probs: Any = None,
        dtype: Any = int32,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Categorical",
    ) -> None:
        self.logits, self.probs = _both(logits, probs, softmax, log)
        if self.logits.dims == ():
            raise ValueError("logits and probs have the classes along their last axis, but are a scalar")
        super().__init__(as_dtype(dtype), name, {"logits": self.logits, "probs": self.probs})

    @property
    def batch_like(self) -> Tensor:
        """One number for each vector of classes."""
        return reduce_sum(self.logits, -1)

    @property
    def event_size(self) -> Tensor:
        """How many classes there are."""
        return shape(self.logits)[-1]

    def draw(self, sizes: Tensor, seed: int | None) -> Tensor:
        """Draws for each row, with the sample's axes first."""
        batch = self.batch_shape_tensor()
        rows = reshape(self.logits, concat([[-1], shape(self.logits)[-1:]], 0))
        count = floordiv(reduce_prod(sizes), maximum(reduce_prod(batch), 1))
        drawn: Tensor = reshape(transpose(multinomial(rows, count, seed)), sizes)
        return cast(drawn, self.dtype)

    def log_prob_of(self, value: Tensor) -> Tensor:
        """The logarithm of a class's probability."""
        classes = cast(value, int32)
        blank = zeros_like(cast(expand_dims(classes, -1), self.logits.dtype))
        spread = add(self.logits, blank)
        fitting = add(classes, cast(zeros_like(reduce_sum(spread, -1)), int32))
        return negative(sparse_softmax_cross_entropy_with_logits(labels=fitting, logits=spread))

    def entropy(self, name: str = "entropy") -> Tensor:
        """The entropy."""
        return negative(reduce_sum(multiply(log_softmax(self.logits), self.probs), -1))

    def mode(self, name: str = "mode") -> Tensor:
        """The most probable class."""
        return cast(argmax(self.logits, -1), self.dtype)

    def divergence(self, other: Categorical) -> Tensor:
        """Of other probabilities from these."""
        difference = subtract(log_softmax(self.logits), log_softmax(other.logits))
        return reduce_sum(multiply(softmax(self.logits), difference), -1)


class Bernoulli(Distribution):
    """0 or 1, with the probability `sigmoid(logits)` of a 1.

    Args:
        logits: the log-odds; or
        probs: the probabilities.
        dtype: of what is drawn.
        validate_args, allow_nan_stats: unused.
        name: above the operations.
    """

    def __init__(
        self,
        logits: Any = None,
        probs: Any = None,
        dtype: Any = int32,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Bernoulli",
    ) -> None:
        self.logits, self.probs = _both(logits, probs, sigmoid, lambda p: subtract(log(p), log1p(negative(p))))
        super().__init__(as_dtype(dtype), name, {"logits": self.logits, "probs": self.probs})

    @property
    def batch_like(self) -> Tensor:
        """The log-odds."""
        return self.logits

    @property
    def event_shape(self) -> TensorShape:
        """A scalar's."""
        return TensorShape([])

    def draw(self, sizes: Tensor, seed: int | None) -> Tensor:
        """1 where a uniform number is less than the probability."""
        return cast(less(random_uniform(sizes, dtype=self.probs.dtype, seed=seed), self.probs), self.dtype)

    def log_prob_of(self, value: Tensor) -> Tensor:
        """The logarithm of the probability."""
        events = cast(value, self.logits.dtype)
        spread = multiply(ones_like(events), self.logits)
        wanted = multiply(events, ones_like(self.logits))
        return negative(sigmoid_cross_entropy_with_logits(labels=wanted, logits=spread))

    def prob_of(self, value: Tensor) -> Tensor:
        """The probability."""
        return exp(self.log_prob_of(value))

    def entropy(self, name: str = "entropy") -> Tensor:
        """The entropy."""
        left = multiply(negative(self.logits), subtract(sigmoid(self.logits), 1.0))
        return add(left, softplus(negative(self.logits)))

    def mean(self, name: str = "mean") -> Tensor:
        """The probability of a 1."""
        return self.probs

    def mode(self, name: str = "mode") -> Tensor:
        """1 where that is more probable."""
        return cast(greater(self.probs, 0.5), self.dtype)

    def variance(self, name: str = "variance") -> Tensor:
        """The variance."""
        return multiply(self.probs, subtract(1.0, self.probs))

    def stddev(self, name: str = "stddev") -> Tensor:
        """The standard deviation."""
        return sqrt(self.variance())

    def divergence(self, other: Bernoulli) -> Tensor:
        """Of another probability from this one."""
        ones = subtract(softplus(negative(other.logits)), softplus(negative(self.logits)))
        zeros = subtract(softplus(other.logits), softplus(self.logits))
        return add(multiply(sigmoid(self.logits), ones), multiply(sigmoid(negative(self.logits)), zeros))


def _both(logits: Any, probs: Any, to_probs: Any, to_logits: Any) -> tuple[Tensor, Tensor]:
    """Logits and probabilities, of which one is given."""
    if (logits is None) == (probs is None):
        raise ValueError("Must pass probs or logits, but not both.")
    if logits is not None:
        given = as_tensor(logits)
        return given, to_probs(given)
    given = as_tensor(probs)
    return to_logits(given), given
