"""Arithmetic, elementwise functions, reductions and products."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from unspool.tf1.dtypes import DType, as_dtype, bool_, int32, int64
from unspool.tf1.indexed_slices import IndexedSlices
from unspool.tf1.operations import apply, as_tensor, elementwise, known_ints, same_dtype
from unspool.tf1.shapes import Dim, Dims, compatible, described
from unspool.tf1.tensor import Operators


def unary(kind: str, function: Callable[[torch.Tensor], torch.Tensor], what: str) -> Callable[..., Any]:
    """An elementwise function of one tensor."""

    def call(x: Any, name: str | None = None) -> Any:
        return apply(kind, function, x, name=name)

    return _documented(call, kind, what)


def binary(
    kind: str, function: Callable[..., torch.Tensor], what: str, dtype: DType | None = None
) -> Callable[..., Any]:
    """An elementwise function of two tensors."""

    def call(x: Any, y: Any, name: str | None = None) -> Any:
        return elementwise(kind, function, x, y, name=name, dtype=dtype)

    return _documented(call, kind, what)


def _documented(call: Callable[..., Any], kind: str, what: str) -> Callable[..., Any]:
    call.__doc__ = what
    call.__name__ = call.__qualname__ = kind
    return call


def _truediv(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    # Whole numbers are divided in float64, as in TensorFlow, or in float32 where they are small.
    if not x.is_floating_point() and not x.is_complex():
        wide = torch.float64 if x.dtype in (torch.int32, torch.int64) else torch.float32
        return x.to(wide) / y.to(wide)
    return x / y


def _divide_no_nan(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    safe = torch.where(y == 0, torch.ones_like(y), y)
    return torch.where(y == 0, torch.zeros_like(x / safe), x / safe)


def _floordiv(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.floor(x / y) if x.is_floating_point() else torch.div(x, y, rounding_mode="floor")


abs_ = unary("Abs", torch.abs, "The absolute values.")
negative = unary("Neg", torch.neg, "The numbers with the other sign.")
sign = unary("Sign", torch.sign, "-1, 0 or 1.")
square = unary("Square", torch.square, "The squares.")
sqrt = unary("Sqrt", torch.sqrt, "The square roots.")
rsqrt = unary("Rsqrt", torch.rsqrt, "One over the square roots.")
reciprocal = unary("Reciprocal", torch.reciprocal, "One over the numbers.")
exp = unary("Exp", torch.exp, "The exponentials.")
expm1 = unary("Expm1", torch.expm1, "The exponentials, less 1.")
log = unary("Log", torch.log, "The natural logarithms.")
log1p = unary("Log1p", torch.log1p, "The natural logarithms of 1 more.")
sin = unary("Sin", torch.sin, "The sines.")
cos = unary("Cos", torch.cos, "The cosines.")
tan = unary("Tan", torch.tan, "The tangents.")
asin = unary("Asin", torch.asin, "The arc sines.")
acos = unary("Acos", torch.acos, "The arc cosines.")
atan = unary("Atan", torch.atan, "The arc tangents.")
sinh = unary("Sinh", torch.sinh, "The hyperbolic sines.")
cosh = unary("Cosh", torch.cosh, "The hyperbolic cosines.")
tanh = unary("Tanh", torch.tanh, "The hyperbolic tangents.")
sigmoid = unary("Sigmoid", torch.sigmoid, "`1 / (1 + exp(-x))`.")
log_sigmoid = unary("LogSigmoid", torch.nn.functional.logsigmoid, "The logarithms of the sigmoids.")
erf = unary("Erf", torch.erf, "The error function.")
lgamma = unary("Lgamma", torch.lgamma, "The logarithms of the gamma function.")
floor = unary("Floor", torch.floor, "The largest whole numbers that are not larger.")
ceil = unary("Ceil", torch.ceil, "The least whole numbers that are not less.")
round_ = unary("Round", torch.round, "The nearest whole numbers, halves to even ones.")
is_nan = unary("IsNan", torch.isnan, "Whether each is not a number.")
is_inf = unary("IsInf", torch.isinf, "Whether each is infinite.")
is_finite = unary("IsFinite", torch.isfinite, "Whether each is finite.")
logical_not = unary("LogicalNot", torch.logical_not, "Whether each is false.")

add = binary("Add", torch.add, "The sums.")
subtract = binary("Sub", torch.sub, "The differences.")
multiply = binary("Mul", torch.mul, "The products, element by element.")
realdiv = binary("RealDiv", torch.div, "The quotients.")
floordiv = binary("FloorDiv", _floordiv, "The quotients, rounded down.")
mod = floormod = binary("FloorMod", torch.remainder, "What floor division leaves.")
div_no_nan = binary("DivNoNan", _divide_no_nan, "The quotients, 0 where divided by 0.")
pow_ = binary("Pow", torch.pow, "The powers.")
maximum = binary("Maximum", torch.maximum, "The larger of each two.")
minimum = binary("Minimum", torch.minimum, "The smaller of each two.")
squared_difference = binary("SquaredDifference", lambda x, y: torch.square(x - y), "The squares of the differences.")
atan2 = binary("Atan2", torch.atan2, "The angles of the points (y, x).")
equal = binary("Equal", torch.eq, "Whether each two are equal.", bool_)
not_equal = binary("NotEqual", torch.ne, "Whether each two differ.", bool_)
less = binary("Less", torch.lt, "Whether the first of each two is less.", bool_)
less_equal = binary("LessEqual", torch.le, "Whether the first of each two is not larger.", bool_)
greater = binary("Greater", torch.gt, "Whether the first of each two is larger.", bool_)
greater_equal = binary("GreaterEqual", torch.ge, "Whether the first of each two is not less.", bool_)
logical_and = binary("LogicalAnd", torch.logical_and, "Whether both are true.", bool_)
logical_or = binary("LogicalOr", torch.logical_or, "Whether one is true.", bool_)
logical_xor = binary("LogicalXor", torch.logical_xor, "Whether exactly one is true.", bool_)


def truediv(x: Any, y: Any, name: str | None = None) -> Any:
    """The quotients; of whole numbers too, with fractions.

    >>> from unspool import tf1 as tf
    >>> tf.Session().run(tf.truediv(3, 2))
    np.float64(1.5)
    """
    if isinstance(x, torch.Tensor) or isinstance(y, torch.Tensor):
        return apply("RealDiv", _truediv, x, y)
    kind = same_dtype("RealDiv", x, y)[0].dtype
    whole = kind.is_integer or kind.is_bool
    return elementwise("RealDiv", _truediv, x, y, name=name, dtype=as_dtype("float64") if whole else kind)


def div(x: Any, y: Any, name: str | None = None) -> Any:
    """The quotients, of whole numbers rounded down, as in Python 2."""
    kind = as_tensor(x).dtype if isinstance(x, Operators) else as_tensor(y).dtype
    return floordiv(x, y, name) if kind.is_integer else realdiv(x, y, name)


divide = truediv


def add_n(inputs: Sequence[Any], name: str | None = None) -> Any:
    """The sum of several tensors of one shape."""
    if not isinstance(inputs, list | tuple) or not inputs:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError("inputs must be a list of at least one Tensor with the same dtype and shape")
    return apply("AddN", lambda *each: sum(each[1:], each[0]), *same_dtype("AddN", *inputs), name=name)


def cast(x: Any, dtype: Any, name: str | None = None) -> Any:
    """The numbers in another dtype.

    >>> from unspool import tf1 as tf
    >>> tf.Session().run(tf.cast([1.7, -1.7], tf.int32))
    array([ 1, -1], dtype=int32)
    """
    wanted = as_dtype(dtype)
    if isinstance(x, torch.Tensor):
        return x.to(wanted.torch)
    given = as_tensor(x)
    if given.dtype is wanted:
        return given
    return apply("Cast", lambda value: value.to(wanted.torch), given, name=name)


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
        lambda value, low, high: torch.minimum(torch.maximum(value, low), high),
        t,
        clip_value_min,
        clip_value_max,
        name=name,
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


def global_norm(t_list: Sequence[Any], name: str | None = None) -> Any:
    """The Euclidean norm of several tensors together; None among them is left out."""
    # Rows that were read twice count twice, as in TensorFlow: they are not added up first.
    given = [as_tensor(each.values if isinstance(each, IndexedSlices) else each) for each in t_list if each is not None]
    norm = lambda *values: torch.linalg.vector_norm(torch.stack([_norm(each, None, False) for each in values]))  # noqa: E731
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

    def clip(value: torch.Tensor, norm: torch.Tensor, bound: torch.Tensor) -> torch.Tensor:
        # Dividing by what is not finite makes the result not a number, as in TensorFlow, rather than zero.
        return value * (bound / torch.maximum(norm, bound) + (norm - norm))

    def clipped(each: Any) -> Any:
        if each is None:
            return None
        if isinstance(each, IndexedSlices):
            return IndexedSlices(clipped(each.values), each.indices, each.dense_dims)
        return apply("clip_by_global_norm", clip, each, norm, bound, outputs=_like(each), name=name)

    return [clipped(each) for each in t_list], norm


def _like(value: Any) -> list[tuple[DType, Dims]]:
    given = as_tensor(value)
    return [(given.dtype, given.dims)]


# -- reductions ------------------------------------------------------------------------------------------------------


def reduction(kind: str, function: Callable[..., torch.Tensor], what: str) -> Callable[..., Any]:
    """A reduction over one axis, several, or all."""

    def call(
        input_tensor: Any,
        axis: Any = None,
        keepdims: bool | None = None,
        name: str | None = None,
        reduction_indices: Any = None,
        keep_dims: bool | None = None,
    ) -> Any:
        chosen = axis if reduction_indices is None else reduction_indices
        keep = bool(keep_dims if keepdims is None else keepdims)

        def reduce(value: torch.Tensor) -> torch.Tensor:
            return function(value, _axes(chosen, value.dim()), keep)

        if isinstance(chosen, Operators):
            numbers = known_ints(chosen)
            if numbers is None or None in numbers:
                raise ValueError(f"{kind}: axis must be known when the graph is built, but is {chosen!r}")
            chosen = numbers
        return apply(kind, reduce, input_tensor, name=name)

    return _documented(call, kind, what)


def _axes(axis: Any, rank: int) -> list[int]:
    chosen = range(rank) if axis is None else [axis] if isinstance(axis, int) else axis
    return [int(each) for each in chosen]


def _over(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """A torch reduction that leaves a tensor alone if there is no axis to reduce."""
    return lambda value, axes, keep: function(value, axes, keep) if axes else value


def _prod(value: torch.Tensor, axes: list[int], keep: bool) -> torch.Tensor:
    for axis in sorted((each % value.dim() for each in axes), reverse=True):
        value = value.prod(axis, keepdim=keep, dtype=value.dtype)
    return value


def _mean(value: torch.Tensor, axes: list[int], keep: bool) -> torch.Tensor:
    if value.is_floating_point() or value.is_complex():
        return value.mean(axes, keep)
    count = math.prod(value.shape[each] for each in axes)
    return torch.div(value.sum(axes, keep, dtype=value.dtype), count, rounding_mode="trunc")


reduce_sum = reduction("Sum", _over(lambda v, a, k: v.sum(a, k, dtype=v.dtype)), "The sum over axes, or of all.")
reduce_mean = reduction("Mean", _over(_mean), "The mean over axes, or of all.")
reduce_max = reduction("Max", _over(lambda v, a, k: v.amax(a, k)), "The largest over axes, or of all.")
reduce_min = reduction("Min", _over(lambda v, a, k: v.amin(a, k)), "The smallest over axes, or of all.")
reduce_prod = reduction("Prod", _over(_prod), "The product over axes, or of all.")
reduce_any = reduction(
    "Any", _over(lambda v, a, k: v.any(dim=a, keepdim=k)), "Whether any is true, over axes or of all."
)
reduce_all = reduction(
    "All", _over(lambda v, a, k: v.all(dim=a, keepdim=k)), "Whether all are true, over axes or of all."
)
reduce_logsumexp = reduction("LogSumExp", _over(torch.logsumexp), "The logarithm of the sum of exponentials.")


def _arg(kind: str, function: Callable[..., torch.Tensor], what: str) -> Callable[..., Any]:
    def call(
        input: Any,
        axis: int | None = None,
        name: str | None = None,
        dimension: int | None = None,
        output_type: Any = int64,
    ) -> Any:
        chosen = next((each for each in (axis, dimension) if each is not None), 0)
        wanted = as_dtype(output_type)
        return apply(kind, lambda value: function(value, int(chosen)).to(wanted.torch), input, name=name)

    return _documented(call, kind, what)


argmax = _arg("ArgMax", torch.argmax, "Where along an axis the largest is; the first if there are several.")
argmin = _arg("ArgMin", torch.argmin, "Where along an axis the smallest is; the first if there are several.")


def cumsum(x: Any, axis: int = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None) -> Any:
    """The sums of all up to each, along an axis."""

    def compute(value: torch.Tensor) -> torch.Tensor:
        turned = value.flip(axis) if reverse else value
        total = turned.cumsum(axis, dtype=value.dtype)
        total = total - turned if exclusive else total
        return total.flip(axis) if reverse else total

    return apply("Cumsum", compute, x, name=name)


# -- products --------------------------------------------------------------------------------------------------------


def matmul(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
) -> Any:
    """The products of matrices, which are the last two axes.

    Raises:
        ValueError: if sizes that are known do not fit.

    >>> from unspool import tf1 as tf
    >>> tf.matmul(tf.placeholder(tf.float32, [None, 3]), tf.zeros([4, 5]))
    Traceback (most recent call last):
    ValueError: MatMul: Dimensions must be equal, but are 3 and 4, for shapes (?, 3) and (4, 5)
    """
    turn_a, turn_b = transpose_a or adjoint_a, transpose_b or adjoint_b

    def product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x.mT if turn_a else x) @ (y.mT if turn_b else y)

    if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor):
        return apply("MatMul", product, a, b)
    left, right = same_dtype("MatMul", a, b)
    shape = _product_shape(_turned(left.dims, turn_a), _turned(right.dims, turn_b))
    return apply("MatMul", product, left, right, name=name, outputs=[(left.dtype, shape)])


def _turned(dims: Dims, turn: bool) -> Dims:
    return dims if dims is None or not turn or len(dims) < 2 else (*dims[:-2], dims[-1], dims[-2])


def _product_shape(left: Dims, right: Dims) -> Dims:
    if left is None or right is None:
        return None
    if len(left) < 2 or len(right) < 2:
        raise ValueError(
            f"MatMul: Shape must be rank 2 at least, but the shapes are {described(left)} and {described(right)}"
        )
    if not compatible(left[-1], right[-2]):
        raise ValueError(
            f"MatMul: Dimensions must be equal, but are {left[-1]} and {right[-2]}, for shapes {described(left)} and "
            f"{described(right)}"
        )
    longer, shorter = (left, right) if len(left) >= len(right) else (right, left)
    batch: list[Dim] = list(longer[:-2])
    for back in range(3, len(shorter) + 1):
        batch[-back + 2] = longer[-back] if longer[-back] is not None else shorter[-back]
    return (*batch, left[-2], right[-1])


def tensordot(a: Any, b: Any, axes: Any, name: str | None = None) -> Any:
    """The sum of products over the axes that are named of both."""
    return apply("Tensordot", lambda x, y: torch.tensordot(x, y, dims=axes), *same_dtype("Tensordot", a, b), name=name)


def einsum(equation: str, *inputs: Any, name: str | None = None) -> Any:
    """Sums of products by Einstein's convention."""
    return apply("Einsum", lambda *values: torch.einsum(equation, *values), *same_dtype("Einsum", *inputs), name=name)


def norm(
    tensor: Any,
    ord: Any = "euclidean",
    axis: Any = None,
    keepdims: bool = False,
    name: str | None = None,
    keep_dims: bool | None = None,
) -> Any:
    """The norm of a tensor, or of its vectors along an axis: Euclidean, or of another order."""
    power = 2.0 if ord == "euclidean" else float(ord)
    keep = bool(keepdims if keep_dims is None else keep_dims)
    return apply("norm", lambda x: torch.linalg.vector_norm(x, power, axis, keep), tensor, name=name)


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
    "and": logical_and,
    "or": logical_or,
    "xor": logical_xor,
}
for _name, _function in _BINARY.items():
    Operators.overload(f"__{_name}__", _function)
    Operators.overload(f"__r{_name}__", _reflected(_function))
for _name, _function in {"lt": less, "le": less_equal, "gt": greater, "ge": greater_equal}.items():
    Operators.overload(f"__{_name}__", _function)
for _name, _function in {"neg": negative, "abs": abs_, "invert": logical_not}.items():
    Operators.overload(f"__{_name}__", _function)
