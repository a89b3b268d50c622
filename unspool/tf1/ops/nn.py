"""Activations, losses on logits, embeddings, dropout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional as F

from unspool.tf1.dtypes import bool_, int32
from unspool.tf1.operations import apply, as_tensor, elementwise, same_dtype
from unspool.tf1.ops.array import gather
from unspool.tf1.ops.math import unary
from unspool.tf1.seeds import Draw
from unspool.tf1.shapes import described, fit
from unspool.tf1.tensor import Operators

relu = unary("Relu", torch.relu, "The numbers, 0 where negative.")
relu6 = unary("Relu6", F.relu6, "The numbers, within 0 and 6.")
elu = unary("Elu", F.elu, "The numbers, `exp(x) - 1` where negative.")
selu = unary("Selu", F.selu, "Scaled exponential linear units (Klambauer et al., 2017).")
softplus = unary("Softplus", F.softplus, "`log(1 + exp(x))`.")
softsign = unary("Softsign", F.softsign, "`x / (1 + |x|)`.")
swish = unary("Swish", F.silu, "`x * sigmoid(x)`.")


def leaky_relu(features: Any, alpha: float = 0.2, name: str | None = None) -> Any:
    """The numbers, times `alpha` where negative."""
    return apply("LeakyRelu", lambda x: F.leaky_relu(x, alpha), features, name=name)


def softmax(logits: Any, axis: int | None = None, name: str | None = None, dim: int | None = None) -> Any:
    """Probabilities in proportion to the exponentials, along an axis, the last by default.

    >>> from unspool import tf1 as tf
    >>> tf.Session().run(tf.nn.softmax([0.0, 0.0]))
    array([0.5, 0.5], dtype=float32)
    """
    return apply("Softmax", lambda x: x.softmax(_axis(axis, dim)), logits, name=name)


def log_softmax(logits: Any, axis: int | None = None, name: str | None = None, dim: int | None = None) -> Any:
    """The logarithms of `softmax`."""
    return apply("LogSoftmax", lambda x: x.log_softmax(_axis(axis, dim)), logits, name=name)


def _axis(axis: int | None, dim: int | None) -> int:
    return axis if axis is not None else dim if dim is not None else -1


def l2_normalize(x: Any, axis: Any = None, epsilon: float = 1e-12, name: str | None = None, dim: Any = None) -> Any:
    """A tensor, divided by its Euclidean norm along axes."""
    where = axis if axis is not None else dim
    axes = None if where is None else [where] if isinstance(where, int) else list(where)
    normalize = lambda v: v * v.square().sum(axes, True).clamp_min(epsilon).rsqrt()  # noqa: E731
    return apply("l2_normalize", normalize, x, name=name)


def l2_loss(t: Any, name: str | None = None) -> Any:
    """Half the sum of the squares."""
    return apply("L2Loss", lambda x: x.square().sum() / 2, t, name=name)


def bias_add(value: Any, bias: Any, data_format: str | None = None, name: str | None = None) -> Any:
    """A tensor with a vector added to every entry along its last axis."""
    if data_format not in (None, "NHWC"):
        raise ValueError(f"data_format {data_format!r} is not supported; the channels are the last axis")
    return elementwise("BiasAdd", torch.add, value, bias, name=name)


def xw_plus_b(x: Any, weights: Any, biases: Any, name: str | None = None) -> Any:
    """`x @ weights + biases`."""
    return apply(
        "xw_plus_b", lambda x, w, b: torch.addmm(b, x, w), *same_dtype("xw_plus_b", x, weights, biases), name=name
    )


def moments(
    x: Any,
    axes: Sequence[int],
    shift: Any = None,
    name: str | None = None,
    keep_dims: bool = False,
    keepdims: bool | None = None,
) -> Any:
    """The mean and the variance over axes."""
    keep, over = bool(keep_dims if keepdims is None else keepdims), list(axes)

    def compute(value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return value.mean(over, keep), value.var(over, correction=0, keepdim=keep)

    return tuple(apply("moments", compute, x, name=name))


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
        wide = scores.shape[-1]
        if classes.numel() and not (int(classes.min()) >= 0 and int(classes.max()) < wide):
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
        return -((wanted.detach() if held else wanted) * scores.log_softmax(axis)).sum(axis)

    scores = as_tensor(logits)
    return apply("softmax_cross_entropy_with_logits", compute, scores, as_tensor(labels, scores.dtype), name=name)


def sigmoid_cross_entropy_with_logits(
    _sentinel: Any = None, labels: Any = None, logits: Any = None, name: str | None = None
) -> Any:
    """The cross entropy of truths with probabilities `labels` and `sigmoid(logits)`, element by element."""
    _check_named(_sentinel, labels, logits, "sigmoid_cross_entropy_with_logits")
    scores = as_tensor(logits)
    wanted = as_tensor(labels, scores.dtype)
    if not fit(scores.dims, wanted.dims):
        raise ValueError(
            f"logits and labels must have the same shape ({described(scores.dims)} vs {described(wanted.dims)})"
        )

    def compute(x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) - x * z + torch.log1p(torch.exp(-x.abs()))

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


# -- classes ---------------------------------------------------------------------------------------------------------


def in_top_k(predictions: Any, targets: Any, k: int, name: str | None = None) -> Any:
    """Whether the target of each row is among its `k` largest predictions, ties included.

    >>> from unspool import tf1 as tf
    >>> tf.Session().run(tf.nn.in_top_k([[0.1, 0.7, 0.2]], [2], 2))
    array([ True])
    """

    def compute(scores: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        own = scores.gather(1, wanted.long()[:, None])
        return ((scores > own).sum(1) < k) & own[:, 0].isfinite()

    given = as_tensor(targets)
    return apply("InTopK", compute, predictions, given, name=name, outputs=[(bool_, given.dims)])


def top_k(input: Any, k: int = 1, sorted: bool = True, name: str | None = None) -> Any:
    """The `k` largest along the last axis, and where they are."""

    def compute(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if x.is_meta:
            return x[..., :k], x[..., :k].int()
        # Sorted stably: of equals the first comes first, as in TensorFlow.
        values, places = torch.sort(x, dim=-1, descending=True, stable=True)
        return values[..., :k], places[..., :k].int()

    return TopKV2(*apply("TopKV2", compute, input, name=name))


class TopKV2(tuple[Any, ...]):
    """Values and indices of the largest."""

    def __new__(cls, values: Any, indices: Any) -> TopKV2:
        """Both."""
        return super().__new__(cls, (values, indices))

    @property
    def values(self) -> Any:
        """The largest."""
        return self[0]

    @property
    def indices(self) -> Any:
        """Where they are."""
        return self[1]


def embedding_lookup(
    params: Any,
    ids: Any,
    partition_strategy: str = "mod",
    name: str | None = None,
    validate_indices: bool = True,
    max_norm: float | None = None,
) -> Any:
    """The rows of a table at those numbers.

    >>> from unspool import tf1 as tf
    >>> tf.nn.embedding_lookup(tf.zeros([10, 4]), tf.placeholder(tf.int32, [None, 7])).shape
    TensorShape([None, 7, 4])
    """
    if isinstance(params, list | tuple):
        if len(params) != 1:  # pyright: ignore[reportUnknownArgumentType]
            raise NotImplementedError("tables in several parts are not supported; tf.concat them")
        params = params[0]  # pyright: ignore[reportUnknownVariableType]
    if max_norm is not None:
        raise NotImplementedError("max_norm is not supported")
    if isinstance(ids, torch.Tensor):
        return F.embedding(ids, params)
    return gather(params, ids, name=name or "embedding_lookup")


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

    def compute(run: Any, value: torch.Tensor, chance: torch.Tensor) -> torch.Tensor:
        keep = chance if rate is None else 1 - chance
        if float(keep) == 1:
            return value
        sizes = (
            value.shape
            if noise_shape is None
            else [value.shape[k] if n is None or n == -1 else int(n) for k, n in enumerate(noise_shape)]
        )
        noise = torch.rand(sizes, dtype=value.dtype, device=value.device, generator=draw.generator(run))
        return value / keep * (noise < keep)

    return apply("dropout", compute, given, probability, name=name, outputs=[(given.dtype, given.dims)], takes_run=True)


def zero_fraction(value: Any, name: str | None = None) -> Any:
    """What part of the elements is zero."""
    return apply("zero_fraction", lambda x: (x == 0).float().mean(), value, name=name)


def confusion(labels: Any, predictions: Any, num_classes: int) -> Any:
    """How often each class was taken for each other: rows are labels (`tf.confusion_matrix`)."""

    def compute(wanted: torch.Tensor, found: torch.Tensor) -> torch.Tensor:
        flat = wanted.long() * num_classes + found.long()
        return torch.bincount(flat, minlength=num_classes**2).reshape(num_classes, num_classes).int()

    return apply("confusion_matrix", compute, labels, predictions, outputs=[(int32, (num_classes, num_classes))])
