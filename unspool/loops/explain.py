"""`explain`: how `dynamic_rnn` runs a cell."""

from __future__ import annotations

from typing import Any

from unspool.dynamo import called_as_it_is
from unspool.engine import Explanation, Memory
from unspool.flags import checks_flags
from unspool.loops.arguments import as_sequences
from unspool.structure import Structure


@called_as_it_is
@checks_flags
def explain(
    cell: Any,
    inputs: Structure,
    sequence_length: Any = None,
    initial_state: Structure = None,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    time_major: bool = False,
    *,
    memory: Memory | None = None,
) -> Explanation:
    """Says how `dynamic_rnn` would run the same arguments, without running them.

    Which lines of the cell leave the loop and which stay in it, forwards and, if a gradient is wanted, backwards; every
    matrix product with its cost; what is kept for backward under each policy; or why the plain loop runs the cell, and
    what to change. `print` it, let a notebook show it, take its picture with `.svg()`, or read its attributes.

    As in `dynamic_rnn`, the cell is built if it is not yet, and `start_sequence()` is called. It takes no step.

    Args:
        cell: the cell, as for `dynamic_rnn`.
        inputs: the inputs. Their values do not matter, but for whether they require gradients.
        sequence_length: the length of each row, or None for full length.
        initial_state: the state to start from, or None for the cell's own.
        dtype: the dtype of the zero state and the outputs.
        parallel_iterations: how many steps are worked on at once.
        swap_memory: whether what backward needs waits in host memory.
        time_major: whether inputs are `[time, batch, ...]`.
        memory: what is kept for backward.

    Returns:
        An `Explanation`: `planned`, `reason`, `forward`, `backward`, `lines`, `products`, `memory`, `emitter`.

    Raises:
        TypeError: as `dynamic_rnn` does.
        ValueError: as `dynamic_rnn` does.

    >>> import torch
    >>> from unspool import LSTMCell, explain
    >>> explanation = explain(LSTMCell(128), torch.zeros(32, 100, 64), dtype=torch.float32)
    >>> explanation.forward.before, explanation.forward.core, explanation.forward.after
    (2, 13, 0)
    >>> [product.shapes for product in explanation.products if product.part == "core"]
    ['rows x 128 @ 128 x 512', 'rows x 512 @ 512 x 128']
    >>> explanation.memory.policy, explanation.memory.chosen.row_bytes
    (Keep(), 3072)
    """
    sequences = as_sequences(
        cell,
        inputs,
        sequence_length,
        initial_state,
        dtype,
        parallel_iterations,
        time_major,
        swap_memory=swap_memory,
        memory=memory,
    )
    return sequences.explain()
