"""`tf.contrib.rnn`: cells, wrappers and loops."""

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
    EmbeddingWrapper as EmbeddingWrapper,
)
from unspool.tf1.rnn.cells import (
    GRUCell as GRUCell,
)
from unspool.tf1.rnn.cells import (
    HighwayWrapper as HighwayWrapper,
)
from unspool.tf1.rnn.cells import (
    InputProjectionWrapper as InputProjectionWrapper,
)
from unspool.tf1.rnn.cells import (
    LSTMCell as LSTMCell,
)
from unspool.tf1.rnn.cells import (
    MultiRNNCell as MultiRNNCell,
)
from unspool.tf1.rnn.cells import (
    OutputProjectionWrapper as OutputProjectionWrapper,
)
from unspool.tf1.rnn.cells import (
    ResidualWrapper as ResidualWrapper,
)
from unspool.tf1.rnn.loops import (
    static_bidirectional_rnn as static_bidirectional_rnn,
)
from unspool.tf1.rnn.loops import (
    static_rnn as static_rnn,
)
from unspool.tf1.rnn.stacks import (
    stack_bidirectional_dynamic_rnn as stack_bidirectional_dynamic_rnn,
)
from unspool.tf1.rnn.stacks import (
    stack_bidirectional_rnn as stack_bidirectional_rnn,
)

LSTMBlockCell = LSTMCell
"""The same numbers as `LSTMCell`, under the same names."""
GRUBlockCell = GRUCell
"""The same numbers as `GRUCell`, under the same names."""


def __getattr__(name: str) -> Any:
    raise missing("tf.contrib.rnn", name, globals())
