"""`tf.contrib.rnn`: cells, wrappers and loops."""

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
    EmbeddingWrapper as EmbeddingWrapper,
    GRUCell as GRUCell,
    HighwayWrapper as HighwayWrapper,
    InputProjectionWrapper as InputProjectionWrapper,
    LSTMCell as LSTMCell,
    MultiRNNCell as MultiRNNCell,
    OutputProjectionWrapper as OutputProjectionWrapper,
    ResidualWrapper as ResidualWrapper,
)
from unspool.tf1.rnn.loops import (
    static_bidirectional_rnn as static_bidirectional_rnn,
    static_rnn as static_rnn,
)
from unspool.tf1.rnn.stacks import (
    stack_bidirectional_dynamic_rnn as stack_bidirectional_dynamic_rnn,
    stack_bidirectional_rnn as stack_bidirectional_rnn,
)

LSTMBlockCell = LSTMCell
"""The same numbers as `LSTMCell`, under the same names."""
GRUBlockCell = GRUCell
"""The same numbers as `GRUCell`, under the same names."""


def __getattr__(name: str) -> Any:
    raise missing("tf.contrib.rnn", name, globals())
