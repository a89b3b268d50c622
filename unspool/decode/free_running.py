"""Decoding by planned steps, in which finished rows take no part.

A step of `dynamic_decode` runs all rows, since a cell might let them meet. Where the engine proves that a cell does
not, only the rows that still run are computed: a decode of rows with different lengths costs the sum of these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from unspool.decode.helpers.helper import RowHelper
from unspool.decode.models import beside
from unspool.structure import Structure, flatten, map_structure, unflatten_as

if TYPE_CHECKING:
    from unspool.engine.stepper import Stepper

LOOKS = 8
"""On a GPU, how many steps are taken between two looks at what is finished: each look waits for the device."""


class FreeRunning:
    """The rows of a decode that still run.

    Args:
        stepper: runs a `Model`.
        helper: samples from its outputs, and says what is read next.
        keep_outputs: whether the model's outputs are put out, besides what was sampled.
        inputs, state: what the first step reads, with all rows.
    """

    def __init__(
        self,
        stepper: Stepper,
        helper: RowHelper,
        keep_outputs: bool,
        inputs: Structure,
        state: Structure,
    ) -> None:
        self._stepper, self._helper, self._keep_outputs = stepper, helper, keep_outputs
        self._inputs: Structure = inputs
        # Steps are short: structures are taken apart once, not at each of them.
        self._like, leaves = state, flatten(state)
        self._final = [leaf.clone() for leaf in leaves]
        device, count = flatten(inputs)[0].device, len(flatten(inputs)[0])
        self._state: list[Tensor] = [*leaves, torch.zeros(count, dtype=torch.int64, device=device)]
        """The leaves of the state, and the ids that had the largest logits."""
        self._owned = False
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

    def step(self) -> tuple[list[Tensor], Tensor]:
        """One step: the leaves of what is put out for the rows that took part, and which these are."""
        rows, ended = self._rows, self._ended
        outputs, state = self._stepper.advance(flatten(self._inputs), self._state, owned=self._owned)
        if self._helper.takes_largest:
            finished, self._inputs = self._helper.follow(state[-1])
            ids = state[-1].int()
        else:
            ids = self._helper.sample(unflatten_as(self._stepper.output_size, outputs), rows)
            finished, self._inputs = self._helper.follow(ids)
        self.row_steps += rows.shape[0]
        self._time += 1
        if self.every == 1:
            self._state, self._ended, self._owned = state, finished, True
        else:  # some may have ended since the last look
            pairs = zip(state, self._state, strict=True)
            self._state = [torch.where(beside(ended, new), old, new) for new, old in pairs]
            self._ended = ended | finished
            self._lengths[rows] += (~ended).int()
        if self._time % self.every == 0 and bool(self._ended.any()):
            if self.every == 1:
                self._lengths[rows[self._ended]] = self._time
            self._drop()
        return [*outputs, ids] if self._keep_outputs else [ids], rows

    def inputs(self) -> Structure:
        """What the next step reads; zeros for rows that have ended."""
        count = len(self._lengths)
        return map_structure(
            lambda leaf: leaf.new_zeros(count, *leaf.shape[1:]).index_copy(0, self._rows, leaf), self._inputs
        )

    def final_state(self) -> Structure:
        """The state of each row after its last step."""
        pairs = zip(self._final, self._state, strict=False)  # but for the ids
        return unflatten_as(self._like, [final.index_copy(0, self._rows, leaf) for final, leaf in pairs])

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
        for final, leaf in zip(self._final, self._state, strict=False):
            final[self._rows[over]] = leaf[over]
        self._inputs, self._state = (
            map_structure(lambda leaf: leaf.index_select(0, kept), each) for each in (self._inputs, self._state)
        )
        self._stepper.keep(kept)
        self._rows, self._ended = self._rows[kept], self._ended[kept]
