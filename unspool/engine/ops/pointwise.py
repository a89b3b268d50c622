"""Pointwise operations: arithmetic, functions of one number, activations.

A row here is all that an operation needs to be followed, split and compiled.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch

from unspool.engine.ops.scalar import NOWHERE, Given, Numbers, Scalar, Text
from unspool.engine.ops.table import Linear, Op, OpKind
from unspool.engine.rows.rules import aligned
from unspool.engine.trace.graph import aten


def _row(target: Any, scalar: Scalar, linear: Linear | None = None) -> Op:
    return Op(target, OpKind.POINTWISE, aligned, linear=linear, scalar=scalar)


def _cpu_row(target: Any, scalar: Scalar) -> Op:
    """An operation that is not yet part of CUDA kernels, where its numbers are torch's."""
    return _row(target, replace(scalar, cuda=NOWHERE))


def _any(text: Text, *, wraps: bool = False) -> Scalar:
    """The same text for all kinds of numbers."""
    return Scalar(text, text, text, wraps=wraps)


def _numbers(text: Text, *, wraps: bool = False) -> Scalar:
    """For numbers; torch refuses truth values, but may have traced them."""
    return Scalar(text, text, wraps=wraps)


def _real(text: Text) -> Scalar:
    """For floating-point numbers: integers and truth values are refused, or become such."""
    return Scalar(text)


# -- texts that depend on numbers -------------------------------------------------------------------------------------


def _added(given: Given) -> str:
    return f"{{0}} + {_scaled(given)}"


def _subtracted(given: Given) -> str:
    return f"{{0}} - {_scaled(given)}"


def _scaled(given: Given) -> str:
    scale = given.option("alpha", 1)
    return "{1}" if scale == 1 else f"{given.number(scale)} * {{1}}"


def _subtracted_from(given: Given) -> str | None:
    return "{1} - {0}" if given.option("alpha", 1) == 1 else None


def _product_added(given: Given) -> str:
    scale = given.option("value", 1)
    return "{0} + {1} * {2}" if scale == 1 else f"{{0}} + {given.number(scale)} * {{1}} * {{2}}"


def _quotient_added(given: Given) -> str:
    scale = given.option("value", 1)
    return "{0} + {1} / {2}" if scale == 1 else f"{{0}} + {given.number(scale)} * {{1}} / {{2}}"


def _clamped(least: str, most: str) -> Text:
    def text(given: Given) -> str:
        inner = f"unspool::{least}({{0}}, {{1}})" if given.has(1) else "{0}"
        return f"unspool::{most}({inner}, {{2}})" if given.has(2) else inner

    return text


def _hardtanh(given: Given) -> str:
    low, high = given.number(given.argument(1, -1)), given.number(given.argument(2, 1))
    return f"unspool::at_most(unspool::at_least({{0}}, {low}), {high})"


_POWERS = {
    2: "{0} * {0}",
    3: "{0} * {0} * {0}",
    1: "{0}",
    0.5: "unspool::sqrt({0})",
    -0.5: "1 / unspool::sqrt({0})",
    -1: "1 / {0}",
    -2: "1 / ({0} * {0})",
}
"""By exponent, what torch computes instead of a power: the square root of minus infinity is NaN."""


def _power(given: Given) -> str:
    return _POWERS.get(given.argument(1, 1), "unspool::pow({0}, {1})")


def _leaky_relu(given: Given) -> str:
    return f"({{0}} > 0 ? {{0}} : {given.number(given.argument(1, 0.01))} * {{0}})"


def _threshold(given: Given) -> str:
    least, otherwise = (given.number(given.argument(k, 0)) for k in (1, 2))
    return f"({{0}} <= {least} ? {otherwise} : {{0}})"


def _elu(given: Given) -> str:
    alpha, scale, inner = (given.argument(k, 1) for k in (1, 2, 3))
    return _exponential_below(given, alpha * scale, scale, inner)


def _celu(given: Given) -> str:
    alpha = given.argument(1, 1)
    return _exponential_below(given, alpha, 1, 1 / alpha)


def _exponential_below(given: Given, negative: float, positive: float, inner: float) -> str:
    """With the factors of negative numbers, of positive ones, and of what the exponential is taken of."""
    below = f"{given.number(negative)} * unspool::expm1({given.number(inner)} * {{0}})"
    return f"({{0}} < 0 ? {below} : {given.number(positive)} * {{0}})"


def _softplus(given: Given) -> str:
    beta, threshold = given.number(given.argument(1, 1)), given.number(given.argument(2, 20))
    return f"({{0}} * {beta} > {threshold} ? {{0}} : unspool::log1p(unspool::exp({{0}} * {beta})) / {beta})"


def _gelu(given: Given) -> str:
    if given.option("approximate", "none") == "none":
        return f"T(0.5) * {{0}} * (1 + unspool::erf({{0}} * {given.number(math.sqrt(0.5))}))"
    scale = given.number(math.sqrt(2 / math.pi))
    return f"T(0.5) * {{0}} * (1 + unspool::tanh({scale} * ({{0}} + T(0.044715) * {{0}} * {{0}} * {{0}})))"


def _divided(given: Given) -> str | None:
    mode = given.option("rounding_mode", None)
    return {None: "{0} / {1}", "trunc": "unspool::trunc({0} / {1})", "floor": "unspool::floor_divide({0}, {1})"}[mode]


def _whole_divided(given: Given) -> str | None:
    mode = given.option("rounding_mode", None)
    if not _divides(given):
        return None
    return {"trunc": "({0} / {1})", "floor": f"({{0}} / {{1}} - {_OTHER_SIGN})"}.get(mode)


def _whole_rest(text: str) -> Text:
    return lambda given: text if _divides(given) else None


def _divides(given: Given) -> bool:
    """Whether whole numbers are divided by one that ends no process: what is not known may be 0."""
    number = given.argument(1, 0)
    return isinstance(number, int) and number not in (0, -1)


_OTHER_SIGN = "({0} % {1} != 0 && ({0} % {1} < 0) != ({1} < 0))"
"""Whether something is left that has another sign than what is divided by."""
_WHOLE_MODULO = f"({{0}} % {{1}} + ({_OTHER_SIGN} ? {{1}} : 0))"


def _without_nan(given: Given) -> str:
    limits = torch.finfo(given.dtype)
    numbers = (given.argument(k, otherwise) for k, otherwise in ((1, 0.0), (2, limits.max), (3, limits.min)))
    defaults = (0.0, limits.max, limits.min)
    nan, most, least = (
        given.number(other if each is None else each) for each, other in zip(numbers, defaults, strict=True)
    )
    infinity = given.number(math.inf)
    return f"({{0}} != {{0}} ? {nan} : {{0}} == {infinity} ? {most} : {{0}} == -{infinity} ? {least} : {{0}})"


_LERP = "(unspool::fabs({2}) < T(0.5) ? {0} + {2} * ({1} - {0}) : {1} + ({2} - 1) * ({1} - {0}))"


# -- rows -------------------------------------------------------------------------------------------------------------

_ABSOLUTE = Scalar("unspool::fabs({0})", "({0} < 0 ? -{0} : {0})", cuda=frozenset({Numbers.REAL}))

ROWS = (
    _row(aten.add.Tensor, _any(_added, wraps=True), Linear.ALL),
    _row(aten.add.Scalar, _any(_added, wraps=True)),
    _row(aten.sub.Tensor, _numbers(_subtracted, wraps=True), Linear.ALL),
    _row(aten.sub.Scalar, _numbers(_subtracted, wraps=True)),
    _row(aten.rsub.Scalar, _numbers(_subtracted_from, wraps=True)),
    _row(aten.neg.default, _numbers("-{0}", wraps=True), Linear.ALL),
    _row(aten.mul.Tensor, _any("{0} * {1}", wraps=True), Linear.EACH),
    _row(aten.mul.Scalar, _any("{0} * {1}", wraps=True), Linear.ALL),
    _row(aten.div.Tensor, _real("{0} / {1}"), Linear.FIRST),
    _row(aten.div.Scalar, _real("{0} / {1}"), Linear.FIRST),
    _row(aten.addcmul.default, _numbers(_product_added, wraps=True)),
    _row(aten.square.default, _any("{0} * {0}", wraps=True)),
    _row(aten.abs.default, _ABSOLUTE),
    _row(aten.reciprocal.default, _real("1 / {0}")),
    _row(aten.sqrt.default, _real("unspool::sqrt({0})")),
    _row(aten.rsqrt.default, _real("1 / unspool::sqrt({0})")),
    _row(aten.exp.default, _real("unspool::exp({0})")),
    _row(aten.log.default, _real("unspool::log({0})")),
    _row(aten.sin.default, _real("unspool::sin({0})")),
    _row(aten.cos.default, _real("unspool::cos({0})")),
    _row(aten.sigmoid.default, _real("unspool::sigmoid({0})")),
    _row(aten.tanh.default, _real("unspool::tanh({0})")),
    _row(aten.relu.default, _numbers("({0} < 0 ? T(0) : {0})")),
    _cpu_row(aten.maximum.default, _any("unspool::larger({0}, {1})")),
    _cpu_row(aten.minimum.default, _any("unspool::smaller({0}, {1})")),
    _cpu_row(aten.clamp_min.default, _any("unspool::at_least({0}, {1})")),
    _cpu_row(aten.clamp_min.Tensor, _any("unspool::larger({0}, {1})")),
    _cpu_row(aten.clamp_max.default, _any("unspool::at_most({0}, {1})")),
    _cpu_row(aten.clamp_max.Tensor, _any("unspool::smaller({0}, {1})")),
    # Of two zeros, torch has the bound if it is a tensor, and else the number.
    _cpu_row(aten.clamp.default, _any(_clamped("at_least", "at_most"))),
    _cpu_row(aten.clamp.Tensor, _any(_clamped("larger", "smaller"))),
    _cpu_row(aten.hardtanh.default, _any(_hardtanh)),
    _cpu_row(aten.sgn.default, _any("unspool::sign({0})")),
    _cpu_row(aten.sign.default, _any("unspool::sign({0})")),
    _cpu_row(aten.addcdiv.default, _real(_quotient_added)),
    _cpu_row(aten.div.Tensor_mode, Scalar(_divided, _whole_divided)),
    _cpu_row(aten.div.Scalar_mode, Scalar(_divided, _whole_divided)),
    _cpu_row(aten.remainder.Tensor, Scalar("unspool::modulo({0}, {1})", _whole_rest(_WHOLE_MODULO))),
    _cpu_row(aten.remainder.Scalar, Scalar("unspool::modulo({0}, {1})", _whole_rest(_WHOLE_MODULO))),
    _cpu_row(aten.fmod.Tensor, Scalar("unspool::fmod({0}, {1})", _whole_rest("({0} % {1})"))),
    _cpu_row(aten.fmod.Scalar, Scalar("unspool::fmod({0}, {1})", _whole_rest("({0} % {1})"))),
    _cpu_row(aten.heaviside.default, _real("({0} == 0 ? {1} : T({0} > 0))")),
    _cpu_row(aten.nan_to_num.default, Scalar(_without_nan, "{0}")),
    _cpu_row(aten.logaddexp.default, _real("unspool::log_add_exp({0}, {1})")),
    _cpu_row(aten.expm1.default, _real("unspool::expm1({0})")),
    _cpu_row(aten.log1p.default, _real("unspool::log1p({0})")),
    _cpu_row(aten.log2.default, _real("unspool::log2({0})")),
    _cpu_row(aten.exp2.default, _real("unspool::exp2({0})")),
    _cpu_row(aten.erf.default, _real("unspool::erf({0})")),
    _cpu_row(aten.tan.default, _real("unspool::tan({0})")),
    _cpu_row(aten.atan.default, _real("unspool::atan({0})")),
    _cpu_row(aten.atan2.default, _real("unspool::atan2({0}, {1})")),
    _cpu_row(aten.sinh.default, _real("unspool::sinh({0})")),
    _cpu_row(aten.cosh.default, _real("unspool::cosh({0})")),
    _cpu_row(aten.floor.default, _real("unspool::floor({0})")),
    _cpu_row(aten.ceil.default, _real("unspool::ceil({0})")),
    _cpu_row(aten.trunc.default, _real("unspool::trunc({0})")),
    _cpu_row(aten.round.default, _real("unspool::nearbyint({0})")),
    _cpu_row(aten.pow.Tensor_Scalar, _real(_power)),
    _cpu_row(aten.pow.Tensor_Tensor, _real("unspool::pow({0}, {1})")),
    _cpu_row(aten.pow.Scalar, _real("unspool::pow({0}, {1})")),
    _cpu_row(aten.lerp.Scalar, _real(_LERP)),
    _cpu_row(aten.lerp.Tensor, _real(_LERP)),
    _cpu_row(aten.leaky_relu.default, _real(_leaky_relu)),
    _cpu_row(aten.threshold.default, _real(_threshold)),
    _cpu_row(aten.elu.default, _real(_elu)),
    _cpu_row(aten.celu.default, _real(_celu)),
    _cpu_row(aten.silu.default, _real("{0} / (1 + unspool::exp(-{0}))")),
    _cpu_row(aten.softplus.default, _real(_softplus)),
    _cpu_row(aten.gelu.default, _real(_gelu)),
    _cpu_row(aten.mish.default, _real("{0} * unspool::tanh(unspool::log1p(unspool::exp({0})))")),
    _cpu_row(aten.hardsigmoid.default, _real("unspool::at_most(unspool::at_least({0} + 3, T(0)), T(6)) / 6")),
    _cpu_row(aten.hardswish.default, _real("{0} * unspool::at_most(unspool::at_least({0} + 3, T(0)), T(6)) / 6")),
)
