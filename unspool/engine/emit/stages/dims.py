"""Loop dimensions: axes whose elements lie one after another are collapsed into one."""

from __future__ import annotations

import math

from unspool.engine.emit.stages.passes import Loop
from unspool.engine.emit.stages.statements import Compute
from unspool.engine.emit.stages.strided import Place, Ref


def collapse(loop: Loop) -> tuple[int, ...]:
    """The loop's dimensions, with those joined that all its elements lie one after another in."""
    refs = [
        ref.root().squeezed if len(ref.squeezed.shape) == len(loop.domain) else ref.root()
        for each in loop.statements
        for ref in ([*each.reads(), each.target] if isinstance(each, Compute) else each.reads())
        if ref.buffer.place is not Place.CONSTANT
    ]
    dims: list[int] = []
    for k, size in enumerate(loop.domain):
        joins = (
            dims
            and k != loop.kept
            and all(_steps(ref, loop.domain)[k - 1] == size * _steps(ref, loop.domain)[k] for ref in refs)
        )
        if joins:
            dims[-1] *= size
        else:
            dims.append(size)
    return tuple(dims)


def kept_dims(dims: tuple[int, ...], loop: Loop) -> int:
    """How many of the joined dimensions are kept."""
    kept = math.prod(loop.domain[: loop.kept])
    count = 0
    while kept > 1:
        kept //= dims[count]
        count += 1
    return count


def seen_as(ref: Ref, domain: tuple[int, ...]) -> Ref:
    """`ref` with a loop's dimensions, where its own are the same or finer."""
    seen = ref.reshape(domain)
    assert seen is not None
    return seen


def _steps(ref: Ref, domain: tuple[int, ...]) -> tuple[int, ...]:
    """The strides over a loop's dimensions."""
    return seen_as(ref, domain).strides
