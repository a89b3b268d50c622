"""`tf.initializers`: the initialisers by their shorter names."""

from __future__ import annotations

from unspool.tf1 import initializers as each
from unspool.tf1.namespace import Namespace


class _HeNormal(each.variance_scaling_initializer):
    def __init__(self, seed: int | None = None) -> None:
        super().__init__(2.0, "fan_in", "truncated_normal", seed)


class _HeUniform(each.variance_scaling_initializer):
    def __init__(self, seed: int | None = None) -> None:
        super().__init__(2.0, "fan_in", "uniform", seed)


class _LecunNormal(each.variance_scaling_initializer):
    def __init__(self, seed: int | None = None) -> None:
        super().__init__(1.0, "fan_in", "truncated_normal", seed)


class _LecunUniform(each.variance_scaling_initializer):
    def __init__(self, seed: int | None = None) -> None:
        super().__init__(1.0, "fan_in", "uniform", seed)


initializers = Namespace(
    "tf.initializers",
    zeros=each.zeros_initializer,
    ones=each.ones_initializer,
    constant=each.constant_initializer,
    identity=each.identity_initializer,
    orthogonal=each.orthogonal_initializer,
    random_normal=each.random_normal_initializer,
    random_uniform=each.random_uniform_initializer,
    truncated_normal=each.truncated_normal_initializer,
    variance_scaling=each.variance_scaling_initializer,
    glorot_normal=each.glorot_normal_initializer,
    glorot_uniform=each.glorot_uniform_initializer,
    he_normal=_HeNormal,
    he_uniform=_HeUniform,
    lecun_normal=_LecunNormal,
    lecun_uniform=_LecunUniform,
)
