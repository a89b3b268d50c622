"""The cells of TensorFlow's `tf.contrib.rnn` and `tf.contrib.cudnn_rnn`, with its arguments, names and layouts.

`unspool.tf1` has the same classes in its graph. `ConvLSTMCell` and `PhasedLSTMCell` have TensorFlow's form here, and
that of their papers in `unspool.gallery`.
"""

from unspool.gallery.contrib.attention import AttentionCellWrapper
from unspool.gallery.contrib.blocks import (
    CudnnCompatibleGRUCell,
    CudnnCompatibleLSTMCell,
    GRUBlockCell,
    GRUBlockCellV2,
    LSTMBlockCell,
)
from unspool.gallery.contrib.coupled import CoupledInputForgetGateLSTMCell, LayerNormBasicLSTMCell
from unspool.gallery.contrib.frequency import TimeFreqLSTMCell
from unspool.gallery.contrib.gates import GLSTMCell, IntersectionRNNCell, NASCell, UGRNNCell
from unspool.gallery.contrib.grid import BidirectionalGridLSTMCell, GridLSTMCell
from unspool.gallery.contrib.images import Conv1DLSTMCell, Conv2DLSTMCell, Conv3DLSTMCell, ConvLSTMCell
from unspool.gallery.contrib.phased import PhasedLSTMCell

__all__ = [
    "AttentionCellWrapper",
    "BidirectionalGridLSTMCell",
    "Conv1DLSTMCell",
    "Conv2DLSTMCell",
    "Conv3DLSTMCell",
    "ConvLSTMCell",
    "CoupledInputForgetGateLSTMCell",
    "CudnnCompatibleGRUCell",
    "CudnnCompatibleLSTMCell",
    "GLSTMCell",
    "GRUBlockCell",
    "GRUBlockCellV2",
    "GridLSTMCell",
    "IntersectionRNNCell",
    "LSTMBlockCell",
    "LayerNormBasicLSTMCell",
    "NASCell",
    "PhasedLSTMCell",
    "TimeFreqLSTMCell",
    "UGRNNCell",
]
