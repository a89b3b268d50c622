"""Casts of what a core is given are left to who reads it: no memory has the wider copy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from unspool.engine.emit.stages.dtypes import HALVES, computed
from unspool.engine.emit.stages.statements import Compute, Reduce, Statement
from unspool.engine.emit.stages.strided import Place, Ref


def without_casts(
    statements: Sequence[Statement], stores: Sequence[tuple[Ref, Ref]]
) -> tuple[list[Statement], list[tuple[Ref, Ref]]]:
    """The same without copies of what is given that are no more than wider: who reads them reads what is given.

    A cast costs less than the memory that its result would wait in until the next loop.
    """
    casts = {each.target.buffer: each for each in statements if isinstance(each, Compute) and _widens(each)}
    for each in statements:
        if casts.get(each.target.root().buffer) is not each:
            casts.pop(each.target.root().buffer, None)  # it is a part of something larger
        if not isinstance(each, Compute | Reduce):  # products have the types of their matrices
            for ref in each.reads():
                casts.pop(ref.root().buffer, None)

    def given(ref: Ref) -> Ref:
        cast = casts.get(ref.root().buffer)
        if cast is None:
            return ref
        source = cast.arguments[0][0].root()
        return replace(ref.root(), buffer=source.buffer, offset=source.offset + ref.root().offset)

    kept: list[Statement] = []
    for each in statements:
        if isinstance(each, Compute) and each not in casts.values():
            kept.append(replace(each, arguments=tuple((given(ref), dtype) for ref, dtype in each.arguments)))
        elif isinstance(each, Reduce):
            kept.append(replace(each, argument=given(each.argument)))
        elif not isinstance(each, Compute):
            kept.append(each)
    return kept, [(target, given(ref)) for target, ref in stores]


def _widens(each: Compute) -> bool:
    """Whether it copies halves that are given to where they are computed with."""
    target = each.target
    if each.expression != "{0}" or each.adds or not target.is_whole or target.buffer.home is not None:
        return False
    source = each.arguments[0][0].root()
    if source.buffer.place not in (Place.STREAMED, Place.SHARED) or target.buffer.place is not Place.SCRATCH:
        return False
    return (
        source.buffer.dtype in HALVES and source.is_contiguous and target.buffer.dtype == computed(source.buffer.dtype)
    )
