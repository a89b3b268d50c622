"""Activations, losses on logits, embeddings, dropout."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional as F

from unspool.tf1.dtypes import float32
from unspool.tf1.errors import InvalidArgumentError
from unspool.tf1.gradients import stop_gradient
from unspool.tf1.inference import broadcast
from unspool.tf1.operations import (
    FRACTIONS,
    NUMBERS,
    apply,
    as_sizes,
    as_tensor,
    check_takes,
    elementwise,
    ints,
    same_dtype,
)
from unspool.tf1.ops.classes import embedding_lookup as embedding_lookup
from unspool.tf1.ops.classes import in_top_k as in_top_k
from unspool.tf1.ops.classes import top_k as top_k
from unspool.tf1.ops.making import unary
from unspool.tf1.ops.math import cast
from unspool.tf1.ops.reductions import as_axes, reduced
from unspool.tf1.seeds import Draw
from unspool.tf1.shapes import Dims, described, fit, merged
from unspool.tf1.tensor import Operators
from unspool.tracers import has_values


def _selu(x: torch.Tensor) -> torch.Tensor:
    # At 0 the slope is that of the right side, as in TensorFlow; torch's is that of the left.
    return torch.where(x < 0, F.selu(x), 1.0507009873554804934193349852946 * x)


relu = unary("Relu", torch.relu, "The numbers, 0 where negative.", NUMBERS)
relu6 = unary("Relu6", F.relu6, "The numbers, within 0 and 6.", NUMBERS)
elu = unary("Elu", F.elu, "The numbers, `exp(x) - 1` where negative.", FRACTIONS)
selu = unary("Selu", _selu, "Scaled exponential linear units (Klambauer et al., 2017).", FRACTIONS)
softplus = unary("Softplus", F.softplus, "`log(1 + exp(x))`.", FRACTIONS)
softsign = unary("Softsign", F.softsign, "`x / (1 + |x|)`.", FRACTIONS)
swish = unary("Swish", F.silu, "`x * sigmoid(x)`.", FRACTIONS)


def leaky_relu(features: Any, alpha: Any = 0.2, name: str | None = None) -> Any:
    """The numbers, times `alpha` where negative."""
    if isinstance(features, torch.Tensor):
        return F.leaky_relu(features, alpha)
    given = as_tensor(features)
    given = cast(given, float32) if given.dtype.is_integer else given
    compute = lambda x: F.leaky_relu(x, alpha)  # noqa: E731
    return apply("LeakyRelu", compute, given, name=name, outputs=[(given.dtype, given.dims)])


def softmax(logits: Any, axis: int | None = None, name: str | None = None, dim: int | None = None) -> Any:
    """Probabilities in proportion to the exponentials, along an axis, the last by default.

    >>> from unspool import tf1 as tf
    >>> tf.Session().run(tf.nn.softmax([0.0, 0.0]))
    array([0.5, 0.5], dtype=float32)
    """
    return _along("Softmax", torch.softmax, logits, _axis(axis, dim), name)


def log_softmax(logits: Any, axis: int | None = None, name: str | None = None, dim: int | None = None) -> Any:
    """The logarithms of `softmax`."""
    return _along("LogSoftmax", torch.log_softmax, logits, _axis(axis, dim), name)


def _along(kind: str, function: Any, logits: Any, axis: int, name: str | None) -> Any:
    def compute(x: torch.Tensor) -> torch.Tensor:
        if not x.dim():
            raise ValueError(f"{kind} is taken along an axis, but a scalar has none")
        return function(x, axis)

    if isinstance(logits, torch.Tensor):
        return compute(logits)
    given = as_tensor(logits)
    check_takes(kind, given, FRACTIONS)
    if given.dims == ():
        raise ValueError(f"{kind}: Shape must be at least rank 1 but is rank 0")
    if given.dims is not None and not -len(given.dims) <= axis < len(given.dims):
        message = f"`dim` must be in the range [{-len(given.dims)}, {len(given.dims)}), but is {axis}"
        raise InvalidArgumentError(None, None, message)
    return apply(kind, compute, given, name=name, outputs=[(given.dtype, given.dims)])


def _axis(axis: int | None, dim: int | None) -> int:
    return axis if axis is not None else dim if dim is not None else -1


def l2_normalize(x: Any, axis: Any = None, epsilon: float = 1e-12, name: str | None = None, dim: Any = None) -> Any:
    """A tensor, divided by its Euclidean norm along axes."""
    axes = as_axes(axis if axis is not None else dim)
    normalize = lambda v: v * v.square().sum(axes, True).clamp_min(epsilon).rsqrt()  # noqa: E731
    if isinstance(x, torch.Tensor):
        return normalize(x)
    given = as_tensor(x)
    return apply("l2_normalize", normalize, given, name=name, outputs=[(given.dtype, given.dims)])


def l2_loss(t: Any, name: str | None = None) -> Any:
    """Half the sum of the squares."""
    if isinstance(t, torch.Tensor):
        return t.square().sum() / 2
    given = as_tensor(t)
    check_takes("L2Loss", given, FRACTIONS)
    return apply("L2Loss", lambda x: x.square().sum() / 2, given, name=name, outputs=[(given.dtype, ())])


def bias_add(value: Any, bias: Any, data_format: str | None = None, name: str | None = None) -> Any:
    """A tensor with a vector added along its channels: its last axis, or with "NCHW" and the like its second."""
    if data_format is not None and not re.fullmatch(r"N(D?H?W?C|CD?H?W?)", data_format):
        raise ValueError(f"data_format must be of the form `N...C` or `NC...`, but is {data_format!r}")
    axis = 1 if data_format is not None and data_format.startswith("NC") else -1

    def compute(x: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        if b.dim() != 1 or x.dim() < 2 or x.shape[axis] != b.shape[0]:
            raise ValueError(f"Must provide as many biases as there are channels: {list(b.shape)} vs. {list(x.shape)}")
        return x + (b if axis == -1 else b.reshape(-1, *[1] * (x.dim() - 2)))

    if isinstance(value, torch.Tensor) or isinstance(bias, torch.Tensor):
        return apply("BiasAdd", compute, value, bias)
    given, added = same_dtype("BiasAdd", value, bias)
    dims = given.dims
    if added.dims is not None and len(added.dims) != 1:
        raise ValueError(f"BiasAdd: Shape must be rank 1, but that of the bias is {described(added.dims)}")
    if dims is not None and added.dims is not None:
        place = axis % len(dims)
        dims = (*dims[:place], *merged(dims[place : place + 1], added.dims), *dims[place + 1 :])
    return apply("BiasAdd", compute, given, added, name=name, outputs=[(given.dtype, dims)])


def xw_plus_b(x: Any, weights: Any, biases: Any, name: str | None = None) -> Any:
    """`x @ weights + biases`."""
    from unspool.tf1.ops.math import matmul

    return bias_add(matmul(x, weights), biases, name=name or "xw_plus_b")


def moments(
    x: Any,
    axes: Sequence[int],
    shift: Any = None,
    name: str | None = None,
    keep_dims: bool = False,
    keepdims: bool | None = None,
) -> Any:
    """The mean and the variance over axes."""
    keep, over = bool(keep_dims if keepdims is None else keepdims), as_axes(axes)

    def compute(value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return value.mean(over, keep), value.var(over, correction=0, keepdim=keep)

    given = as_tensor(x)
    check_takes("moments", given, FRACTIONS)
    outputs = [(given.dtype, reduced("moments", given.dims, over, keep))] * 2
    return tuple(apply("moments", compute, given, name=name, outputs=outputs))


def batch_normalization(
    x: Any, mean: Any, variance: Any, offset: Any, scale: Any, variance_epsilon: float, name: str | None = None
) -> Any:
    """`(x - mean) / sqrt(variance + variance_epsilon) * scale + offset`; the last two may be None."""
    given = [each for each in (offset, scale) if each is not None]

    def compute(value: torch.Tensor, mean: torch.Tensor, variance: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
        remaining = list(rest)
        shift = remaining.pop(0) if offset is not None else None
        factor = torch.rsqrt(variance + variance_epsilon)
        factor = factor if not remaining else factor * remaining[0]
        made = (value - mean) * factor
        return made if shift is None else made + shift

    return apply("batchnorm", compute, *same_dtype("batchnorm", x, mean, variance, *given), name=name)


# -- losses ----------------------------------------------------------------------------------------------------------


def sparse_softmax_cross_entropy_with_logits(
    _sentinel: Any = None, labels: Any = None, logits: Any = None, name: str | None = None
) -> Any:
    """Minus the log-probability of each label, which is the number of a class.

    Args:
        labels: ints `[...]`, in [0, classes).
        logits: `[..., classes]`.

    Raises:
        ValueError: if the arguments are not named, or their shapes do not fit.

    >>> from unspool import tf1 as tf
    >>> tf.Session().run(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[1], logits=[[0.0, 0.0]]))
    array([0.6931472], dtype=float32)
    """
    _check_named(_sentinel, labels, logits, "sparse_softmax_cross_entropy_with_logits")

    def compute(scores: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        if scores.shape[:-1] != classes.shape:
            raise ValueError(f"labels of shape {list(classes.shape)} do not fit logits of shape {list(scores.shape)}")
        wide = scores.shape[-1]
        least, most = (0, 0) if not classes.numel() else (each.item() for each in classes.aminmax())
        if least < 0 or most >= wide:
            outside = classes[(classes < 0) | (classes >= wide)].reshape(-1)[0].item()
            raise ValueError(f"Received a label value of {outside} which is outside the valid range of [0, {wide})")
        flat = F.cross_entropy(scores.reshape(-1, wide), classes.reshape(-1).long(), reduction="none")
        return flat.reshape(classes.shape)

    scores, classes = as_tensor(logits), as_tensor(labels)
    if scores.dims is not None and classes.dims is not None and not fit(scores.dims[:-1], classes.dims):
        raise ValueError(
            f"Rank mismatch: labels have shape {described(classes.dims)}, but logits {described(scores.dims)} want "
            f"{described(scores.dims[:-1])}"
        )
    if not classes.dtype.is_integer:
        raise TypeError(f"labels must be whole numbers, but are {classes.dtype.name}")
    dims = classes.dims if classes.dims is not None else None if scores.dims is None else scores.dims[:-1]
    kind = "SparseSoftmaxCrossEntropyWithLogits"
    return apply(kind, compute, scores, classes, name=name or kind, outputs=[(scores.dtype, dims)])


def softmax_cross_entropy_with_logits(
    _sentinel: Any = None,
    labels: Any = None,
    logits: Any = None,
    dim: int = -1,
    name: str | None = None,
    axis: int | None = None,
) -> Any:
    """The cross entropy of probabilities `labels` and `softmax(logits)`, along an axis; labels are held constant."""
    _check_named(_sentinel, labels, logits, "softmax_cross_entropy_with_logits")
    return _soft_cross_entropy(labels, logits, dim if axis is None else axis, name, held=True)


def softmax_cross_entropy_with_logits_v2(
    _sentinel: Any = None,
    labels: Any = None,
    logits: Any = None,
    dim: int | None = None,
    name: str | None = None,
    axis: int | None = None,
) -> Any:
    """The cross entropy of probabilities `labels` and `softmax(logits)`, along an axis; both have gradients."""
    _check_named(_sentinel, labels, logits, "softmax_cross_entropy_with_logits_v2")
    return _soft_cross_entropy(labels, logits, _axis(axis, dim), name, held=False)


def _soft_cross_entropy(labels: Any, logits: Any, axis: int, name: str | None, *, held: bool) -> Any:
    def compute(scores: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        if scores.shape != wanted.shape:
            _check_rows(scores.shape, wanted.shape, axis)
            scores, wanted = torch.broadcast_tensors(scores, wanted)
        return _SoftCrossEntropy.apply(scores, wanted, axis)  # pyright: ignore[reportUnknownMemberType, reportReturnType]

    scores, wanted = as_tensor(logits), as_tensor(labels)
    check_takes("softmax_cross_entropy_with_logits", scores, FRACTIONS)
    wanted = cast(stop_gradient(wanted) if held else wanted, scores.dtype)
    shape: Dims = broadcast("softmax_cross_entropy_with_logits", scores.dims, wanted.dims)
    dims = reduced("softmax_cross_entropy_with_logits", shape, axis, False)
    if all(each is not None and None not in each for each in (scores.dims, wanted.dims)):
        _check_rows(scores.dims, wanted.dims, axis)
    outputs = [(scores.dtype, dims)]
    return apply("softmax_cross_entropy_with_logits", compute, scores, wanted, name=name, outputs=outputs)


def _check_rows(scores: Any, wanted: Any, axis: int) -> None:
    """Raises `ValueError` unless logits and labels are broadcast as the matrices that TensorFlow makes of both."""
    rows = [math.prod(each) // max(1, each[axis]) for each in (scores, wanted)]
    if rows[0] != rows[1] and 1 not in rows:
        raise ValueError(
            f"logits and labels must be broadcastable: {[*scores]} and {[*wanted]} have {rows[0]} and {rows[1]} rows"
        )


class _SoftCrossEntropy(torch.autograd.Function):
    """`-sum(labels * log_softmax(logits))`, with TensorFlow's gradient by the logits, whatever the labels sum to."""

    @staticmethod
    def forward(ctx: Any, scores: torch.Tensor, wanted: torch.Tensor, axis: int) -> torch.Tensor:
        ctx.save_for_backward(scores, wanted)
        ctx.axis = axis
        return -(wanted * scores.log_softmax(axis)).sum(axis)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        scores, wanted = ctx.saved_tensors
        each, (by_scores, by_wanted, _) = grad.unsqueeze(ctx.axis), ctx.needs_input_grad
        d_scores = each * (scores.softmax(ctx.axis) - wanted) if by_scores else None
        return d_scores, -each * scores.log_softmax(ctx.axis) if by_wanted else None, None


def sigmoid_cross_entropy_with_logits(
    _sentinel: Any = None, labels: Any = None, logits: Any = None, name: str | None = None
) -> Any:
    """The cross entropy of truths with probabilities `labels` and `sigmoid(logits)`, element by element."""
    _check_named(_sentinel, labels, logits, "sigmoid_cross_entropy_with_logits")
    scores, wanted = same_dtype("logistic_loss", logits, labels)
    if not fit(scores.dims, wanted.dims):
        raise ValueError(
            f"logits and labels must have the same shape ({described(scores.dims)} vs {described(wanted.dims)})"
        )

    def compute(x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        # Not relu and abs, whose slopes at 0 are 0: there that of the loss would be wrong.
        positive = x >= 0
        return torch.where(positive, x, 0) - x * z + torch.log1p(torch.exp(torch.where(positive, -x, x)))

    return elementwise("logistic_loss", compute, scores, wanted, name=name)


def weighted_cross_entropy_with_logits(labels: Any, logits: Any, pos_weight: Any, name: str | None = None) -> Any:
    """`sigmoid_cross_entropy_with_logits` with the positive truths weighted."""

    def compute(z: torch.Tensor, x: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
        return (1 - z) * x + (1 + (q - 1) * z) * (torch.log1p(torch.exp(-x.abs())) + torch.relu(-x))

    return elementwise("logistic_loss", compute, labels, logits, pos_weight, name=name)


def _check_named(sentinel: Any, labels: Any, logits: Any, name: str) -> None:
    if sentinel is not None:
        raise ValueError(f"Only call `{name}` with named arguments (labels=..., logits=..., ...)")
    if labels is None or logits is None:
        raise ValueError("Both labels and logits must be provided.")


def dropout(
    x: Any,
    keep_prob: Any = None,
    noise_shape: Any = None,
    seed: int | None = None,
    name: str | None = None,
    rate: Any = None,
) -> Any:
    """A tensor with elements dropped at random, and what is kept divided by `keep_prob`.

    Args:
        x: the tensor.
        keep_prob: the probability to keep an element; a number or a tensor.
        noise_shape: the shape of the draw, 1 where elements are dropped together.
        seed: makes the draws repeatable.
        rate: the probability to drop one, in the place of `keep_prob`.

    Raises:
        ValueError: if neither or both probabilities are given, or it is no probability.
    """
    if (keep_prob is None) == (rate is None):
        raise ValueError("one of keep_prob and rate must be given, and only one")
    number = keep_prob if keep_prob is not None else rate
    if not isinstance(number, Operators) and not 0 <= float(number) <= 1:
        raise ValueError(
            f"keep_prob and rate must be a scalar tensor or a number in the range [0, 1], but got {number}"
        )
    given = as_tensor(x)
    if not given.dtype.is_floating:
        raise ValueError(f"x has to be a floating point tensor since it will be scaled, but is {given.dtype.name}")
    probability, draw = as_tensor(number, given.dtype), Draw(seed)
    shape = [] if noise_shape is None else [_noise_shape(noise_shape)]

    def compute(run: Any, value: torch.Tensor, chance: torch.Tensor, *shape: torch.Tensor) -> torch.Tensor:
        keep = chance if rate is None else 1 - chance
        if has_values(keep) and float(keep) == 1:
            return value
        asked = ints(shape[0]) if shape else value.shape
        sizes = [value.shape[k] if size == -1 else size for k, size in enumerate(asked)]
        noise = draw.uniform(run, sizes, value)
        return value / keep * (noise < keep)

    outputs = [(given.dtype, given.dims)]
    made = apply("dropout", compute, given, probability, *shape, name=name, outputs=outputs, takes_run=True)
    return draw.noted(made)


def _noise_shape(shape: Any) -> Any:
    """As a tensor, with -1 for sizes that are those of the tensor itself."""
    return as_sizes(shape if isinstance(shape, Operators) else [-1 if each is None else each for each in shape])


def zero_fraction(value: Any, name: str | None = None) -> Any:
    """What part of the elements is zero."""
    return apply("zero_fraction", lambda x: (x == 0).float().mean(), value, name=name, outputs=[(float32, ())])
