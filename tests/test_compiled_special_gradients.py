"""Gradients of NaN, infinities, zeros, tiny and huge numbers, and NaN and infinite gradients: what torch makes of them.

Torch computes the last few numbers of a tensor by another code than the rest, and the two do not always agree on NaN: a
gradient must be NaN where either says so, and else be what one of them says.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.emitting import assert_compiled
from tests.test_compiled_special_values import deviations
from unspool import RNNCell, dynamic_rnn

pytestmark = pytest.mark.compiled

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "relu6": F.relu6,
    "elu": F.elu,
    "elu, alpha 2.5": lambda t: F.elu(t, 2.5),
    "elu, alpha -1": lambda t: F.elu(t, -1.0),
    "elu in place": lambda t: F.elu_(t.clone(), 0.5),
    "celu": F.celu,
    "celu, alpha 2": lambda t: F.celu(t, 2.0),
    "selu": F.selu,
    "leaky relu": F.leaky_relu,
    "leaky relu, slope -0.5": lambda t: F.leaky_relu(t, -0.5),
    "softplus": F.softplus,
    "softplus, beta 2": lambda t: F.softplus(t, 2.0, 3.0),
    "hardtanh": F.hardtanh,
    "hardtanh, -2 to 0.5": lambda t: F.hardtanh(t, -2.0, 0.5),
    "hardsigmoid": F.hardsigmoid,
    "threshold": lambda t: F.threshold(t, 0.5, -1.0),
    "hardshrink": F.hardshrink,
    "softshrink": F.softshrink,
    "softsign": F.softsign,
    "clamp": lambda t: t.clamp(-1, 1),
    "clamp from below": lambda t: t.clamp(min=0),
    "clamp from above": lambda t: t.clamp(max=0.0),
    "maximum": lambda t: torch.maximum(t, torch.zeros_like(t)),
    "minimum": lambda t: torch.minimum(t, torch.ones_like(t)),
    "maximum of opposites": lambda t: torch.maximum(t, -t),
    "minimum of multiples": lambda t: torch.minimum(t, t * 2),
    "abs": torch.abs,
    "sign": torch.sign,
    "where": lambda t: torch.where(t > 0, t, -t),
    "where, of a root": lambda t: torch.where(t > 0, torch.sqrt(t), t),
    "masked fill": lambda t: t.masked_fill(t > 1, 2.0),
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "silu": F.silu,
    "mish": F.mish,
    "gelu by tanh": lambda t: F.gelu(t, approximate="tanh"),
    "exp": torch.exp,
    "exp2": torch.exp2,
    "expm1": torch.expm1,
    "log": torch.log,
    "log2": torch.log2,
    "log1p": torch.log1p,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "reciprocal": torch.reciprocal,
    "erf": torch.erf,
    "sin": torch.sin,
    "cos": torch.cos,
    "tan": torch.tan,
    "atan": torch.atan,
    "sinh": torch.sinh,
    "cosh": torch.cosh,
    "floor": torch.floor,
    "round": torch.round,
    "square": torch.square,
    "neg": torch.neg,
    "power 3": lambda t: t**3,
    "power 0.5": lambda t: t**0.5,
    "power -0.5": lambda t: t**-0.5,
    "power -1": lambda t: t**-1,
    "power -2": lambda t: t**-2,
    "power 0": lambda t: t**0,
    "power 1.5": lambda t: t**1.5,
    "power of 2": lambda t: 2.0**t,
    "power of 0": lambda t: 0.0**t,
    "divided": lambda t: t / 3,
    "divisor": lambda t: 3 / t,
    "minus": lambda t: 1 - t,
    "product with itself": lambda t: t * t,
    "lerp": lambda t: torch.lerp(t, -t, 0.3),
    "lerp far": lambda t: torch.lerp(t, -t, -1.5),
    "atan2": lambda t: torch.atan2(t, t + 1),
}

SKEWED = {"hardsigmoid": 1e-7}
"""Where torch's own float64 gradient is rounded to float32: 1/6, and so is what may be between the two."""


def special(dtype: torch.dtype) -> Tensor:
    limits = torch.finfo(dtype)
    ends = [limits.max, limits.tiny, limits.tiny / 64, limits.eps, math.inf]
    sizes = [*ends, 0.25, 0.5, 1, 1.25, 2, 3, 6, 20, 21, 30, 100]
    return torch.tensor([math.nan, 0.0, -0.0, *sizes, *(-size for size in sizes)], dtype=dtype)


class Many(RNNCell):
    """Each function of a state, or of an input, of its own."""

    def __init__(self, size: int, of: str) -> None:
        super().__init__()
        self.state_size = self.output_size = tuple(size for _ in FUNCTIONS)
        self.of = of

    def forward(self, inputs: Any, state: Any) -> Any:
        given = state if self.of == "state" else inputs
        results = tuple(function(each) for function, each in zip(FUNCTIONS.values(), given, strict=True))
        return results, results


Results = tuple[list[Tensor], list[Tensor]]


def by_engine(of: str, numbers: Tensor, gradient: Tensor) -> Results:
    cell, zero = Many(len(numbers), of), torch.zeros(1, len(numbers), dtype=numbers.dtype)
    given = tuple(numbers[None].clone().requires_grad_() for _ in FUNCTIONS)
    zeros = tuple(zero for _ in FUNCTIONS)
    inputs, state = (zeros, given) if of == "state" else (given, zeros)
    inputs = tuple(each[:, None] for each in inputs)
    assert_compiled(cell, inputs, None, state, numbers.dtype)
    outputs, _ = dynamic_rnn(cell, inputs, initial_state=state, dtype=numbers.dtype)
    found = [each[:, 0] for each in outputs]
    gradients = torch.autograd.grad(found, given, [gradient[None]] * len(found), materialize_grads=True)
    return [each.detach()[0] for each in found], [each[0] for each in gradients]


def by_torch(function: Callable[[Tensor], Tensor], numbers: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    given = numbers.clone().requires_grad_()
    result = function(given)
    if not result.requires_grad:
        return result.detach(), torch.zeros_like(numbers)
    return result.detach(), torch.autograd.grad(result, given, gradient, materialize_grads=True)[0]


def one_by_one(function: Callable[[Tensor], Tensor], numbers: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    pairs = [by_torch(function, *each) for each in zip(numbers.split(1), gradient.split(1), strict=True)]
    return torch.cat([each for each, _ in pairs]), torch.cat([each for _, each in pairs])


def wrong_places(found: Tensor, expected: tuple[Tensor, Tensor], roundings: float) -> Tensor:
    """Where `found` is neither; zeros have either sign, since gradients are sums, and 0 - 0 is 0."""
    found, *both = (torch.where(each == 0, 0.0, each) for each in (found, *expected))
    nan = both[0].isnan() | both[1].isnan()
    different = deviations(found, both[0], roundings) & deviations(found, both[1], roundings)
    return torch.where(nan, ~found.isnan(), different)


@pytest.mark.parametrize("of", ["state", "inputs"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def test_are_what_torch_gives(dtype: torch.dtype, of: str) -> None:
    numbers = special(dtype)
    incoming = torch.tensor([1.0, -1.0, 0.0, math.inf, -math.inf, math.nan], dtype=dtype)
    gradient = incoming.repeat_interleave(len(numbers))
    numbers = numbers.repeat(len(incoming))
    outputs, gradients = by_engine(of, numbers, gradient)
    problems: list[str] = []
    for k, (name, function) in enumerate(FUNCTIONS.items()):
        vector, alone = (way(function, numbers, gradient) for way in (by_torch, one_by_one))
        roundings = 16 + SKEWED.get(name, 0) / torch.finfo(dtype).eps
        for kind, found, place in (("result", outputs[k], 0), ("gradient", gradients[k], 1)):
            expected = (vector[place], alone[place])
            wrong = wrong_places(found, expected, roundings)
            if wrong.any():
                first = wrong.nonzero()[0].item()
                about = [each[first].item() for each in (numbers, gradient, found, *expected)]
                problems.append(f"{kind} of {name} at {about[0]}, {about[1]}: {about[2]}, torch has {about[3:]}")
    assert problems == []
