"""`stack_bidirectional_rnn`: bidirectional layers on top of one another, over a list of steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unspool.dynamo import called_as_it_is
from unspool.loops.arguments import scope_name
from unspool.loops.directions import bidirectional_layers
from unspool.loops.static_bidirectional import static_bidirectional_rnn
from unspool.structure import Structure


@called_as_it_is
def stack_bidirectional_rnn(
    cells_fw: list[Any],
    cells_bw: list[Any],
    inputs: Sequence[Structure],
    initial_states_fw: list[Structure] | None = None,
    initial_states_bw: list[Structure] | None = None,
    dtype: Any = None,
    sequence_length: Any = None,
    scope: Any = None,
) -> tuple[list[Structure], tuple[Structure, ...], tuple[Structure, ...]]:
    """Runs layers of forward and backward cells over a list of steps.

    It stands for

        for cell_fw, cell_bw in zip(cells_fw, cells_bw):
            inputs, state_fw, state_bw = static_bidirectional_rnn(cell_fw, cell_bw, inputs)

    so that every layer sees both directions of the one below it. The cells are lists, one of each a layer, and so are
    the initial states; the other arguments are those of `static_bidirectional_rnn`. Layer k has the scope
    `<scope>/cell_<k>`.

    Returns:
        The outputs of the last layer, the tuple of forward states and the tuple of backward states.

    >>> import torch
    >>> from unspool import GRUCell, stack_bidirectional_rnn
    >>> fw, bw = [GRUCell(4), GRUCell(2)], [GRUCell(4), GRUCell(2)]
    >>> outputs, states_fw, states_bw = stack_bidirectional_rnn(fw, bw, [torch.zeros(2, 3)] * 5, dtype=torch.float32)
    >>> outputs[0].shape, len(states_fw)
    (torch.Size([2, 4]), 2)
    """
    layers = bidirectional_layers(cells_fw, cells_bw, initial_states_fw, initial_states_bw)
    name = scope_name(scope, "stack_bidirectional_rnn")
    outputs: Any = inputs
    states: list[tuple[Structure, Structure]] = []
    for k, (cell_fw, cell_bw, start_fw, start_bw) in enumerate(layers):
        outputs, state_fw, state_bw = static_bidirectional_rnn(
            cell_fw, cell_bw, outputs, start_fw, start_bw, dtype, sequence_length, scope=f"{name}/cell_{k}"
        )
        states.append((state_fw, state_bw))
    states_fw, states_bw = zip(*states, strict=True)
    return outputs, states_fw, states_bw
