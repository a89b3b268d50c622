"""`dynamic_rnn`: a cell over a batch of sequences."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch.compiler import is_dynamo_compiling

from unspool.dynamo import as_one_operation, captures, loop_options
from unspool.engine import Memory, known_call
from unspool.flags import check_flag
from unspool.loops.arguments import as_sequences, scope_name
from unspool.loops.looks import look_of, starts_plainly
from unspool.structure import Structure, map_tensors


@captures
def dynamic_rnn(
    cell: Any,
    inputs: Structure,
    sequence_length: Any = None,
    initial_state: Structure = None,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    time_major: bool = False,
    scope: Any = None,
    *,
    memory: Memory | None = None,
) -> tuple[Structure, Structure]:
    """Runs a cell over a batch of sequences, each as long as it says.

    It stands for this loop, for every row `b` of the batch:

        for t in range(sequence_length[b]):
            outputs[b, t], state[b] = cell(inputs[b, t], state[b])

    Outputs past a row's length are zero, its final state is the one at its end, and no gradient comes from or goes to
    its padding, whatever stands there.

    Args:
        cell: an `RNNCell`, one of torch's cells, or anything with `state_size`, `output_size`, `zero_state` and a call;
            `unspool.cell` makes one of any step. `zero_state` is needed only without an `initial_state`.
        inputs: a tensor `[batch, time, ...]`, or a nested structure of such tensors; the cell sees the same structure
            without the time axis. `StepIndex()` among them is the number of the step.
        sequence_length: the length of each row, ints in [0, time]; None for full length.
        initial_state: the state to start from, in the structure of `cell.state_size`; the cell's zero state if None. It
            is needed where the cell does not know its size.
        dtype: the dtype of the zero state and the outputs; by default that of `initial_state`, else of the inputs, or,
            where these are token ids, of the cell's weights. It is needed if `initial_state` has several. Outputs of a
            cell that does not know their size have the dtypes that its step gives them.
        parallel_iterations: how many steps are worked on at once, where they need not wait for each other. More
            make larger matrix products and need more space to work. By default 32, or more on a CPU where the batch is
            small. It never changes the result.
        swap_memory: whether what backward needs waits in host memory while a GPU goes on; on a CPU it does nothing. It
            never changes the result.
        time_major: whether inputs and outputs are `[time, batch, ...]`, which saves two transpositions.
        scope: a name for profiler ranges, "rnn" by default; give the same name to `tf_variables`.
        memory: what is kept for backward: `Keep()` states and products, `Recompute()` from the states, or
            `Checkpoint(every=N)`. By default `Keep()`, on a GPU where that is little. It never changes the result.

    Returns:
        The outputs, in the structure of `cell.output_size`, each `[batch, time] + size`, and the final state. Where the
        size is not known, the structure is the step's, with None where it puts out None.

    Raises:
        TypeError: if `cell` is no cell, a length is no int, `memory` is no policy, or another container stands where
            the cell's state has a namedtuple such as `LSTMStateTuple`.
        ValueError: if shapes, lengths or dtypes do not fit each other. All before the first step, but for what only
            the cell's own results can show.

    >>> import torch
    >>> from unspool import LSTMCell, dynamic_rnn
    >>> outputs, state = dynamic_rnn(LSTMCell(4), torch.randn(2, 5, 3), sequence_length=[5, 2], dtype=torch.float32)
    >>> outputs.shape, state.h.shape
    (torch.Size([2, 5, 4]), torch.Size([2, 4]))
    >>> bool((outputs[1, 2:] == 0).all()), bool((outputs[1, 1] == state.h[1]).all())
    (True, True)
    """
    if is_dynamo_compiling():
        return as_one_operation(
            dynamic_rnn,
            dict(cell=cell),
            dict(inputs=inputs, sequence_length=sequence_length, initial_state=initial_state),
            loop_options(dtype, parallel_iterations, swap_memory, time_major, scope, memory),
        )
    check_flag("swap_memory", swap_memory)
    check_flag("time_major", time_major)
    options = dtype, parallel_iterations, swap_memory, time_major, scope, memory
    look = look_of(inputs, sequence_length, initial_state, options)
    known = None if look is None else known_call(cell, look)
    if known is not None:
        found = known(cell, inputs, sequence_length, initial_state, time_major=time_major)
        if found is not None:
            return to_major(found[0], time_major), found[1]
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
    if look is not None and starts_plainly(cell, initial_state):
        sequences = replace(sequences, look=look, starts_with_zeros=initial_state is None)
    outputs, state = sequences.run(scope_name(scope, "rnn"))
    return to_major(outputs, time_major), state


def to_major(outputs: Structure, time_major: bool) -> Structure:
    """Time-major outputs in the order the caller asked for."""
    return outputs if time_major else map_tensors(lambda leaf: leaf.transpose(0, 1), outputs)
