"""Explanations that tests look at."""

from __future__ import annotations

from typing import Any

import torch

import unspool
from tests.comparison import LENGTHS
from tests.user_cells import USER_CELLS
from unspool import LSTMCell, explain


def explain_user_cell(name: str, **options: Any) -> unspool.engine.Explanation:
    user = USER_CELLS[name]
    return explain(user.make(), user.inputs(5, 7), LENGTHS, user.state(5), user.dtype, **options)


def lstm(**options: Any) -> unspool.engine.Explanation:
    return explain(LSTMCell(8), torch.zeros(2, 5, 3), dtype=torch.float32, **options)
