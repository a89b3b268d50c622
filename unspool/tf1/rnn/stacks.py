"""Layers of bidirectional loops, each over what both directions of the one below put out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unspool.flags import checks_flags
from unspool.structure import Structure
from unspool.tf1.ops.array import concat
from unspool.tf1.rnn.loops import bidirectional_dynamic_rnn, static_bidirectional_rnn
from unspool.tf1.scopes import variable_scope
from unspool.tf1.tensor import Tensor


@checks_flags
def stack_bidirectional_dynamic_rnn(
    cells_fw: list[Any],
    cells_bw: list[Any],
    inputs: Any,
    initial_states_fw: Sequence[Structure] | None = None,
    initial_states_bw: Sequence[Structure] | None = None,
    dtype: Any = None,
    sequence_length: Any = None,
    parallel_iterations: int | None = None,
    time_major: bool = False,
    scope: Any = None,
    swap_memory: bool = False,
) -> tuple[Tensor, tuple[Structure, ...], tuple[Structure, ...]]:
    """Runs layers of `bidirectional_dynamic_rnn` on top of one another.

    Returns:
        The outputs of the last layer, both directions side by side, and the final states of each layer and direction.

    Raises:
        ValueError: if there are no cells, or not as many for one direction as for the other, or as states.

    >>> from unspool import tf1 as tf
    >>> cells = [[tf.nn.rnn_cell.GRUCell(4) for _ in range(2)] for _ in range(2)]
    >>> outputs, _, _ = tf.contrib.rnn.stack_bidirectional_dynamic_rnn(*cells, tf.zeros([2, 5, 3]), dtype=tf.float32)
    >>> outputs.shape
    TensorShape([2, 5, 8])
    """
    starts = _check(cells_fw, cells_bw, initial_states_fw, initial_states_bw)
    states: list[tuple[Any, Any]] = []
    layer = inputs
    with variable_scope(scope or "stack_bidirectional_rnn"):
        for number, (fw, bw, (start_fw, start_bw)) in enumerate(zip(cells_fw, cells_bw, starts, strict=True)):
            with variable_scope(f"cell_{number}"):
                outputs, ends = bidirectional_dynamic_rnn(
                    fw,
                    bw,
                    layer,
                    sequence_length,
                    start_fw,
                    start_bw,
                    dtype,
                    parallel_iterations,
                    swap_memory,
                    time_major,
                )
                layer = concat(outputs, 2)
            states.append(ends)
    return layer, tuple(fw for fw, _ in states), tuple(bw for _, bw in states)


def stack_bidirectional_rnn(
    cells_fw: list[Any],
    cells_bw: list[Any],
    inputs: Sequence[Any],
    initial_states_fw: Sequence[Structure] | None = None,
    initial_states_bw: Sequence[Structure] | None = None,
    dtype: Any = None,
    sequence_length: Any = None,
    scope: Any = None,
) -> tuple[list[Tensor], tuple[Structure, ...], tuple[Structure, ...]]:
    """Runs layers of `static_bidirectional_rnn` on top of one another; see `stack_bidirectional_dynamic_rnn`."""
    starts = _check(cells_fw, cells_bw, initial_states_fw, initial_states_bw)
    states: list[tuple[Any, Any]] = []
    layer: Any = inputs
    with variable_scope(scope or "stack_bidirectional_rnn"):
        for number, (fw, bw, (start_fw, start_bw)) in enumerate(zip(cells_fw, cells_bw, starts, strict=True)):
            with variable_scope(f"cell_{number}") as place:
                layer, end_fw, end_bw = static_bidirectional_rnn(
                    fw, bw, layer, start_fw, start_bw, dtype, sequence_length, place
                )
            states.append((end_fw, end_bw))
    return layer, tuple(fw for fw, _ in states), tuple(bw for _, bw in states)


def _check(cells_fw: Any, cells_bw: Any, states_fw: Any, states_bw: Any) -> list[tuple[Any, Any]]:
    """The initial states of each layer; `ValueError` unless everything is there for every layer."""
    for name, cells in (("cells_fw", cells_fw), ("cells_bw", cells_bw)):
        if not isinstance(cells, list) or not cells:
            raise ValueError(f"{name} must be a list of cells, one for each layer, but is {cells!r}")
    if len(cells_fw) != len(cells_bw):
        raise ValueError(f"Forward and Backward cells must have the same depth: {len(cells_fw)}, {len(cells_bw)}")
    for name, states in (("initial_states_fw", states_fw), ("initial_states_bw", states_bw)):
        if states is not None and (not isinstance(states, list) or len(states) != len(cells_fw)):
            raise ValueError(f"{name} must be a list of {len(cells_fw)} states, one for each layer")
    nothing = [None] * len(cells_fw)
    return list(zip(states_fw or nothing, states_bw or nothing, strict=True))
