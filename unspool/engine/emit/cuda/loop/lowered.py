"""A core as stages that kernels are printed from: what is emitted is written and never read, states are stored last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from unspool.engine.emit.cuda.loop.rewrites.casts import without_casts
from unspool.engine.emit.cuda.loop.rewrites.folds import folds_in_parts
from unspool.engine.emit.cuda.loop.rewrites.parts import in_parts, stores_in_parts
from unspool.engine.emit.cuda.loop.rewrites.row_sums import RowSums
from unspool.engine.emit.errors import CannotEmitError
from unspool.engine.emit.stages.lowering import is_added_up, lower_instruction
from unspool.engine.emit.stages.passes import Pass, Stage, arrange
from unspool.engine.emit.stages.row import Row
from unspool.engine.emit.stages.scratch import Home
from unspool.engine.emit.stages.statements import Compute, Product
from unspool.engine.emit.stages.strided import Buffer, Place, Ref
from unspool.engine.ir.core import Core


@dataclass(frozen=True)
class Lowered:
    """What a step of one row does.

    Args:
        core: what a step is; rows carry what it sums over rows.
        sums: what is summed so.
        stages: products of all rows, and passes between them.
        carried: the buffers of what is carried.
        changed: which of these a step changes; others are only read.
        home: which scratch is memory.
        rounds: whether halves are rounded after every operation.
    """

    core: Core
    sums: RowSums
    stages: Sequence[Stage]
    carried: Sequence[Buffer]
    changed: frozenset[Buffer]
    home: Home
    rounds: bool = False

    @property
    def products(self) -> list[Product]:
        """All of them, in order."""
        return [each for stage in self.stages if not isinstance(stage, Pass) for each in stage]


def lower(core: Core, *, rounds: bool = False) -> Lowered:
    """The stages of a core.

    Args:
        core: the core.
        rounds: whether halves are rounded after every operation.

    Raises:
        CannotEmitError: if it has an instruction with no compiled form.
    """
    sums = RowSums(core)
    core = sums.core
    if any(is_added_up(each) for each in core.instructions):
        raise CannotEmitError("a sum over rows in the middle of the loop")
    row = Row(core.instructions, (*core.new_carried, *core.emitted), rounds=rounds, one_pass=True)
    groups = {Place.CARRIED: core.carried, Place.STREAMED: core.streamed, Place.SHARED: core.shared}
    given = {place: [row.give(value, place, k) for k, value in enumerate(group)] for place, group in groups.items()}
    for each in core.instructions:
        lower_instruction(row, each)
    row.finish()
    for k, value in enumerate(core.emitted):
        ref = row.ref(value)
        front = ref.permute([value.axis, *(dim for dim in range(len(ref.shape)) if dim != value.axis)])
        buffer = Buffer(f"{value.name}_out{k}", value.dtype, ref.size, Place.EMITTED, k)
        _emit(row, front, Ref.whole(buffer, front.shape))
    stores: list[tuple[Ref, Ref]] = []
    for old, new in zip(core.carried, core.new_carried, strict=True):
        target = row.ref(old)
        if not target.is_whole:
            raise CannotEmitError(f"{old.name} is carried with its rows not in front")
        ref = row.constant(0, old.dtype, target.shape) if new is None else row.ref(new)
        if ref == target:
            continue
        if ref.root().buffer.place is Place.CARRIED:
            ref = row.copy(ref)  # two states may change places
        stores.append((target, ref))
    statements, stores = without_casts(row.statements, stores)
    statements = folds_in_parts(in_parts(statements, stores, row.new), row.new)
    statements = in_parts(statements, stores, row.new)
    stages = arrange(statements, stores_in_parts(statements, stores), sums_in_place=False)
    changed = frozenset(target.buffer for target, _ in stores)
    return Lowered(core, sums, stages, [ref.buffer for ref in given[Place.CARRIED]], changed, Home(stages), rounds)


def _emit(row: Row, ref: Ref, target: Ref) -> None:
    """Stores a value that is emitted: part by part, by those who compute its parts, if all of it is computed here."""
    own = ref.root()
    writers = [each for each in row.statements if each.target.root().buffer is own.buffer]
    parts = [each.target for each in writers if isinstance(each, Compute) and not each.adds]
    whole = own.is_whole and own.buffer.place is Place.SCRATCH and len(parts) == len(writers)
    if not whole or sum(each.size for each in parts) != own.size:
        row.copy(ref, target)
        return
    for part in parts:
        row.copy(part, replace(part.root(), buffer=target.buffer))
