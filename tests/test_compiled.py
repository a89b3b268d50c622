"""Cells in compiled loops: the numbers of the interpreter, which every other test of the engine is about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.comparison import LENGTHS, data_for, results, wanting_gradients
from tests.emitting import assert_compiled, assert_equals_interpreter, interpreter
from tests.user_cells import USER_CELLS
from tests.zoo import ZOO, inputs_for
from unspool import Checkpoint, Keep, Recompute, dynamic_rnn, explain
from unspool.structure import map_structure

pytestmark = pytest.mark.compiled

BATCH, STEPS = 5, 7
POLICIES = [Keep(), Recompute(), Checkpoint(every=3)]

UNPLANNED = {
    "locked_dropout": "the step changes the cell: mask",
    "branching": "the step's control flow or shapes depend on the values of tensors",
    "clockwork": "the step changes the cell: time",
}
"""Cells that the plain loop runs, with what `explain` says of them."""

INTERPRETED = {
    "conv_lstm": "aten.convolution.default has no C++ form",
    "top_k": "aten.topk.default has no C++ form",
}
"""Cells whose cores have no form in C++, with what `explain` says of them."""


@dataclass(frozen=True)
class Case:
    """A cell in one dtype, and what it runs on."""

    cell: Any
    dtype: torch.dtype
    inputs: Any
    state: Any


def as_float(structure: Any) -> Any:
    return map_structure(lambda leaf: leaf.float() if leaf.is_floating_point() else leaf, structure)


@cache
def case(name: str, dtype: torch.dtype = torch.float64) -> Case:
    """A cell of the zoo or of a user, made once: one plan for each way to run it."""
    torch.manual_seed(0)
    if name in USER_CELLS:
        cell = USER_CELLS[name].make()
        inputs, state = data_for(USER_CELLS[name], BATCH, STEPS)
    else:
        cell, inputs = ZOO[name](), wanting_gradients(inputs_for(name, BATCH, STEPS))
        dynamic_rnn(cell, inputs, dtype=torch.float64)  # builds it
        drawn = map_structure(torch.randn_like, cell.zero_state(BATCH, torch.float64))
        state = wanting_gradients(drawn)
    if dtype == torch.float32:
        cell, inputs, state = cell.float(), *(wanting_gradients(as_float(each)) for each in (inputs, state))
    return Case(cell, dtype, inputs, state)
