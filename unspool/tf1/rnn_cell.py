"""`tf.nn.rnn_cell`: cells and wrappers."""

from __future__ import annotations

from typing import Any

from unspool.cells.lstm import LSTMStateTuple as LSTMStateTuple
from unspool.tf1.namespace import missing
from unspool.tf1.rnn.cell import RNNCell as RNNCell
from unspool.tf1.rnn.cells import (
    BasicLSTMCell as BasicLSTMCell,
)
from unspool.tf1.rnn.cells import (
    BasicRNNCell as BasicRNNCell,
)
from unspool.tf1.rnn.cells import (
    DeviceWrapper as DeviceWrapper,
)
from unspool.tf1.rnn.cells import (
    DropoutWrapper as DropoutWrapper,
)
from unspool.tf1.rnn.cells import (
    GRUCell as GRUCell,
)
from unspool.tf1.rnn.cells import (
    LSTMCell as LSTMCell,
)
from unspool.tf1.rnn.cells import (
    MultiRNNCell as MultiRNNCell,
)
from unspool.tf1.rnn.cells import (
    ResidualWrapper as ResidualWrapper,
)


def __getattr__(name: str) -> Any:
    raise missing("tf.nn.rnn_cell", name, globals())
