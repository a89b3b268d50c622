"""Decoding by planned steps, in which finished rows take no part.

A step of `dynamic_decode` runs all rows, since a cell might let them meet. Where the engine proves that a cell does
not, only the rows that still run are computed: a decode of rows with different lengths costs the sum of these.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from unspool.decode.helpers.helper import RowHelper
from unspool.decode.models import beside
from unspool.engine import Stepper
from unspool.structure import Structure, flatten, map_structure, unflatten_as

LOOKS = 8
"""On a GPU, how many steps are taken between two looks at what is finished: each look waits for the device."""


class FreeRunning:
    """The rows of a decode that still run.

    Args:
        stepper: runs a `Model`.
        helper: samples from its outputs, and says what is read next.
        as_output: what is put out, from the model's output and what was sampled.
        inputs, state: what the first step reads, with all rows.
    """

    def __init__(
        self,
        stepper: Stepper,
        helper: RowHelper,
        as_output: Callable[[Structure, Tensor], Structure],
        inputs: Structure,
        state: Structure,
    ) -> None:
        self._stepper, self._helper, self._as_output = stepper, helper, as_output
        self._inputs: Structure = inputs
        self._state: Structure = state
        self._final = [leaf.clone() for leaf in flatten(state)]
        device, count = flatten(inputs)[0].device, len(flatten(inputs)[0])
        self._ids = torch.zeros(count, dtype=torch.int64, device=device)
        self._rows = torch.arange(count, device=device)
        self._ended: Tensor = torch.zeros(count, dtype=torch.bool, device=device)
        self.every = 1 if device.type == "cpu" else LOOKS
        """How many steps are taken between two looks at what has ended."""
        self._lengths = torch.zeros(count, dtype=torch.int32, device=device)
        self._time = 0
        self.row_steps = 0
        """How many rows were computed, in all steps together."""

    @property
    def left(self) -> int:
        """How many rows take part in the next step."""
        return len(self._rows)

    def go_on(self, time: int, finished: Tensor, lengths: Tensor) -> None:
        """Starts after so many steps, in which some rows have ended."""
        self._time, self._ended, self._lengths = time, finished, lengths.clone()
        if bool(finished.any()):
            self._drop()

    def step(self) -> tuple[Structure, Tensor]:
        """One step: what is put out for the rows that took part, and which these are."""
        rows, ended = self._rows, self._ended
        output, (state, self._ids) = self._stepper(self._inputs, (self._state, self._ids))
        ids = self._ids.int() if self._helper.takes_largest else self._helper.sample(output, rows)
        finished, self._inputs = self._helper.follow(ids)
        self.row_steps += len(rows)
        self._time += 1
        if self.every == 1:
            self._state, self._ended = state, finished
        else:  # some may have ended since the last look
            self._state = map_structure(lambda new, old: torch.where(beside(ended, new), old, new), state, self._state)
            self._ended = ended | finished
            self._lengths[rows] += (~ended).int()
        if self._time % self.every == 0 and bool(self._ended.any()):
            if self.every == 1:
                self._lengths[rows[self._ended]] = self._time
            self._drop()
        return self._as_output(output, ids), rows

    def inputs(self) -> Structure:
        """What the next step reads; zeros for rows that have ended."""
        count = len(self._lengths)
        return map_structure(
            lambda leaf: leaf.new_zeros(count, *leaf.shape[1:]).index_copy(0, self._rows, leaf), self._inputs
        )

    def final_state(self) -> Structure:
        """The state of each row after its last step."""
        pairs = zip(self._final, flatten(self._state), strict=True)
        return unflatten_as(self._state, [final.index_copy(0, self._rows, leaf) for final, leaf in pairs])

    def finished(self) -> Tensor:
        """Which rows have come to their end."""
        finished = torch.ones_like(self._lengths, dtype=torch.bool)
        finished[self._rows] = self._ended
        return finished

    def lengths(self) -> Tensor:
        """How many steps each row has taken."""
        return self._lengths if self.every > 1 else self._lengths.index_fill(0, self._rows, self._time)

    def _drop(self) -> None:
        """Leaves out the rows that have ended."""
        over, kept = self._ended.nonzero()[:, 0], (~self._ended).nonzero()[:, 0]
        for final, leaf in zip(self._final, flatten(self._state), strict=True):
            final[self._rows[over]] = leaf[over]
        self._inputs, self._state = (
            map_structure(lambda leaf: leaf.index_select(0, kept), each) for each in (self._inputs, self._state)
        )
        self._stepper.keep(kept)
        self._rows, self._ended, self._ids = self._rows[kept], self._ended[kept], self._ids[kept]
