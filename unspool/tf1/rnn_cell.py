"""`tf.nn.rnn_cell`: cells and wrappers."""

from __future__ import annotations

from typing import Any

from unspool.cells.lstm import LSTMStateTuple
from unspool.tf1.namespace import missing
from unspool.tf1.rnn.cell import RNNCell
from unspool.tf1.rnn.cells import (
    BasicLSTMCell,
    BasicRNNCell,
    DeviceWrapper,
    DropoutWrapper,
    GRUCell,
    LSTMCell,
    MultiRNNCell,
    ResidualWrapper,
)

__all__ = [
    "BasicLSTMCell",
    "BasicRNNCell",
    "DeviceWrapper",
    "DropoutWrapper",
    "GRUCell",
    "LSTMCell",
    "LSTMStateTuple",
    "MultiRNNCell",
    "RNNCell",
    "ResidualWrapper",
]


def __getattr__(name: str) -> Any:
    raise missing("tf.nn.rnn_cell", name, globals())
