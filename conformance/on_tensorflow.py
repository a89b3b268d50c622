"""TensorFlow as a `Library`: its loops in graph mode, and cells of our own as its users write them."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from conformance.library import StateSaver
from conformance.structures import pack

os.environ["TF_USE_LEGACY_KERAS"] = "1"  # Keras 3 has none of these cells
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
warnings.filterwarnings("ignore")  # every one of these functions says that it is deprecated

import tensorflow as tf  # noqa: E402

tf1 = tf.compat.v1
tf1.logging.set_verbosity("ERROR")
tf1.disable_v2_behavior()


class TensorFlow:
    """`Library` for TensorFlow."""

    cpu = "/cpu:0"

    def loop(self, name: str) -> Callable[..., Any]:
        """The loop of that name; the stacks, which went with contrib, are composed from what they were made of."""
        return _STACKS.get(name) or getattr(tf1.nn, name)

    def cell(self, kind: str) -> Callable[..., Any]:
        """The cell class of that name."""
        return _CELLS.get(kind) or getattr(tf1.nn.rnn_cell, kind)

    def activation(self, name: str) -> Callable[[Any], Any]:
        """The function of that name in tf.nn."""
        return getattr(tf.nn, name)

    def keep_all(self, dtype: str) -> Any:
        """A keep probability of 1 that is known only at run time."""
        return tf1.placeholder_with_default(tf.constant(1.0, dtype), [])

    def flatten(self, structure: Any) -> list[Any]:
        """The leaves of a structure."""
        return tf.nest.flatten(structure)

    def pack_as(self, structure: Any, leaves: Sequence[Any]) -> Any:
        """The leaves in the containers of a structure."""
        return tf.nest.pack_sequence_as(structure, leaves)

    def stack(self, tensors: Sequence[Any], axis: int) -> Any:
        """Tensors along a new axis."""
        return tf.stack(tensors, axis)

    def unstack(self, tensor: Any, axis: int) -> Sequence[Any]:
        """A tensor's slices along an axis."""
        return tf.unstack(tensor, axis=axis)

    def at(self, tensor: Any, index: Any) -> Any:
        """`tensor[index]`, or its last element where the index is past the end."""
        return tensor[tf.minimum(index, int(tensor.shape[0]) - 1)]

    def sum_of_rows(self, tensor: Any) -> Any:
        """The sum of each row of a matrix."""
        return tf.reduce_sum(tensor, 1)

    def constant(self, values: Any, dtype: str) -> Any:
        """A tensor of these values."""
        return tf.constant(values, dtype)

    def is_floating(self, tensor: Any) -> bool:
        """Whether a tensor can have a gradient."""
        return tensor.dtype.is_floating

    def tensor_array(self, dtype: str) -> Any:
        """An empty TensorArray that grows."""
        return tf.TensorArray(dtype, size=0, dynamic_size=True)

    def state_saver(self, states: dict[str, Any]) -> _StateSaver:
        """A state saver that starts from `states`; what it is given it keeps in `saved`, by name."""
        return _StateSaver(states)


class _StateSaver(StateSaver):
    def save_state(self, name: str, value: Any) -> Any:
        # In no collection, so that it is not taken for one of the cell's variables.
        self.saved[name] = tf1.Variable(tf.zeros_like(value), trainable=False, collections=[], name=name)
        return tf1.assign(self.saved[name], value)


# -- contrib's stacks ------------------------------------------------------------------------------------------------


def _layers(cells_fw: list[Any], cells_bw: list[Any], states_fw: Any, states_bw: Any, scope: Any) -> Any:
    nothing = [None] * len(cells_fw)
    with tf1.variable_scope(scope or "stack_bidirectional_rnn"):
        for k, layer in enumerate(zip(cells_fw, cells_bw, states_fw or nothing, states_bw or nothing, strict=True)):
            with tf1.variable_scope(f"cell_{k}") as layer_scope:
                yield layer_scope, *layer


def _stack_bidirectional_dynamic_rnn(
    cells_fw: list[Any],
    cells_bw: list[Any],
    inputs: Any,
    initial_states_fw: Any = None,
    initial_states_bw: Any = None,
    scope: Any = None,
    **options: Any,
) -> Any:
    all_states: list[Any] = []
    for _, cell_fw, cell_bw, start_fw, start_bw in _layers(
        cells_fw, cells_bw, initial_states_fw, initial_states_bw, scope
    ):
        outputs, states = tf1.nn.bidirectional_dynamic_rnn(
            cell_fw, cell_bw, inputs, initial_state_fw=start_fw, initial_state_bw=start_bw, **options
        )
        inputs = tf.concat(outputs, 2)
        all_states.append(states)
    return inputs, *zip(*all_states, strict=True)


def _stack_bidirectional_rnn(
    cells_fw: list[Any],
    cells_bw: list[Any],
    inputs: Any,
    initial_states_fw: Any = None,
    initial_states_bw: Any = None,
    scope: Any = None,
    **options: Any,
) -> Any:
    all_states: list[Any] = []
    for layer_scope, cell_fw, cell_bw, start_fw, start_bw in _layers(
        cells_fw, cells_bw, initial_states_fw, initial_states_bw, scope
    ):
        # Handing over the scope itself, not its name, adds no level to the names.
        inputs, *states = tf1.nn.static_bidirectional_rnn(
            cell_fw,
            cell_bw,
            inputs,
            initial_state_fw=start_fw,
            initial_state_bw=start_bw,
            scope=layer_scope,
            **options,
        )
        all_states.append(states)
    return inputs, *zip(*all_states, strict=True)


_STACKS: dict[str, Callable[..., Any]] = {
    "stack_bidirectional_dynamic_rnn": _stack_bidirectional_dynamic_rnn,
    "stack_bidirectional_rnn": _stack_bidirectional_rnn,
}

# -- cells of our own; `on_unspool.py` has their twins ---------------------------------------------------------------


class NestedCell(tf1.nn.rnn_cell.RNNCell):
    """A cell with three inputs, of rank 2, rank 3 and integers, two states and one or two outputs.

    h' = tanh(matrix @ w + h @ u + table[tokens])
    s' = s / 2 + tanh(einsum("bdk,dn->bnk", cube, w)) * h'
    """

    def __init__(self, num_units: int, outputs: str, states: str, name: str | None = None) -> None:
        super().__init__(name=name)
        self._units, self._outputs, self._states = num_units, outputs, states

    @property
    def state_size(self) -> Any:
        """A vector and a matrix."""
        return pack(self._states, [self._units, tf.TensorShape([self._units, 2])])

    @property
    def output_size(self) -> Any:
        """The vector, or as the state."""
        sizes = [self._units, tf.TensorShape([self._units, 2])]
        return pack(self._outputs, sizes[:1] if self._outputs == "leaf" else sizes)

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """One step."""
        (matrix, cube, tokens), (h, s) = tf.nest.flatten(inputs), tf.nest.flatten(state)
        w = tf1.get_variable("w", [int(matrix.shape[1]), self._units], matrix.dtype)
        u = tf1.get_variable("u", [self._units, self._units], matrix.dtype)
        table = tf1.get_variable("table", [3, self._units], matrix.dtype)
        h = tf.tanh(matrix @ w + h @ u + tf.gather(table, tokens[:, 0]))
        s = s / 2 + tf.tanh(tf.einsum("bdk,dn->bnk", cube, w)) * h[:, :, None]
        output = [h] if self._outputs == "leaf" else [h, s]
        return pack(self._outputs, output), pack(self._states, [h, s])


class CountingCell(tf1.nn.rnn_cell.RNNCell):
    """A cell whose state has several dtypes and ranks: a vector, an integer a row, and an integer for the whole batch.

    h' = tanh(x @ kernel + h / 2 + cos(count)); the row's count and the batch's clock go up by one.
    """

    def __init__(self, num_units: int, name: str | None = None) -> None:
        super().__init__(name=name)
        self._units = num_units

    @property
    def state_size(self) -> Any:
        """A vector and two scalars; the last has no batch dimension, which no size can say."""
        return (self._units, tf.TensorShape([]), tf.TensorShape([]))

    @property
    def output_size(self) -> int:
        """The width of h."""
        return self._units

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """Zeros, each in its own dtype."""
        return tf.zeros([batch_size, self._units], dtype), tf.zeros([batch_size], tf.int32), tf.zeros([], tf.int32)

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """One step."""
        h, count, clock = state
        kernel = tf1.get_variable("kernel", [int(inputs.shape[1]), self._units], inputs.dtype)
        h = tf.tanh(inputs @ kernel + h / 2 + tf.cos(tf.cast(count, h.dtype))[:, None])
        return h, (h, count + 1, clock + 1)


_CELLS: dict[str, Callable[..., Any]] = {"NestedCell": NestedCell, "CountingCell": CountingCell}
