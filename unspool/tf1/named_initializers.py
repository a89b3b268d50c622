"""`tf.initializers`: the initialisers by their shorter names."""

from __future__ import annotations

from typing import Any

from unspool.tf1.initializers import (
    constant_initializer,
    glorot_normal_initializer,
    glorot_uniform_initializer,
    identity_initializer,
    ones_initializer,
    orthogonal_initializer,
    random_normal_initializer,
    random_uniform_initializer,
    truncated_normal_initializer,
    variance_scaling_initializer,
    zeros_initializer,
)
from unspool.tf1.namespace import missing

__all__ = [
    "constant",
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "he_uniform",
    "identity",
    "lecun_normal",
    "lecun_uniform",
    "ones",
    "orthogonal",
    "random_normal",
    "random_uniform",
    "truncated_normal",
    "variance_scaling",
    "zeros",
]


class _HeNormal(variance_scaling_initializer):
    def __init__(self, seed: int | None = None) -> None:
        super().__init__(2.0, "fan_in", "truncated_normal", seed)


class _HeUniform(variance_scaling_initializer):
    def __init__(self, seed: int | None = None) -> None:
        super().__init__(2.0, "fan_in", "uniform", seed)


class _LecunNormal(variance_scaling_initializer):
    def __init__(self, seed: int | None = None) -> None:
        super().__init__(1.0, "fan_in", "truncated_normal", seed)


class _LecunUniform(variance_scaling_initializer):
    def __init__(self, seed: int | None = None) -> None:
        super().__init__(1.0, "fan_in", "uniform", seed)


zeros = zeros_initializer
ones = ones_initializer
constant = constant_initializer
identity = identity_initializer
orthogonal = orthogonal_initializer
random_normal = random_normal_initializer
random_uniform = random_uniform_initializer
truncated_normal = truncated_normal_initializer
variance_scaling = variance_scaling_initializer
glorot_normal = glorot_normal_initializer
glorot_uniform = glorot_uniform_initializer
he_normal = _HeNormal
he_uniform = _HeUniform
lecun_normal = _LecunNormal
lecun_uniform = _LecunUniform


def __getattr__(name: str) -> Any:
    raise missing("tf.initializers", name, [each for each in globals() if not each.endswith("initializer")])
