"""Comparisons, boolean and bitwise operations, `where`, casts."""

from __future__ import annotations

from typing import Any

from unspool.engine.ops.scalar import EVERYWHERE, NOWHERE, Numbers, Scalar
from unspool.engine.ops.table import Linear, Op, OpKind
from unspool.engine.rows.rules import aligned
from unspool.engine.trace.graph import aten


def _compared(target: Any, sign: str) -> Op:
    return Op(target, OpKind.COMPARISON, aligned, scalar=Scalar(truth=f"{{0}} {sign} {{1}}", own_type=True))


def _logic(target: Any, text: str, cuda: frozenset[Numbers] = EVERYWHERE) -> Op:
    """A truth value of numbers of any type."""
    return Op(target, OpKind.POINTWISE, aligned, scalar=Scalar(truth=text, own_type=True, cuda=cuda))


def _bits(target: Any, whole: str, truth: str, cuda: frozenset[Numbers] = EVERYWHERE) -> Op:
    return Op(target, OpKind.POINTWISE, aligned, scalar=Scalar(whole=whole, truth=truth, cuda=cuda))


def _chosen(
    target: Any, condition: int, text: str, linear: Linear | None = None, cuda: frozenset[Numbers] = NOWHERE
) -> Op:
    scalar = Scalar(text, text, text, condition=condition, cuda=cuda)
    return Op(target, OpKind.POINTWISE, aligned, linear=linear, scalar=scalar)


def _same(target: Any, kind: OpKind) -> Op:
    """The same numbers."""
    return Op(target, kind, aligned, linear=Linear.ALL, scalar=Scalar("{0}", "{0}", "{0}", cuda=NOWHERE))


ROWS = (
    _compared(aten.eq.Tensor, "=="),
    _compared(aten.eq.Scalar, "=="),
    _compared(aten.ne.Tensor, "!="),
    _compared(aten.ne.Scalar, "!="),
    _compared(aten.lt.Tensor, "<"),
    _compared(aten.lt.Scalar, "<"),
    _compared(aten.le.Tensor, "<="),
    _compared(aten.le.Scalar, "<="),
    _compared(aten.gt.Tensor, ">"),
    _compared(aten.gt.Scalar, ">"),
    _compared(aten.ge.Tensor, ">="),
    _compared(aten.ge.Scalar, ">="),
    _logic(aten.logical_and.default, "bool({0}) & bool({1})"),
    _logic(aten.logical_or.default, "bool({0}) | bool({1})"),
    _logic(aten.logical_not.default, "!bool({0})"),
    _logic(aten.logical_xor.default, "bool({0}) ^ bool({1})", NOWHERE),
    _logic(aten.isnan.default, "{0} != {0}", NOWHERE),
    _bits(aten.bitwise_and.Tensor, "{0} & {1}", "{0} & {1}"),
    _bits(aten.bitwise_or.Tensor, "{0} | {1}", "{0} | {1}"),
    _bits(aten.bitwise_xor.Tensor, "{0} ^ {1}", "{0} ^ {1}", NOWHERE),
    _bits(aten.bitwise_not.default, "~{0}", "!{0}", NOWHERE),
    _chosen(aten.where.self, 0, "({0} ? {1} : {2})", Linear.CHOSEN, EVERYWHERE),
    _chosen(aten.where.ScalarSelf, 0, "({0} ? {1} : {2})"),
    _chosen(aten.where.ScalarOther, 0, "({0} ? {1} : {2})"),
    _chosen(aten.masked_fill.Scalar, 1, "({1} ? {2} : {0})"),
    _chosen(aten.masked_fill.Tensor, 1, "({1} ? {2} : {0})"),
    _same(aten.clone.default, OpKind.POINTWISE),
    _same(aten._to_copy.default, OpKind.CAST),
)
