"""What every emitter takes, and what it makes of a core."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from unspool.engine.execute.counts import Counts
from unspool.engine.ir.core import Core


@dataclass(frozen=True)
class Chunk:
    """A chunk of steps for a core to run.

    Args:
        counts: how many rows each step has: the first ones of those carried.
        streamed: the core's `streamed` values, the rows of all steps one after another.
        carried: its `carried` values, for the rows of the first step in time.
        reverse: whether to run from the last step to the first; `counts` and `streamed` stay in order of time.
        into: for each of the core's `emitted` values, a tensor to write it to, or None.
        owned: whether what is carried may be changed in place, because nobody else looks at it.
    """

    counts: Counts
    streamed: Sequence[Tensor]
    carried: Sequence[Tensor]
    reverse: bool = False
    into: Sequence[Tensor | None] | None = None
    owned: bool = False


Results = tuple[list[Tensor], list[Tensor]]
"""What is carried on, and what is emitted."""


class Loop(Protocol):
    """A core that can be run."""

    name: str
    """What made it runnable."""
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
