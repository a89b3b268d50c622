"""The data of an explanation: parts, lines, products, memory."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING

from unspool.engine.explain import picture
from unspool.engine.memory.policies import Memory
from unspool.engine.reasons import Reason

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

    from unspool.engine.ir.products import ProductCost


@dataclass(frozen=True)
class Extent:
    """How much a call runs over.

    Args:
        batch_size: the rows of the batch.
        steps: the length of the longest row that runs.
        rows: the rows of all steps together, the sum of the lengths.
        chunk: how many steps are worked on at once, at most.
        chunks: how many times that is.
        device: where, such as "cpu".
    """

    batch_size: int
    steps: int
    rows: int
    chunk: int
    chunks: int
    device: str


@dataclass(frozen=True)
class Direction:
    """One direction of the loop.

    Args:
        invariant: how many instructions run once a call, since they depend on weights alone.
        before: how many run for a chunk of steps at once, before the loop over its steps.
        core: how many run at every step, one step after another.
        after: how many run for a chunk at once, after the loop over its steps.
        total: how many run once a call on sums over all rows: gradients of weights.
        draws: how many draw random numbers, which is done ahead, step by step.
        products: the matrix products among them.
        operations: what the core does at every step, in order.
        program: the core as every emitter takes it.
        emitter: what runs the core.
        passed_over: the other emitters, each with the reason why it does not run the core.
        source: the code that runs the core.
    """

    invariant: int
    before: int
    core: int
    after: int
    total: int
    draws: int
    products: tuple[ProductCost, ...]
    operations: tuple[str, ...]
    program: str
    emitter: str
    passed_over: tuple[tuple[str, str], ...]
    source: str


@dataclass(frozen=True)
class Line:
    """A line of the cell's code, and the operations that it became, by the part that they are in.

    Args:
        file: the name of its file.
        number: its number there.
        text: the line; empty where Python has no source.
        invariant: its operations that run once a call.
        before: those that run before the loop, drawn random numbers among them.
        core: those in the loop.
        after: those after it.
    """

    file: str
    number: int
    text: str
    invariant: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    core: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


@dataclass(frozen=True)
class Kept:
    """What a policy keeps for backward, besides what the caller has anyway: inputs, outputs and weights.

    Args:
        policy: the policy.
        what: what it keeps.
        row_bytes: the bytes for a row and step; with checkpoints, on average.
        bytes: the bytes for the whole call.
        again: the most bytes that backward makes again and holds at a time, which is between two checkpoints.
        reason: why the plain loop would run the cell under this policy, if it would.
    """

    policy: Memory
    what: str
    row_bytes: float
    bytes: int
    again: int = 0
    reason: str | None = None


@dataclass(frozen=True)
class MemoryUse:
    """The policy of a call, and what others would keep.

    Args:
        chosen: what is kept.
        why: who chose it.
        others: what would be kept under other policies.
        swap: whether what is kept waits in host memory.
    """

    chosen: Kept
    why: str
    others: tuple[Kept, ...]
    swap: bool

    @property
    def policy(self) -> Memory:
        """The policy of the call."""
        return self.chosen.policy


@dataclass(frozen=True)
class Explanation:
    """How `dynamic_rnn` runs a cell; `print` it, show it in a notebook, or read its attributes.

    Args:
        cell: the name of the cell's class.
        extent: how much the call runs over.
        reason: why the plain loop runs the cell, one step after another; None if it is planned.
        forward: the parts of the step; None if there is no plan.
        backward: the parts of its adjoint; None without gradients.
        again: the forward direction as backward repeats it between checkpoints.
        lines: the lines of the cell's code by the part they run in.
        memory: what is kept for backward; None without gradients.
    """

    cell: str
    extent: Extent
    reason: Reason | None = None
    forward: Direction | None = None
    backward: Direction | None = None
    again: Direction | None = None
    lines: tuple[Line, ...] = ()
    memory: MemoryUse | None = None

    @property
    def planned(self) -> bool:
        """Whether the engine has a plan for the cell. If not, the plain loop runs it, with the same results."""
        return self.reason is None

    @property
    def advice(self) -> str | None:
        """What to change so that it can be planned, if anything."""
        return None if self.reason is None else self.reason.advice

    @property
    def products(self) -> tuple[ProductCost, ...]:
        """Every matrix product of the call."""
        directions = (self.forward, self.again, self.backward)
        return tuple(product for each in directions if each is not None for product in each.products)

    @property
    def emitter(self) -> str | None:
        """What runs the core forwards; None if there is no plan."""
        return None if self.forward is None else self.forward.emitter

    @property
    def source(self) -> str | None:
        """The code that runs the core, forwards and then backwards; None if there is no plan."""
        directions = [each for each in (self.forward, self.backward) if each is not None]
        return "\n".join(each.source for each in directions) or None

    def svg(self) -> str:
        """A picture of how the chain of steps is folded, as SVG."""
        return picture.draw(self)

    def __str__(self) -> str:
        return _report().as_text(self)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from _report().as_rich(self)

    def _repr_html_(self) -> str:
        return _report().as_html(self)


def _report() -> ModuleType:
    """What shows explanations, with the whole of rich behind it: imported when one is shown, since few are."""
    from unspool.engine.explain import report

    return report
