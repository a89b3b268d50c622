"""`tensorflow.compat.v1` with the parts of `tf.contrib`, which is gone, that the programs use."""

from __future__ import annotations

from typing import Any

from conformance.on_tensorflow import tf1
from conformance.tf1_blocks_on_tensorflow import GRUBlockCell, LSTMBlockFusedCell


class OutputProjectionWrapper(tf1.nn.rnn_cell.RNNCell):
    """A dense layer on the outputs of a cell."""

    def __init__(self, cell: Any, output_size: int, activation: Any = None, reuse: bool | None = None) -> None:
        super().__init__(_reuse=reuse)
        self._cell, self._output_size, self._activation = cell, output_size, activation

    @property
    def state_size(self) -> Any:
        """The cell's."""
        return self._cell.state_size

    @property
    def output_size(self) -> int:
        """The size of the projection."""
        return self._output_size

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """The cell's."""
        return self._cell.zero_state(batch_size, dtype)

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """Projects what the cell gives."""
        output, state = self._cell(inputs, state)
        kernel = tf1.get_variable("kernel", [output.shape[-1], self._output_size])
        bias = tf1.get_variable("bias", [self._output_size], initializer=tf1.zeros_initializer())
        projected = tf1.nn.bias_add(tf1.matmul(output, kernel), bias)
        return projected if self._activation is None else self._activation(projected), state


def fully_connected(inputs: Any, num_outputs: int, activation_fn: Any = tf1.nn.relu, scope: Any = None) -> Any:
    """A dense layer with contrib's names and its default activation."""
    with tf1.variable_scope(scope, "fully_connected"):
        weights = tf1.get_variable("weights", [inputs.shape[-1], num_outputs])
        biases = tf1.get_variable("biases", [num_outputs], initializer=tf1.zeros_initializer())
        outputs = tf1.nn.bias_add(tf1.matmul(inputs, weights), biases)
        return outputs if activation_fn is None else activation_fn(outputs)


def sequence_loss(logits: Any, targets: Any, weights: Any) -> Any:
    """The weighted cross entropy of all steps, over the sum of the weights."""
    xentropy = tf1.nn.sparse_softmax_cross_entropy_with_logits(labels=targets, logits=logits)
    return tf1.reduce_sum(xentropy * weights) / (tf1.reduce_sum(weights) + 1e-12)


class _Namespace:
    """The attributes of a module, and some more."""

    def __init__(self, module: Any, **more: Any) -> None:
        self.__dict__.update(more)
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


tf = _Namespace(
    tf1,
    contrib=_Namespace(
        None,
        rnn=_Namespace(
            tf1.nn.rnn_cell,
            OutputProjectionWrapper=OutputProjectionWrapper,
            GRUBlockCell=GRUBlockCell,
            LSTMBlockFusedCell=LSTMBlockFusedCell,
        ),
        layers=_Namespace(None, fully_connected=fully_connected),
        seq2seq=_Namespace(None, sequence_loss=sequence_loss),
    ),
)
