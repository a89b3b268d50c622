"""`tf.nn.rnn_cell`: cells and wrappers."""

from __future__ import annotations

from typing import Any

from unspool.cells.lstm import LSTMStateTuple as LSTMStateTuple
from unspool.tf1.namespace import missing
from unspool.tf1.rnn.cell import RNNCell as RNNCell
from unspool.tf1.rnn.cells import (
    BasicLSTMCell as BasicLSTMCell,
    BasicRNNCell as BasicRNNCell,
    DeviceWrapper as DeviceWrapper,
    DropoutWrapper as DropoutWrapper,
    GRUCell as GRUCell,
    LSTMCell as LSTMCell,
    MultiRNNCell as MultiRNNCell,
    ResidualWrapper as ResidualWrapper,
)


def __getattr__(name: str) -> Any:
    raise missing("tf.nn.rnn_cell", name, globals())
