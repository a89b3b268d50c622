"""`tf.contrib.distributions`: those of `tf.distributions`, and vectors."""

from __future__ import annotations

from typing import Any

from unspool.tf1.distributions import Bernoulli, Categorical, Distribution, Normal, Uniform, kl_divergence
from unspool.tf1.distributions.continuous import MultivariateNormalDiag
from unspool.tf1.namespace import missing

__all__ = [
    "Bernoulli",
    "Categorical",
    "Distribution",
    "MultivariateNormalDiag",
    "Normal",
    "Uniform",
    "kl",
    "kl_divergence",
]

kl = kl_divergence


def __getattr__(name: str) -> Any:
    raise missing("tf.contrib.distributions", name, __all__)
