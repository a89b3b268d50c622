"""Cells whose units blocks divide among them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tests.comparison import wanting_gradients
from tests.user_cells.gated import LayerNormLSTM
from tests.user_cells.steps import NASLike
from unspool import BasicLSTMCell, BasicRNNCell, GRUCell, LSTMCell, MultiRNNCell
from unspool.gallery import LipschitzRNNCell, MLSTMCell
from unspool.structure import map_structure

UNITS = 32

MAKE: dict[str, Callable[[int], nn.Module]] = {
    "lstm": lambda units: BasicLSTMCell(units, input_size=4),
    "gru": lambda units: GRUCell(units, input_size=4),
    "rnn": lambda units: BasicRNNCell(units, input_size=4),
    "peepholes and projection": lambda units: LSTMCell(units, input_size=4, use_peepholes=True, num_proj=units // 2),
    "layer norms": lambda units: LayerNormLSTM(4, units),
    "two layers": lambda units: MultiRNNCell([BasicLSTMCell(units, input_size=4), GRUCell(units, input_size=units)]),
    "architecture search": lambda units: NASLike(4, units),
    "matrix memory": lambda units: MLSTMCell(4, units),
    "product plus product": lambda units: LipschitzRNNCell(4, units),
}


def problem(name: str, dtype: torch.dtype, batch: int = 3, units: int = UNITS) -> tuple[Any, Tensor, Any]:
    """A cell, inputs and a state."""
    torch.manual_seed(3)
    own: Any = MAKE[name](units).to(dtype)
    inputs = torch.randn(batch, 4, 4).to(dtype)
    state = map_structure(lambda leaf: (torch.randn(leaf.shape) / 2).to(dtype), own.zero_state(batch, dtype))
    return own, wanting_gradients(inputs), wanting_gradients(state)
