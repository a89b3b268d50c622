"""`static_state_saving_rnn`: a loop whose state is kept by somebody else between calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from torch import Tensor

from unspool.cells.torch_cells import as_cell
from unspool.dynamo import called_as_it_is
from unspool.loops.static import static_rnn
from unspool.sizes import UNKNOWN
from unspool.structure import Structure, flatten, is_leaf, unflatten_as


class StateSaver(Protocol):
    """Where states are kept between calls."""

    def state(self, name: str) -> Tensor:
        """The state kept under `name`."""
        ...

    def save_state(self, name: str, value: Tensor) -> Any:
        """Keeps `value` under `name`."""
        ...


@called_as_it_is
def static_state_saving_rnn(
    cell: Any,
    inputs: Sequence[Structure],
    state_saver: StateSaver,
    state_name: Structure,
    sequence_length: Any = None,
    scope: Any = None,
) -> tuple[list[Structure], Structure]:
    """Runs a cell over a list of steps, from a kept state, and keeps the final one: truncated backpropagation.

    It stands for

        outputs, state = static_rnn(cell, inputs, initial_state=state_saver.state(state_name))
        state_saver.save_state(state_name, state.detach())

    Args:
        cell: an `RNNCell`, one of torch's cells, or anything with `state_size`, `output_size`, `zero_state` and a call;
            `unspool.cell` makes one of any step.
        inputs: a list of steps, as in `static_rnn`.
        state_saver: an object with `state(name)` and `save_state(name, value)`; it is given values without their
            history, so that backpropagation ends where a call began.
        state_name: a string if the cell's state is one tensor; else as many strings as it has tensors, in any
            containers.
        sequence_length: the length of each row, as in `static_rnn`.
        scope: a name for profiler ranges, "rnn" by default.

    Returns:
        A list of the outputs of all steps, and the final state.

    Raises:
        ValueError: if `state_name` does not name every tensor of the state.

    >>> import torch
    >>> from unspool import GRUCell, static_state_saving_rnn
    >>> class Shelf(dict):
    ...     state, save_state = dict.__getitem__, dict.__setitem__
    >>> cell, shelf = GRUCell(4), Shelf(h=torch.zeros(2, 4))
    >>> outputs, state = static_state_saving_rnn(cell, [torch.ones(2, 3)] * 5, shelf, "h")
    >>> bool((shelf["h"] == state).all()), shelf["h"].requires_grad
    (True, False)
    """
    given = as_cell("cell", cell, starts=False)
    for method in ("state", "save_state"):
        if not callable(getattr(state_saver, method, None)):
            raise TypeError(f"state_saver must have a method {method!r}, but is {state_saver!r}")
    names = flatten(state_name)
    if not all(isinstance(name, str) for name in names):
        raise TypeError(f"state_name must be made of strings, but is {state_name!r}")
    # Where the cell does not know its state, it is what is named.
    containers = state_name if UNKNOWN in flatten(given.state_size) else given.state_size
    sizes = flatten(containers)
    if is_leaf(containers) != is_leaf(state_name) or len(names) != len(sizes):
        raise ValueError(
            f"state_name must name each of the {len(sizes)} tensors of the cell's state, {given.state_size!r}, "
            f"but is {state_name!r}"
        )
    start = unflatten_as(containers, [state_saver.state(name) for name in names])
    outputs, state = static_rnn(cell, inputs, start, sequence_length=sequence_length, scope=scope)
    for name, value in zip(names, flatten(state), strict=True):
        state_saver.save_state(name, value.detach())
    return outputs, state
