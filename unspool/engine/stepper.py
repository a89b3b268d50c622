"""A planned cell, one step or a few at a time: for loops whose next input depends on what came out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, fx

from unspool.engine.emit.registry import for_single_steps
from unspool.engine.execute.counts import Counts
from unspool.engine.execute.parts import Steps, Values
from unspool.engine.plans.cache import plan_of
from unspool.engine.request import Request
from unspool.structure import Structure, flatten, map_structure, unflatten_as


class Stepper:
    """Runs the plan of a cell step by step, without gradients, for any rows of a batch.

    Args:
        cell: the cell, built; it may be made for the occasion.
        inputs, state: of the first step, with all rows.
        output_dtype: the dtype of the outputs.
        owner: whose plan it is: it is found again as long as this one lives.
        watched: the numbers of the state's tensors that `run` returns for every step.

    Raises:
        CannotPlanError: if the cell cannot be planned.

    >>> from unspool import GRUCell
    >>> cell = GRUCell(4, input_size=3)
    >>> stepper = Stepper(cell, torch.zeros(2, 3), torch.zeros(2, 4), torch.float32, cell)
    >>> output, state = stepper(torch.ones(2, 3), torch.zeros(2, 4))
    >>> output.shape, torch.equal(output, state)
    (torch.Size([2, 4]), True)
    """

    def __init__(
        self,
        cell: Any,
        inputs: Structure,
        state: Structure,
        output_dtype: torch.dtype,
        owner: Any,
        watched: Sequence[int] = (),
    ) -> None:
        with torch.no_grad():
            sequence = map_structure(lambda leaf: leaf[None], inputs)
            ready = plan_of(Request(cell, sequence, None, state, output_dtype, owner=owner))
            self._plan, self._trace = ready.plan, ready.plan.trace
            phase = self._plan.watching(tuple(watched))
            self._watched = [self._trace.new_state[k] for k in watched]
            weights = dict(zip(self._trace.weights, ready.weights.values(), strict=True))
            first = flatten(inputs)[0]
            values = {**weights, **ready.plan.brought(ready.constants)}
            self._bound = phase.begin(values, len(first), for_single_steps(first.device))
        self._row_buffers = list(ready.row_buffers.values())
        self.output_size = cell.output_size
        """The sizes of the outputs, in their structure."""

    def __call__(self, inputs: Structure, state: Structure) -> tuple[Structure, Structure]:
        """One step of the rows that are left: its output and the new state."""
        outputs, carried = self.advance(flatten(inputs), flatten(state))
        return unflatten_as(self.output_size, outputs), unflatten_as(state, carried)

    def advance(
        self, inputs: Sequence[Tensor], state: Sequence[Tensor], *, owned: bool = False
    ) -> tuple[list[Tensor], list[Tensor]]:
        """One step, from leaves to leaves; a state that is owned may be changed in place."""
        values, carried = self._run(Counts.of_step(inputs[0].shape[0]), inputs, state, owned=owned)
        return [values[node] for node in self._trace.outputs], carried

    def run(self, inputs: Structure, state: Structure) -> tuple[Structure, list[Tensor], Structure]:
        """As many steps as there are time-major inputs: the outputs and the watched states after each, and the last."""
        given, leaves = flatten(inputs), flatten(state)
        steps, rows = given[0].shape[:2]
        counts = Counts.in_blocks(steps * rows, rows)
        values, carried = self._run(counts, [leaf.flatten(0, 1) for leaf in given], leaves)

        def by_step(nodes: Sequence[fx.Node]) -> list[Tensor]:
            return [values[node].reshape(steps, rows, *values[node].shape[1:]) for node in nodes]

        outputs, watched = by_step(self._trace.outputs), by_step(self._watched)
        return unflatten_as(self.output_size, outputs), watched, unflatten_as(state, carried)

    def _run(
        self, counts: Counts, given: Sequence[Tensor], leaves: Sequence[Tensor], *, owned: bool = False
    ) -> tuple[Values, list[Tensor]]:
        with torch.no_grad():
            known = {**dict(zip(self._trace.inputs, given, strict=True)), **self._plan.draw(counts)}
            carried, values = self._bound.run(known, [*leaves, *self._row_buffers], Steps(counts, owned=owned))
        return values, carried[: len(leaves)]

    def keep(self, rows: Tensor) -> None:
        """From now on there are only these of the rows, by number."""
        self._row_buffers = [buffer.index_select(0, rows) for buffer in self._row_buffers]
