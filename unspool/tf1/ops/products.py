"""Products of matrices, and of more."""

from __future__ import annotations

from typing import Any

import torch

from unspool.tf1.inference import broadcast
from unspool.tf1.operations import NUMBERS, apply, check_axis, check_takes, same_dtype
from unspool.tf1.ops.reductions import listed
from unspool.tf1.shapes import Dim, Dims, compatible, described
from unspool.tf1.tensor import Tensor

__all__ = [
    "einsum",
    "matmul",
    "tensordot",
]


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
        if x.dim() < 2 or y.dim() < 2:
            raise ValueError(f"matrices have two axes, but the shapes are {list(x.shape)} and {list(y.shape)}")
        return (x.mT if turn_a else x) @ (y.mT if turn_b else y)

    if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor):
        return apply("MatMul", product, a, b)
    left, right = same_dtype("MatMul", a, b)
    check_takes("MatMul", left, NUMBERS)
    shape = _product_shape(_turned(left.dims, turn_a), _turned(right.dims, turn_b))
    kind = "MatMul" if left.dims is not None and len(left.dims) == 2 else "BatchMatMulV2"
    return apply(kind, product, left, right, name=name or "MatMul", outputs=[(left.dtype, shape)])


def _turned(dims: Dims, turn: bool) -> Dims:
    return dims if dims is None or not turn or len(dims) < 2 else (*dims[:-2], dims[-1], dims[-2])


def _product_shape(left: Dims, right: Dims) -> Dims:
    for each in (left, right):
        if each is not None and len(each) < 2:
            raise ValueError(
                f"MatMul: Shape must be rank 2 at least, but the shapes are {described(left)} and {described(right)}"
            )
    if left is None or right is None:
        return None
    if not compatible(left[-1], right[-2]):
        raise ValueError(
            f"MatMul: Dimensions must be equal, but are {left[-1]} and {right[-2]}, for shapes {described(left)} and "
            f"{described(right)}"
        )
    return (*(broadcast("MatMul", left[:-2], right[:-2]) or ()), left[-2], right[-1])


def tensordot(a: Any, b: Any, axes: Any, name: str | None = None) -> Any:
    """The sum of products over the axes that are named of both: so many, or a pair of axes or of lists of them."""
    pair: Any = None if isinstance(axes, int) else [listed(each) for each in axes]
    compute = lambda x, y: torch.tensordot(x, y, dims=axes if pair is None else pair)  # noqa: E731
    if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor):
        return apply("Tensordot", compute, a, b)
    left, right = same_dtype("Tensordot", a, b)
    dims = _contracted(left.dims, right.dims, axes, pair)
    return apply("Tensordot", compute, left, right, name=name, outputs=[(left.dtype, dims)])


def _contracted(left: Dims, right: Dims, count: Any, pair: Any) -> Dims:
    if left is None or right is None:
        return None
    first, second = (list(range(len(left) - count, len(left))), list(range(count))) if pair is None else pair
    for here, there in zip(first, second, strict=True):
        check_axis("Tensordot", here, len(left))
        check_axis("Tensordot", there, len(right))
        if not compatible(left[here], right[there]):
            raise ValueError(
                f"Tensordot: Dimensions must be equal, but are {left[here]} and {right[there]}, for shapes "
                f"{described(left)} and {described(right)}"
            )
    return (*_without(left, first), *_without(right, second))


def _without(dims: tuple[Dim, ...], axes: Any) -> list[Dim]:
    gone = {each % len(dims) for each in axes}
    return [size for place, size in enumerate(dims) if place not in gone]


def einsum(equation: str, *inputs: Any, name: str | None = None) -> Any:
    """Sums of products by Einstein's convention."""
    compute = lambda *values: torch.einsum(equation, *values)  # noqa: E731
    if any(isinstance(each, torch.Tensor) for each in inputs):
        return apply("Einsum", compute, *inputs)
    given = same_dtype("Einsum", *inputs)
    outputs = None if "." in equation else [(given[0].dtype, _summed(equation.replace(" ", ""), given))]
    return apply("Einsum", compute, *given, name=name, outputs=outputs)


def _summed(equation: str, given: list[Tensor]) -> Dims:
    read, arrow, written = equation.partition("->")
    letters = read.split(",")
    if len(letters) != len(given):
        raise ValueError(f"Einsum: {equation!r} is about {len(letters)} tensors, but {len(given)} are given")
    sizes: dict[str, Dim] = {}
    for term, tensor in zip(letters, given, strict=True):
        if tensor.dims is not None and len(tensor.dims) != len(term):
            raise ValueError(f"Einsum: {term!r} has {len(term)} axes, but {tensor!r} has {len(tensor.dims)}")
        for letter, size in zip(term, tensor.dims or (None,) * len(term), strict=True):
            if not compatible(sizes.get(letter), size):
                raise ValueError(f"Einsum: axis {letter!r} has size {sizes[letter]} and size {size} in {equation!r}")
            sizes[letter] = size if sizes.get(letter) is None else sizes[letter]
    joined = "".join(letters)
    kept = written if arrow else "".join(sorted(each for each in sizes if joined.count(each) == 1))
    return tuple(sizes[each] for each in kept)
