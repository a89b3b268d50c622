"""unspool runs any recurrent cell through time: TensorFlow 1's RNN system, rebuilt for PyTorch."""

from unspool import data as data
from unspool import nn
from unspool.cells.adapter import cell
from unspool.cells.basic import BasicRNNCell
from unspool.cells.cell import RNNCell
from unspool.cells.gru import GRUCell
from unspool.cells.lstm import BasicLSTMCell, LSTMCell, LSTMStateTuple
from unspool.cells.stack import MultiRNNCell
from unspool.cells.wrappers.device import DeviceWrapper
from unspool.cells.wrappers.dropout import DropoutWrapper
from unspool.cells.wrappers.embedding import EmbeddingWrapper
from unspool.cells.wrappers.highway import HighwayWrapper
from unspool.cells.wrappers.projection import InputProjectionWrapper, OutputProjectionWrapper
from unspool.cells.wrappers.residual import ResidualWrapper
from unspool.cells.wrappers.wrapper import RNNCellWrapper
from unspool.checkpoints.bundle import load_tf1_checkpoint
from unspool.checkpoints.errors import CheckpointError, WeightsMismatchError
from unspool.checkpoints.weights import load_tf1_weights
from unspool.checkpoints.write import save_tf1_checkpoint
from unspool.decode import (
    DEFAULT_BOUND,
    AttentionMechanism,
    AttentionWrapper,
    AttentionWrapperState,
    BahdanauAttention,
    BahdanauMonotonicAttention,
    BasicDecoder,
    BasicDecoderOutput,
    BeamSearchDecoder,
    BeamSearchDecoderOutput,
    BeamSearchDecoderState,
    CustomHelper,
    Decoder,
    FinalBeamSearchDecoderOutput,
    GreedyEmbeddingHelper,
    Helper,
    InferenceHelper,
    LuongAttention,
    LuongMonotonicAttention,
    NBest,
    SampleEmbeddingHelper,
    ScheduledEmbeddingTrainingHelper,
    ScheduledOutputTrainingHelper,
    SequenceLoss,
    Stream,
    StreamPosition,
    TrainingHelper,
    dynamic_decode,
    gather_tree,
    gather_tree_from_array,
    monotonic_attention,
    safe_cumprod,
    sequence_loss,
    sequence_mask,
    stream,
    tile_batch,
)
from unspool.engine import Checkpoint, Keep, PerformanceWarning, Reason, Recompute, StrictError, strict
from unspool.interop import tf_variables
from unspool.layers.rnn import RNN
from unspool.layers.stack import Stack
from unspool.loops.bidirectional_dynamic import bidirectional_dynamic_rnn
from unspool.loops.dynamic import dynamic_rnn
from unspool.loops.explain import explain
from unspool.loops.raw import raw_rnn
from unspool.loops.stack_bidirectional import stack_bidirectional_rnn
from unspool.loops.stack_bidirectional_dynamic import stack_bidirectional_dynamic_rnn
from unspool.loops.state_saving import static_state_saving_rnn
from unspool.loops.static import static_rnn
from unspool.loops.static_bidirectional import static_bidirectional_rnn
from unspool.loops.step_index import StepIndex
from unspool.nn.replace import Replaced, replace_
from unspool.tensor_array import TensorArray

__version__ = "0.1.0"

__all__ = [
    "DEFAULT_BOUND",
    "RNN",
    "AttentionMechanism",
    "AttentionWrapper",
    "AttentionWrapperState",
    "BahdanauAttention",
    "BahdanauMonotonicAttention",
    "BasicDecoder",
    "BasicDecoderOutput",
    "BasicLSTMCell",
    "BasicRNNCell",
    "BeamSearchDecoder",
    "BeamSearchDecoderOutput",
    "BeamSearchDecoderState",
    "Checkpoint",
    "CheckpointError",
    "CustomHelper",
    "Decoder",
    "DeviceWrapper",
    "DropoutWrapper",
    "EmbeddingWrapper",
    "FinalBeamSearchDecoderOutput",
    "GRUCell",
    "GreedyEmbeddingHelper",
    "Helper",
    "HighwayWrapper",
    "InferenceHelper",
    "InputProjectionWrapper",
    "Keep",
    "LSTMCell",
    "LSTMStateTuple",
    "LuongAttention",
    "LuongMonotonicAttention",
    "MultiRNNCell",
    "NBest",
    "OutputProjectionWrapper",
    "PerformanceWarning",
    "RNNCell",
    "RNNCellWrapper",
    "Reason",
    "Recompute",
    "Replaced",
    "ResidualWrapper",
    "SampleEmbeddingHelper",
    "ScheduledEmbeddingTrainingHelper",
    "ScheduledOutputTrainingHelper",
    "SequenceLoss",
    "Stack",
    "StepIndex",
    "Stream",
    "StreamPosition",
    "StrictError",
    "TensorArray",
    "TrainingHelper",
    "WeightsMismatchError",
    "bidirectional_dynamic_rnn",
    "cell",
    "dynamic_decode",
    "dynamic_rnn",
    "explain",
    "gather_tree",
    "gather_tree_from_array",
    "load_tf1_checkpoint",
    "load_tf1_weights",
    "monotonic_attention",
    "nn",
    "raw_rnn",
    "replace_",
    "safe_cumprod",
    "save_tf1_checkpoint",
    "sequence_loss",
    "sequence_mask",
    "stack_bidirectional_dynamic_rnn",
    "stack_bidirectional_rnn",
    "static_bidirectional_rnn",
    "static_rnn",
    "static_state_saving_rnn",
    "stream",
    "strict",
    "tf_variables",
    "tile_batch",
]
