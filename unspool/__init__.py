"""unspool runs any recurrent cell through time: TensorFlow 1's RNN system, rebuilt for PyTorch."""

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
from unspool.engine import Checkpoint, Keep, Recompute
from unspool.interop import tf_variables
from unspool.loops.bidirectional_dynamic import bidirectional_dynamic_rnn
from unspool.loops.dynamic import dynamic_rnn
from unspool.loops.explain import explain
from unspool.loops.raw import raw_rnn
from unspool.loops.stack_bidirectional import stack_bidirectional_rnn
from unspool.loops.stack_bidirectional_dynamic import stack_bidirectional_dynamic_rnn
from unspool.loops.state_saving import static_state_saving_rnn
from unspool.loops.static import static_rnn
from unspool.loops.static_bidirectional import static_bidirectional_rnn
from unspool.tensor_array import TensorArray

__version__ = "0.1.0"

__all__ = [
    "BasicLSTMCell",
    "BasicRNNCell",
    "Checkpoint",
    "DeviceWrapper",
    "DropoutWrapper",
    "EmbeddingWrapper",
    "GRUCell",
    "HighwayWrapper",
    "InputProjectionWrapper",
    "Keep",
    "LSTMCell",
    "LSTMStateTuple",
    "MultiRNNCell",
    "OutputProjectionWrapper",
    "RNNCell",
    "RNNCellWrapper",
    "Recompute",
    "ResidualWrapper",
    "TensorArray",
    "bidirectional_dynamic_rnn",
    "dynamic_rnn",
    "explain",
    "raw_rnn",
    "stack_bidirectional_dynamic_rnn",
    "stack_bidirectional_rnn",
    "static_bidirectional_rnn",
    "static_rnn",
    "static_state_saving_rnn",
    "tf_variables",
]
