"""Gradients of gradients: the loop replayed step by step under ordinary autograd."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unspool.engine.execute.layout import Layout
from unspool.engine.execute.operands import Signature
from unspool.engine.guards.nodes import Key
from unspool.engine.plans.making import fingerprint_of
from unspool.engine.trace.lifting import Lifted, by_number
from unspool.outputs import Outputs
from unspool.step import CheckedCell
from unspool.structure import flatten, unflatten_as
from unspool.wrapped import unwrapped


class Replay(NamedTuple):
    """A call that can be run again. It holds structures, not tensors, which are autograd's to keep.

    Args:
        cell: the cell.
        signature: what its operands are called, and the structures they come in.
        output_dtype: the dtype that the outputs were asked for in, if any.
        outputs: what they were.
        layout: the rows of each step.
        steps: how many steps the outputs have.
        key: what the step read when the loop ran.
    """

    cell: Any
    signature: Signature
    output_dtype: torch.dtype | None
    outputs: Outputs
    layout: Layout
    steps: int
    key: Key

    def __call__(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Outputs and final state, flat, from the operands, flat.

        It runs the same rows at the same steps as the plan, so that random numbers are drawn in the same order.

        Raises:
            RuntimeError: if the step would not be the one that ran.
        """
        with unwrapped(self.cell):  # as it was when the loop ran
            return self._run(tensors)

    def _run(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        now = fingerprint_of(self.cell)
        changes = now.differences(self.key, tensors=False)
        if changes:
            raise RuntimeError(
                f"{type(self.cell).__qualname__} has changed since the loop ran ({', '.join(changes)}), but gradients "
                "of gradients (create_graph=True) run its step again: leave it as it is until backward"
            )
        layout, names = self.layout.counted, self.signature.names
        operands = names.regroup(tensors)
        weights = dict(zip(names.weights, operands.weights, strict=True))
        reached = by_number(now.tensors)
        carried = [layout.sort(leaf) for leaf in operands.state]
        buffers = [layout.sort(leaf) for leaf in operands.row_buffers]
        collected: list[list[Tensor]] = []
        for time, rows in enumerate(layout.counts):
            running = {name: leaf[:rows] for name, leaf in zip(names.row_buffers, buffers, strict=True)}
            lifted = Lifted(self.cell, {**weights, **running}, reached)
            run = CheckedCell(lifted, rows, self.output_dtype, same_containers=False, watched=True)
            now = unflatten_as(self.signature.inputs, [layout.take(leaf, time, time + 1) for leaf in operands.inputs])
            with lifted.stand_ins:
                output, new = run(now, unflatten_as(self.signature.state, [leaf[:rows] for leaf in carried]))
            # Where nobody asked for a dtype, the caller's autocast may have chosen it, which is not there any more.
            results = zip(self.outputs.flatten(output), self.outputs.leaves, strict=True)
            collected.append([leaf.to(dtype) for leaf, (_, dtype) in results])
            carried = [torch.cat([fresh, old[rows:]]) for fresh, old in zip(flatten(new), carried, strict=True)]
        outputs = [layout.result(torch.cat(column), self.steps) for column in zip(*collected, strict=True)]
        return [*outputs, *(layout.unsort(leaf) for leaf in carried)]
