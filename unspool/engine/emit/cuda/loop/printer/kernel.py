"""The kernel of a core: what blocks load, the loop over steps, and what they leave behind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from pathlib import Path
from textwrap import indent

from unspool.engine.emit.cuda.kernel import functions
from unspool.engine.emit.cuda.loop.division import Division
from unspool.engine.emit.cuda.loop.lowered import Lowered
from unspool.engine.emit.cuda.loop.printer.alone import AloneText
from unspool.engine.emit.cuda.loop.printer.early import Early
from unspool.engine.emit.cuda.loop.printer.folding import FoldText, followed
from unspool.engine.emit.cuda.loop.printer.loops import LoopText
from unspool.engine.emit.cuda.loop.printer.meeting import Meeting, Touch, Touches, meetings
from unspool.engine.emit.cuda.loop.printer.places import Places, near_apart
from unspool.engine.emit.cuda.loop.printer.products import ProductText
from unspool.engine.emit.cuda.loop.printer.sent import Sent
from unspool.engine.emit.cuda.loop.printer.vectors import VectorFoldText, VectorText, vector_width
from unspool.engine.emit.cuda.loop.tiles import Tiling, all_by_tensor_cores, group_rows
from unspool.engine.emit.errors import CannotEmitError
from unspool.engine.emit.stages.passes import Loop, Pass
from unspool.engine.emit.stages.statements import Compute, Reduce
from unspool.engine.emit.stages.strided import Buffer, Place
from unspool.engine.emit.text.spelling import TYPES

NATIVE = Path(__file__).parents[1] / "native"
NATIVES = ("halves.h", "vectors.h", "steps.h", "folds.h", "products.h", "tensor.h", "near.h", "convolutions.h")
SYNC = "unspool::sync_block();\n"
MEET = {Meeting.NONE: "", Meeting.WARP: "unspool::sync_warp();\n", Meeting.BLOCK: SYNC}
MOVING, FOLDING = 512, 768
"""Threads of a multiprocessor, of kernels beside a core, without folds and with them."""
NEAR_BYTES = 40 << 20
"""What a chunk may take so that it stays in a device's cache meanwhile."""


class KernelText:
    """Prints a kernel.

    Args:
        lowered: what a step does.
        tiling: how it is divided.
        wide: whether a chunk may have more elements of a value than 32 bits count.
        aligned: whether all tensors begin at multiples of 16 bytes; of a core that carries nothing, in whole rows.

    Raises:
        CannotEmitError: if it cannot be divided so.
    """

    def __init__(self, lowered: Lowered, tiling: Tiling, *, wide: bool = False, aligned: bool = False) -> None:
        self.lowered, self.tiling, self.wide = lowered, tiling, wide
        self.division = Division(lowered, tiling.units)
        self.places = Places(lowered, self.division, tiling)
        if tiling.near and self.places.folds:
            raise CannotEmitError("folds over units that a block or a cluster has are for blocks of whole rows")
        _check_cluster(lowered, tiling)
        self.widths = {each: vector_width(self.places, each) if aligned else 1 for each in self.division.mapped}
        """How many elements each loop takes at a time."""
        self.products = lowered.products
        self._product_text = ProductText(lowered, tiling, self.places)
        self._touches, self._sent = Touches(self.places, self.widths), Sent(self.places)
        self.body = self._kernel()

    @property
    def name(self) -> str:
        """What a profiler shows: whether it loops, and the first value that it carries or computes."""
        core = self.lowered.core
        first = next(iter(core.carried or core.emitted), None)
        return f"{'loop' if core.carried else 'beside'}_{first or 'nothing'}"

    @property
    def threads(self) -> int:
        """Of a block."""
        return 32 * self.tiling.warps

    @property
    def _blocks(self) -> int:
        """How many a multiprocessor has room for at least, which limits the registers of a thread.

        A loop's block has all of them, for its weights. Beside a core, threads wait for memory: the more of them the
        better, above all with folds, between which a thread has nothing on its way.
        """
        if self.lowered.core.carried:
            return 1
        folds = any(isinstance(each, Reduce) for loop in self.division.mapped for each in loop.statements)
        return max(1, (FOLDING if folds else MOVING) // self.threads)

    @property
    def tiles(self) -> int:
        """How many blocks have a row together."""
        return 1 if self.tiling.units is None else self.tiling.units.tiles

    def text(self, device: str | None = None) -> str:
        """All that a compiler needs.

        Args:
            device: the primitives, if they are not those of a GPU.
        """
        sizes = f"constexpr int THREADS = {self.threads}, MEMORY = {max(1, len(self.places.given))};\n"
        sizes += f"constexpr int BLOCKS = {self._blocks};\ntypedef {'long' if self.wide else 'int'} Index;\n"
        first = device or _native("device.h")
        rest = [functions(), *(_native(name) for name in NATIVES)]
        return "\n".join([sizes + first, *rest, self.body]).replace("#pragma once\n", "")

    # -- the kernel ----------------------------------------------------------------------------------------------------

    def _kernel(self) -> str:
        rows, tiles = self.tiling.rows, self.tiles
        early, readers, step = self._step()
        group = self._group(readers, step)
        products = "".join(self._product_text.prepared(k, each) for k, each in enumerate(self.products))
        vectors = "".join(map(self._copy, self.places.vectors))
        far = f"const bool far = chunk.total * {self._row_bytes} > {NEAR_BYTES};\n" if early else ""
        lines = [
            f"// {rows} rows a block, {self.tiling.warps} warps" + (f", {tiles} blocks a row" if tiles > 1 else ""),
            f"UNSPOOL_KERNEL {self._cluster}{self.name}(const unspool::Chunk chunk) {{",
            *(f"  {line}" for line in self.places.declarations()),
            f"  const int tile = unspool::block() % {tiles};",
            "  const int warp = unspool::warp_of_thread();",
        ]
        if self._skip:
            lines.append(f"  const int skip = unspool::rows_between(chunk, {rows});")
        return "\n".join(lines) + "\n" + indent(products + vectors + early + far + self._queue(group), "  ") + "}\n"

    @property
    def _skip(self) -> str:
        """What steps are told of the rows that others have between those of a block, if there are any."""
        return ", skip" if self.tiling.rows > group_rows(self.tiling) else ""

    @property
    def _cluster(self) -> str:
        return f"UNSPOOL_CLUSTER({self.tiling.cluster}) " if self.tiling.cluster > 1 else ""

    @property
    def together(self) -> bool:
        """Whether blocks work together on groups of rows, and so have to be there at the same time.

        Of a cluster that has all units of a row, the device sees to that; but its blocks take turns too, since it takes
        some steps' time to load weights.

        Then there are as many as fit, which run one group after another: weights are loaded once, and no group waits
        for the longest rows of others. Where a block has its rows to itself, it runs one group: the device begins the
        next block wherever one has ended, which is as good as any order that could be said beforehand.
        """
        return self.tiles > 1

    def _queue(self, group: str) -> str:
        """The groups of rows that a block has, one after another."""
        each = group_rows(self.tiling)
        if not self.together:
            return f"const int first = unspool::block() * {each};\n{group}"
        end = f"skip + {each}" if self._skip else "chunk.rows"
        head = f"const int team = unspool::block() / {self.tiles};\n"
        head += f"for (int nth = 0, first = team * {each}; first < {end};"
        head += f" first = unspool::group_of(chunk, team, ++nth) * {each}) {{\n"
        return head + indent(group, "  ") + "}\n"

    def _group(self, readers: Sequence[str], step: str) -> str:
        """All steps of the rows from `first` on.

        Memory of the block that steps use is free again once its threads have met behind the last one; a state is taken
        over by the threads that have handed on the one before it in its place.
        """
        rows, ring = self.tiling.rows, self.places.ring
        text = f"const int mine = unspool::Step::own(chunk.rows - first, {rows}{self._skip});\n"
        # Others of a cluster write here from the first step on. By the end a block has waited for all that they send,
        # but not for what it sends them: no block of a cluster ends before that has come.
        meet = SYNC if self.tiling.cluster == 1 else "unspool::sync_cluster();\n"
        text += "".join(map(self._load, self._carried())) + meet
        text += "const unspool::Steps steps(chunk, first);\n"
        text += ring.begins(self.places.all_of) if ring else ""
        text += f"unspool::Step step(chunk, steps.begin, first, {rows}{self._skip});\n"
        text += "".join(f"{name}(step.start, step.rows);\n" for name in readers)
        text += "for (int k = steps.begin; k < steps.end; k++) {\n"
        text += f"  const int slot = (k - steps.begin) % {ring.steps};\n" if ring else ""
        text += indent(f"{step}step = next;\n", "  ") + "}\n" + meet
        return text + "".join(map(self._leave, self._carried()))

    @property
    def _divided(self) -> bool:
        return self.tiling.units is not None

    @property
    def _row_bytes(self) -> int:
        """What a step reads and writes of a row outside of its block."""
        return sum(each.size * each.dtype.itemsize for each in self._moved)

    @cached_property
    def widest(self) -> int:
        """The most elements that a row and step has of a value outside of its block."""
        folds = (count * self.tiles for _, count in self.places.folds)
        return max([*(each.size for each in self._moved), *folds], default=1)

    @cached_property
    def _moved(self) -> list[Buffer]:
        met = {
            ref.root().buffer
            for loop in self.division.mapped
            for ref in (*self.division.reads(loop), *(each.target for each in loop.statements))
        }
        moved = [each for each in met if each.place in (Place.STREAMED, Place.EMITTED)]
        return [*moved, *self.crossing]

    @property
    def crossing(self) -> Sequence[Buffer]:
        """What has words, in the order of these."""
        return [] if self.tiling.near else list(self.division.crossing)

    def _carried(self) -> Iterator[Buffer]:
        return (each for each in self.lowered.carried if each in self.lowered.changed)

    def _copy(self, buffer: Buffer) -> str:
        """Brings near what all rows share."""
        text = f"for (int item = unspool::thread(); item < {buffer.size}; item += THREADS)\n"
        return text + f"  {buffer.name}_copy[item] = {self.places.all_of(buffer)}[item];\n"

    def _load(self, buffer: Buffer) -> str:
        """Takes over what is carried, and posts what others need of it."""
        share, name, kind = self.division.share(buffer), buffer.name, TYPES[buffer.dtype]
        given = self.places.pointer("carried", buffer.index, f"{name}_given", kind)
        place = self._whole_index(buffer, f"item % {share}")
        text = f"for (int item = unspool::thread_anew(); item < mine * {share}; item += THREADS)\n"
        row = self.places.outside(f"item / {share}")
        text += f"  {name}_own[item] = {given}[(int64_t)(first + {row}) * {buffer.size} + {place}];\n"
        if buffer in self._sent:
            text += self._sent.given(buffer, given)
        elif buffer in self.division.crossing and self.tiling.near:
            text += f"for (int item = unspool::thread_anew(); item < mine * {share}; item += THREADS)\n"
            to = f"item / {share} * {near_apart(buffer)} + item % {share}"
            text += f"  {name}_near[{to}] = {kind}({name}_own[item]);\n"
        elif buffer in self.division.crossing:
            most = self.tiling.rows * share
            text += f"for (int begin = 0; begin < mine * {share}; begin += THREADS) {{\n"
            text += "  const int item = begin + unspool::thread_anew();\n"
            text += f"  const int own = item < {most} ? item : 0;\n"
            row = self.places.outside(f"own / {share}")
            to = f"{self.places.words(buffer)} + (chunk.total + first + {row}) * {buffer.size}"
            place = self._whole_index(buffer, f"own % {share}")
            text += f"  unspool::post({to} + {place}, {kind}({name}_own[own]), item < mine * {share});\n}}\n"
        return text

    def _leave(self, buffer: Buffer) -> str:
        """Hands on what is carried."""
        share, name, kind = self.division.share(buffer), buffer.name, TYPES[buffer.dtype]
        kept = self.places.pointer("kept", buffer.index, f"{name}_kept", kind)
        place = self._whole_index(buffer, f"item % {share}")
        text = f"for (int item = unspool::thread_anew(); item < mine * {share}; item += THREADS)\n"
        row = self.places.outside(f"item / {share}")
        return text + f"  {kept}[(int64_t)(first + {row}) * {buffer.size} + {place}] = {name}_own[item];\n"

    def _whole_index(self, buffer: Buffer, own: str) -> str:
        """Where an element that a block has is among all of its row."""
        units, apart = self.tiling.units, self.division.apart.get(buffer)
        if units is None or apart is None:
            return own
        return f"unspool::whole<{units.count * apart}, {units.each * apart}>({own}, tile)"

    # -- steps ---------------------------------------------------------------------------------------------------------

    def _step(self) -> tuple[str, list[str], str]:
        """What reads streamed values, its names, and the text of a step."""
        parts: list[str] = []
        touches: list[Sequence[Touch]] = []
        early, readers = "", list[str]()
        next_step = "const unspool::Step next(chunk, k + 1 < steps.end ? k + 1 : k, first, "
        next_step += f"{self.tiling.rows}{self._skip});\n"
        moves = self.places.ring.moves() if self.places.ring else ""
        for stage in self.lowered.stages:
            if isinstance(stage, Pass):
                for loop, after in followed(self.places, stage.loops):
                    printer = self._printer(loop, len(parts), after)
                    text = printer.text()
                    if printer.early:
                        early += printer.early_text()
                        readers += [printer.early.reading] if printer.early.reads else []
                        text += f"{next_step}if (k + 1 < steps.end) {{\n{self._ahead(printer.early)}}}\n"
                        next_step = ""
                    parts.append(text)
                    touches.append([*self._touches.of_loop(loop, after)])
            else:
                products = "".join(map(self._product_text.text, stage))
                products = self._sent.arrived(stage) + products
                parts.append(products + next_step + moves if self.tiling.near else next_step + products)
                moved = [Touch("ring", None, writes=True)] if moves else []
                touches.append([*moved, *(each for product in stage for each in self._touches.of_product(product))])
                next_step = moves = ""
                if self.tiling.shares > 1:
                    parts.append(self._product_text.exchanged(stage))
                    touches.append([Touch(each.target.buffer.name, None, writes=False, turns=True) for each in stage])
        meet = meetings(touches)
        now = "".join(self._product_text.now(each) for each in self.products) if self._divided else ""
        now += self._sent.now()
        text = now + "".join(MEET[meeting] + part for part, meeting in zip(parts, meet, strict=True))
        return early, readers, text + next_step

    def _ahead(self, early: Early) -> str:
        """What reads streamed values of the next step, and brings nearer those of a later one."""
        text = f"  {early.reading}(next.start, next.rows);\n" if early.reads else ""
        return text + f"  if (far) {early.fetching}(unspool::later(chunk, step, next{self._skip}), next.rows);\n"

    def _printer(self, loop: Loop, number: int, after: Loop | None) -> LoopText:
        if not isinstance(loop.statements[0], Compute | Reduce):
            return AloneText(self.places, loop, number)
        width = self.widths[loop]
        if any(isinstance(each, Reduce) for each in loop.statements):
            return (VectorFoldText if width > 1 else FoldText)(self.places, loop, number, width, after)
        return (VectorText if width > 1 else LoopText)(self.places, loop, number, width)


def _check_cluster(lowered: Lowered, tiling: Tiling) -> None:
    if tiling.cluster == 1:
        return
    if tiling.units is None or tiling.units.tiles % tiling.cluster:
        raise CannotEmitError(f"the blocks of a row are not divided among clusters of {tiling.cluster}")
    if tiling.kept == "memory" or not all_by_tensor_cores(lowered, tiling):
        raise CannotEmitError("blocks of a cluster have their matrices near, for tensor cores")


@cache
def _native(name: str) -> str:
    return NATIVE.joinpath(name).read_text()
