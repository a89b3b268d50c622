"""The table of operations: for each operation of torch its kind, what it does to rows, its linearity, how it compiles.

An operation is described by one `Op`, in the file of its family. Whoever needs to know something of an operation asks
this table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch._ops import OpOverload

from unspool.engine.ops.scalar import Scalar
from unspool.engine.rows.labels import Label
from unspool.engine.trace.graph import Node

if TYPE_CHECKING:  # the stages of emitters import this table
    from unspool.engine.emit.stages.row import Row
    from unspool.engine.emit.stages.strided import Ref
    from unspool.engine.ir.program import Instruction

Rule: TypeAlias = Callable[[Node, dict[Node, Label]], Label]
"""Where an operation leaves the rows that it is given."""
Axes: TypeAlias = Callable[[Node], Any]
"""The axes along which elements meet: one, several, or None for all."""
Lowering: TypeAlias = "Callable[[Row, Instruction], Ref | list[Ref]]"
"""Adds what computes an instruction to a row, and returns where its results are."""


class OpKind(Enum):
    """What an operation does with elements."""

    PRODUCT = "product"
    """A matrix product."""
    POINTWISE = "pointwise"
    """Each element from the elements in the same place."""
    COMPARISON = "comparison"
    """Pointwise, and the last bit of a number may decide."""
    CAST = "cast"
    """The same numbers in another dtype."""
    REDUCTION = "reduction"
    """Elements of one row meet, and what they give is worth keeping in their stead."""
    VIEW = "view"
    """The same elements under other indices, and zeros beside them."""
    INDEXING = "indexing"
    """Elements are found by indices, which have to be in range."""
    MAKER = "maker"
    """A tensor from numbers and a shape."""
    DRAW = "draw"
    """Random numbers."""
    OTHER = "other"


class Linear(Enum):
    """In what an operation is linear, and may so be applied to a sum over rows."""

    ALL = "all that it is given"
    FIRST = "the first that it is given, whatever the others are"
    EACH = "each of the two that it is given"
    PUT = "what it puts into zeros"
    CHOSEN = "the two that it chooses from"


@dataclass(frozen=True)
class Op:
    """One operation.

    Args:
        target: the operation.
        kind: what it does with elements.
        rule: what it does to rows; without it and `axes`, steps that use it on rows are not planned.
        axes: for operations in which elements meet along axes, these: they must not be the rows'.
        linear: in what it is linear; None if it is not.
        shape_at: which of its arguments is a shape, the only place where the number of rows may be one.
        scalar: for pointwise operations, the text that computes an element.
        lowering: for others, what computes it for one row.
        lacks: why a pointwise operation has neither.
    """

    target: Any
    kind: OpKind
    rule: Rule | None = None
    axes: Axes | None = None
    linear: Linear | None = None
    shape_at: int | None = None
    scalar: Scalar | None = None
    lowering: Lowering | None = None
    lacks: str = ""


OPS: dict[Any, Op] = {}
"""Every operation that is known, by its target."""


def register(*rows: Op) -> None:
    """Adds rows to the table; an operation has one."""
    for each in rows:
        if each.target in OPS:
            raise ValueError(f"{each.target} is in the table already")
        OPS[each.target] = each


def op_of(target: Any) -> Op | None:
    """What is known of an operation."""
    return OPS.get(target)


def kind_of(target: Any) -> OpKind:
    """Its kind; an operation without a row is pointwise if torch says so."""
    op = OPS.get(target)
    if op is not None:
        return op.kind
    tagged = isinstance(target, OpOverload) and torch.Tag.pointwise in target.tags
    return OpKind.POINTWISE if tagged else OpKind.OTHER


def is_pointwise(target: Any) -> bool:
    """Whether it computes each element from the elements in the same place."""
    return kind_of(target) in (OpKind.POINTWISE, OpKind.COMPARISON)


def of_kind(kind: OpKind) -> frozenset[Any]:
    """All operations of a kind."""
    return frozenset(target for target, op in OPS.items() if op.kind is kind)
