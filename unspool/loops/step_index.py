"""`StepIndex`: the number of the step, as an input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from unspool.structure import Structure, flatten, unflatten_as
from unspool.tracers import static_shape


@dataclass(frozen=True)
class StepIndex:
    """Stands among the inputs of a loop for the number of the step: the cell sees int64 `[batch]`, from 0 upwards.

    Each direction of a bidirectional loop counts in the order in which it reads.

    >>> from unspool import cell, dynamic_rnn
    >>> def every_other(inputs, h):
    ...     return None, torch.where((inputs["step"] % 2 == 0)[:, None], h + inputs["x"], h)
    >>> inputs = {"x": torch.ones(2, 5, 1), "step": StepIndex()}
    >>> dynamic_rnn(cell(every_other), inputs, [5, 2], torch.zeros(2, 1))
    (None, tensor([[3.],
            [1.]]))
    """


def counted(inputs: Structure) -> tuple[int, ...]:
    """The places of the step numbers among the leaves of inputs.

    Raises:
        ValueError: if there is nothing else: the numbers of steps and rows are those of the other inputs.
    """
    if isinstance(inputs, Tensor):
        return ()
    leaves = flatten(inputs)
    places = tuple(place for place, leaf in enumerate(leaves) if isinstance(leaf, StepIndex))
    if places and len(places) == len(leaves):
        raise ValueError(
            "inputs has nothing but StepIndex(): there must be a tensor beside it, which says how many steps and rows "
            "there are"
        )
    return places


def first_tensor(inputs: Structure) -> Any:
    """The first leaf of inputs that is no step number; None if there is none."""
    if isinstance(inputs, Tensor):
        return inputs
    return next((leaf for leaf in flatten(inputs) if not isinstance(leaf, StepIndex)), None)


def with_numbers(inputs: Structure, like: Tensor) -> Structure:
    """Time-major inputs with tensors `[time, batch]` in the places of step numbers, for as many steps and rows."""
    steps, batch_size = static_shape(like)[:2]
    return _filled(inputs, torch.arange(steps, device=like.device)[:, None].expand(steps, batch_size))


def at_step(inputs: Structure, time: int, like: Tensor) -> Structure:
    """The inputs of one step with its number, `[batch]`, in the places of step numbers."""
    return _filled(inputs, torch.full(static_shape(like)[:1], time, dtype=torch.int64, device=like.device))


def _filled(inputs: Structure, number: Tensor) -> Structure:
    return unflatten_as(inputs, [number if isinstance(leaf, StepIndex) else leaf for leaf in flatten(inputs)])
