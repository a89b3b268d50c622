"""What operations on single numbers are called in C++."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from unspool.engine.emit.reasons import CannotEmitError
from unspool.engine.trace.graph import aten

TYPES = {
    torch.float32: "float",
    torch.float64: "double",
    torch.bool: "bool",
    torch.uint8: "uint8_t",
    torch.int8: "int8_t",
    torch.int16: "int16_t",
    torch.int32: "int32_t",
    torch.int64: "int64_t",
}

_ANY: dict[Any, str] = {
    aten.neg.default: "-{0}",
    aten.mul.Tensor: "{0} * {1}",
    aten.mul.Scalar: "{0} * {1}",
    aten.div.Tensor: "{0} / {1}",
    aten.div.Scalar: "{0} / {1}",
    aten.abs.default: "({0} < 0 ? -{0} : {0})",
    aten.maximum.default: "unspool::larger({0}, {1})",
    aten.minimum.default: "unspool::smaller({0}, {1})",
    aten.clamp_min.default: "unspool::at_least({0}, {1})",
    aten.clamp_min.Tensor: "unspool::larger({0}, {1})",
    aten.clamp_max.default: "unspool::at_most({0}, {1})",
    aten.clamp_max.Tensor: "unspool::smaller({0}, {1})",
    aten.relu.default: "({0} < 0 ? T(0) : {0})",
    aten.square.default: "{0} * {0}",
    aten.sgn.default: "unspool::sign({0})",
    aten.sign.default: "unspool::sign({0})",
    aten.clone.default: "{0}",
    aten._to_copy.default: "{0}",
    aten.addcmul.default: "{0} + {value} * {1} * {2}",
    aten.addcdiv.default: "{0} + {value} * {1} / {2}",
}
"""By operation, an expression of its arguments, which are of type `T`, the result's."""

_REAL: dict[Any, str] = {
    aten.sigmoid.default: "unspool::sigmoid({0})",
    aten.tanh.default: "unspool::tanh({0})",
    aten.exp.default: "unspool::exp({0})",
    aten.expm1.default: "unspool::expm1({0})",
    aten.log.default: "unspool::log({0})",
    aten.log1p.default: "unspool::log1p({0})",
    aten.log2.default: "std::log2({0})",
    aten.exp2.default: "std::exp2({0})",
    aten.sqrt.default: "std::sqrt({0})",
    aten.rsqrt.default: "1 / std::sqrt({0})",
    aten.reciprocal.default: "1 / {0}",
    aten.abs.default: "std::fabs({0})",
    aten.erf.default: "std::erf({0})",
    aten.sin.default: "std::sin({0})",
    aten.cos.default: "std::cos({0})",
    aten.tan.default: "std::tan({0})",
    aten.atan.default: "std::atan({0})",
    aten.sinh.default: "std::sinh({0})",
    aten.cosh.default: "std::cosh({0})",
    aten.floor.default: "std::floor({0})",
    aten.ceil.default: "std::ceil({0})",
    aten.trunc.default: "std::trunc({0})",
    aten.round.default: "std::nearbyint({0})",
    aten.silu.default: "{0} / (1 + unspool::exp(-{0}))",
    aten.hardsigmoid.default: "unspool::at_most(unspool::at_least({0} + 3, T(0)), T(6)) / 6",
    aten.hardswish.default: "{0} * unspool::at_most(unspool::at_least({0} + 3, T(0)), T(6)) / 6",
    aten.mish.default: "{0} * unspool::tanh(unspool::log1p(unspool::exp({0})))",
    aten.pow.Tensor_Tensor: "std::pow({0}, {1})",
    aten.pow.Scalar: "std::pow({0}, {1})",
    aten.atan2.default: "std::atan2({0}, {1})",
}
"""The same for results that are floating-point numbers."""

_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_LOGIC: dict[Any, str] = {
    aten.logical_and.default: "bool({0}) & bool({1})",
    aten.logical_or.default: "bool({0}) | bool({1})",
    aten.logical_xor.default: "bool({0}) ^ bool({1})",
    aten.logical_not.default: "!bool({0})",
    aten.isnan.default: "{0} != {0}",
    **{
        getattr(getattr(aten, name), overload): f"{{0}} {sign} {{1}}"
        for name, sign in _COMPARISONS.items()
        for overload in ("Scalar", "Tensor")
    },
}
"""The same for truth values of arguments that are of their common type."""

_BITS: dict[Any, str] = {
    aten.bitwise_and.Tensor: "{0} & {1}",
    aten.bitwise_or.Tensor: "{0} | {1}",
    aten.bitwise_xor.Tensor: "{0} ^ {1}",
    aten.bitwise_not.default: "!{0}",
}
"""The same for truth values of truth values."""


_NOT_OF_INTEGERS = {aten.div.Tensor, aten.div.Scalar, aten.addcdiv.default}
_NOT_OF_TRUTHS = {aten.neg.default, aten.abs.default, aten.relu.default, aten.addcmul.default, aten.addcdiv.default}
"""What torch refuses, but may have traced."""


def expression(operation: Any, constants: tuple[Any, ...], options: dict[str, Any], result: torch.dtype) -> str:
    """An operation as an expression, with `{0}`, `{1}`, ... for its arguments and `T` for their type.

    Args:
        operation: the operation.
        constants: its arguments; the numbers among them may shape the expression, anything else is not looked at.
        options: what was given by name.
        result: the dtype of the result.

    Raises:
        CannotEmitError: if there is no such expression.
    """
    options = {key: each for key, each in options.items() if key not in ("layout", "device", "memory_format")}
    made = _special(operation, constants, options, result)
    if made is not None:
        return made
    text = _ANY.get(operation)
    if result.is_floating_point:
        text = _REAL.get(operation, text)
    elif result is torch.bool:
        text = _LOGIC.get(operation, _BITS.get(operation, text))
    elif operation in _NOT_OF_INTEGERS:
        text = None
    scale = options.pop("value", 1)
    options.pop("dtype", None)
    if text is None or options or (result is torch.bool and operation in _NOT_OF_TRUTHS):
        raise CannotEmitError(f"{operation} has no C++ form for results of {str(result).removeprefix('torch.')}")
    return text.replace("{value} * ", "" if scale == 1 else f"{literal(scale, result)} * ")


def _special(operation: Any, constants: tuple[Any, ...], options: dict[str, Any], result: torch.dtype) -> str | None:
    """Operations whose expression depends on the numbers that they are given."""

    def number(k: int, otherwise: float) -> str:
        return literal(constants[k] if len(constants) > k else otherwise, result)

    if operation in {aten.add.Tensor, aten.add.Scalar, aten.sub.Tensor, aten.sub.Scalar, aten.rsub.Scalar}:
        scale = options.pop("alpha", 1)
        second = "{1}" if scale == 1 else f"{literal(scale, result)} * {{1}}"
        if result is torch.bool:
            return None
        if operation is aten.rsub.Scalar:
            return None if scale != 1 else "{1} - {0}"
        return f"{{0}} {'+' if operation in {aten.add.Tensor, aten.add.Scalar} else '-'} {second}"
    if operation in {aten.where.self, aten.where.ScalarSelf, aten.where.ScalarOther}:
        return "({0} ? {1} : {2})"
    if operation in {aten.masked_fill.Scalar, aten.masked_fill.Tensor}:
        return "({1} ? {2} : {0})"
    if operation is aten.hardtanh.default:
        return f"unspool::at_most(unspool::at_least({{0}}, {number(1, -1)}), {number(2, 1)})"
    if operation in {aten.clamp.default, aten.clamp.Tensor}:
        low, high = (len(constants) > k and constants[k] is not None for k in (1, 2))
        # Of two zeros, torch has the bound if it is a tensor, and else the number.
        least, most = ("larger", "smaller") if operation is aten.clamp.Tensor else ("at_least", "at_most")
        inner = f"unspool::{least}({{0}}, {{1}})" if low else "{0}"
        return f"unspool::{most}({inner}, {{2}})" if high else inner
    if not result.is_floating_point:
        return None
    if operation is aten.pow.Tensor_Scalar:
        return _POWERS.get(constants[1], "std::pow({0}, {1})")
    if operation is aten.leaky_relu.default:
        return f"({{0}} > 0 ? {{0}} : {number(1, 0.01)} * {{0}})"
    if operation is aten.threshold.default:
        return f"({{0}} <= {number(1, 0)} ? {number(2, 0)} : {{0}})"
    if operation is aten.elu.default:
        alpha, scale, inner = (constants[k] if len(constants) > k else 1 for k in (1, 2, 3))
        return _elu(alpha * scale, scale, inner, result)
    if operation is aten.celu.default:
        alpha = constants[1] if len(constants) > 1 else 1
        return _elu(alpha, 1, 1 / alpha, result)
    if operation is aten.softplus.default:
        beta, threshold = number(1, 1), number(2, 20)
        return f"({{0}} * {beta} > {threshold} ? {{0}} : unspool::log1p(unspool::exp({{0}} * {beta})) / {beta})"
    if operation is aten.gelu.default:
        if options.pop("approximate", "none") == "none":
            return f"T(0.5) * {{0}} * (1 + std::erf({{0}} * {literal(math.sqrt(0.5), result)}))"
        scale = literal(math.sqrt(2 / math.pi), result)
        return f"T(0.5) * {{0}} * (1 + unspool::tanh({scale} * ({{0}} + T(0.044715) * {{0}} * {{0}} * {{0}})))"
    if operation is aten.lerp.Scalar or operation is aten.lerp.Tensor:
        return "(std::fabs({2}) < T(0.5) ? {0} + {2} * ({1} - {0}) : {1} + ({2} - 1) * ({1} - {0}))"
    return None


_POWERS = {
    2: "{0} * {0}",
    3: "{0} * {0} * {0}",
    1: "{0}",
    0.5: "std::sqrt({0})",
    -0.5: "1 / std::sqrt({0})",
    -1: "1 / {0}",
    -2: "1 / ({0} * {0})",
}
"""By exponent, what torch computes instead of a power: the square root of minus infinity is NaN."""


def _elu(negative: float, positive: float, inner: float, dtype: torch.dtype) -> str:
    """With the factors of negative numbers, of positive ones, and of what the exponential is taken of."""
    below = f"{literal(negative, dtype)} * unspool::expm1({literal(inner, dtype)} * {{0}})"
    return f"({{0}} < 0 ? {below} : {literal(positive, dtype)} * {{0}})"


CONDITIONS: dict[Any, int] = {
    aten.where.self: 0,
    aten.where.ScalarSelf: 0,
    aten.where.ScalarOther: 0,
    aten.masked_fill.Scalar: 1,
    aten.masked_fill.Tensor: 1,
}
"""By operation, which of its arguments is a truth value, whatever the result is."""


def argument_dtype(
    operation: Any, dtypes: Sequence[torch.dtype], numbers: Sequence[float], result: torch.dtype
) -> torch.dtype:
    """The type that arguments are taken to before the operation: the result's, but for comparisons their own.

    A truth that meets a number is one itself.
    """
    if result is not torch.bool or operation not in _LOGIC:
        return result
    common = dtypes[0]
    for each in dtypes[1:]:
        common = torch.promote_types(common, each)
    return torch.int64 if common is torch.bool and any(number not in (0, 1) for number in numbers) else common


def literal(number: Any, dtype: torch.dtype) -> str:
    """A number in C++, as close as its type allows."""
    if dtype is torch.bool:
        if number not in (0, 1):
            raise CannotEmitError(f"{number!r} is no truth value")
        return "true" if number else "false"
    if not dtype.is_floating_point:
        if not isinstance(number, int):
            raise CannotEmitError(f"{number!r} is no number of type {dtype}")
        range_ = torch.iinfo(dtype)
        if not range_.min <= number <= range_.max:  # torch refuses some of these, and wraps others around
            raise CannotEmitError(f"{number!r} is out of the range of {dtype}")
        return f"{TYPES[dtype]}({f'{number + 1} - 1' if number == range_.min else int(number)})"
    number = float(number)
    if math.isnan(number):
        return f"{TYPES[dtype]}(NAN)"
    if math.isinf(number):
        return f"{TYPES[dtype]}({'-' if number < 0 else ''}HUGE_VAL)"
    text = repr(number)
    text = text if any(sign in text for sign in ".en") else text + ".0"
    text = f"{text}f" if dtype is torch.float32 else text
    return f"({text})" if text.startswith("-") else text
