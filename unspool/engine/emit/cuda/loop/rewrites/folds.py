"""Sums over a row go by the parts in which it is computed: a lane adds up what belongs to a unit, and then lanes meet.

A norm of a whole product that is then cut into gates is one loop over units with what makes the gates, or is made of
them, and not a loop of its own over the whole row, in which neighbouring lanes read what is far apart.
"""

from __future__ import annotations

from collections.abc import Sequence

from unspool.engine.emit.cuda.loop.rewrites.parts import MOST_PARTS, New, Uses, parts_of
from unspool.engine.emit.stages.statements import Compute, Reduce, Statement
from unspool.engine.emit.stages.strided import Buffer, Ref


def folds_in_parts(statements: Sequence[Statement], new: New) -> list[Statement]:
    """The same, but sums over what is computed in parts add up parts first, element by element."""
    found, uses = list[Statement](), Uses(statements)
    for each in statements:
        size = _size(each.argument, uses) if isinstance(each, Reduce) and _is_of_a_row(each) else None
        if not isinstance(each, Reduce) or size is None:
            found.append(each)
            continue
        parts, dtype = parts_of(each.argument, size), each.target.buffer.dtype
        both = new(f"{each.target.buffer.name}_parts", dtype, (size,))
        text = " + ".join(f"{{{k}}}" for k in range(len(parts)))
        found.append(Compute(both, text, tuple((part, dtype) for part in parts), each.source))
        found.append(Reduce(each.target, each.fold, both, each.source))
    return found


def _is_of_a_row(each: Reduce) -> bool:
    """Whether it is a sum over all of a value."""
    return each.fold == "sum" and each.target.size == 1 and each.argument.root().is_whole


def _size(ref: Ref, uses: Uses) -> int | None:
    """How many elements the parts have in which a value, or what it is computed from, is made or read; None if none."""
    seen, waiting, sizes = set[Buffer](), [ref.root().buffer], set[int]()
    while waiting:
        buffer = waiting.pop()
        seen.add(buffer)
        makers = uses.makers[buffer]
        own = [each.target.root() for each in makers]
        own += [read.root() for each in uses.readers[buffer] if isinstance(each, Compute) for read in each.reads()]
        parts = [each for each in own if each.buffer is buffer and each.size < buffer.size]
        if any(not each.is_contiguous or each.offset % each.size for each in parts):
            return None
        sizes |= {each.size for each in parts}
        for each in makers:
            if isinstance(each, Compute) and len(makers) == 1:
                read = (argument.root() for argument in each.reads())
                waiting += [other.buffer for other in read if other.size == ref.size and other.buffer not in seen]
    size = sizes.pop() if len(sizes) == 1 else 0
    return size if 1 < size < ref.size <= MOST_PARTS * size and ref.size % size == 0 else None
