"""A planned loop once more, step by step and by ordinary autograd: for gradients of gradients."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from unspool.engine.execute.layout import Layout
from unspool.engine.guards.fingerprint import Key
from unspool.engine.plans.cache import fingerprint_of
from unspool.engine.trace.trace import Lifted
from unspool.step import CheckedCell
from unspool.structure import Structure, flatten, map_structure, unflatten_as


@dataclass(frozen=True)
class Replay:
    """A call that can be run again. It holds structures, not tensors, which are autograd's to keep.

    Args:
        cell: the cell.
        names: the names of its weights.
        memory: the names of its buffers with a row for each of the batch.
        inputs: the structure of its inputs.
        state: the structure of its state.
        output_dtype: the dtype of the outputs.
        layout: the rows of each step.
        steps: how many steps the outputs have.
        key: what the step read when the loop ran.
    """

    cell: Any
    names: tuple[str, ...]
    memory: tuple[str, ...]
    inputs: Structure
    state: Structure
    output_dtype: torch.dtype
    layout: Layout
    steps: int
    key: Key

    @classmethod
    def of(
        cls,
        cell: Any,
        names: Collection[str],
        memory: Collection[str],
        inputs: Structure,
        state: Structure,
        *how: Any,
    ) -> Replay:
        """The replay of a call with these inputs and this state."""
        structures = (map_structure(lambda leaf: 0, each) for each in (inputs, state))
        return cls(cell, tuple(names), tuple(memory), *structures, *how)

    def __call__(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Outputs and final state, flat, from weights, inputs, state and memory, flat.

        It runs the same rows at the same steps as the plan, so that random numbers are drawn in the same order.

        Raises:
            RuntimeError: if the step would not be the one that ran.
        """
        changes = fingerprint_of(self.cell).changes_since(self.key)
        if changes:
            raise RuntimeError(
                f"{type(self.cell).__qualname__} has changed since the loop ran ({', '.join(changes)}), but gradients "
                "of gradients (create_graph=True) run its step again: leave it as it is until backward"
            )
        layout = self.layout
        first, second = len(self.names), len(self.names) + len(flatten(self.inputs))
        third = len(tensors) - len(self.memory)
        weights = dict(zip(self.names, tensors[:first], strict=True))
        leaves, carried = tensors[first:second], [layout.sort(leaf) for leaf in tensors[second:third]]
        memory = {name: layout.sort(leaf) for name, leaf in zip(self.memory, tensors[third:], strict=True)}
        collected: list[list[Tensor]] = []
        for time, rows in enumerate(layout.counts):
            lifted = Lifted(self.cell, {**weights, **{name: leaf[:rows] for name, leaf in memory.items()}})
            run = CheckedCell(lifted, rows, self.output_dtype, same_containers=False)
            now = unflatten_as(self.inputs, [layout.take(leaf, time, time + 1) for leaf in leaves])
            output, new = run(now, unflatten_as(self.state, [leaf[:rows] for leaf in carried]))
            collected.append(flatten(output))
            carried = [torch.cat([fresh, old[rows:]]) for fresh, old in zip(flatten(new), carried, strict=True)]
        outputs = [layout.spread(torch.cat(column), 0, self.steps) for column in zip(*collected, strict=True)]
        return [*outputs, *(layout.unsort(leaf) for leaf in carried)]
