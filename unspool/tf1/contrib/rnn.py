"""`tf.contrib.rnn`: cells, wrappers and loops."""

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
    EmbeddingWrapper,
    GRUCell,
    HighwayWrapper,
    InputProjectionWrapper,
    LSTMCell,
    MultiRNNCell,
    OutputProjectionWrapper,
    ResidualWrapper,
)
from unspool.tf1.rnn.loops import (
    static_bidirectional_rnn,
    static_rnn,
)
from unspool.tf1.rnn.stacks import (
    stack_bidirectional_dynamic_rnn,
    stack_bidirectional_rnn,
)

__all__ = [
    "BasicLSTMCell",
    "BasicRNNCell",
    "DeviceWrapper",
    "DropoutWrapper",
    "EmbeddingWrapper",
    "GRUBlockCell",
    "GRUCell",
    "HighwayWrapper",
    "InputProjectionWrapper",
    "LSTMBlockCell",
    "LSTMCell",
    "LSTMStateTuple",
    "MultiRNNCell",
    "OutputProjectionWrapper",
    "RNNCell",
    "ResidualWrapper",
    "stack_bidirectional_dynamic_rnn",
    "stack_bidirectional_rnn",
    "static_bidirectional_rnn",
    "static_rnn",
]

LSTMBlockCell = LSTMCell
"""The same numbers as `LSTMCell`, under the same names."""
GRUBlockCell = GRUCell
"""The same numbers as `GRUCell`, under the same names."""


def __getattr__(name: str) -> Any:
    raise missing("tf.contrib.rnn", name, globals())
