"""`tf.nn`: activations, losses on logits, and recurrent loops."""

from __future__ import annotations

import unspool
from unspool.tf1.namespace import Namespace
from unspool.tf1.ops import math, nn
from unspool.tf1.rnn import cells, loops
from unspool.tf1.rnn.cell import RNNCell
from unspool.tf1.rnn.raw import raw_rnn

rnn_cell = Namespace(
    "tf.nn.rnn_cell",
    RNNCell=RNNCell,
    BasicRNNCell=cells.BasicRNNCell,
    GRUCell=cells.GRUCell,
    BasicLSTMCell=cells.BasicLSTMCell,
    LSTMCell=cells.LSTMCell,
    LSTMStateTuple=unspool.LSTMStateTuple,
    MultiRNNCell=cells.MultiRNNCell,
    DropoutWrapper=cells.DropoutWrapper,
    ResidualWrapper=cells.ResidualWrapper,
    DeviceWrapper=cells.DeviceWrapper,
)
"""`tf.nn.rnn_cell`."""

NN = Namespace(
    "tf.nn",
    **{
        name: value
        for name, value in vars(nn).items()
        if callable(value) and getattr(value, "__module__", "").startswith("unspool.tf1.ops")
    },
    sigmoid=math.sigmoid,
    tanh=math.tanh,
    log_sigmoid=math.log_sigmoid,
    rnn_cell=rnn_cell,
    dynamic_rnn=loops.dynamic_rnn,
    bidirectional_dynamic_rnn=loops.bidirectional_dynamic_rnn,
    static_rnn=loops.static_rnn,
    static_bidirectional_rnn=loops.static_bidirectional_rnn,
    raw_rnn=raw_rnn,
)
