"""Every operation that the proof of rows has a rule for, with arguments: shapes of tensors, in which rows may stand."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import optree
import torch
from torch import Tensor

aten = torch.ops.aten


@dataclass(frozen=True)
class Given:
    """A tensor argument: its shape, and what its elements are: below `most` if they are indices."""

    shape: tuple[int, ...]
    most: int = 0
    is_mask: bool = False

    def made(self, shape: tuple[Any, ...]) -> Tensor:
        if self.is_mask:
            return torch.rand(shape) > 0.5
        if self.most:
            return torch.randint(self.most, shape)
        return torch.randn(shape, dtype=torch.float64)

    def empty(self, shape: tuple[Any, ...]) -> Tensor:
        return torch.empty(shape, dtype=torch.bool if self.is_mask else torch.int64 if self.most else torch.float64)


@dataclass(frozen=True, eq=False)
class Case:
    """An operation with its arguments, tensors as `Given`s and the number of rows as `R`."""

    target: Any
    arguments: tuple[Any, ...]

    def __str__(self) -> str:
        return str(self.target).removeprefix("aten.")

    @cached_property
    def given(self) -> list[Given]:
        """The tensors among the arguments."""
        return [leaf for leaf in optree.tree_leaves(self.arguments, none_is_leaf=True) if isinstance(leaf, Given)]

    def filled(self, tensors: Sequence[Any], rows: Any) -> tuple[Any, ...]:
        """The arguments, with these tensors."""
        each = iter(tensors)

        def fill(leaf: Any) -> Any:
            return next(each) if isinstance(leaf, Given) else rows if leaf is R else leaf

        return optree.tree_map(fill, self.arguments, none_is_leaf=True)


R = "rows"


def f(*shape: int) -> Given:
    return Given(shape)


def ids(most: int, *shape: int) -> Given:
    return Given(shape, most)


def mask(*shape: int) -> Given:
    return Given(shape, is_mask=True)


def along(target: Any, *more: Any, dims: tuple[Any, ...] = (0, 1, -1)) -> list[tuple[Any, ...]]:
    return [(target, f(2, 4, 2), dim, *more) for dim in dims]


IMAGE = f(2, 2, 4, 4)
CONV = ([1], [0], [1], False, [0], 1)
UP = ([1], [0], [1], True, [0], 1)
GROUPED = ([1], [0], [1], False, [0], 2)
FOR_EACH = (True, True, True)
POOL = ([2, 2], [2, 2], [0, 0], False, True, None)

_CASES: list[tuple[Any, ...]] = [
    # Elements in the same place.
    *((target, f(2, 4), f(2, 4)) for target in (aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor)),
    *((target, f(2, 4), f(4)) for target in (aten.add.Tensor, aten.mul.Tensor, aten.atan2.default)),
    *((target, f(2, 1, 4), f(2, 4)) for target in (aten.add.Tensor, aten.mul.Tensor, aten.maximum.default)),
    (aten.add.Tensor, f(2, 4), 3.0),
    (aten.mul.Scalar, f(2, 4), 3.0),
    (aten.div.Scalar, f(2, 4), 3.0),
    (aten.neg.default, f(2, 4)),
    (aten.lerp.Tensor, f(2, 4), f(2, 4), f(4)),
    (aten.addcmul.default, f(2, 4), f(2, 4), f(4)),
    (aten.clamp.Tensor, f(2, 4), f(4), f(2, 4)),
    (aten.where.self, mask(2, 4), f(2, 4), f(4)),
    (aten.where.self, mask(4), f(2, 4), f(2, 1)),
    (aten.masked_fill.Scalar, f(2, 4), mask(2, 4), 0.5),
    (aten.masked_fill.Scalar, f(2, 4), mask(4), 0.5),
    (aten.masked_fill.Tensor, f(2, 4), mask(2, 4), f()),
    (aten.where.ScalarSelf, mask(2, 4), 0.5, f(2, 4)),
    (aten.where.ScalarOther, mask(2, 4), f(2, 4), 0.5),
    (aten.hardswish.default, f(2, 4)),
    (aten._to_copy.default, f(2, 4)),
    (aten.clone.default, f(2, 4)),
    (aten.copy.default, f(2, 4), f(2, 4)),
    (aten.copy.default, f(2, 4), f(4)),
    (aten.fill.Scalar, f(2, 4), 0.5),
    (aten.fill.Tensor, f(2, 4), f()),
    # Elements along an axis.
    *along(aten.sum.dim_IntList, dims=([0], [1], [0, 2], [-1])),
    *along(aten.mean.dim, dims=([0], [1], [0, 2])),
    *along(aten.amax.default, dims=([0], [1], [])),
    *along(aten.amin.default, dims=([0], [1], [])),
    *along(aten.var.correction, dims=([0], [1], None)),
    *along(aten.var_mean.correction, dims=([0], [1], None)),
    *along(aten.std.correction, dims=([0], [1], None)),
    *along(aten.logsumexp.default, dims=([0], [1], [1, 2])),
    *((target, mask(2, 4), dim) for target in (aten.any.dim, aten.all.dim) for dim in (0, 1)),
    *((aten.any.dims, mask(2, 4), dims) for dims in ([0], [1], None)),
    *along(aten.argmax.default, dims=(0, 1, None)),
    *along(aten.argmin.default, dims=(0, 1, None)),
    *along(aten.max.dim),
    *along(aten.min.dim),
    *along(aten.prod.dim_int),
    *along(aten._softmax.default, False),
    *along(aten._log_softmax.default, False),
    *along(aten._safe_softmax.default),
    *along(aten.cumsum.default),
    *along(aten.cumprod.default),
    *along(aten.cummax.default),
    *along(aten.cummin.default),
    *along(aten.logcumsumexp.default),
    *along(aten.median.dim),
    *along(aten.nanmedian.dim),
    *((aten.kthvalue.default, f(2, 4, 2), 1, dim) for dim in (0, 1, -1)),
    *along(aten._fft_r2c.default, 0, False, dims=([0], [1], [0, 2])),
    *along(aten.unfold.default, 2, 1),
    (aten.view_as_complex.default, f(2, 4, 2)),
    *((aten.diagonal.default, f(2, 4, 2), 0, *dims) for dims in ((0, 1), (1, 2), (0, -1))),
    (aten.diagonal_scatter.default, f(2, 4, 2), f(4, 2), 0, 0, 2),
    (aten.diagonal_scatter.default, f(2, 4, 4), f(2, 4), 0, 1, 2),
    *along(aten.flip.default, dims=([0], [1], [0, 1])),
    *along(aten.sort.default),
    (aten.sort.default, f(2, 4)),
    *along(aten.glu.default),
    *along(aten.slice.Tensor, 0, 2),
    (aten.slice.Tensor, f(2, 4)),
    *along(aten.select.int, 1),
    *along(aten.unbind.int),
    (aten.unbind.int, f(2, 4)),
    *((aten.topk.default, f(2, 4, 2), 2, dim) for dim in (0, 1, -1)),
    (aten.topk.default, f(4, 2), 2),
    *((aten.linalg_vector_norm.default, f(2, 4), 2, dims) for dims in ([0], [1], None)),
    (aten.linalg_vector_norm.default, f(2, 4)),
    *((aten.split.Tensor, f(2, 4), 2, dim) for dim in (0, 1)),
    (aten.split.Tensor, f(2, 4), 2),
    *((aten.split_with_sizes.default, f(4, 4), [1, 3], dim) for dim in (0, 1)),
    (aten.split_with_sizes.default, f(4, 4), [1, 3]),
    *((target, f(2, 4)) for target in (aten.sum.default, aten.mean.default, aten.max.default, aten.min.default)),
    *((target, shape) for target in (aten.tril.default, aten.triu.default) for shape in (f(4, 4), f(2, 4, 4))),
    (aten.roll.default, f(2, 4), [1]),
    *((aten.roll.default, f(2, 4), [1], [dim]) for dim in (0, 1)),
    *((aten.constant_pad_nd.default, f(2, 4, 2), pads) for pads in ([1, 0], [0, 0, 1, 1], [0, 0, 0, 0, 1, 0])),
    # Two tensors along an axis.
    *((target, f(2, 4), f(2, 4), dim, torch.float64) for target in (
        aten._softmax_backward_data.default, aten._log_softmax_backward_data.default) for dim in (0, 1)),
    *((aten.glu_backward.default, f(2, 2), f(2, 4), 1),),
    *((aten.glu_backward.default, f(1, 4), f(2, 4), 0),),
    *((aten.slice_scatter.default, f(2, 4), f(2, 2), 1, 1, 3),),
    *((aten.slice_scatter.default, f(4, 2), f(2, 2), 0, 1, 3),),
    *((aten.slice_scatter.default, f(2, 4), f(2, 4)),),
    *((aten.select_scatter.default, f(2, 4), f(2), 1, 0),),
    *((aten.select_scatter.default, f(2, 4), f(4), 0, 0),),
    (aten.select_scatter.default, f(2, 4, 2), f(2, 2), 1, 0),
    (aten.slice_backward.default, f(2, 2), [R, 4], 1, 0, 2, 1),
    (aten.slice_backward.default, f(2, 2), [4, R], 0, 0, 2, 1),
    (aten.slice_backward.default, f(2, 2), [2, R], 1, 0, 2, 1),
    # Indices.
    *((aten.index_select.default, f(2, 4), dim, ids(2, 3)) for dim in (0, 1)),
    *((aten.gather.default, f(2, 4), dim, ids(2, 2, 4)) for dim in (0, 1)),
    (aten.gather.default, f(2, 4), 1, ids(4, 2, 2)),
    (aten.gather.default, f(2, 4), 1, ids(4, 1, 4)),
    *((target, f(2, 4), dim, ids(2, 2, 4), f(2, 4)) for target in (
        aten.scatter.src, aten.scatter_add.default) for dim in (0, 1)),
    *((target, f(2, 4), 1, ids(4, 1, 2), f(2, 2)) for target in (aten.scatter.src, aten.scatter_add.default)),
    *((aten.scatter.value, f(2, 4), dim, ids(2, 2, 4), 0.5) for dim in (0, 1)),
    (aten.scatter.value, f(2, 4), 1, ids(4, 1, 1), 0.5),
    (aten.index_add.default, f(2, 4), 1, ids(4, 3), f(2, 3)),
    (aten.index_add.default, f(2, 4), 0, ids(2, 3), f(3, 4)),
    (aten.embedding.default, f(4, 3), ids(4, 2, 2)),
    (aten.embedding.default, f(4, 3), ids(4, 2), 1),
    (aten.embedding_dense_backward.default, f(2, 3), ids(4, 2), 4, -1, False),
    (aten.embedding_dense_backward.default, f(2, 3), ids(4, 2), 4, 1, False),
    (aten.embedding_dense_backward.default, f(2, 3), ids(4, 2), 4, -1, True),
    (aten.index.Tensor, f(2, 4), [ids(2, 3)]),
    (aten._unsafe_index.Tensor, f(2, 4), [ids(2, 3)]),
    (aten.index.Tensor, f(2, 4), [None, ids(4, 3)]),
    (aten._unsafe_index.Tensor, f(2, 4), [None, ids(4, 3)]),
    (aten.index.Tensor, f(2, 4), [ids(2, 3), ids(4, 3)]),
    (aten._unsafe_index.Tensor, f(2, 4), [ids(2, 3), ids(4, 3)]),
    (aten.index.Tensor, f(2, 4, 2), [None, ids(4, 3), ids(2, 1)]),
    (aten._unsafe_index.Tensor, f(2, 4, 2), [None, ids(4, 3), ids(2, 1)]),
    (aten.index.Tensor, f(2, 4, 2), [ids(2, 3), None, ids(2, 3)]),
    (aten._unsafe_index.Tensor, f(2, 4, 2), [ids(2, 3), None, ids(2, 3)]),
    (aten.index.Tensor, f(4, 4), [ids(4, 2, 1), ids(4, 2)]),
    (aten._unsafe_index.Tensor, f(4, 4), [ids(4, 2, 1), ids(4, 2)]),
    *((target, f(2, 4), indices, put, adds)
      for target in (aten.index_put.default, aten._unsafe_index_put.default)
      for adds in (False, True)
      for indices, put in (
          ([ids(2, 3)], f(3, 4)), ([ids(2, 3)], f(4)), ([None, ids(4, 3)], f(2, 3)), ([None, ids(4, 3)], f(3)),
          ([ids(2, 3), ids(4, 3)], f(3)), ([ids(2, 3), ids(4, 1)], f()))),
    # Shapes.
    *((target, f(2, 4, 2), shape)
      for target in (aten.view.default, aten._unsafe_view.default, aten.reshape.default)
      for shape in ([-1, 8], [2, -1], [2, -1, 4], [-1, 2], [-1, 2, 2], [8, -1], [-1], [R, -1], [-1, R], [2, R, -1])),
    (aten.t.default, f(2, 4)),
    (aten.transpose.int, f(2, 4, 2), 0, 1),
    (aten.permute.default, f(2, 4, 2), [2, 0, 1]),
    (aten.unsqueeze.default, f(2, 4), 1),
    (aten.squeeze.dim, f(2, 1, 4), 1),
    (aten.squeeze.dim, f(2, 4), 0),
    (aten.squeeze.dims, f(2, 1, 4, 1), [1, 3]),
    (aten.expand.default, f(2, 1, 4), [2, 3, 4]),
    (aten.expand.default, f(2, 1, 4), [R, 3, 4]),
    (aten.expand.default, f(1, 4), [R, -1]),
    (aten.expand.default, f(1, 4), [R, -1, -1]),
    *((aten.cat.default, [f(2, 4), f(2, 4)], dim) for dim in (0, 1)),
    (aten.cat.default, [f(2, 4), f(2, 4)]),
    (aten.cat.default, [f(2, 4), f(0)], 1),
    *((aten.stack.default, [f(2, 4), f(2, 4)], dim) for dim in (0, 1, 2)),
    # Products.
    (aten.mm.default, f(2, 4), f(4, 2)),
    (aten.bmm.default, f(2, 4, 2), f(2, 2, 4)),
    (aten.mv.default, f(2, 4), f(4)),
    # Images.
    (aten.convolution.default, f(2, 2, 4), f(2, 2, 2), f(2), *CONV),
    (aten.convolution.default, f(2, 2, 4), f(2, 2, 2), None, *CONV),
    (aten.convolution.default, f(2, 4), f(2, 2, 2), f(2), *CONV),
    (aten.convolution.default, f(2, 2, 4), f(2, 2, 2), f(2), *UP),
    (aten.convolution.default, f(2, 4, 4), f(4, 2, 2), f(4), *GROUPED),
    (aten.convolution.default, IMAGE, f(2, 2, 2, 2), f(2), [1, 1], [0, 0], [1, 1], False, [0, 0], 1),
    *((aten.convolution_backward.default, f(2, 2, 3), f(2, 2, 4), f(2, 2, 2), [2], *CONV, FOR_EACH),),
    *((aten.convolution_backward.default, f(2, 2, 5), f(2, 2, 4), f(2, 2, 2), [2], *UP, FOR_EACH),),
    *((aten.convolution_backward.default, f(2, 4, 3), f(2, 4, 4), f(4, 2, 2), [4], *GROUPED, FOR_EACH),),
    *((target, image, [2, 2], [2, 2]) for image in (IMAGE, f(2, 4, 4))
      for target in (aten.avg_pool2d.default, aten.max_pool2d_with_indices.default)),
    (aten.avg_pool2d_backward.default, f(2, 2, 2, 2), IMAGE, *POOL),
    (aten.avg_pool2d_backward.default, f(2, 2, 2), f(2, 4, 4), *POOL),
    (aten.max_pool2d_with_indices_backward.default, f(2, 2, 2, 2), IMAGE,
     [2, 2], [2, 2], [0, 0], [1, 1], False, ids(16, 2, 2, 2, 2)),
    (aten._adaptive_avg_pool2d.default, IMAGE, [2, 2]),
    (aten._adaptive_avg_pool2d.default, f(2, 4, 4), [2, 2]),
    (aten._adaptive_avg_pool2d_backward.default, f(2, 2, 2, 2), IMAGE),
    (aten.upsample_nearest2d.vec, IMAGE, [8, 8], None),
    (aten.upsample_nearest2d.vec, IMAGE, None, [2.0, 2.0]),
    # What only sums over rows go through.
    (aten._weight_norm_interface_backward.default, f(2, 4), f(2, 4), f(2, 1), f(2, 1), 0),
]  # fmt: skip

CASES = [Case(target, tuple(arguments)) for target, *arguments in _CASES]

ELSEWHERE = {
    operator.getitem,  # of every operation with several results
    *(aten.view_as_real.default, aten._conj.default),  # of complex numbers: in tests/idioms
    *(aten._fft_c2r.default, aten._fft_c2c.default),
    *(aten.full.default, aten.rand.default, aten.randn.default),  # which are given no tensors
    *(aten.bernoulli.p, aten.bernoulli.default, aten.native_dropout.default, aten.uniform.default),  # which draw
    *(aten.normal_functional.default, aten.exponential.default),
}
"""Operations with rules that take no tensors, or that give something else every time."""
