"""Cells that run over whole sequences, time first: `tf.contrib.rnn`'s fused cells."""

from __future__ import annotations

from typing import Any

from unspool.flags import checks_flags
from unspool.structure import Structure, map_structure
from unspool.tf1.operations import as_tensor
from unspool.tf1.ops.joining import reverse, reverse_sequence, stack, unstack
from unspool.tf1.rnn.contrib import LSTMBlockCell
from unspool.tf1.rnn.loops import dynamic_rnn, loop, static_rnn
from unspool.tf1.scopes import variable_scope
from unspool.tf1.shapes import described


class FusedRNNCell:
    """What runs over whole sequences: a subclass defines the call.

    >>> from unspool import tf1 as tf
    >>> lstm = tf.contrib.rnn.LSTMBlockFusedCell(4)
    >>> outputs, state = lstm(tf.zeros([5, 2, 3]), dtype=tf.float32)
    >>> isinstance(lstm, tf.contrib.rnn.FusedRNNCell), outputs.shape, state.c.shape
    (True, TensorShape([5, 2, 4]), TensorShape([2, 4]))
    """

    def __call__(
        self,
        inputs: Any,
        initial_state: Structure = None,
        dtype: Any = None,
        sequence_length: Any = None,
        scope: Any = None,
    ) -> tuple[Any, Structure]:
        """Runs over `inputs`.

        Args:
            inputs: `[time, batch, depth]`, or a list of `[batch, depth]`.
            initial_state: the state to start from; zeros if None.
            dtype: of zeros; needed without `initial_state`.
            sequence_length: the length of each row.
            scope: of the variables.

        Returns:
            The outputs, in the form of the inputs, and the final state.
        """
        raise NotImplementedError(f"{type(self).__name__} must define __call__(inputs, ...)")


class FusedRNNCellAdaptor(FusedRNNCell):
    """An ordinary cell as a fused one: a loop over it.

    Args:
        cell: the cell.
        use_dynamic_rnn: whether by `dynamic_rnn`; by `static_rnn` otherwise, which needs a known number of steps.
    """

    @checks_flags
    def __init__(self, cell: Any, use_dynamic_rnn: bool = False) -> None:
        self._cell, self._dynamic = cell, use_dynamic_rnn

    def __call__(
        self,
        inputs: Any,
        initial_state: Structure = None,
        dtype: Any = None,
        sequence_length: Any = None,
        scope: Any = None,
    ) -> tuple[Any, Structure]:
        """Runs the loop; see `FusedRNNCell`."""
        listed = isinstance(inputs, list)
        if self._dynamic:
            whole = stack(inputs) if listed else inputs
            outputs, state = dynamic_rnn(
                self._cell, whole, sequence_length, initial_state, dtype, time_major=True, scope=scope
            )
            return unstack(outputs) if listed else outputs, state
        steps: Any = inputs if listed else unstack(inputs)
        made, state = static_rnn(self._cell, steps, initial_state, dtype, sequence_length, scope=scope)
        return made if listed else stack(made), state


class TimeReversedFusedRNN(FusedRNNCell):
    """A fused cell from the last step to the first; its outputs stand where their inputs do.

    Args:
        cell: a fused cell.
    """

    def __init__(self, cell: Any) -> None:
        self._cell = cell

    def __call__(
        self,
        inputs: Any,
        initial_state: Structure = None,
        dtype: Any = None,
        sequence_length: Any = None,
        scope: Any = None,
    ) -> tuple[Any, Structure]:
        """Runs the cell backwards; see `FusedRNNCell`."""
        options: dict[str, Any] = {"scope": scope} if scope is not None else {}
        turned = _reversed(inputs, sequence_length)
        outputs, state = self._cell(
            turned, initial_state=initial_state, dtype=dtype, sequence_length=sequence_length, **options
        )
        return _reversed(outputs, sequence_length), state


def _reversed(value: Any, lengths: Any) -> Any:
    if isinstance(value, list):
        return value[::-1]  # pyright: ignore[reportUnknownVariableType]
    return reverse(value, [0]) if lengths is None else reverse_sequence(value, lengths, 0, 1)


class LSTMBlockFusedCell(FusedRNNCell):
    """An LSTM over whole sequences, with the variables of an `LSTMBlockCell` in the scope of its name.

    Args:
        num_units: the width N of memory and output.
        forget_bias: added to the forget gate.
        cell_clip: bound of the memory's absolute value.
        use_peephole: whether gates see the memory.
        reuse: whether the variables must be there already.
        dtype: of the variables.
        name: of their scope, made unique.
    """

    @checks_flags
    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        cell_clip: float | None = None,
        use_peephole: bool = False,
        reuse: Any = None,
        dtype: Any = None,
        name: str = "lstm_fused_cell",
    ) -> None:
        self._cell = LSTMBlockCell(num_units, forget_bias, cell_clip, use_peephole, dtype, reuse, name)

    @property
    def num_units(self) -> int:
        """The width of memory and output."""
        return self._cell.num_units

    @property
    def variables(self) -> list[Any]:
        """Its variables, once it was called."""
        return self._cell.variables

    weights = trainable_variables = trainable_weights = variables

    def __call__(
        self,
        inputs: Any,
        initial_state: Structure = None,
        dtype: Any = None,
        sequence_length: Any = None,
        scope: Any = None,
    ) -> tuple[Any, Structure]:
        """Runs the LSTM; see `FusedRNNCell`."""
        listed = isinstance(inputs, list)
        given = as_tensor(stack(inputs) if listed else inputs)
        if given.dims is not None and len(given.dims) != 3:
            raise ValueError(f"inputs must be [time, batch, depth], but have shape {described(given.dims)}")
        if initial_state is None and dtype is None:
            raise ValueError("Either initial_state or dtype needs to be specified")
        if initial_state is not None:
            if len(initial_state) != 2:
                raise ValueError("Expecting initial_state to be a tuple with length 2 or None")
            initial_state = type(self._cell.state_size)(*map_structure(as_tensor, tuple(initial_state)))
        if scope is None:
            outputs, state = loop(self._cell, given, sequence_length, initial_state, dtype, True)
        else:
            with variable_scope(scope):
                outputs, state = loop(self._cell, given, sequence_length, initial_state, dtype, True)
        return unstack(outputs) if listed else outputs, state
