"""The plain loop: one call of the cell after another, with ordinary autograd. Any cell runs here."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from unspool.engine.guards.one_step import outputs_of_a_step
from unspool.outputs import Outputs
from unspool.step import CheckedCell, Rows, attach, gradient_sources
from unspool.structure import Structure, flatten, map_structure, unflatten_as
from unspool.tracers import static_shape


def run(
    cell: Any, inputs: Structure, lengths: Tensor | None, state: Structure, output_dtype: torch.dtype | None
) -> tuple[Structure, Structure]:
    """Runs `cell` over time-major `inputs`; returns its outputs, time-major, and its final state.

        for t in range(max(lengths)):
            output[t], state = cell(inputs[t], state)      # for the rows with t < lengths

    Outputs past a row's length are zero, and its state stays what it was at its end. Steps past the longest row are
    not run, unless somebody records the loop, to run it with other lengths. The arguments are valid; that is the
    caller's part.

    Args:
        cell: anything that looks like a cell.
        inputs: a structure of `[T, B, ...]` tensors.
        lengths: int64 `[B]`, or None for full length.
        state: the initial state.
        output_dtype: the dtype of the outputs; None for a cell that does not know their size: as its step has them.
    """
    leaves = flatten(inputs)
    (steps, batch_size), device = static_shape(leaves[0])[:2], leaves[0].device
    rows = None if lengths is None else Rows(lengths, steps, device)
    longest = steps if rows is None else rows.longest
    if longest == 0:
        sources = gradient_sources(cell, inputs, state)
        outputs = Outputs.declared(cell.output_size, output_dtype) or outputs_of_a_step(
            cell, map_structure(lambda leaf: leaf.new_zeros((batch_size, *leaf.shape[2:])), inputs), state
        )
        return attach(outputs.zeros((steps, batch_size), device), sources), attach(state, sources)

    run_step = CheckedCell(cell, batch_size, output_dtype, same_containers=rows is not None)
    leaves = leaves if rows is None else rows.lend(leaves)
    columns: list[list[Tensor]] = []
    # unbind, not indexing: its backward is one stack, where indexing fills a gradient of all steps at each.
    for time, now in enumerate(zip(*(leaf[:longest].unbind(0) for leaf in leaves), strict=True)):
        inputs_now = unflatten_as(inputs, now)
        output, state = run_step(inputs_now, state) if rows is None else rows.step(run_step, time, inputs_now, state)
        assert run_step.outputs is not None  # the first step has shown them
        columns.append(run_step.outputs.flatten(output))
    stacked = [torch.stack(column) for column in zip(*columns, strict=True)]
    if longest < steps:
        stacked = [torch.cat([leaf, leaf.new_zeros(steps - longest, *leaf.shape[1:])]) for leaf in stacked]
    assert run_step.outputs is not None
    return run_step.outputs.unflatten(stacked), state
