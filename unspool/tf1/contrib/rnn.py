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
from unspool.tf1.rnn.contrib import (
    AttentionCellWrapper as AttentionCellWrapper,
)
from unspool.tf1.rnn.contrib import (
    BidirectionalGridLSTMCell as BidirectionalGridLSTMCell,
)
from unspool.tf1.rnn.contrib import (
    CompiledWrapper as CompiledWrapper,
)
from unspool.tf1.rnn.contrib import (
    Conv1DLSTMCell as Conv1DLSTMCell,
)
from unspool.tf1.rnn.contrib import (
    Conv2DLSTMCell as Conv2DLSTMCell,
)
from unspool.tf1.rnn.contrib import (
    Conv3DLSTMCell as Conv3DLSTMCell,
)
from unspool.tf1.rnn.contrib import (
    ConvLSTMCell as ConvLSTMCell,
)
from unspool.tf1.rnn.contrib import (
    CoupledInputForgetGateLSTMCell as CoupledInputForgetGateLSTMCell,
)
from unspool.tf1.rnn.contrib import (
    GLSTMCell as GLSTMCell,
)
from unspool.tf1.rnn.contrib import (
    GridLSTMCell as GridLSTMCell,
)
from unspool.tf1.rnn.contrib import (
    GRUBlockCell as GRUBlockCell,
)
from unspool.tf1.rnn.contrib import (
    GRUBlockCellV2 as GRUBlockCellV2,
)
from unspool.tf1.rnn.contrib import (
    IntersectionRNNCell as IntersectionRNNCell,
)
from unspool.tf1.rnn.contrib import (
    LayerNormBasicLSTMCell as LayerNormBasicLSTMCell,
)
from unspool.tf1.rnn.contrib import (
    LayerRNNCell as LayerRNNCell,
)
from unspool.tf1.rnn.contrib import (
    LSTMBlockCell as LSTMBlockCell,
)
from unspool.tf1.rnn.contrib import (
    NASCell as NASCell,
)
from unspool.tf1.rnn.contrib import (
    PhasedLSTMCell as PhasedLSTMCell,
)
from unspool.tf1.rnn.contrib import (
    TimeFreqLSTMCell as TimeFreqLSTMCell,
)
from unspool.tf1.rnn.contrib import (
    UGRNNCell as UGRNNCell,
)
from unspool.tf1.rnn.fused import (
    FusedRNNCell as FusedRNNCell,
)
from unspool.tf1.rnn.fused import (
    FusedRNNCellAdaptor as FusedRNNCellAdaptor,
)
from unspool.tf1.rnn.fused import (
    LSTMBlockFusedCell as LSTMBlockFusedCell,
)
from unspool.tf1.rnn.fused import (
    TimeReversedFusedRNN as TimeReversedFusedRNN,
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


def __getattr__(name: str) -> Any:
    raise missing("tf.contrib.rnn", name, globals())
