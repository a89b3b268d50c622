"""Values are computed in the parts in which they are read, or made: one loop over units, not one for each value."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeGuard

import torch

from unspool.engine.emit.stages.statements import Compute, Statement
from unspool.engine.emit.stages.strided import Buffer, Place, Ref

MOST_PARTS = 8
"""Of a value: a loop has a line for each."""
Stores = Sequence[tuple[Ref, Ref]]
New = Callable[[str, torch.dtype, Sequence[int]], Ref]
"""Makes memory for a value, by its name."""


def in_parts(statements: Sequence[Statement], stores: Stores, new: New) -> list[Statement]:
    """The same, but what is computed element by element is computed in the parts in which it is read, or made.

    An activation of a whole product that is then cut into gates is one loop, and what the gates go into another; in
    parts, all of it is one loop over units, and nothing waits in memory. So it is with a gradient that is put together
    of gates' gradients.
    """
    before: list[Statement] = []
    found, uses = list(statements), Uses(statements)
    while len(found) > len(before):  # what is computed in parts lets what it is computed from be in parts, or what is
        before = found
        for each in filter(_is_vector, reversed(before)):
            size = _size_read(each, uses, stores) if each in uses else None
            if size is not None:
                own = each.target.buffer
                parts = [new(own.name, own.dtype, (size,)) for _ in parts_of(each.target, size)]
                found = _with_parts(found, uses, each, parts)
        for each in filter(_is_vector, before):
            size = _size_made(each, uses) if each in uses else None
            if size is not None:
                found = _with_parts(found, uses, each, parts_of(each.target, size))
    return [made for each in found for made in _emitted_in_parts(each, uses)]


class Uses:
    """Who makes a buffer's elements, and who reads them.

    Args:
        statements: all of them.
    """

    def __init__(self, statements: Sequence[Statement]) -> None:
        self._statements = set[Statement]()
        self.makers = defaultdict[Buffer, list[Statement]](list)
        self.readers = defaultdict[Buffer, list[Statement]](list)
        self._add(statements)

    def __contains__(self, each: Statement) -> bool:
        return each in self._statements

    def replace(self, old: Statement, made: Sequence[Statement]) -> None:
        """Statements in place of one."""
        self._statements.remove(old)
        self.makers[old.target.root().buffer].remove(old)
        for buffer in _read_by(old):
            self.readers[buffer].remove(old)
        self._add(made)

    def _add(self, statements: Sequence[Statement]) -> None:
        self._statements.update(statements)
        for each in statements:
            self.makers[each.target.root().buffer].append(each)
            for buffer in _read_by(each):
                self.readers[buffer].append(each)


def _read_by(each: Statement) -> set[Buffer]:
    return {ref.root().buffer for ref in each.reads()}


def _with_parts(statements: Sequence[Statement], uses: Uses, each: Compute, parts: Sequence[Ref]) -> list[Statement]:
    """The statements once the target of `each` is computed in parts, which `uses` knows then."""
    affected, found = {each, *uses.readers[each.target.buffer]}, list[Statement]()
    for other in statements:
        made = [*_parted(other, each, parts)] if other in affected else [other]
        if made != [other]:
            uses.replace(other, made)
        found += made
    return found


def _emitted_in_parts(each: Statement, uses: Uses) -> Iterator[Statement]:
    """A product that is emitted goes by the parts in which others read it."""
    if not isinstance(each, Compute) or each.target.buffer.place is not Place.EMITTED or len(each.arguments) != 1:
        yield each
        return
    ((ref, dtype),) = each.arguments
    own, size = ref.root(), each.target.size
    if own.buffer.place is Place.PRODUCT and own.is_whole and each.target.is_contiguous:
        read = [ref.root() for other in uses.readers[own.buffer] if other is not each for ref in other.reads()]
        sizes = {ref.size for ref in read if ref.buffer is own.buffer and not ref.offset % ref.size}
        size = sizes.pop() if len(sizes) == 1 else size
    if 1 < size < own.size <= MOST_PARTS * size and own.size % size == 0:
        for source, target in zip(parts_of(own, size), parts_of(each.target, size), strict=True):
            yield replace(each, target=target, arguments=((source, dtype),))
    else:
        yield each


def stores_in_parts(statements: Sequence[Statement], stores: Stores) -> list[tuple[Ref, Ref]]:
    """The same, but what is made in parts is stored in parts, by the loop that makes them."""
    return [part for each in stores for part in _stored(each, statements)]


def _stored(store: tuple[Ref, Ref], statements: Sequence[Statement]) -> Sequence[tuple[Ref, Ref]]:
    target, own = store[0], store[1].root()
    made = [each.target.root() for each in statements if each.target.root().buffer is own.buffer]
    sizes = {each.size for each in made}
    alike = len(made) > 1 and len(sizes) == 1 and sum(each.size for each in made) == own.size == target.size
    if not (alike and own.is_contiguous and all(each.is_contiguous for each in made)):
        return [store]
    return list(zip(parts_of(target, made[0].size), parts_of(own, made[0].size), strict=True))


def parts_of(ref: Ref, size: int) -> list[Ref]:
    """Neighbouring elements, so many at a time."""
    seen = ref.reshape((ref.size // size, size))
    assert seen is not None
    return [seen.select(0, k) for k in range(ref.size // size)]


def _is_vector(each: Statement) -> TypeGuard[Compute]:
    """Whether it computes all of a value that waits in scratch."""
    buffer = each.target.buffer
    scratch = buffer.home is None and buffer.place is Place.SCRATCH
    return isinstance(each, Compute) and each.target.is_whole and scratch and not each.adds


def _size_read(each: Compute, uses: Uses, stores: Stores) -> int | None:
    """How many elements the parts have in which others read a value; None if somebody reads it otherwise."""
    buffer, size = each.target.buffer, each.target.size
    if any(other is not each for other in uses.makers[buffer]):
        return None
    reads: list[Ref] = []
    for other in uses.readers[buffer]:
        if not isinstance(other, Compute):
            return None
        if not _is_emitted(other, each.target):
            reads += [ref.root() for ref in other.reads() if ref.root().buffer is buffer]
    if any(not ref.is_contiguous for ref in reads) or any(ref.root().buffer is buffer for _, ref in stores):
        return None
    size = math.gcd(size, *(number for ref in reads for number in (ref.offset, ref.size)))
    return size if all(ref.size == size for ref in reads) and _can_be_parted(each, size) else None


def _size_made(each: Compute, uses: Uses) -> int | None:
    """How many elements the parts have in which some value is made that another is computed from; None if in one."""
    sizes: set[int] = set()
    for ref, _ in each.arguments:
        own = ref.root()
        makers = [other.target.root() for other in uses.makers[own.buffer]]
        if own.buffer.place is Place.SCRATCH and own.is_whole and len(makers) > 1:
            if not all(maker.is_contiguous and maker.offset % maker.size == 0 for maker in makers):
                return None
            sizes |= {maker.size for maker in makers}
    size = sizes.pop() if len(sizes) == 1 else 0
    return size if size and _can_be_parted(each, size) else None


def _can_be_parted(each: Compute, size: int) -> bool:
    """Whether what a value is computed from can be seen in parts of a size too, and these are not too many."""
    count, rest = divmod(each.target.size, size)
    few = 1 < count <= MOST_PARTS and size > 1 and not rest
    return few and all(ref.reshape((count, size)) is not None for ref, _ in each.arguments)


def _is_emitted(each: Statement, value: Ref) -> bool:
    """Whether it emits a value as it is, which can be done in any parts."""
    if not isinstance(each, Compute) or each.expression != "{0}" or each.target.buffer.place is not Place.EMITTED:
        return False
    return each.target.is_contiguous and each.arguments[0][0].root().same_elements(value.root())


def _parted(other: Statement, each: Compute, parts: Sequence[Ref]) -> Iterator[Statement]:
    """What a statement is once the target of `each` is computed, and emitted, in parts."""
    whole, size = each.target.buffer, parts[0].size

    def read(ref: Ref) -> Ref:
        own = ref.root()
        if own.buffer is not whole:
            return ref
        k, offset = divmod(own.offset, size)
        return replace(own, buffer=parts[k].buffer, offset=parts[k].offset + offset)

    if other is each:
        seen = [[parts_of(ref, size)[k] for ref, _ in each.arguments] for k in range(len(parts))]
        for target, refs in zip(parts, seen, strict=True):
            given = zip(refs, each.arguments, strict=True)
            yield replace(each, target=target, arguments=tuple((ref, dtype) for ref, (_, dtype) in given))
    elif isinstance(other, Compute) and _is_emitted(other, each.target):
        ((_, dtype),) = other.arguments
        for source, target in zip(parts, parts_of(other.target, size), strict=True):
            yield replace(other, target=target, arguments=((source, dtype),))
    elif isinstance(other, Compute) and parts[0].buffer is not whole:
        yield replace(other, arguments=tuple((read(ref), dtype) for ref, dtype in other.arguments))
    else:
        yield other
