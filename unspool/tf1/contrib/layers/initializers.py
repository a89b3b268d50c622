"""How weights of `tf.contrib.layers` begin."""

from __future__ import annotations

import math
from typing import Any

import torch

from unspool.flags import checks_flags
from unspool.tf1.dtypes import float32
from unspool.tf1.initializers import Initializer, fans, truncated_normal_


class variance_scaling_initializer(Initializer):  # noqa: N801 (TensorFlow's name)
    """Random, with a variance of about `factor / n`; a truncated normal has 1.3 times that before it is cut.

    Args:
        factor: 2 for ReLU (He et al., 2015), 1 for tanh.
        mode: "FAN_IN" if n is the number of inputs, "FAN_OUT" of outputs, "FAN_AVG" their mean.
        uniform: whether it is uniform; else a truncated normal.
        seed: makes the draw repeatable.
        dtype: of the values.
    """

    kind = "variance_scaling"

    @checks_flags
    def __init__(
        self,
        factor: float = 2.0,
        mode: str = "FAN_IN",
        uniform: bool = False,
        seed: int | None = None,
        dtype: Any = float32,
    ) -> None:
        super().__init__(dtype, seed)
        if not self.dtype.is_floating:
            raise TypeError(f"Cannot create initializer for non-floating point type {self.dtype!r}.")
        if mode not in ("FAN_IN", "FAN_OUT", "FAN_AVG"):
            raise TypeError(f"Unknown mode {mode} [FAN_IN, FAN_OUT, FAN_AVG]")
        self.factor, self.mode, self.uniform = factor, mode, uniform

    def draw(self, blank: torch.Tensor, generator: torch.Generator | None) -> torch.Tensor:
        """Numbers of that variance."""
        fan_in, fan_out = fans(blank.shape)
        count = {"FAN_IN": fan_in, "FAN_OUT": fan_out, "FAN_AVG": (fan_in + fan_out) / 2}[self.mode]
        if self.uniform:
            limit = math.sqrt(3 * self.factor / count)
            return blank.uniform_(-limit, limit, generator=generator)
        return truncated_normal_(blank, 0.0, math.sqrt(1.3 * self.factor / count), generator)


@checks_flags
def xavier_initializer(uniform: bool = True, seed: int | None = None, dtype: Any = float32) -> Initializer:
    """Random, so that variances stay the same forwards and backwards (Glorot and Bengio, 2010)."""
    return variance_scaling_initializer(1.0, "FAN_AVG", uniform, seed, dtype)


xavier_initializer_conv2d = xavier_initializer
