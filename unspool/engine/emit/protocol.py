"""The protocol of emitters: what one serves, what it takes into its core, how it compiles, and what it costs.

An emitter makes a split runnable: above all its core, which has to run step by step. Phases and `explain` know emitters
by this protocol alone; `registry` has them all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor, fx

from unspool.engine.execute.counts import Counts
from unspool.engine.ir.core import Core, lower_core
from unspool.engine.ir.program import Kind, Program, Value, lower_part
from unspool.engine.partition.split import Split
from unspool.engine.reasons import Reason
from unspool.engine.rows.labels import Label


class Padding(Enum):
    """What a core emits of rows that have ended."""

    ZEROS = "zeros"
    LENT = "what others have, so that nothing is computed of it that no row has; of values with one row for each row"
    ANYTHING = "whatever the memory holds, since nobody reads it"


class Chunk(NamedTuple):
    """A chunk of steps for a core to run.

    Args:
        counts: how many rows each step has: the first ones of those carried.
        streamed: the core's `streamed` values, the rows of all steps one after another.
        carried: its `carried` values, for the rows of the first step in time.
        reverse: whether to run from the last step to the first; `counts` and `streamed` stay in order of time.
        into: for each of the core's `emitted` values, a tensor to write it to, or None.
        owned: whether what is carried may be changed in place, because nobody else looks at it.
        running: how many rows run at each step, on the device, if `counts` say only how many are there: the first ones.
        padding: for each of the core's `emitted` values, what it then holds of the others; zeros if None.
        lent: for each row of all steps, itself or the one whose values it is lent, if any value lends.
    """

    counts: Counts
    streamed: Sequence[Tensor]
    carried: Sequence[Tensor]
    reverse: bool = False
    into: Sequence[Tensor | None] | None = None
    owned: bool = False
    running: Tensor | None = None
    padding: Sequence[Padding] | None = None
    lent: Tensor | None = None


Made = TypeVar("Made")
Results = tuple[list[Tensor], list[Tensor]]
"""What is carried on, and what is emitted."""


class CoreLoop(Protocol):
    """A core that can be run."""

    core: Core
    """What it runs."""
    source: str
    """The code that runs, for people to read."""

    def wait(self) -> None:
        """Waits until it can run.

        Raises:
            CannotEmitError: if it never will.
        """
        ...

    def prepare(self, shared: Sequence[Tensor]) -> list[Tensor]:
        """The core's `shared` values as its steps read them; once a call, for all chunks."""
        ...

    def interpreted(self, *, ragged: bool) -> Reason | None:
        """Why it leaves a call, ragged if rows end at different steps, to an interpreter; None if it does not."""
        ...

    def __call__(self, shared: Sequence[Tensor], chunk: Chunk) -> Results:
        """Runs every step of a chunk.

        Args:
            shared: what `prepare` returned.
            chunk: the steps.

        Returns:
            What is carried after the last step run, with as many rows as were given: those that a step does not have
            stay as they were. And the emitted values, in order of time, laid out like `streamed`.
        """
        ...


class Group(Protocol):
    """Instructions of a part beside the core that an emitter has compiled: an operation of the part's program."""

    @property
    def shared(self) -> Sequence[Value]:
        """What it takes that is the same for all rows."""
        ...

    def prepare(self, shared: Sequence[Tensor]) -> Sequence[Tensor]:
        """These values as it takes them; once a call."""
        ...


@dataclass(frozen=True)
class Beside:
    """A part beside the core, which torch runs operation by operation.

    Args:
        program: the operations. What `prepare` returns for each group is one more input, after those of the part.
        groups: those of the operations that an emitter has compiled.
    """

    program: Program
    groups: Sequence[Group] = ()


@dataclass(frozen=True)
class Emitted:
    """A split that can be run.

    Args:
        split: the split, with what the emitter has taken into the core.
        core: what runs the core.
        before, after: what runs the parts around it.
    """

    split: Split
    core: CoreLoop
    before: Beside
    after: Beside


class Recorder(Protocol):
    """Records what loops do, so that it can be repeated by a single launch.

    All that it records shares memory: repeating one recording may overwrite what a later one has left, but never what
    an earlier one has that somebody still holds.
    """

    def apart(self) -> Recorder:
        """Another one, which shares no memory with this."""
        ...

    def place(self) -> Hashable | None:
        """Where what is recorded now would run, a stream say; None if nothing can be recorded now."""
        ...

    def record(self, function: Callable[[], Made]) -> tuple[Callable[[], None], Made]:
        """What repeats a function, in the same memory, and what the function returned, which may be empty until then.

        Raises:
            RuntimeError: if it cannot be recorded.
        """
        ...


@dataclass(frozen=True)
class Load:
    """What an emitter may compile different code for: never the number of rows itself, nor that of steps.

    Args:
        rows: rows a step, on average.
        weight_bytes: the size of all weights.
    """

    rows: float
    weight_bytes: int


class Emitter(ABC):
    """Makes splits runnable."""

    name: ClassVar[str]
    """What `explain` and `UNSPOOL_EMIT` call it."""
    instead: ClassVar[str | None] = None
    """The emitter that runs what this one has no form for, where it was asked for by name."""
    counts_on_device: ClassVar[bool] = False
    """Whether its loops read from the device how many rows run at each step (`Chunk.running`)."""
    runs_at_once: ClassVar[bool] = False
    """Whether two of its loops may run on one device at the same time, each in its part of it (`at_once`)."""

    single_steps: ClassVar[bool] = True
    """Whether it suits steps that run one at a time, as those of decoding do."""

    @abstractmethod
    def refusal(self, device: torch.device) -> Reason | None:
        """Why it serves no core on a device; None if it may. Whether it has a form for a core, `emit` finds out."""

    @abstractmethod
    def cost(self, core: Core) -> float:
        """About how many microseconds a step of a small core takes: of those that serve, the cheapest one runs it."""

    def chunk_bytes(self, device: torch.device) -> int:
        """What a chunk may take for what its core reads and writes: up to there, a longer chunk is a faster one."""
        return 0

    def variant(self, load: Load) -> Hashable:
        """Which of its programs for a split suits a call; calls of the same variant share one."""
        return None

    def fold(self, split: Split, labels: dict[fx.Node, Label], variant: Hashable) -> Split:
        """`split` with what its core computes at hand moved into the core."""
        return split

    def recorder(self, device: torch.device, loops: Sequence[CoreLoop]) -> Recorder | None:
        """What records calls that run these loops; None if nothing does, or if it would save nothing."""
        return None

    @abstractmethod
    def emit(self, split: Split, labels: dict[fx.Node, Label], device: torch.device, variant: Hashable) -> Emitted:
        """What runs a split, folded or not; compilers may go on working in the background.

        Raises:
            CannotEmitError: if it cannot.
        """


class CoreEmitter(Emitter):
    """Makes cores runnable, and leaves the parts beside them to torch."""

    @abstractmethod
    def core(self, core: Core, device: torch.device) -> CoreLoop:
        """What runs a core.

        Raises:
            CannotEmitError: if it has no form for it.
        """

    def emit(self, split: Split, labels: dict[fx.Node, Label], device: torch.device, variant: Hashable) -> Emitted:
        """The core by this emitter, the rest by torch."""
        before, after = (Beside(lower_part(part, labels)) for part in (split.before, split.after))
        return Emitted(split, self.core(lower_core(split, labels), device), before, after)


def launches(core: Core) -> int:
    """How many operations of a core are more than a view: what a step costs where each is a call of its own."""
    return len(core.instructions) - core.count(Kind.VIEW)
