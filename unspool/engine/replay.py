"""A planned loop once more, step by step and by ordinary autograd: for gradients of gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from unspool.engine.layout import Layout
from unspool.engine.trace import Lifted
from unspool.step import CheckedCell
from unspool.structure import Structure, flatten, unflatten_as


def replay(
    cell: Any,
    names: Sequence[str],
    inputs: Structure,
    state: Structure,
    output_dtype: torch.dtype,
    layout: Layout,
    steps: int,
    tensors: Sequence[Tensor],
) -> list[Tensor]:
    """Outputs and final state, flat, from weights (by `names`), inputs and state, flat.

    It runs the same rows at the same steps as the plan, so that random numbers are drawn in the same order.
    """
    first, second = len(names), len(names) + len(flatten(inputs))
    lifted = Lifted(cell, dict(zip(names, tensors[:first], strict=True)))
    leaves, carried = tensors[first:second], [layout.sort(leaf) for leaf in tensors[second:]]
    collected: list[list[Tensor]] = []
    for time, rows in enumerate(layout.counts):
        run = CheckedCell(lifted, rows, output_dtype, same_containers=False)
        now = unflatten_as(inputs, [layout.take(leaf, time, time + 1) for leaf in leaves])
        output, new = run(now, unflatten_as(state, [leaf[:rows] for leaf in carried]))
        collected.append(flatten(output))
        carried = [torch.cat([fresh, old[rows:]]) for fresh, old in zip(flatten(new), carried, strict=True)]
    outputs = [layout.spread(torch.cat(column), steps) for column in zip(*collected, strict=True)]
    return [*outputs, *(layout.unsort(leaf) for leaf in carried)]
