"""Diagonals of matrices, and tensors that are made of them."""

from __future__ import annotations

from typing import Any

import torch

from unspool.tf1.operations import apply, as_tensor, known_int
from unspool.tf1.shapes import Dims, described, fit, merged

__all__ = [
    "diag",
    "diag_part",
    "matrix_band_part",
    "matrix_diag",
    "matrix_diag_part",
    "matrix_set_diag",
    "matrix_transpose",
    "trace",
]


def diag(diagonal: Any, name: str | None = None) -> Any:
    """Zeros around a diagonal: of shape `[*s, *s]` for one of shape `s`.

    >>> from unspool import tf1 as tf
    >>> tf.Session().run(tf.diag([1, 2]))
    array([[1, 0],
           [0, 2]], dtype=int32)
    """
    scalar = "Diag: the diagonal must have at least one axis, but is a scalar"

    def compute(x: torch.Tensor) -> torch.Tensor:
        if not x.dim():
            raise ValueError(scalar)
        return torch.diag(x.reshape(-1)).reshape((*x.shape, *x.shape))

    given = as_tensor(diagonal)
    if given.dims == ():
        raise ValueError(scalar)
    dims = None if given.dims is None else (*given.dims, *given.dims)
    return apply("Diag", compute, given, name=name, outputs=[(given.dtype, dims)])


def diag_part(input: Any, name: str | None = None) -> Any:
    """The diagonal of a tensor of shape `[*s, *s]`, of shape `s`."""

    def compute(x: torch.Tensor) -> torch.Tensor:
        half = x.shape[: x.dim() // 2]
        if not x.dim() or x.dim() % 2 or half != x.shape[len(half) :]:
            raise ValueError(f"DiagPart: a shape must be the same twice, but is {list(x.shape)}")
        return x.reshape(half.numel(), half.numel()).diagonal().reshape(half)

    given = as_tensor(input)
    dims: Dims = None
    if given.dims is not None:
        half = len(given.dims) // 2
        if not given.dims or len(given.dims) % 2:
            raise ValueError(f"DiagPart: a shape must be the same twice, but is {described(given.dims)}")
        dims = merged(given.dims[:half], given.dims[half:])
    return apply("DiagPart", compute, given, name=name, outputs=[(given.dtype, dims)])


def matrix_diag(diagonal: Any, name: str | None = None) -> Any:
    """Square matrices, zero around the diagonals in the last axis.

    >>> from unspool import tf1 as tf
    >>> tf.matrix_diag(tf.zeros([3, 4])).shape
    TensorShape([3, 4, 4])
    """
    given = as_tensor(diagonal)
    if given.dims == ():
        raise ValueError("MatrixDiag: the diagonal must have at least one axis, but is a scalar")
    dims = None if given.dims is None else (*given.dims, given.dims[-1])
    return apply("MatrixDiag", torch.diag_embed, given, name=name, outputs=[(given.dtype, dims)])


def matrix_diag_part(input: Any, name: str | None = None) -> Any:
    """The diagonals of the matrices in the last two axes."""
    given = as_tensor(input)
    dims: Dims = None
    if given.dims is not None:
        _check_matrices("MatrixDiagPart", given.dims)
        rows, columns = given.dims[-2:]
        dims = (*given.dims[:-2], None if rows is None or columns is None else min(rows, columns))
    outputs = [(given.dtype, dims)]
    return apply("MatrixDiagPart", lambda x: x.diagonal(dim1=-2, dim2=-1), given, name=name, outputs=outputs)


def matrix_set_diag(input: Any, diagonal: Any, name: str | None = None) -> Any:
    """The matrices in the last two axes, with other diagonals."""

    def compute(x: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        if x.diagonal(dim1=-2, dim2=-1).shape != new.shape:
            raise ValueError(f"MatrixSetDiag: {list(new.shape)} are no diagonals of {list(x.shape)}")
        return torch.diagonal_scatter(x, new, dim1=-2, dim2=-1)

    given, new = as_tensor(input), as_tensor(diagonal)
    _check_matrices("MatrixSetDiag", given.dims)
    if given.dims is not None and not fit((*given.dims[:-2], None), new.dims):
        raise ValueError(f"MatrixSetDiag: {described(new.dims)} are no diagonals of {described(given.dims)}")
    return apply("MatrixSetDiag", compute, given, new, name=name, outputs=[(given.dtype, given.dims)])


def matrix_band_part(input: Any, num_lower: Any, num_upper: Any, name: str | None = None) -> Any:
    """Matrices that are zero outside a band around the diagonal; a negative number keeps all on its side.

    >>> from unspool import tf1 as tf
    >>> tf.Session().run(tf.matrix_band_part(tf.ones([2, 2]), -1, 0))
    array([[1., 0.],
           [1., 1.]], dtype=float32)
    """

    def check(number: int | None, size: int | None) -> None:
        if size is not None and number is not None and number > size:
            raise ValueError(f"MatrixBandPart: {number} diagonals are more than the {size} that there are")

    def compute(x: torch.Tensor, lower: torch.Tensor, upper: torch.Tensor) -> torch.Tensor:
        for number, size in zip((lower, upper), x.shape[-2:], strict=True):
            check(int(number), size)
        kept = x if int(lower) < 0 else x.triu(-int(lower))
        return kept if int(upper) < 0 else kept.tril(int(upper))

    given = as_tensor(input)
    _check_matrices("MatrixBandPart", given.dims)
    numbers = as_tensor(num_lower), as_tensor(num_upper)
    for number, side in zip(numbers, (0, 1), strict=True):
        check(known_int(number), None if given.dims is None else given.dims[side - 2])
    return apply("MatrixBandPart", compute, given, *numbers, name=name, outputs=[(given.dtype, given.dims)])


def matrix_transpose(a: Any, name: str = "matrix_transpose", conjugate: bool = False) -> Any:
    """The matrices in the last two axes, turned."""
    given = as_tensor(a)
    _check_matrices("matrix_transpose", given.dims)
    dims = None if given.dims is None else (*given.dims[:-2], given.dims[-1], given.dims[-2])
    turn = (lambda x: x.mH) if conjugate else lambda x: x.mT
    return apply("Transpose", turn, given, name=name, outputs=[(given.dtype, dims)])


def trace(x: Any, name: str | None = None) -> Any:
    """The sums of the diagonals of the matrices in the last two axes."""
    given = as_tensor(x)
    _check_matrices("Trace", given.dims)

    def compute(value: torch.Tensor) -> torch.Tensor:
        return value.diagonal(dim1=-2, dim2=-1).sum(-1, dtype=value.dtype)

    dims = None if given.dims is None else given.dims[:-2]
    return apply("Trace", compute, given, name=name or "Trace/Sum", outputs=[(given.dtype, dims)])


def _check_matrices(kind: str, dims: Dims) -> None:
    if dims is not None and len(dims) < 2:
        raise ValueError(f"{kind}: Shape must be at least rank 2, but is {described(dims)}")
