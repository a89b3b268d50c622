"""A planned cell, one step at a time: for loops whose next input depends on what came out."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from unspool.engine.counts import Counts
from unspool.engine.planning import keep_plan, plan_of
from unspool.structure import Structure, flatten, map_structure, unflatten_as


class Stepper:
    """Runs the plan of a cell step by step, without gradients, for any rows of a batch.

    Args:
        cell: the cell, built; it may be made for the occasion.
        inputs, state: of the first step, with all rows.
        output_dtype: the dtype of the outputs.
        owner: whose plan it is: it is found again as long as this one lives.

    Raises:
        CannotPlanError: if the cell cannot be planned.

    >>> from unspool import GRUCell
    >>> cell = GRUCell(4, input_size=3)
    >>> stepper = Stepper(cell, torch.zeros(2, 3), torch.zeros(2, 4), torch.float32, cell)
    >>> output, state = stepper(torch.ones(2, 3), torch.zeros(2, 4))
    >>> output.shape, torch.equal(output, state)
    (torch.Size([2, 4]), True)
    """

    def __init__(self, cell: Any, inputs: Structure, state: Structure, output_dtype: torch.dtype, owner: Any) -> None:
        with torch.no_grad():
            sequence = map_structure(lambda leaf: leaf[None], inputs)
            ready = plan_of(cell, sequence, state, output_dtype, same_containers=False)
            keep_plan(owner, ready.plan)
            self._plan, self._trace = ready.plan, ready.plan.trace
            self._phase = self._plan.inference.forward
            weights = dict(zip(self._trace.weights, ready.weights.values(), strict=True))
            rows = len(flatten(inputs)[0])
            self._shared = self._phase.begin({**weights, **ready.constants}, rows)
        self._memory = list(ready.memory.values())
        self._output_size = cell.output_size

    def __call__(self, inputs: Structure, state: Structure) -> tuple[Structure, Structure]:
        """One step of the rows that are left: its output and the new state."""
        trace, given, leaves = self._trace, flatten(inputs), flatten(state)
        counts = Counts.of_step(len(given[0]))
        with torch.no_grad():
            known = {**dict(zip(trace.inputs, given, strict=True)), **self._plan.draw(counts)}
            carried, values = self._phase.run(counts, self._shared, known, [*leaves, *self._memory])
        outputs = [values[node] for node in trace.outputs]
        return unflatten_as(self._output_size, outputs), unflatten_as(state, carried[: len(leaves)])

    def keep(self, rows: Tensor) -> None:
        """From now on there are only these of the rows, by number."""
        self._memory = [memory.index_select(0, rows) for memory in self._memory]
