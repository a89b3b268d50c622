"""Greedy decoding on a GPU: blocks of steps, each launched in one go.

There, a step takes as long as its launches, and every look at what has ended waits for the device. So the model reads
its own words for a whole block of steps, which the engine replays as one CUDA graph, and while the next one runs
somebody looks at what it came to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from unspool.engine import Stepper
from unspool.structure import Structure, flatten, map_structure, unflatten_as


class _Look:
    """How many rows run after a block: asked for now, and waited for when somebody wants to know."""

    def __init__(self, ended: Tensor) -> None:
        self._running = (~ended).sum().to("cpu", non_blocking=True)
        self._event = torch.cuda.Event() if ended.is_cuda else None
        if self._event is not None:
            self._event.record(torch.cuda.current_stream(ended.device))

    def running(self) -> int:
        if self._event is not None:
            self._event.synchronize()
        return int(self._running)


class Blocks:
    """A greedy decode, block by block.

    Args:
        stepper: runs a `ClosedModel`, and watches its ids.
        as_output: what is put out, from the model's outputs and the ids.
        padding: what stands past the end of a row, in each tensor of the outputs and, last, in the ids.
        start_tokens: the ids that the first step reads.
        state: where the cell starts.
        end_token: the id that ends a row.
    """

    STEPS = (16, 32, 64)
    """How many steps the first blocks have, and all others: more are launched with less, but when all rows have ended
    there may be a block and a half to come."""
    FEW = 4
    """A graph has a fixed number of rows, so rows are left out only when no more than one of so many runs."""

    def __init__(
        self,
        stepper: Stepper,
        as_output: Callable[[Structure, Tensor], Structure],
        padding: Sequence[float],
        start_tokens: Tensor,
        state: Structure,
        end_token: int,
    ) -> None:
        self._stepper, self._as_output, self._padding = stepper, as_output, padding
        self._end_token = end_token
        self._final = [leaf.clone() for leaf in flatten(state)]
        self._rows = torch.arange(len(start_tokens), device=start_tokens.device)
        ended = torch.zeros_like(start_tokens, dtype=torch.bool)
        self._state: tuple[Structure, Tensor, Tensor] = (state, start_tokens.long(), ended)
        self._nothing = torch.zeros(max(self.STEPS), len(start_tokens), 0, device=start_tokens.device)

    def run(self, bound: int) -> tuple[Structure, Tensor]:
        """At most so many steps: what is put out, time-major, and the lengths of the rows."""
        outputs: list[list[Tensor]] = []
        ids: list[Tensor] = []
        like: Structure = ()
        time = 0
        look: _Look | None = None
        while time < bound and len(self._rows):
            steps = min(self.STEPS[min(len(ids), len(self.STEPS) - 1)], bound - time)
            like, (said,), self._state = self._stepper.run(self._nothing[:steps, : len(self._rows)], self._state)
            outputs.append([self._whole(leaf, 0) for leaf in flatten(like)])
            ids.append(self._whole(said, self._end_token))
            time += steps
            left = len(self._rows) if look is None else look.running()  # before this block
            if not left:
                break
            look = _Look(self._state[2])
            if left * self.FEW <= len(self._rows):
                self._drop()
                look = None
        every = torch.cat(ids)
        ended = every == self._end_token
        lengths = torch.where(ended.any(0), ended.int().argmax(0) + 1, time).int()
        longest = int(lengths.max())
        over = torch.arange(longest, device=lengths.device)[:, None] >= lengths
        columns = [torch.cat(column)[:longest] for column in zip(*outputs, strict=True)]
        columns = [
            leaf.masked_fill(over.reshape(*over.shape, *[1] * (leaf.dim() - 2)), padding)
            for leaf, padding in zip(columns, self._padding[:-1], strict=True)
        ]
        said = every[:longest].masked_fill(over, self._padding[-1]).int()
        return self._as_output(unflatten_as(like, columns), said), lengths

    def finished(self) -> Tensor:
        """Which rows have come to their end."""
        finished = torch.ones(len(self._final[0]), dtype=torch.bool, device=self._rows.device)
        return finished.index_copy(0, self._rows, self._state[2])

    def final_state(self) -> Structure:
        """The state of each row after its last step."""
        pairs = zip(self._final, flatten(self._state[0]), strict=True)
        return unflatten_as(self._state[0], [final.index_copy(0, self._rows, leaf) for final, leaf in pairs])

    def _whole(self, leaf: Tensor, padding: float) -> Tensor:
        """`[steps, rows, ...]` with all rows of the batch."""
        count = len(self._final[0])
        if leaf.shape[1] == count:
            return leaf
        whole = leaf.new_full((leaf.shape[0], count, *leaf.shape[2:]), padding)
        return whole.index_copy(1, self._rows, leaf)

    def _drop(self) -> None:
        """Leaves out the rows that have ended."""
        state, ids, ended = self._state
        over, kept = ended.nonzero()[:, 0], (~ended).nonzero()[:, 0]
        for final, leaf in zip(self._final, flatten(state), strict=True):
            final[self._rows[over]] = leaf[over]
        self._state = map_structure(lambda leaf: leaf.index_select(0, kept), (state, ids, ended))
        self._stepper.keep(kept)
        self._rows = self._rows[kept]
