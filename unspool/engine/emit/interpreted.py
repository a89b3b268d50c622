"""The interpreter: a core as a Python loop over its instructions, each an operation of torch. Every core runs here."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from unspool.engine.emit.protocol import Chunk, CoreEmitter, Results, launches
from unspool.engine.emit.python import as_python
from unspool.engine.ir.core import Core
from unspool.engine.ir.program import Program, Value
from unspool.engine.reasons import Reason
from unspool.engine.trace.graph import aten

Step = tuple[Callable[..., tuple[Tensor, ...]], str]
"""One step of a core as a function, and its text."""


class Interpreter(CoreEmitter):
    """Runs any core, on any device."""

    name = "interpreted"

    def refusal(self, device: torch.device) -> Reason | None:
        """None: whatever torch runs, it runs."""
        return None

    def cost(self, core: Core) -> float:
        """Each operation is a call of torch's."""
        return 4.0 * launches(core)

    def core(self, core: Core, device: torch.device) -> Interpreted:
        """The core as it is."""
        return Interpreted(core, device)


class Interpreted:
    """Runs a core over a chunk of steps, instruction by instruction.

    >>> from unspool.engine.execute.counts import Counts
    >>> from unspool.engine.trace.graph import aten
    >>> from unspool.engine.ir.program import Instruction, Kind
    >>> h, x, y = (Value(name, (3,), torch.float32) for name in "hxy")
    >>> add = Instruction(Kind.POINTWISE, aten.add.Tensor, (h, x), {}, (y,))
    >>> loop = Interpreted(Core((h,), (x,), (), (add,), (y,), (y,)), torch.device("cpu"))
    >>> print(loop.source, end="")
    def step(rows, h, x):
        y = h + x
        return (y, y)
    >>> carried, emitted = loop([], Chunk(Counts([2, 1]), [torch.ones(3, 3)], [torch.zeros(2, 3)]))
    >>> carried[0][:, 0], emitted[0][:, 0]
    (tensor([2., 1.]), tensor([1., 1., 2.]))
    """

    def __init__(self, core: Core, device: torch.device) -> None:
        self.core = core
        self._zeros = [k for k, each in enumerate(core.new_carried) if each is None]
        handed_on = [old if new is None else new for old, new in zip(core.carried, core.new_carried, strict=True)]
        factors = [each.arguments[1] for each in core.instructions if each.operation is aten.mm.default]
        self._matrices = {each for each in core.shared if each in factors} if device.type == "cpu" else set[Value]()
        inputs = (*core.carried, *core.streamed, *core.shared)
        program = Program(inputs, core.instructions, (*handed_on, *core.emitted))
        self._step, self.source = self._compile(program, device)

    def _compile(self, program: Program, device: torch.device) -> Step:
        """The program of one step as a function `step(rows, *carried, *streamed, *prepared)`, and its text."""
        return as_python(program, "step", device)

    def wait(self) -> None:
        """It always can."""

    def prepare(self, shared: Sequence[Tensor]) -> list[Tensor]:
        """Matrices are copied once, since they are read at every step."""
        return [
            _laid_out(each) if like in self._matrices else each
            for each, like in zip(shared, self.core.shared, strict=True)
        ]

    def interpreted(self, *, ragged: bool) -> Reason | None:
        """It is an interpreter itself."""
        return None

    def __call__(self, shared: Sequence[Tensor], chunk: Chunk, runs: Tensor | None = None) -> Results:
        """Runs every step of a chunk; of those rows alone, if `runs` says which ones do at each step."""
        counts, streamed, carried = chunk.counts, chunk.streamed, chunk.carried
        by_step = [_by_step(each, like, counts) for each, like in zip(streamed, self.core.streamed, strict=True)]
        steps = list(zip(*by_step, strict=True)) or [()] * len(counts)
        order = range(len(counts) - 1, -1, -1) if chunk.reverse else range(len(counts))
        width, emitted, step = len(carried), list[tuple[Tensor, ...]](), self._step
        running = counts[order[0]]
        now: Sequence[Tensor] = carried if running == counts[0] else [each[:running] for each in carried]
        ended: list[Sequence[Tensor]] = []
        for time in order:
            rows = counts[time]
            if rows < running:  # rows have come to their end
                ended.append([each[rows:] for each in now])
                now = [each[:rows] for each in now]
            elif rows > running:  # backwards, their end is where they begin
                now = [torch.cat([each, given[running:rows]]) for each, given in zip(now, carried, strict=True)]
            running = rows
            results: tuple[Tensor, ...] = step(rows, *now, *steps[time], *shared)
            before, now = now, results[:width]
            for k in self._zeros:
                now = (*now[:k], torch.zeros_like(now[k]), *now[k + 1 :])
            if runs is not None:
                now = [_where(runs[time], new, old) for new, old in zip(now, before, strict=True)]
            emitted.append(results[width:])
        if ended:
            now = [torch.cat(pieces) for pieces in zip(now, *reversed(ended), strict=True)]
        if chunk.reverse:
            emitted.reverse()
        targets = chunk.into or [None] * len(self.core.emitted)
        columns = zip(zip(*emitted, strict=True), self.core.emitted, targets, strict=True)
        return list(now), [_joined(column, like, target) for column, like, target in columns]


def _where(runs: Tensor, new: Tensor, old: Tensor) -> Tensor:
    return new if new is old else torch.where(runs.reshape(-1, *[1] * (new.dim() - 1)), new, old)


def _laid_out(matrix: Tensor) -> Tensor:
    """A matrix as a CPU multiplies few rows with it fastest: along its longer side, measured with MKL."""
    wide = matrix.shape[1] > matrix.shape[0]
    return matrix.t().contiguous().t() if wide else matrix.contiguous()


def _by_step(streamed: Tensor, like: Value, counts: Sequence[int]) -> Sequence[Tensor]:
    if counts[0] == counts[-1] and like.axis == 0:
        return streamed.reshape(len(counts), counts[0] * like.times, *streamed.shape[1:]).unbind(0)
    return streamed.split_with_sizes([count * like.times for count in counts], like.axis)


def _joined(column: tuple[Tensor, ...], like: Value, target: Tensor | None) -> Tensor:
    return torch.cat(column, like.axis) if target is None else torch.cat(column, like.axis, out=target)
