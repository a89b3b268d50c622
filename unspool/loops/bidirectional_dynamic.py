"""`bidirectional_dynamic_rnn`: two cells over a batch of sequences, from both ends."""

from __future__ import annotations

from typing import Any

from torch.compiler import is_dynamo_compiling

from unspool.dynamo import as_one_operation, captures, loop_options
from unspool.engine import Memory
from unspool.flags import checks_flags
from unspool.loops.arguments import Sequences, as_sequences, scope_name
from unspool.loops.directions import at_once, both_directions
from unspool.loops.dynamic import to_major
from unspool.structure import Structure, flatten


@captures
@checks_flags
def bidirectional_dynamic_rnn(
    cell_fw: Any,
    cell_bw: Any,
    inputs: Structure,
    sequence_length: Any = None,
    initial_state_fw: Structure = None,
    initial_state_bw: Structure = None,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    time_major: bool = False,
    scope: Any = None,
    *,
    memory: Memory | None = None,
) -> tuple[tuple[Structure, Structure], tuple[Structure, Structure]]:
    """Runs one cell forwards and one backwards over a batch of sequences.

    It stands for

        outputs_fw, state_fw = dynamic_rnn(cell_fw, inputs, lengths)
        outputs_bw, state_bw = dynamic_rnn(cell_bw, reverse(inputs, lengths), lengths)
        outputs_bw = reverse(outputs_bw, lengths)

    where each row is reversed within its own length, so that `outputs_bw[b, t]` has seen the inputs from the row's end
    back to `t`. The arguments are those of `dynamic_rnn`, with an initial state for each direction.

    Returns:
        `(outputs_fw, outputs_bw), (state_fw, state_bw)`; the outputs are not concatenated.

    >>> import torch
    >>> from unspool import GRUCell, bidirectional_dynamic_rnn
    >>> inputs = torch.randn(2, 5, 3)
    >>> (fw, bw), states = bidirectional_dynamic_rnn(GRUCell(4), GRUCell(4), inputs, [5, 2], dtype=torch.float32)
    >>> fw.shape, bw.shape
    (torch.Size([2, 5, 4]), torch.Size([2, 5, 4]))
    >>> bool((bw[:, 0] == states[1]).all())
    True
    """
    if is_dynamo_compiling():
        return as_one_operation(
            bidirectional_dynamic_rnn,
            dict(cell_fw=cell_fw, cell_bw=cell_bw),
            dict(
                inputs=inputs,
                sequence_length=sequence_length,
                initial_state_fw=initial_state_fw,
                initial_state_bw=initial_state_bw,
            ),
            loop_options(dtype, parallel_iterations, swap_memory, time_major, scope, memory),
        )

    def sequences(cell: Any, initial_state: Structure, **names: str) -> Sequences:
        return as_sequences(
            cell,
            inputs,
            sequence_length,
            initial_state,
            dtype,
            parallel_iterations,
            time_major,
            swap_memory=swap_memory,
            memory=memory,
            **names,
        )

    forwards, backwards = both_directions(sequences, (cell_fw, initial_state_fw), (cell_bw, initial_state_bw))
    name = scope_name(scope, "bidirectional_rnn")
    (outputs_fw, state_fw), (outputs_bw, state_bw) = at_once(
        lambda: forwards.run(f"{name}/fw"), lambda: backwards.run_reversed(f"{name}/bw"), flatten(forwards.inputs)[0]
    )
    return (to_major(outputs_fw, time_major), to_major(outputs_bw, time_major)), (state_fw, state_bw)
