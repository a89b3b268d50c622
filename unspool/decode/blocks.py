"""Greedy decoding on a GPU: blocks of steps, each launched in one go.

There, a step takes as long as its launches, and every look at what has ended waits for the device. So the model reads
its own words for a whole block of steps, which the engine replays as one CUDA graph, and while the next one runs
somebody looks at what it came to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from unspool.structure import Structure, flatten, map_structure, unflatten_as

if TYPE_CHECKING:
    from unspool.engine.stepper import Stepper


class _Look:
    """Which rows have ended after a block: asked for now, and waited for when somebody wants to know."""

    def __init__(self, ended: Tensor) -> None:
        self._ended = ended.to("cpu", non_blocking=True)
        self._event = torch.cuda.Event() if ended.is_cuda else None
        if self._event is not None:
            self._event.record(torch.cuda.current_stream(ended.device))

    def running(self) -> int:
        if self._event is not None:
            self._event.synchronize()
        return len(self._ended) - int(self._ended.sum())


class Blocks:
    """A greedy decode, block by block.

    Args:
        stepper: runs a `ClosedModel`, and watches its ids.
        as_output: what is put out, from the model's outputs and the ids.
        padding: what stands past the end of a row, in each tensor of the outputs and, last, in the ids.
        state: what the first step takes over: the cell's state, the ids that it reads, and that no row has ended.
        end_token: the id that ends a row.
    """

    STEPS = (16, 32, 64, 128)
    """How many steps the first blocks have, and all others: more are launched with less, but when all rows have ended
    there may be a block and a half to come."""
    FEW = 4
    """A graph has a fixed number of rows, so rows are left out only when no more than one of so many runs."""

    def __init__(
        self,
        stepper: Stepper,
        as_output: Callable[[Structure, Tensor], Structure],
        padding: Sequence[float],
        state: tuple[Structure, Tensor, Tensor],
        end_token: int,
    ) -> None:
        self._stepper, self._as_output, self._padding = stepper, as_output, padding
        self._state, self._end_token = state, end_token
        self._count = len(state[1])
        self._nothing = torch.empty(max(self.STEPS), self._count, 0, device=state[1].device)
        self._left: _Left | None = None

    @property
    def rows(self) -> int:
        """How many rows take part in the next block."""
        return len(self._state[1])

    def run(self, bound: int) -> tuple[Structure, Tensor]:
        """At most so many steps: what is put out, time-major, and the lengths of the rows."""
        outputs: list[list[Tensor]] = []
        ids: list[Tensor] = []
        like: Structure = ()
        time = 0
        look: _Look | None = None
        while time < bound and self.rows:
            steps = min(self.STEPS[min(len(ids), len(self.STEPS) - 1)], bound - time)
            like, (said,), self._state = self._stepper.run(self._nothing[:steps, : self.rows], self._state)
            outputs.append([self._whole(leaf, 0) for leaf in flatten(like)])
            ids.append(self._whole(said, self._end_token))
            time += steps
            running = self.rows if look is None else look.running()  # before this block
            if not running or time == bound:
                break
            look = _Look(self._state[2])
            if running * self.FEW <= self.rows:
                self._drop()
                look = None
        every = torch.cat(ids)
        ended = every == self._end_token
        over = ended.cumsum(0) > ended  # some step before was the last
        lengths = (~over).sum(0, dtype=torch.int32)
        said = every.masked_fill(over, self._padding[-1]).int()
        longest = int(lengths.max())  # all that could be launched before was
        columns = [
            torch.cat(column)[:longest].masked_fill(_beside_steps(over[:longest], column[0]), padding)
            for column, padding in zip(zip(*outputs, strict=True), self._padding[:-1], strict=True)
        ]
        return self._as_output(unflatten_as(like, columns), said[:longest]), lengths

    def finished(self) -> Tensor:
        """Which rows have come to their end."""
        ended = self._state[2]
        if self._left is None:
            return ended
        return ended.new_ones(self._count).index_copy(0, self._left.rows, ended)

    def final_state(self) -> Structure:
        """The state of each row after its last step."""
        if self._left is None:
            return self._state[0]
        pairs = zip(self._left.final, flatten(self._state[0]), strict=True)
        return unflatten_as(self._state[0], [final.index_copy(0, self._left.rows, leaf) for final, leaf in pairs])

    def _whole(self, leaf: Tensor, padding: float) -> Tensor:
        """`[steps, rows, ...]` with all rows of the batch."""
        if self._left is None:
            return leaf
        whole = leaf.new_full((leaf.shape[0], self._count, *leaf.shape[2:]), padding)
        return whole.index_copy(1, self._left.rows, leaf)

    def _drop(self) -> None:
        """Leaves out the rows that have ended."""
        state, ids, ended = self._state
        kept = (~ended).nonzero()[:, 0]
        if self._left is None:
            self._left = _Left(kept, [leaf.clone() for leaf in flatten(state)])
        else:
            over = ended.nonzero()[:, 0]
            for final, leaf in zip(self._left.final, flatten(state), strict=True):
                final[self._left.rows[over]] = leaf[over]
            self._left = _Left(self._left.rows[kept], self._left.final)
        self._state = map_structure(lambda leaf: leaf.index_select(0, kept), (state, ids, ended))
        self._stepper.keep(kept)


@dataclass(frozen=True)
class _Left:
    """After rows were left out: the numbers of those that are left, and where all rows ended that are not."""

    rows: Tensor
    final: list[Tensor]


def _beside_steps(over: Tensor, leaf: Tensor) -> Tensor:
    """A truth for each step and row, beside the other axes of what was put out."""
    return over.reshape(*over.shape, *[1] * (leaf.dim() - 2))
