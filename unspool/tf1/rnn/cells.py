"""The cells of `tf.nn.rnn_cell` and `tf.contrib.rnn`: unspool's, in the graph."""

from __future__ import annotations

from typing import Any

import unspool
from unspool.cells.wrappers.wrapper import RNNCellWrapper
from unspool.structure import Structure
from unspool.tf1.rnn.cell import LayerCell, ModuleCell


class BasicRNNCell(LayerCell):
    """`unspool.BasicRNNCell` in the graph.

    >>> from unspool import tf1 as tf
    >>> output, state = tf.nn.rnn_cell.BasicRNNCell(4)(tf.zeros([2, 3]), tf.zeros([2, 4]))
    >>> output.shape, tf.trainable_variables()[0].name
    (TensorShape([2, 4]), 'basic_rnn_cell/kernel:0')
    """

    kind = unspool.BasicRNNCell


class GRUCell(LayerCell):
    """`unspool.GRUCell` in the graph."""

    kind = unspool.GRUCell


class BasicLSTMCell(LayerCell):
    """`unspool.BasicLSTMCell` in the graph."""

    kind = unspool.BasicLSTMCell


class LSTMCell(LayerCell):
    """`unspool.LSTMCell` in the graph."""

    kind = unspool.LSTMCell


class MultiRNNCell(ModuleCell):
    """`unspool.MultiRNNCell` in the graph."""

    kind = unspool.MultiRNNCell

    def __init__(self, cells: Any, state_is_tuple: bool = True) -> None:
        super().__init__(cells, state_is_tuple)
        self._cells: list[Any] = list(cells)

    def zero_state(self, batch_size: Any, dtype: Any) -> Structure:
        """A tuple of each cell's own zero state, or one tensor of zeros."""
        if not self.module.state_is_tuple:
            return super().zero_state(batch_size, dtype)
        return tuple(cell.zero_state(batch_size, dtype) for cell in self._cells)


class WrapperCell(ModuleCell):
    """A cell around one whose state is its own, in the scope that the cell inside has."""

    _numbered = True

    def __init__(self, cell: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(cell, *args, **kwargs)
        self._cell = cell

    def zero_state(self, batch_size: Any, dtype: Any) -> Structure:
        """That of the cell inside."""
        return self._cell.zero_state(batch_size, dtype)


class DropoutWrapper(WrapperCell):
    """`unspool.DropoutWrapper` in the graph; a keep probability may be a placeholder."""

    kind = unspool.DropoutWrapper


class ResidualWrapper(WrapperCell):
    """`unspool.ResidualWrapper` in the graph."""

    kind = unspool.ResidualWrapper


class Unplaced(RNNCellWrapper):
    """A cell around a cell that takes a device."""

    def __init__(self, cell: Any, device: Any) -> None:
        super().__init__(cell)
        self.device, self.name = device, "device_wrapper"


class DeviceWrapper(WrapperCell):
    """A cell with a device, which is accepted and ignored, as `tf.device` is.

    >>> from unspool import tf1 as tf
    >>> cell = tf.contrib.rnn.DeviceWrapper(tf.contrib.rnn.GRUCell(4), "/gpu:0")
    >>> tf.nn.dynamic_rnn(cell, tf.zeros([2, 5, 3]), dtype=tf.float32)[0].shape
    TensorShape([2, 5, 4])
    """

    kind = Unplaced


class InputProjectionWrapper(WrapperCell):
    """`unspool.InputProjectionWrapper` in the graph."""

    kind = unspool.InputProjectionWrapper
    _numbered = False


class OutputProjectionWrapper(WrapperCell):
    """`unspool.OutputProjectionWrapper` in the graph."""

    kind = unspool.OutputProjectionWrapper
    _numbered = False


class EmbeddingWrapper(WrapperCell):
    """`unspool.EmbeddingWrapper` in the graph."""

    kind = unspool.EmbeddingWrapper
    _numbered = False


class HighwayWrapper(WrapperCell):
    """`unspool.HighwayWrapper` in the graph."""

    kind = unspool.HighwayWrapper
