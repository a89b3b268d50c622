"""Schedules a row's statements into stages: products of all rows, and between them fused passes over single rows.

A pass has few loops: statements over the same elements share one, and what they hand to each other stays in registers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from unspool.engine.emit.stages.statements import ALONE, Compute, InLoop, Product, Reduce, Scatter, Statement
from unspool.engine.emit.stages.strided import Buffer, Ref


@dataclass(eq=False)
class Loop:
    """Statements over the same elements.

    Args:
        domain: the sizes of its dimensions.
        kept: how many of the first ones its folds keep; None if it has no folds.
        statements: what is done to each element, in order.
    """

    domain: tuple[int, ...]
    kept: int | None = None
    statements: list[InLoop] = field(default_factory=list[InLoop])

    @property
    def is_alone(self) -> bool:
        """Whether it has one statement that no other may join."""
        return _is_alone(self.statements[0])


@dataclass(eq=False)
class Pass:
    """Loops that run one after another for one row, then for the next."""

    loops: list[Loop] = field(default_factory=list[Loop])


Stage = Pass | list[Product]


@dataclass(frozen=True)
class Access:
    """A read or a write of memory: in which stage, and in which loop of it; products have none."""

    ref: Ref
    stage: int
    loop: Loop | None
    writes: bool


def arrange(
    statements: Sequence[Statement], stores: Sequence[tuple[Ref, Ref]], *, sums_in_place: bool = True
) -> list[Stage]:
    """Orders `statements`, and after them `stores`: where to, and what, once nobody needs what was there before.

    Args:
        statements: what a row does.
        stores: what is stored where at its end.
        sums_in_place: whether a loop may add to the same element again and again: its elements then have an order.
    """
    makers = _makers(statements)
    done: set[Statement] = set()
    left = list(statements)
    stages: list[Stage] = []
    while left:
        products = [each for each in left if isinstance(each, Product) and makers[each] <= done]
        if products:
            stages.append(products)
            done.update(products)
        else:
            now = _pass(left, makers, done)
            stages.append(_fuse(now, makers, sums_in_place=sums_in_place))
            done.update(now)
        left = [each for each in left if each not in done]
    for target, ref in stores:
        _store(stages, target, ref)
    return stages


def accesses(stages: Sequence[Stage]) -> Iterator[Access]:
    """Every read and every write."""
    for number, stage in enumerate(stages):
        if isinstance(stage, Pass):
            for loop in stage.loops:
                for each in loop.statements:
                    yield from (Access(ref, number, loop, writes=False) for ref in each.reads())
                    yield Access(each.target, number, loop, writes=True)
        else:
            for each in stage:
                yield from (Access(ref, number, None, writes=False) for ref in each.reads())
                yield Access(each.target, number, None, writes=True)


def _makers(statements: Sequence[Statement]) -> dict[Statement, set[Statement]]:
    """For each statement, those that write what it reads."""
    writers: dict[Buffer, list[Statement]] = defaultdict(list)
    makers: dict[Statement, set[Statement]] = {}
    for each in statements:
        makers[each] = {
            other for ref in each.reads() for other in writers[ref.root().buffer] if other.target.overlaps(ref)
        }
        writers[each.target.root().buffer].append(each)
    return makers


def _pass(left: Sequence[Statement], makers: dict[Statement, set[Statement]], done: set[Statement]) -> list[InLoop]:
    """What to do next: what the next products wait for, and what uses it while it is at hand. The rest can wait."""
    behind: set[Statement] = set()  # another product
    for each in left:
        if any(maker in behind or isinstance(maker, Product) for maker in makers[each] - done):
            behind.add(each)
    needed = {each for each in left if isinstance(each, Product) and each not in behind}
    products = bool(needed)
    for each in reversed(left):
        if each in needed:
            needed |= makers[each]
    now: dict[InLoop, None] = {}
    for each in left:
        if isinstance(each, Product) or not makers[each] <= done | now.keys():
            continue
        if not products or each in needed or not makers[each].isdisjoint(now):
            now[each] = None
    return list(now)


def _fuse(statements: Sequence[InLoop], makers: dict[Statement, set[Statement]], *, sums_in_place: bool) -> Pass:
    """Puts each statement into the first loop over its elements that comes late enough."""
    made = Pass()
    where: dict[Statement, int] = {}
    zeros: dict[tuple[int, ...], Loop] = {}
    for each in statements:
        here = [maker for maker in makers[each] if maker in where]
        if sums_in_place and len(here) == 1:  # of several, a scatter say writes to what another has made
            k = where[here[0]]
            added = _added_up(each, here[0], made.loops[k])
            if added is not None:
                made.loops[k].statements.append(added)
                where[each] = k
                shape = each.target.squeezed.shape
                zeros.setdefault(shape, Loop(shape)).statements.append(Compute(each.target, "0", ()))
                continue
        domain, kept = _domain(each)
        earliest = 0
        for maker in here:
            at_hand = isinstance(maker, Compute) and all(
                ref.same_elements(maker.target) for ref in each.reads() if ref.overlaps(maker.target)
            )
            same = at_hand and made.loops[where[maker]].domain == domain
            earliest = max(earliest, where[maker] + (0 if same else 1))
        fitting = (k for k in range(earliest, len(made.loops)) if _fits(each, domain, kept, made.loops[k]))
        k = next(fitting, len(made.loops))
        if k == len(made.loops):
            made.loops.append(Loop(domain, kept))
        loop = made.loops[k]
        loop.kept = kept if loop.kept is None else loop.kept
        loop.statements.append(each)
        where[each] = k
    made.loops[:0] = zeros.values()
    return made


def _added_up(statement: Statement, maker: Statement, loop: Loop) -> Compute | None:
    """A sum as an addition to each of its elements in the loop that makes what is summed; None if it cannot be.

    It can where the sums lie side by side along the innermost dimension of that loop: what is summed then stays in
    registers, where a loop of its own would have to read it from memory.
    """
    if not isinstance(statement, Reduce) or statement.fold != "sum" or not isinstance(maker, Compute) or maker.adds:
        return None
    argument, target = statement.argument.squeezed, statement.target.squeezed
    kept = len(target.shape)
    order = sorted(range(len(argument.shape)), key=lambda dim: -argument.strides[dim])
    natural = argument.permute(order)
    same = natural.same_elements(maker.target) and natural.shape == loop.domain
    if not same or not order or order[-1] >= kept:
        return None
    strides = tuple(target.strides[dim] if dim < kept else 0 for dim in order)
    spread = replace(target, shape=natural.shape, strides=strides)
    return Compute(spread, "{0}", ((natural, target.buffer.dtype),), statement.source, adds=True)


def _domain(statement: InLoop) -> tuple[tuple[int, ...], int | None]:
    if isinstance(statement, Reduce):
        return statement.argument.squeezed.shape, len(statement.target.squeezed.shape)
    if isinstance(statement, Scatter):
        return statement.value.squeezed.shape, None
    return statement.target.squeezed.shape, None


def _is_alone(statement: Statement) -> bool:
    """Whether a loop with it would no longer be one whose elements a compiler computes many at a time."""
    return isinstance(statement, ALONE) or (isinstance(statement, Reduce) and not statement.in_any_order)


def _fits(statement: Statement, domain: tuple[int, ...], kept: int | None, loop: Loop) -> bool:
    if _is_alone(statement) or loop.is_alone or loop.domain != domain:
        return False
    return kept is None or loop.kept is None or loop.kept == kept


def _store(stages: list[Stage], target: Ref, ref: Ref) -> None:
    """Copies `ref` to `target`, in the first loop after which nobody reads what was there."""
    domain = target.squeezed.shape
    earliest = (0, 0)
    for access in accesses(stages):
        before = access.ref.overlaps(ref) if access.writes else access.ref.overlaps(target)
        if not before:
            continue
        stage = stages[access.stage]
        if access.loop is None or not isinstance(stage, Pass):
            earliest = max(earliest, (access.stage + 1, 0))
        else:
            own = access.ref.same_elements(ref if access.writes else target) and access.loop.domain == domain
            made_by_fold = access.writes and any(
                isinstance(each, Reduce) and each.target is access.ref for each in access.loop.statements
            )
            later = 0 if own and not made_by_fold else 1
            earliest = max(earliest, (access.stage, stage.loops.index(access.loop) + later))
    statement = Compute(target, "{0}", ((ref.expand(target.shape), target.buffer.dtype),))
    for number, stage in enumerate(stages):
        if isinstance(stage, Pass):
            for k, loop in enumerate(stage.loops):
                if (number, k) >= earliest and _fits(statement, domain, None, loop):
                    loop.statements.append(statement)
                    return
    if not stages or not isinstance(stages[-1], Pass):
        stages.append(Pass())
    last = stages[-1]
    assert isinstance(last, Pass)
    last.loops.append(Loop(domain, None, [statement]))
