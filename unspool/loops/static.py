"""`static_rnn`: the plain chain of cell calls, the reference every other loop is measured against."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from unspool.cells.rows_first import own_layout
from unspool.cells.torch_cells import as_cell
from unspool.dynamo import called_as_it_is
from unspool.engine import entry
from unspool.loops.arguments import as_output_dtype, as_rows_first, as_state, begin, check_state_rows, scope_name
from unspool.loops.lengths import as_lengths, check_lengths_fit, check_one_length_a_row, reverse_sequence
from unspool.loops.step_index import StepIndex, at_step, counted, first_tensor
from unspool.loops.tensors import as_tensor
from unspool.profiling import profiled
from unspool.sizes import UNKNOWN
from unspool.step import CheckedCell, Rows, attach, gradient_sources, step
from unspool.structure import Structure, check_namedtuples, describe, flatten, map_structure, map_tensors, unflatten_as
from unspool.tracers import static_shape


@called_as_it_is
def static_rnn(
    cell: Any,
    inputs: Sequence[Structure],
    initial_state: Structure = None,
    dtype: Any = None,
    sequence_length: Any = None,
    scope: Any = None,
) -> tuple[list[Structure], Structure]:
    """Runs a cell over a list of steps.

    It stands for this loop, and without lengths it is this loop:

        for step in inputs:
            output, state = cell(step, state)
            outputs.append(output)

    Args:
        cell: an `RNNCell`, one of torch's cells, or anything with `state_size`, `output_size`, `zero_state` and a call;
            `unspool.cell` makes one of any step. `zero_state` is needed only without an `initial_state`.
        inputs: a list of steps, each a tensor `[batch, ...]` or a nested structure of such tensors. `StepIndex()` among
            them is the number of the step.
        initial_state: the state to start from, in the structure of `cell.state_size`; the cell's zero state if None.
        dtype: the dtype of the zero state and of zero outputs; by default that of the inputs, or, where these are
            token ids, of the cell's weights.
        sequence_length: the length of each row, ints in [0, len(inputs)]; None for full length. Past its length a
            row's outputs are zero and its state stays.
        scope: a name for profiler ranges, "rnn" by default; give the same name to `tf_variables`.

    Returns:
        A list of the outputs of all steps, and the final state.

    Raises:
        TypeError: if `cell` is no cell, `inputs` is no list, or a length is no int.
        ValueError: if `inputs` is empty, or shapes, lengths or dtypes do not fit each other.

    >>> from unspool import GRUCell, static_rnn
    >>> outputs, state = static_rnn(GRUCell(4), [torch.zeros(2, 3)] * 5, dtype=torch.float32)
    >>> len(outputs), outputs[-1] is state
    (5, True)
    """
    return as_chain(cell, inputs, initial_state, dtype, sequence_length).run(scope_name(scope, "rnn"))


@dataclass(frozen=True)
class Chain:
    """A valid call of `static_rnn`."""

    cell: Any
    inputs: Sequence[Structure]
    state: Structure
    lengths: Tensor | None
    output_dtype: torch.dtype | None
    """Of the zeros past a row's length; without lengths there are none, and None says that the step shows it."""
    axes: Structure = 0
    """Where the caller has the rows of states: the `batch_axis` of the cell."""
    counted: tuple[int, ...] = ()
    """Which of a step's leaves are step numbers."""

    def run(self, scope: str) -> tuple[list[Structure], Structure]:
        """Runs the chain. `scope` names a profiler range."""
        begin(self.cell, self.inputs[0], self.state)
        with profiled(scope):
            outputs, state = self._run() if self.lengths is None else self._run_within(self.lengths)
        return outputs, own_layout(state, self.axes)

    def _run(self) -> tuple[list[Structure], Structure]:
        state, outputs = self.state, list[Structure]()
        for inputs in self.inputs:
            output, state = step(self.cell, inputs, state)
            outputs.append(output)
        return outputs, state

    def _run_within(self, lengths: Tensor) -> tuple[list[Structure], Structure]:
        cell, state, outputs = self.cell, self.state, list[Structure]()
        first = flatten(self.inputs)[0]
        batch_size = static_shape(first)[0]
        rows = Rows(lengths, len(self.inputs), first.device)
        checked = CheckedCell(cell, batch_size, self.output_dtype, same_containers=True)
        steps = self.inputs if rows.fixed else _by_column(rows.lend, self.inputs)
        for time, inputs in enumerate(steps[: rows.longest]):
            output, state = rows.step(checked, time, inputs, state)
            outputs.append(output)
        padding = len(self.inputs) - rows.longest
        if padding:
            sources = gradient_sources(cell, list(self.inputs), self.state)
            shown = checked.outputs or entry.outputs_of_a_step(cell, self.inputs[0], self.state)
            zeros = shown.zeros((batch_size,), first.device)
            outputs += [attach(zeros, sources) for _ in range(padding)]
            state = attach(state, sources)
        return outputs, state

    def run_reversed(self, scope: str) -> tuple[list[Structure], Structure]:
        """Runs the chain from the end of each sequence to its start; outputs are in the order of the inputs."""
        order = self._reversed(self.inputs)
        if self.counted:
            order = [_with_leaves(one, other, self.counted) for one, other in zip(order, self.inputs, strict=True)]
        outputs, state = replace(self, inputs=order).run(scope)
        return self._reversed(outputs), state

    def _reversed(self, steps: Sequence[Structure]) -> list[Structure]:
        if self.lengths is None:
            return list(reversed(steps))
        return _by_column(lambda leaves: [reverse_sequence(leaf, self.lengths) for leaf in leaves], steps)


def _by_column(change: Callable[[list[Tensor]], list[Tensor]], steps: Sequence[Structure]) -> list[Structure]:
    """The steps of what `change` makes of the tensors `[time, batch, ...]` that `steps` are, put together."""
    leaves = [[leaf for leaf in flatten(each) if leaf is not None] for each in steps]
    changed = [column.unbind(0) for column in change([torch.stack(column) for column in zip(*leaves, strict=True)])]
    by_step = zip(*changed, strict=True) if changed else [()] * len(steps)
    return [_with_tensors(steps[0], now) for now in by_step]


def _with_tensors(structure: Structure, tensors: Iterable[Tensor]) -> Structure:
    """`structure` with these in the places of its tensors; None stays."""
    remaining = iter(tensors)
    return map_tensors(lambda leaf: next(remaining), structure)


def _with_leaves(structure: Structure, other: Structure, places: tuple[int, ...]) -> Structure:
    """`structure` with some leaves of another like it."""
    pairs = enumerate(zip(flatten(structure), flatten(other), strict=True))
    return unflatten_as(structure, [theirs if k in places else own for k, (own, theirs) in pairs])


def as_chain(
    cell: Any,
    inputs: Any,
    initial_state: Structure,
    dtype: Any,
    sequence_length: Any,
    *,
    cell_name: str = "cell",
    state_name: str = "initial_state",
) -> Chain:
    """The arguments of `static_rnn`, converted and checked."""
    given = as_cell(cell_name, cell, starts=initial_state is None)
    if type(inputs) not in (list, tuple):
        raise TypeError(f"inputs must be a list with one entry per step, but is {describe(inputs)}")
    if not inputs:
        raise ValueError("inputs must not be empty: there is no step to run")
    numbers = counted(inputs[0])
    inputs = [map_structure(_as_input, each) for each in inputs]
    first = first_tensor(inputs)
    if first is None:
        raise ValueError("inputs has no tensor to run over")
    batch_size = next(iter(static_shape(first)), 0)
    if numbers and first.dim():
        inputs = [at_step(each, time, first) for time, each in enumerate(inputs)]
    for leaf in (first, *flatten(inputs)):
        if leaf.dim() < 1:
            raise ValueError("every step of inputs must have rank at least 1, [batch, ...], but one has shape []")
        if static_shape(leaf)[0] != batch_size:
            raise ValueError(
                f"the batch sizes of inputs differ: {batch_size} and {static_shape(leaf)[0]} are not compatible"
            )
    state = as_state(given, initial_state, dtype, batch_size, flatten(inputs[0]), state_name)
    lengths = None if sequence_length is None else as_lengths(sequence_length)
    check_namedtuples(given.state_size, state, name=state_name, like=f"{cell_name}.state_size")
    runs, state, axes = as_rows_first(given, state, state_name)
    if lengths is None:
        return Chain(runs, inputs, state, None, None, axes, numbers)
    check_one_length_a_row(lengths, batch_size)
    output_dtype = None if given.output_size is UNKNOWN else as_output_dtype(dtype, state)
    check_state_rows(state, batch_size, state_name)
    check_lengths_fit(lengths, len(inputs))
    return Chain(runs, inputs, state, lengths, output_dtype, axes, numbers)


def _as_input(leaf: Any) -> Any:
    return leaf if isinstance(leaf, StepIndex) else as_tensor(leaf, "inputs")
