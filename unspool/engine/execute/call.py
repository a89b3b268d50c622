"""One run of a plan over a batch: its rows, its chunks, its policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from torch import Tensor, fx

from unspool.engine.execute.double_backward import Replay
from unspool.engine.execute.layout import Layout
from unspool.engine.execute.operands import Operands
from unspool.engine.execute.parts import Parts, Values
from unspool.engine.memory.allocation import empty
from unspool.engine.memory.policies import Memory, ranges
from unspool.engine.partition.padding import NOTHING, Needs
from unspool.engine.plans.plan import Plan, Schedule, row_of
from unspool.engine.rows.labels import Axis

if TYPE_CHECKING:
    from unspool.engine.execute.recorded.recordings import Recordings


T = TypeVar("T")


class Call(NamedTuple):
    """One run of a plan over a batch.

    Args:
        plan: what to run.
        layout: the rows of each step.
        steps: how many steps the outputs have; past the longest row they are zero.
        chunk: how many steps are worked on at once.
        memory: what is kept for backward; None if there will be no backward.
        swap: whether what is kept waits in host memory.
        emitter: the emitter that is asked for; None for the best one.
        constants: the tensors that the step uses besides weights.
        replay: the same loop by ordinary autograd, from the same tensors, for gradients of gradients, if there are any.
        ends: a bit for each of the results, outputs before final states, that has a gradient.
        scope: the name of the loop, for a profiler.
        recordings: what is recorded of calls like this one, if they can be.
    """

    plan: Plan
    layout: Layout
    steps: int
    chunk: int
    memory: Memory | None
    swap: bool
    emitter: str | None
    constants: Values
    replay: Replay | None
    ends: int
    scope: str
    recordings: Recordings | None = None

    @property
    def schedule(self) -> Schedule:
        """The phases of this call: those of its policy, or forward alone."""
        return self.plan.inference if self.memory is None else self.memory.schedule(self.plan)

    @property
    def first_schedule(self) -> Schedule:
        """That of the forward pass, which may keep less than the steps that backward runs again."""
        return self.plan.inference if self.memory is None else self.memory.forward(self.plan)

    def start(self) -> list[Parts]:
        """Starts the compilers of all phases, where there is something to compile: the parts of each.

        Raises:
            CannotPlanError: if the schedule cannot be made.
        """
        phases = [each for each in (self.schedule.forward, self.schedule.adjoint) if each is not None]
        return [each.parts(self.layout.mean_rows, self.emitter) for each in phases]

    @property
    def counts_on_device(self) -> bool:
        """Whether all its loops read there how many rows run at each step, and the rows that are kept are in front."""
        schedule, labels = self.schedule, self.plan.labels
        phases = [each for each in (schedule.forward, schedule.adjoint) if each is not None]
        in_front = all(labels[node] == Axis(0) for node in schedule.kept)
        waited = (phase.wait(self.layout.mean_rows, self.emitter) for phase in phases)
        return in_front and not self.plan.is_random and all(each.emitter.counts_on_device for each in waited)

    @property
    def adjoint_needs(self) -> Needs:
        """What the adjoint needs of rows that have ended."""
        adjoint = self.schedule.adjoint
        return NOTHING if adjoint is None else adjoint.parts(self.layout.mean_rows, self.emitter).needs

    def segments(self) -> list[tuple[int, int]]:
        """The steps that backward works through as one."""
        steps = self.layout.steps
        return [(0, steps)] if self.memory is None else self.memory.segments(steps)

    def chunks(self, start: int, stop: int) -> list[tuple[int, int]]:
        """The steps that are worked on at once."""
        return ranges(start, stop, self.chunk)

    def operands(self, tensors: Sequence[T]) -> Operands[T]:
        """What autograd has as one list, by name."""
        return self.plan.trace.operands.regroup(tensors)

    def weights(self, operands: Operands[Tensor]) -> Values:
        """The values of weights and constants."""
        own = dict(zip(self.plan.trace.weights, operands.weights, strict=True))
        return {**own, **self.plan.brought(self.constants)}

    def space(self, node: fx.Node) -> Tensor:
        """Space for a result of every step; zero where no step writes."""
        row, dtype = row_of(node)
        complete = self.layout.fills and self.layout.steps == self.steps
        made = empty((*self.layout.shape(self.steps), *row), dtype, self.layout.device)
        return made if complete else made.zero_()

    def places(self, leaves: Values, begin: int, end: int) -> Values:
        """Where the core may write at once what goes to `leaves`; nowhere if its rows have changed places."""
        layout = self.layout
        return {} if layout.scattered else {node: layout.take(leaf, begin, end) for node, leaf in leaves.items()}
