"""What all distributions have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from unspool.tf1.dtypes import DType, int32
from unspool.tf1.operations import apply, as_sizes, as_tensor, same_dtype
from unspool.tf1.ops.array import reshape, shape
from unspool.tf1.ops.joining import concat
from unspool.tf1.ops.math import exp, log, multiply, subtract
from unspool.tf1.scopes import name_scope
from unspool.tf1.shapes import TensorShape
from unspool.tf1.tensor import Operators, Tensor


class Distribution:
    """Random numbers of a kind, one for each element of the parameters.

    Args:
        dtype: of what is drawn.
        name: above the operations.
        parameters: the tensors that say which one of its kind it is; all are stretched to one shape.

    Subclasses define what they know of `draw`, `log_prob_of` and the rest.
    """

    def __init__(self, dtype: DType, name: str, parameters: dict[str, Tensor]) -> None:
        self.dtype, self.name, self.parameters = dtype, name, parameters

    # -- shapes ------------------------------------------------------------------------------------------------------

    @property
    def batch_like(self) -> Tensor:
        """A tensor of the batch's shape."""
        raise NotImplementedError

    @property
    def batch_shape(self) -> TensorShape:
        """The shape of the parameters, as far as it is known."""
        return self.batch_like.shape

    def batch_shape_tensor(self, name: str = "batch_shape_tensor") -> Tensor:
        """The shape of the parameters."""
        return shape(self.batch_like, name)

    @property
    def event_shape(self) -> TensorShape:
        """The shape of one draw: a scalar's."""
        return TensorShape([])

    def event_shape_tensor(self, name: str = "event_shape_tensor") -> Tensor:
        """The shape of one draw."""
        return as_tensor(torch.zeros(self.event_shape.ndims or 0, dtype=torch.int32).numpy(), int32)

    # -- draws -------------------------------------------------------------------------------------------------------

    def sample(self, sample_shape: Any = (), seed: int | None = None, name: str = "sample") -> Tensor:
        """Draws of the shape `[*sample_shape, *batch_shape]`."""
        with name_scope(f"{self.name}/{name}"):
            first = reshape(as_sizes(sample_shape), [-1])
            return self.draw(concat([first, self.batch_shape_tensor()], 0), seed)

    def draw(self, sizes: Tensor, seed: int | None) -> Tensor:
        """Draws of these sizes, which end with the batch's."""
        raise self._unknown("sample")

    # -- functions of a value ----------------------------------------------------------------------------------------

    def log_prob(self, value: Any, name: str = "log_prob") -> Tensor:
        """The logarithm of the probability, or of its density."""
        return self._of(name, self.log_prob_of, value)

    def prob(self, value: Any, name: str = "prob") -> Tensor:
        """The probability, or its density."""
        return self._of(name, self.prob_of, value)

    def cdf(self, value: Any, name: str = "cdf") -> Tensor:
        """How probable it is that a draw is not larger."""
        return self._of(name, self.cdf_of, value)

    def log_cdf(self, value: Any, name: str = "log_cdf") -> Tensor:
        """The logarithm of `cdf`."""
        return self._of(name, self.log_cdf_of, value)

    def survival_function(self, value: Any, name: str = "survival_function") -> Tensor:
        """How probable it is that a draw is larger."""
        return self._of(name, lambda x: subtract(1.0, self.cdf_of(x)), value)

    def log_prob_of(self, value: Tensor) -> Tensor:
        """See `log_prob`."""
        raise self._unknown("log_prob")

    def prob_of(self, value: Tensor) -> Tensor:
        """See `prob`."""
        return exp(self.log_prob_of(value))

    def cdf_of(self, value: Tensor) -> Tensor:
        """See `cdf`."""
        raise self._unknown("cdf")

    def log_cdf_of(self, value: Tensor) -> Tensor:
        """See `log_cdf`."""
        return log(self.cdf_of(value))

    def _of(self, name: str, function: Callable[[Tensor], Tensor], value: Any) -> Tensor:
        with name_scope(f"{self.name}/{name}"):
            return function(as_tensor(value, None if isinstance(value, Operators) else self.dtype))

    # -- numbers of its own ------------------------------------------------------------------------------------------

    def mean(self, name: str = "mean") -> Tensor:
        """The mean."""
        raise self._unknown("mean")

    def mode(self, name: str = "mode") -> Tensor:
        """The most probable value."""
        raise self._unknown("mode")

    def stddev(self, name: str = "stddev") -> Tensor:
        """The standard deviation."""
        raise self._unknown("stddev")

    def variance(self, name: str = "variance") -> Tensor:
        """The variance."""
        with name_scope(f"{self.name}/{name}"):
            return multiply(self.stddev(), self.stddev())

    def entropy(self, name: str = "entropy") -> Tensor:
        """The entropy, in nats."""
        raise self._unknown("entropy")

    def kl_divergence(self, other: Distribution, name: str = "kl_divergence") -> Tensor:
        """The divergence of another distribution from this one (Kullback and Leibler, 1951)."""
        return kl_divergence(self, other, name=name)

    def divergence(self, other: Any) -> Tensor:
        """See `kl_divergence`; of the same kind."""
        raise self._unknown("kl_divergence")

    def _unknown(self, what: str) -> NotImplementedError:
        return NotImplementedError(f"{what} is not implemented: {type(self).__name__}")

    def __repr__(self) -> str:
        return f"<tf.distributions.{type(self).__name__} '{self.name}' batch_shape={self.batch_shape}>"


def kl_divergence(
    distribution_a: Distribution, distribution_b: Distribution, allow_nan_stats: bool = True, name: str | None = None
) -> Tensor:
    """The divergence of `distribution_b` from `distribution_a`.

    Raises:
        NotImplementedError: if they are of two kinds.

    >>> from unspool import tf1 as tf
    >>> one, other = tf.distributions.Normal(0.0, 1.0), tf.distributions.Normal(1.0, 1.0)
    >>> tf.Session().run(tf.distributions.kl_divergence(one, other))
    np.float32(0.5)
    """
    if type(distribution_a) is not type(distribution_b):
        kinds = " and ".join(type(each).__name__ for each in (distribution_a, distribution_b))
        raise NotImplementedError(f"No KL(distribution_a || distribution_b) registered for {kinds}")
    with name_scope(name or "kl_divergence"):
        return distribution_a.divergence(distribution_b)


def same_floats(name: str, *parameters: Any) -> list[Tensor]:
    """The parameters as tensors of one dtype of fractions; `ValueError` if they have two, or another."""
    try:
        made = same_dtype(name, *parameters)
    except TypeError as error:
        raise ValueError(str(error)) from None
    if not made[0].dtype.is_floating:
        raise ValueError(f"{name}: Expected floating point type, got {made[0].dtype.name}")
    return made


def standard_normal_cdf(x: Tensor) -> Tensor:
    """How probable it is that a standard normal number is not larger."""
    outputs = [(x.dtype, x.dims)]
    return apply("ndtr", torch.special.ndtr, x, outputs=outputs)


def log_standard_normal_cdf(x: Tensor) -> Tensor:
    """Its logarithm, which stays finite far to the left."""
    outputs = [(x.dtype, x.dims)]
    return apply("log_ndtr", torch.special.log_ndtr, x, outputs=outputs)
