"""`tf.distributions`: random numbers that know their probabilities."""

from __future__ import annotations

from typing import Any

from unspool.tf1.distributions.continuous import Normal, Uniform
from unspool.tf1.distributions.discrete import Bernoulli, Categorical
from unspool.tf1.distributions.distribution import Distribution, kl_divergence
from unspool.tf1.namespace import missing

__all__ = ["Bernoulli", "Categorical", "Distribution", "Normal", "Uniform", "kl_divergence"]


def __getattr__(name: str) -> Any:
    raise missing("tf.distributions", name, __all__)
