"""`tf.contrib.rnn`: cells, wrappers and loops."""

from __future__ import annotations

import sys
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
from unspool.tf1.rnn.contrib import (
    AttentionCellWrapper,
    BidirectionalGridLSTMCell,
    CompiledWrapper,
    Conv1DLSTMCell,
    Conv2DLSTMCell,
    Conv3DLSTMCell,
    ConvLSTMCell,
    CoupledInputForgetGateLSTMCell,
    GLSTMCell,
    GridLSTMCell,
    GRUBlockCell,
    GRUBlockCellV2,
    IntersectionRNNCell,
    LayerNormBasicLSTMCell,
    LayerRNNCell,
    LSTMBlockCell,
    NASCell,
    PhasedLSTMCell,
    TimeFreqLSTMCell,
    UGRNNCell,
)
from unspool.tf1.rnn.fused import (
    FusedRNNCell,
    FusedRNNCellAdaptor,
    LSTMBlockFusedCell,
    TimeReversedFusedRNN,
)
from unspool.tf1.rnn.loops import (
    static_bidirectional_rnn,
    static_rnn,
)
from unspool.tf1.rnn.stacks import (
    stack_bidirectional_dynamic_rnn,
    stack_bidirectional_rnn,
)

core_rnn_cell = sys.modules[__name__]
"""Where TensorFlow 1.0 and 1.1 had the cells."""

__all__ = [
    "AttentionCellWrapper",
    "BasicLSTMCell",
    "BasicRNNCell",
    "BidirectionalGridLSTMCell",
    "CompiledWrapper",
    "Conv1DLSTMCell",
    "Conv2DLSTMCell",
    "Conv3DLSTMCell",
    "ConvLSTMCell",
    "CoupledInputForgetGateLSTMCell",
    "DeviceWrapper",
    "DropoutWrapper",
    "EmbeddingWrapper",
    "FusedRNNCell",
    "FusedRNNCellAdaptor",
    "GLSTMCell",
    "GRUBlockCell",
    "GRUBlockCellV2",
    "GRUCell",
    "GridLSTMCell",
    "HighwayWrapper",
    "InputProjectionWrapper",
    "IntersectionRNNCell",
    "LSTMBlockCell",
    "LSTMBlockFusedCell",
    "LSTMCell",
    "LSTMStateTuple",
    "LayerNormBasicLSTMCell",
    "LayerRNNCell",
    "MultiRNNCell",
    "NASCell",
    "OutputProjectionWrapper",
    "PhasedLSTMCell",
    "RNNCell",
    "ResidualWrapper",
    "TimeFreqLSTMCell",
    "TimeReversedFusedRNN",
    "UGRNNCell",
    "core_rnn_cell",
    "stack_bidirectional_dynamic_rnn",
    "stack_bidirectional_rnn",
    "static_bidirectional_rnn",
    "static_rnn",
]


def __getattr__(name: str) -> Any:
    raise missing("tf.contrib.rnn", name, globals())
