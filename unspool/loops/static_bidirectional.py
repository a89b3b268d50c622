"""`static_bidirectional_rnn`: two cells over a list of steps, from both ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unspool.dynamo import called_as_it_is
from unspool.loops.arguments import scope_name
from unspool.loops.directions import both_directions, check_can_be_joined, join
from unspool.loops.static import Chain, as_chain
from unspool.structure import Structure


@called_as_it_is
def static_bidirectional_rnn(
    cell_fw: Any,
    cell_bw: Any,
    inputs: Sequence[Structure],
    initial_state_fw: Structure = None,
    initial_state_bw: Structure = None,
    dtype: Any = None,
    sequence_length: Any = None,
    scope: Any = None,
) -> tuple[list[Structure], Structure, Structure]:
    """Runs one cell forwards and one backwards over a list of steps.

    It stands for

        fw, state_fw = static_rnn(cell_fw, inputs)
        bw, state_bw = static_rnn(cell_bw, reversed(inputs))
        outputs = [concat([f, b], axis=1) for f, b in zip(fw, reversed(bw))]

    where, with lengths, each row is reversed within its own length. The arguments are those of `static_rnn`, with an
    initial state for each direction.

    Returns:
        The list of concatenated outputs, the forward state and the backward state.

    >>> import torch
    >>> from unspool import GRUCell, static_bidirectional_rnn
    >>> steps = [torch.zeros(2, 3)] * 5
    >>> outputs, state_fw, state_bw = static_bidirectional_rnn(GRUCell(4), GRUCell(4), steps, dtype=torch.float32)
    >>> outputs[0].shape
    torch.Size([2, 8])
    """

    def chain(cell: Any, initial_state: Structure, **names: str) -> Chain:
        return as_chain(cell, inputs, initial_state, dtype, sequence_length, **names)

    forwards, backwards = both_directions(chain, (cell_fw, initial_state_fw), (cell_bw, initial_state_bw))
    check_can_be_joined(forwards.cell, backwards.cell)
    name = scope_name(scope, "bidirectional_rnn")
    outputs_fw, state_fw = forwards.run(f"{name}/fw")
    outputs_bw, state_bw = backwards.run_reversed(f"{name}/bw")
    outputs = [join(fw, bw, axis=1) for fw, bw in zip(outputs_fw, outputs_bw, strict=True)]
    return outputs, state_fw, state_bw
