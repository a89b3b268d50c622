"""The cells of `tf.contrib.rnn` and `tf.contrib.cudnn_rnn`: those of `unspool.gallery.contrib`, in the graph."""

from __future__ import annotations

from typing import Any

from unspool.cells.wrappers.wrapper import RNNCellWrapper
from unspool.flags import checks_flags
from unspool.gallery import contrib
from unspool.structure import map_structure
from unspool.tf1.rnn.cell import LayerCell, ModuleCell, RNNCell
from unspool.tf1.shapes import TensorShape


class UGRNNCell(ModuleCell):
    """`unspool.gallery.UGRNNCell` in the graph.

    >>> from unspool import tf1 as tf
    >>> output, state = tf.contrib.rnn.UGRNNCell(4)(tf.zeros([2, 3]), tf.zeros([2, 4]))
    >>> output.shape, tf.trainable_variables()[0].name
    (TensorShape([2, 4]), 'ugrnn_cell/kernel:0')
    """

    kind = contrib.UGRNNCell


class IntersectionRNNCell(ModuleCell):
    """`unspool.gallery.IntersectionRNNCell` in the graph."""

    kind = contrib.IntersectionRNNCell


class NASCell(LayerCell):
    """`unspool.gallery.NASCell` in the graph."""

    kind = contrib.NASCell


class GLSTMCell(ModuleCell):
    """`unspool.gallery.GLSTMCell` in the graph."""

    kind = contrib.GLSTMCell


class CoupledInputForgetGateLSTMCell(ModuleCell):
    """`unspool.gallery.CoupledInputForgetGateLSTMCell` in the graph."""

    kind = contrib.CoupledInputForgetGateLSTMCell


class GridLSTMCell(ModuleCell):
    """`unspool.gallery.GridLSTMCell` in the graph."""

    kind = contrib.GridLSTMCell


class BidirectionalGridLSTMCell(ModuleCell):
    """`unspool.gallery.BidirectionalGridLSTMCell` in the graph."""

    kind = contrib.BidirectionalGridLSTMCell


class TimeFreqLSTMCell(ModuleCell):
    """`unspool.gallery.TimeFreqLSTMCell` in the graph."""

    kind = contrib.TimeFreqLSTMCell


class AttentionCellWrapper(ModuleCell):
    """`unspool.gallery.AttentionCellWrapper` in the graph."""

    kind = contrib.AttentionCellWrapper

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """Zeros of its own state, of which the cell's is a part."""
        return RNNCell.zero_state(self, batch_size, dtype)


class LSTMBlockCell(LayerCell):
    """`unspool.gallery.LSTMBlockCell` in the graph."""

    kind = contrib.LSTMBlockCell


class GRUBlockCell(LayerCell):
    """`unspool.gallery.GRUBlockCell` in the graph."""

    kind = contrib.GRUBlockCell


class GRUBlockCellV2(LayerCell):
    """`unspool.gallery.GRUBlockCellV2` in the graph."""

    kind = contrib.GRUBlockCellV2


class CudnnCompatibleLSTMCell(LayerCell):
    """`unspool.gallery.CudnnCompatibleLSTMCell` in the graph."""

    kind = contrib.CudnnCompatibleLSTMCell


class CudnnCompatibleGRUCell(LayerCell):
    """`unspool.gallery.CudnnCompatibleGRUCell` in the graph."""

    kind = contrib.CudnnCompatibleGRUCell


class LayerNormBasicLSTMCell(ModuleCell):
    """`unspool.gallery.LayerNormBasicLSTMCell` in the graph; the keep probability may be a placeholder."""

    kind = contrib.LayerNormBasicLSTMCell

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        input_size: Any = None,
        activation: Any = None,
        layer_norm: bool = True,
        norm_gain: float = 1.0,
        norm_shift: float = 0.0,
        dropout_keep_prob: Any = 1.0,
        dropout_prob_seed: int | None = None,
        reuse: Any = None,
    ) -> None:
        super().__init__(  # without the input size, which TensorFlow does not use
            num_units,
            forget_bias,
            None,
            activation,
            layer_norm,
            norm_gain,
            norm_shift,
            dropout_keep_prob,
            dropout_prob_seed,
            reuse,
        )


class PhasedLSTMCell(ModuleCell):
    """`unspool.gallery.contrib.PhasedLSTMCell` in the graph; its inputs are `(time, x)`."""

    kind = contrib.PhasedLSTMCell

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"dtype": "float32", **kwargs})  # whatever that of the time is


class ConvLSTMCell(ModuleCell):
    """`unspool.gallery.contrib.ConvLSTMCell` in the graph.

    >>> from unspool import tf1 as tf
    >>> cell = tf.contrib.rnn.ConvLSTMCell(2, [4, 5, 1], 3, [3, 3])
    >>> outputs, state = tf.nn.dynamic_rnn(cell, tf.placeholder(tf.float32, [None, 7, 4, 5, 1]), dtype=tf.float32)
    >>> outputs.shape, cell.output_size
    (TensorShape([None, 7, 4, 5, 3]), TensorShape([4, 5, 3]))
    """

    kind = contrib.ConvLSTMCell

    @property
    def state_size(self) -> Any:
        """The shapes of memory and output."""
        return map_structure(TensorShape, self.module.state_size)

    @property
    def output_size(self) -> Any:
        """The shape of an output."""
        return TensorShape(self.module.output_size)


class Conv1DLSTMCell(ConvLSTMCell):
    """`unspool.gallery.Conv1DLSTMCell` in the graph."""

    kind = contrib.Conv1DLSTMCell


class Conv2DLSTMCell(ConvLSTMCell):
    """`unspool.gallery.Conv2DLSTMCell` in the graph."""

    kind = contrib.Conv2DLSTMCell


class Conv3DLSTMCell(ConvLSTMCell):
    """`unspool.gallery.Conv3DLSTMCell` in the graph."""

    kind = contrib.Conv3DLSTMCell


class Compiled(RNNCellWrapper):
    """The cell itself: what can be compiled is compiled anyway."""

    @checks_flags
    def __init__(self, cell: Any, compile_stateful: bool = False) -> None:
        super().__init__(cell)
        self.compile_stateful = compile_stateful


class CompiledWrapper(LayerCell):
    """A cell that TensorFlow would compile by XLA. Here it runs as any other cell, compiled where it can be.

    >>> from unspool import tf1 as tf
    >>> cell = tf.contrib.rnn.CompiledWrapper(tf.nn.rnn_cell.GRUCell(4))
    >>> cell(tf.zeros([2, 3]), tf.zeros([2, 4]))[0].shape
    TensorShape([2, 4])
    """

    kind = Compiled


class LayerRNNCell(RNNCell):
    """A cell of one's own that makes its variables in `build`, by `add_variable`."""

    _numbered = True
