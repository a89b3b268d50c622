"""Learning rates that fall with the number of steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from unspool.flags import checks_flags
from unspool.tf1.operations import apply, as_tensor
from unspool.tf1.shapes import fit
from unspool.tf1.tensor import Tensor


@checks_flags
def exponential_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Tensor:
    """`learning_rate * decay_rate ** (global_step / decay_steps)`.

    Args:
        learning_rate: the first rate.
        global_step: how many steps there were.
        decay_steps: after how many steps it has fallen by `decay_rate`.
        decay_rate: the factor.
        staircase: whether it falls all at once, every `decay_steps` steps.
        name: the operation's name.

    >>> from unspool import tf1 as tf
    >>> step = tf.placeholder(tf.int64, [])
    >>> rate = tf.train.exponential_decay(0.5, step, decay_steps=10, decay_rate=0.5, staircase=True)
    >>> tf.Session().run(rate, {step: 25})
    np.float32(0.125)
    """

    def compute(rate: torch.Tensor, part: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        return rate * torch.pow(factor, part)

    return _decayed(
        "ExponentialDecay", compute, learning_rate, global_step, decay_steps, decay_rate, staircase=staircase, name=name
    )


@checks_flags
def natural_exp_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Tensor:
    """`learning_rate * exp(-decay_rate * global_step / decay_steps)`; see `exponential_decay`."""

    def compute(rate: torch.Tensor, part: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        return rate * torch.exp(-factor * part)

    return _decayed(
        "NaturalExpDecay", compute, learning_rate, global_step, decay_steps, decay_rate, staircase=staircase, name=name
    )


@checks_flags
def inverse_time_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Tensor:
    """`learning_rate / (1 + decay_rate * global_step / decay_steps)`; see `exponential_decay`."""

    def compute(rate: torch.Tensor, part: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        return rate / (1 + factor * part)

    return _decayed(
        "InverseTimeDecay", compute, learning_rate, global_step, decay_steps, decay_rate, staircase=staircase, name=name
    )


@checks_flags
def polynomial_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    end_learning_rate: Any = 0.0001,
    power: Any = 1.0,
    cycle: bool = False,
    name: str | None = None,
) -> Tensor:
    """`(learning_rate - end) * (1 - global_step / decay_steps) ** power + end`, and `end` after `decay_steps` steps.

    Args:
        learning_rate: the first rate.
        global_step: how many steps there were.
        decay_steps: how many steps it falls for.
        end_learning_rate: the last rate.
        power: of the polynomial.
        cycle: whether it falls again afterwards, for twice as many steps, and so on.
        name: the operation's name.
    """

    def compute(
        rate: torch.Tensor, step: torch.Tensor, steps: torch.Tensor, end: torch.Tensor, power: torch.Tensor
    ) -> torch.Tensor:
        if cycle:
            steps = steps * torch.where(step == 0, torch.ones_like(step), torch.ceil(step / steps))
        part = torch.minimum(step, steps) / steps
        return (rate - end) * torch.pow(1 - part, power) + end

    return _scheduled(
        "PolynomialDecay", compute, learning_rate, global_step, decay_steps, end_learning_rate, power, name=name
    )


def cosine_decay(
    learning_rate: Any, global_step: Any, decay_steps: Any, alpha: Any = 0.0, name: str | None = None
) -> Tensor:
    """Falls along half a cosine to `alpha * learning_rate`, and stays there (Loshchilov and Hutter, 2017)."""

    def compute(rate: torch.Tensor, step: torch.Tensor, steps: torch.Tensor, least: torch.Tensor) -> torch.Tensor:
        cosine = 0.5 * (1 + torch.cos(math.pi * (torch.minimum(step, steps) / steps)))
        return rate * ((1 - least) * cosine + least)

    return _scheduled("CosineDecay", compute, learning_rate, global_step, decay_steps, alpha, name=name)


def piecewise_constant(x: Any, boundaries: Sequence[Any], values: Sequence[Any], name: str | None = None) -> Tensor:
    """`values[k]`, where `x` is above `boundaries[k - 1]` and not above `boundaries[k]`.

    >>> from unspool import tf1 as tf
    >>> step = tf.placeholder(tf.int64, [])
    >>> rate = tf.train.piecewise_constant(step, [100, 200], [1.0, 0.5, 0.1])
    >>> tf.Session().run([rate, rate], {step: 100})
    [np.float32(1.0), np.float32(1.0)]
    """
    if len(boundaries) != len(values) - 1:
        raise ValueError(
            f"The length of boundaries should be 1 less than the length of values, but there are {len(boundaries)} "
            f"boundaries and {len(values)} values"
        )
    given = as_tensor(x)
    bounds = [as_tensor(each, given.dtype) for each in boundaries]
    rates = [as_tensor(each) for each in values]
    if len({each.dtype.name for each in rates}) > 1:
        raise ValueError(f"values must have the same dtype, but have {[each.dtype.name for each in rates]}")

    def compute(value: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
        passed = sum(bool(value > bound) for bound in rest[: len(bounds)])
        return rest[len(bounds) + passed]

    return apply(
        "PiecewiseConstant", compute, given, *bounds, *rates, name=name, outputs=[(rates[0].dtype, rates[0].dims)]
    )


def _decayed(
    kind: str,
    compute: Callable[..., torch.Tensor],
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    *,
    staircase: bool,
    name: str | None,
) -> Tensor:
    """A rate that depends on what part of `decay_steps` is over."""

    def whole(rate: torch.Tensor, step: torch.Tensor, steps: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        part = step / steps
        return compute(rate, torch.floor(part) if staircase else part, factor)

    return _scheduled(kind, whole, learning_rate, global_step, decay_steps, decay_rate, name=name)


def _scheduled(
    kind: str, compute: Callable[..., torch.Tensor], learning_rate: Any, global_step: Any, *more: Any, name: str | None
) -> Tensor:
    """One operation that computes in the dtype of the first rate."""
    if global_step is None:
        raise ValueError(f"global_step is required for {name or kind}.")
    rate = as_tensor(learning_rate)
    if not rate.dtype.is_floating:
        rate = as_tensor(float(learning_rate))
    rest = [as_tensor(each) for each in (global_step, *more)]
    for each in (rate, *rest):
        if not fit(each.dims, ()):
            raise ValueError(f"{kind}: {each!r} must be a scalar")

    def cast(rate: torch.Tensor, *values: torch.Tensor) -> torch.Tensor:
        return compute(rate, *(value.to(rate.dtype) for value in values))

    return apply(kind, cast, rate, *rest, name=name or kind, outputs=[(rate.dtype, ())])
