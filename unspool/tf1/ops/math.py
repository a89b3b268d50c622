"""Arithmetic, elementwise functions, and clipping."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from unspool.tf1.dtypes import DType, as_dtype, bool_, float32, float64, int32, int64
from unspool.tf1.indexed_slices import IndexedSlices
from unspool.tf1.operations import FRACTIONS, NUMBERS, SUMMANDS, TRUTHS, apply, as_tensor, elementwise, same_dtype
from unspool.tf1.ops.making import binary as binary
from unspool.tf1.ops.making import unary as unary
from unspool.tf1.ops.products import matmul as matmul
from unspool.tf1.ops.reductions import reduce_any as reduce_any
from unspool.tf1.ops.reductions import reduce_sum as reduce_sum
from unspool.tf1.shapes import Dims, merged
from unspool.tf1.tensor import Operators

__all__ = [
    "acos",
    "add",
    "add_n",
    "asin",
    "atan",
    "atan2",
    "cast",
    "ceil",
    "clip_by_global_norm",
    "clip_by_norm",
    "clip_by_value",
    "cos",
    "cosh",
    "div",
    "div_no_nan",
    "divide",
    "equal",
    "erf",
    "erfc",
    "exp",
    "expm1",
    "floor",
    "floordiv",
    "floormod",
    "global_norm",
    "greater",
    "greater_equal",
    "is_finite",
    "is_inf",
    "is_nan",
    "less",
    "less_equal",
    "lgamma",
    "log",
    "log1p",
    "log_sigmoid",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "negative",
    "not_equal",
    "realdiv",
    "reciprocal",
    "rsqrt",
    "saturate_cast",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "squared_difference",
    "subtract",
    "tan",
    "tanh",
    "to_double",
    "to_float",
    "to_int32",
    "to_int64",
    "truediv",
]


def _truediv(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    # Whole numbers are divided in float64, as in TensorFlow, or in float32 where they are small.
    if not x.is_floating_point() and not x.is_complex():
        return x.to(_wide(x.dtype)) / y.to(_wide(x.dtype))
    return x / y


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype in (torch.int32, torch.int64) else torch.float32


def _realdiv(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    if not x.is_floating_point() and not x.is_complex():
        raise ValueError("RealDiv divides fractions alone; tf.truediv and tf.floordiv divide whole numbers")
    return x / y


def larger(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The larger of each two; of equals the first has the gradient, as in TensorFlow."""
    return torch.where((x >= y) | (x != x), x, y)


def smaller(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The smaller of each two; of equals the first has the gradient, as in TensorFlow."""
    return torch.where((x <= y) | (x != x), x, y)


def _divide_no_nan(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x, y = (each if each.is_floating_point() else each.to(_wide(each.dtype)) for each in (x, y))
    safe = torch.where(y == 0, torch.ones_like(y), y)
    return torch.where(y == 0, torch.zeros_like(x / safe), x / safe)


def _floordiv(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.floor(x / y) if x.is_floating_point() else torch.div(x, y, rounding_mode="floor")


abs_ = unary("Abs", torch.abs, "The absolute values.", NUMBERS)
negative = unary("Neg", torch.neg, "The numbers with the other sign.", NUMBERS)
sign = unary("Sign", torch.sign, "-1, 0 or 1.", NUMBERS)
square = unary("Square", torch.square, "The squares.", NUMBERS)
sqrt = unary("Sqrt", torch.sqrt, "The square roots.", FRACTIONS)
rsqrt = unary("Rsqrt", torch.rsqrt, "One over the square roots.", FRACTIONS)
reciprocal = unary("Reciprocal", torch.reciprocal, "One over the numbers.", FRACTIONS)
exp = unary("Exp", torch.exp, "The exponentials.", FRACTIONS)
expm1 = unary("Expm1", torch.expm1, "The exponentials, less 1.", FRACTIONS)
log = unary("Log", torch.log, "The natural logarithms.", FRACTIONS)
log1p = unary("Log1p", torch.log1p, "The natural logarithms of 1 more.", FRACTIONS)
sin = unary("Sin", torch.sin, "The sines.", FRACTIONS)
cos = unary("Cos", torch.cos, "The cosines.", FRACTIONS)
tan = unary("Tan", torch.tan, "The tangents.", FRACTIONS)
asin = unary("Asin", torch.asin, "The arc sines.", FRACTIONS)
acos = unary("Acos", torch.acos, "The arc cosines.", FRACTIONS)
atan = unary("Atan", torch.atan, "The arc tangents.", FRACTIONS)
sinh = unary("Sinh", torch.sinh, "The hyperbolic sines.", FRACTIONS)
cosh = unary("Cosh", torch.cosh, "The hyperbolic cosines.", FRACTIONS)
tanh = unary("Tanh", torch.tanh, "The hyperbolic tangents.", FRACTIONS)
sigmoid = unary("Sigmoid", torch.sigmoid, "`1 / (1 + exp(-x))`.", FRACTIONS)
log_sigmoid = unary("LogSigmoid", torch.nn.functional.logsigmoid, "The logarithms of the sigmoids.", FRACTIONS)
erf = unary("Erf", torch.erf, "The error function.", FRACTIONS)
erfc = unary("Erfc", torch.erfc, "One less the error function.", FRACTIONS)
lgamma = unary("Lgamma", torch.lgamma, "The logarithms of the gamma function.", FRACTIONS)
floor = unary("Floor", torch.floor, "The largest whole numbers that are not larger.", FRACTIONS)
ceil = unary("Ceil", torch.ceil, "The least whole numbers that are not less.", FRACTIONS)
round_ = unary("Round", torch.round, "The nearest whole numbers, halves to even ones.", NUMBERS)
is_nan = unary("IsNan", torch.isnan, "Whether each is not a number.", FRACTIONS, bool_)
is_inf = unary("IsInf", torch.isinf, "Whether each is infinite.", FRACTIONS, bool_)
is_finite = unary("IsFinite", torch.isfinite, "Whether each is finite.", FRACTIONS, bool_)
logical_not = unary("LogicalNot", torch.logical_not, "Whether each is false.", TRUTHS)

add = binary("Add", torch.add, "The sums; of strings, these joined.", SUMMANDS)
subtract = binary("Sub", torch.sub, "The differences.", NUMBERS)
multiply = binary("Mul", torch.mul, "The products, element by element.", NUMBERS)
realdiv = binary("RealDiv", _realdiv, "The quotients.")
floordiv = binary("FloorDiv", _floordiv, "The quotients, rounded down.", NUMBERS, default_name="floordiv")
mod = floormod = binary("FloorMod", torch.remainder, "What floor division leaves.", NUMBERS)
pow_ = binary("Pow", torch.pow, "The powers.", NUMBERS)
maximum = binary("Maximum", larger, "The larger of each two.", NUMBERS)
minimum = binary("Minimum", smaller, "The smaller of each two.", NUMBERS)
squared_difference = binary(
    "SquaredDifference", lambda x, y: torch.square(x - y), "The squares of the differences.", NUMBERS
)
atan2 = binary("Atan2", torch.atan2, "The angles of the points (y, x).", FRACTIONS)
equal = binary("Equal", torch.eq, "Whether each two are equal.", None, bool_)
not_equal = binary("NotEqual", torch.ne, "Whether each two differ.", None, bool_)
less = binary("Less", torch.lt, "Whether the first of each two is less.", NUMBERS, bool_)
less_equal = binary("LessEqual", torch.le, "Whether the first of each two is not larger.", NUMBERS, bool_)
greater = binary("Greater", torch.gt, "Whether the first of each two is larger.", NUMBERS, bool_)
greater_equal = binary("GreaterEqual", torch.ge, "Whether the first of each two is not less.", NUMBERS, bool_)
logical_and = binary("LogicalAnd", torch.logical_and, "Whether both are true.", TRUTHS)
logical_or = binary("LogicalOr", torch.logical_or, "Whether one is true.", TRUTHS)
logical_xor = binary("LogicalXor", torch.logical_xor, "Whether exactly one is true.", TRUTHS)


def truediv(x: Any, y: Any, name: str | None = None) -> Any:
    """The quotients; of whole numbers too, with fractions.

    >>> from unspool import tf1 as tf
    >>> tf.Session().run(tf.truediv(3, 2))
    np.float64(1.5)
    """
    if isinstance(x, torch.Tensor) or isinstance(y, torch.Tensor):
        return apply("RealDiv", _truediv, x, y)
    read = same_dtype("RealDiv", x, y)
    return elementwise(
        "RealDiv", _truediv, *read, name=name or "truediv", dtype=_quotient(read[0].dtype), takes=NUMBERS
    )


def _quotient(dtype: DType) -> DType:
    return dtype if not dtype.is_integer else float64 if dtype in (int32, int64) else float32


def div_no_nan(x: Any, y: Any, name: str | None = None) -> Any:
    """The quotients, 0 where divided by 0."""
    if isinstance(x, torch.Tensor) or isinstance(y, torch.Tensor):
        return apply("DivNoNan", _divide_no_nan, x, y)
    read = same_dtype("DivNoNan", x, y)
    dtype = _quotient(read[0].dtype)
    return elementwise("DivNoNan", _divide_no_nan, *read, name=name or "div_no_nan", dtype=dtype, takes=NUMBERS)


def div(x: Any, y: Any, name: str | None = None) -> Any:
    """The quotients, of whole numbers rounded down, as in Python 2."""
    kind = as_tensor(x).dtype if isinstance(x, Operators) else as_tensor(y).dtype
    return floordiv(x, y, name) if kind.is_integer else realdiv(x, y, name)


divide = truediv


def add_n(inputs: Sequence[Any], name: str | None = None) -> Any:
    """The sum of several tensors of one shape."""
    if not isinstance(inputs, list | tuple) or not inputs:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError("inputs must be a list of at least one Tensor with the same dtype and shape")
    given = same_dtype("AddN", *inputs)
    dims: Any = None
    for each in given:
        dims = merged(dims, each.dims)

    def compute(*values: torch.Tensor) -> torch.Tensor:
        if len({each.shape for each in values}) > 1:
            raise ValueError(f"AddN: the shapes differ: {[list(each.shape) for each in values]}")
        return sum(values[1:], values[0])

    return apply("AddN", compute, *given, name=name, outputs=[(given[0].dtype, dims)])


def cast(x: Any, dtype: Any, name: str | None = None) -> Any:
    """The numbers in another dtype.

    >>> from unspool import tf1 as tf
    >>> tf.Session().run(tf.cast([1.7, -1.7], tf.int32))
    array([ 1, -1], dtype=int32)
    """
    wanted = as_dtype(dtype)
    if isinstance(x, torch.Tensor):
        return x.to(wanted.torch)
    if hasattr(x, "with_values"):  # a SparseTensor: its elements
        return x.with_values(cast(x.values, wanted, name))
    given = as_tensor(x)
    if given.dtype is wanted:
        return given
    return apply("Cast", lambda value: value.to(wanted.torch), given, name=name, outputs=[(wanted, given.dims)])


def to_float(x: Any, name: str = "ToFloat") -> Any:
    """The numbers as float32."""
    return cast(x, "float32", name)


def to_double(x: Any, name: str = "ToDouble") -> Any:
    """The numbers as float64."""
    return cast(x, "float64", name)


def to_int32(x: Any, name: str = "ToInt32") -> Any:
    """The numbers as int32."""
    return cast(x, int32, name)


def to_int64(x: Any, name: str = "ToInt64") -> Any:
    """The numbers as int64."""
    return cast(x, int64, name)


def saturate_cast(x: Any, dtype: Any, name: str | None = None) -> Any:
    """The numbers in another dtype, the nearest it can hold where it cannot hold them."""
    wanted = as_dtype(dtype)
    return apply("Cast", lambda value: value.clamp(wanted.min, wanted.max).to(wanted.torch), x, name=name)


def clip_by_value(t: Any, clip_value_min: Any, clip_value_max: Any, name: str | None = None) -> Any:
    """The numbers, no less than one bound and no larger than the other."""
    if isinstance(t, IndexedSlices):
        return IndexedSlices(clip_by_value(t.values, clip_value_min, clip_value_max, name), t.indices, t.dense_dims)
    return elementwise(
        "ClipByValue",
        lambda value, low, high: larger(smaller(value, high), low),
        t,
        clip_value_min,
        clip_value_max,
        name=name or "clip_by_value",
    )


def _norm(value: torch.Tensor, axes: Any, keepdims: bool = True) -> torch.Tensor:
    return torch.linalg.vector_norm(value, dim=axes, keepdim=keepdims)


def clip_by_norm(t: Any, clip_norm: Any, axes: Any = None, name: str | None = None) -> Any:
    """A tensor, made shorter if its Euclidean norm is larger than `clip_norm`."""
    if isinstance(t, IndexedSlices):
        return IndexedSlices(clip_by_norm(t.values, clip_norm, axes, name), t.indices, t.dense_dims)

    def clip(value: torch.Tensor, bound: torch.Tensor) -> torch.Tensor:
        return value * bound / torch.maximum(_norm(value, axes), bound)

    given = as_tensor(t)
    return apply(
        "ClipByNorm", clip, given, as_tensor(clip_norm, given.dtype), name=name, outputs=[(given.dtype, given.dims)]
    )


_norms: Callable[..., list[torch.Tensor]] = getattr(torch, "_foreach_norm")  # noqa: B009 (pyright knows no private names)


def global_norm(t_list: Sequence[Any], name: str | None = None) -> Any:
    """The Euclidean norm of several tensors together; None among them is left out."""
    # Rows that were read twice count twice, as in TensorFlow: they are not added up first.
    given = [as_tensor(each.values if isinstance(each, IndexedSlices) else each) for each in t_list if each is not None]
    norm = lambda *values: torch.linalg.vector_norm(torch.stack(_norms(values)))  # noqa: E731
    return apply("global_norm", norm, *given, name=name, outputs=[(given[0].dtype, ())])


def clip_by_global_norm(
    t_list: Sequence[Any], clip_norm: Any, use_norm: Any = None, name: str | None = None
) -> tuple[list[Any], Any]:
    """Several tensors, made shorter together if their common norm is larger than `clip_norm`; and that norm.

    >>> from unspool import tf1 as tf
    >>> (clipped,), norm = tf.clip_by_global_norm([tf.constant([3.0, 4.0])], 1.0)
    >>> [value.tolist() for value in tf.Session().run([clipped, norm])]
    [[0.6000000238418579, 0.800000011920929], 5.0]
    """
    norm = global_norm(t_list) if use_norm is None else as_tensor(use_norm)
    bound = as_tensor(clip_norm, norm.dtype)

    def scale(norm: torch.Tensor, bound: torch.Tensor) -> torch.Tensor:
        # Dividing by what is not finite makes the result not a number, as in TensorFlow, rather than zero.
        return bound / torch.maximum(norm, bound) + (norm - norm)

    factor = apply("clip_by_global_norm", scale, norm, bound, outputs=_like(norm), name=name)

    def clipped(each: Any) -> Any:
        if each is None:
            return None
        if isinstance(each, IndexedSlices):
            return IndexedSlices(clipped(each.values), each.indices, each.dense_dims)
        return apply("clip_by_global_norm", torch.mul, each, factor, outputs=_like(each), name=name)

    return [clipped(each) for each in t_list], norm


def _like(value: Any) -> list[tuple[DType, Dims]]:
    given = as_tensor(value)
    return [(given.dtype, given.dims)]


# -- operators -------------------------------------------------------------------------------------------------------


def _reflected(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, other: function(other, self)


def _named(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """TensorFlow names what operators make in lower case."""
    return lambda x, y: function(x, y, name=name)


_BINARY = {
    "add": _named(add, "add"),
    "sub": _named(subtract, "sub"),
    "mul": _named(multiply, "mul"),
    "truediv": _named(truediv, "truediv"),
    "floordiv": _named(floordiv, "floordiv"),
    "mod": _named(mod, "mod"),
    "pow": _named(pow_, "pow"),
    "matmul": lambda x, y: matmul(x, y, name="matmul"),
    "and": _named(logical_and, "and"),
    "or": _named(logical_or, "or"),
    "xor": logical_xor,
}
for _name, _function in _BINARY.items():
    Operators.overload(f"__{_name}__", _function)
    Operators.overload(f"__r{_name}__", _reflected(_function))
for _name, _function in {"lt": less, "le": less_equal, "gt": greater, "ge": greater_equal}.items():
    Operators.overload(f"__{_name}__", _function)
for _name, _function in {"neg": negative, "abs": abs_, "invert": logical_not}.items():
    Operators.overload(f"__{_name}__", _function)
