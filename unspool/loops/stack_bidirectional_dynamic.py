"""`stack_bidirectional_dynamic_rnn`: bidirectional layers on top of one another, over a batch of sequences."""

from __future__ import annotations

from typing import Any

from torch.compiler import is_dynamo_compiling

from unspool.dynamo import as_one_operation, captures, loop_options
from unspool.engine import Memory
from unspool.flags import checks_flags
from unspool.loops.arguments import scope_name
from unspool.loops.bidirectional_dynamic import bidirectional_dynamic_rnn
from unspool.loops.directions import bidirectional_layers, join
from unspool.structure import Structure


@captures
@checks_flags
def stack_bidirectional_dynamic_rnn(
    cells_fw: list[Any],
    cells_bw: list[Any],
    inputs: Structure,
    initial_states_fw: list[Structure] | None = None,
    initial_states_bw: list[Structure] | None = None,
    dtype: Any = None,
    sequence_length: Any = None,
    parallel_iterations: int | None = None,
    time_major: bool = False,
    scope: Any = None,
    swap_memory: bool = False,
    *,
    memory: Memory | None = None,
) -> tuple[Structure, tuple[Structure, ...], tuple[Structure, ...]]:
    """Runs layers of forward and backward cells over a batch of sequences.

    It stands for

        for cell_fw, cell_bw in zip(cells_fw, cells_bw):
            outputs, states = bidirectional_dynamic_rnn(cell_fw, cell_bw, inputs, lengths)
            inputs = concat(outputs, axis=2)

    so that every layer sees both directions of the one below it. The cells are lists, one of each a layer, and so are
    the initial states; the other arguments are those of `dynamic_rnn`. Layer k has the scope
    `<scope>/cell_<k>/bidirectional_rnn`.

    Returns:
        The concatenated outputs of the last layer, the tuple of forward states and the tuple of backward states.

    >>> import torch
    >>> from unspool import GRUCell, stack_bidirectional_dynamic_rnn
    >>> fw, bw = [GRUCell(4), GRUCell(2)], [GRUCell(4), GRUCell(2)]
    >>> outputs, states_fw, states_bw = stack_bidirectional_dynamic_rnn(
    ...     fw, bw, torch.zeros(3, 5, 7), dtype=torch.float32, sequence_length=[5, 2, 0])
    >>> outputs.shape, states_bw[1].shape
    (torch.Size([3, 5, 4]), torch.Size([3, 2]))
    """
    if is_dynamo_compiling():
        return as_one_operation(
            stack_bidirectional_dynamic_rnn,
            dict(cells_fw=cells_fw, cells_bw=cells_bw),
            dict(
                inputs=inputs,
                sequence_length=sequence_length,
                initial_states_fw=initial_states_fw,
                initial_states_bw=initial_states_bw,
            ),
            loop_options(dtype, parallel_iterations, swap_memory, time_major, scope, memory),
        )
    layers = bidirectional_layers(cells_fw, cells_bw, initial_states_fw, initial_states_bw)
    name = scope_name(scope, "stack_bidirectional_rnn")
    states: list[tuple[Structure, Structure]] = []
    for k, (cell_fw, cell_bw, start_fw, start_bw) in enumerate(layers):
        outputs, layer_states = bidirectional_dynamic_rnn(
            cell_fw,
            cell_bw,
            inputs,
            sequence_length,
            start_fw,
            start_bw,
            dtype,
            parallel_iterations,
            swap_memory,
            time_major,
            scope=f"{name}/cell_{k}/bidirectional_rnn",
            memory=memory,
        )
        inputs = join(*outputs, axis=2)
        states.append(layer_states)
    states_fw, states_bw = zip(*states, strict=True)
    return inputs, states_fw, states_bw
