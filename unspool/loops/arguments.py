"""What a loop is given, checked in TensorFlow's order, before any work is done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, is_dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from unspool.cells.building import Buildable
from unspool.cells.like import buildable_part, initial_state_of, is_built, start_sequence
from unspool.cells.rows_first import RowsFirst, has_rows_first, own_layout, plan_owner_of, rows_first
from unspool.cells.torch_cells import as_cell, made_for_a_call
from unspool.dtypes import as_dtype
from unspool.engine import Explanation, Memory, Options, Request, check_memory, entry
from unspool.loops.lengths import (
    as_lengths,
    check_lengths_fit,
    check_one_length_a_row,
    in_the_other_order,
    reverse_sequence,
)
from unspool.loops.step_index import StepIndex, counted, first_tensor, with_numbers
from unspool.loops.tensors import as_tensor, as_tensors
from unspool.profiling import profiled
from unspool.sizes import UNKNOWN, axis_of_layers, check_sizes
from unspool.structure import Structure, check_namedtuples, flatten, is_leaf, map_structure, map_tensors, unflatten_as
from unspool.tensor_array import TensorArray
from unspool.tracers import recorder, static_shape
from unspool.wrapped import run_wrapped, unwrapped_without_values


@dataclass(frozen=True)
class Sequences(Request):
    """A valid call of a loop over whole sequences: a cell, where it starts, and time-major inputs.

    Args:
        axes: where the caller has the rows of states: the `batch_axis` of the cell.
        counted: which of the inputs' leaves are step numbers.
    """

    axes: Structure = 0
    counted: tuple[int, ...] = ()

    def run(self, scope: str) -> tuple[Structure, Structure]:
        """Runs the cell through time; outputs are time-major. `scope` names a profiler range."""
        self._build()
        with profiled(scope):
            outputs, state = run_wrapped(self, lambda each: each._run(scope))
        return outputs, own_layout(state, self.axes)

    def _run(self, scope: str) -> tuple[Structure, Structure]:
        start_sequence(self.cell)
        return entry.run(self, scope)

    def run_reversed(self, scope: str) -> tuple[Structure, Structure]:
        """Runs the cell from the end of each sequence to its start; outputs are in the order of the inputs."""
        leaves = flatten(self.inputs)
        order = [leaf if k in self.counted else reverse_sequence(leaf, self.lengths) for k, leaf in enumerate(leaves)]
        outputs, state = replace(self, inputs=unflatten_as(self.inputs, order)).run(scope)
        return map_tensors(lambda leaf: reverse_sequence(leaf, self.lengths), outputs), state

    def explain(self) -> Explanation:
        """How `run` would run the cell."""
        self._build()
        with unwrapped_without_values(self.cell):
            start_sequence(self.cell)
            return entry.explain(self)

    def _build(self) -> None:
        if not is_built(self.cell):
            first = 1 if self.counts is None else 0  # packed rows have no axis of steps
            one_step = map_structure(lambda leaf: leaf.new_empty(leaf.shape[first:]), self.inputs)
            build(self.cell, one_step, self.state)


def as_sequences(
    cell: Any,
    inputs: Structure,
    sequence_length: Any,
    initial_state: Structure,
    dtype: Any,
    parallel_iterations: Any,
    time_major: bool,
    *,
    swap_memory: bool = False,
    memory: Memory | None = None,
    cell_name: str = "cell",
    state_name: str = "initial_state",
) -> Sequences:
    """The arguments of `dynamic_rnn`, converted and checked."""
    given = as_cell(cell_name, cell, starts=initial_state is None, kept=False)
    if isinstance(inputs, PackedSequence):
        raise TypeError(
            "inputs is a PackedSequence, which unspool.RNN takes; give a loop the padded tensor, and its lengths as "
            "sequence_length"
        )
    numbers = counted(inputs)
    inputs = map_structure(lambda leaf: _as_input(leaf, time_major), inputs)
    lengths = None if sequence_length is None else as_lengths(sequence_length)
    first = first_tensor(inputs)
    if first is None:
        raise ValueError(f"inputs is empty: {inputs!r} has no tensor to run over")
    if first.dim() >= 2:
        inputs = with_numbers(inputs, first) if numbers else inputs
    leaves = flatten(inputs)
    for leaf in (first, *leaves):
        if leaf.dim() < 2:
            hint = "; a nested list is a structure, so make a tensor of it first" if not is_leaf(inputs) else ""
            raise ValueError(f"Expected inputs to have rank at least 2, but got shape {list(leaf.shape)}{hint}")
    steps, batch_size = static_shape(first)[:2]
    state = as_state(given, initial_state, dtype, batch_size, leaves, state_name)
    if lengths is not None:
        check_one_length_a_row(lengths, batch_size, steps)
    check_parallel_iterations(parallel_iterations)
    check_memory(memory)
    options = Options(int(parallel_iterations or 0) or None, bool(swap_memory), memory)
    for axis, what in enumerate(["Time steps is not the same", "Batch_size is not the same"] if leaves[1:] else ()):
        found = [static_shape(leaf)[axis] for leaf in leaves]
        if any(each != found[0] for each in found):
            raise ValueError(f"{what} for all the tensors of inputs: {found}")
    output_dtype = checked_output_dtype(given, state, dtype, cell_name, state_name)
    runs, state, axes = as_rows_first(given, state, state_name)
    if lengths is not None:  # rows of states and of inputs are picked together
        check_state_rows(state, batch_size, state_name, steps)
        check_lengths_fit(lengths, steps)
    return Sequences(runs, inputs, lengths, state, output_dtype, options, plan_owner_of(runs), axes, numbers)


def checked_output_dtype(
    cell: Any, state: Structure, dtype: Any, cell_name: str, state_name: str
) -> torch.dtype | None:
    """The dtype of the outputs, None if their size is not known; checks what the cell says of its sizes."""
    known = cell.output_size is not UNKNOWN
    output_dtype = as_output_dtype(dtype, state) if known else None
    if known:
        check_sizes(cell.output_size, f"{cell_name}.output_size")
    # TensorFlow leaves states to the cell, but a tuple in the place of an LSTMStateTuple, (h, c) as torch has it, would
    # be taken in the wrong order.
    check_namedtuples(cell.state_size, state, name=state_name, like=f"{cell_name}.state_size")
    return output_dtype


def _as_input(leaf: Any, time_major: bool) -> Any:
    if isinstance(leaf, StepIndex):
        return leaf
    tensor = as_tensor(leaf, "inputs")
    return tensor if time_major or tensor.dim() < 2 else tensor.transpose(0, 1)


def begin(cell: Any, step_inputs: Structure, state: Structure) -> None:
    """Makes `cell` ready for a sequence: built, with what is drawn once a sequence to be drawn anew."""
    build(cell, step_inputs, state)
    start_sequence(cell)


def build(cell: Any, step_inputs: Structure, state: Structure) -> None:
    """Builds `cell` for the inputs of one step, if it is not built yet."""
    buildable: Any = buildable_part(cell)
    if buildable is not None:
        makes = not buildable.built and type(buildable).build is not Buildable.build
        if makes and (who := recorder()) is not None and who != "FakeTensorMode":
            raise RuntimeError(
                f"{type(buildable).__name__} has no weights yet, and {who} would record how they are made: run the "
                "loop once before, or give the cell its input_size"
            )
        buildable.ensure_built(step_inputs, state)


def as_state(
    cell: Any, initial_state: Structure, dtype: Any, batch_size: int, inputs: Sequence[Tensor], name: str
) -> Structure:
    """The initial state, used as it is if it is given, else the cell's own: on the device of the inputs' tensors."""
    dtype = None if dtype is None else as_dtype(dtype)
    if isinstance(initial_state, torch.dtype):
        raise TypeError(f"{name} is {initial_state}: to give a dtype, write dtype={initial_state}")
    if initial_state is None:
        if UNKNOWN in flatten(cell.state_size):
            raise ValueError(
                f"{name} is needed, since the cell does not know the size of its state: give it, or give unspool.cell "
                "its state_size"
            )
        dtype = _dtype_of_states(cell, inputs) if dtype is None else dtype
        if dtype is None:
            raise ValueError(
                f"If there is no {name}, you must give a dtype, such as dtype=torch.float32: the inputs are "
                f"{inputs[0].dtype}, and the cell has no weights that would tell"
            )
        return initial_state_of(cell, batch_size, dtype, inputs[0].device)
    state = as_tensors(initial_state, name)
    for leaf in flatten(state):
        if not isinstance(leaf, Tensor | TensorArray):  # whose rows no loop could stop
            kind = type(leaf).__qualname__
            hint = f"; make {kind} a NamedTuple" if is_dataclass(leaf) else ""
            raise TypeError(
                f"{name} holds a {kind}, which is neither a tensor nor one of the containers of tensors: tuples, "
                f"lists, dicts, namedtuples{hint}"
            )
    return state


def _dtype_of_states(cell: Any, inputs: Sequence[Tensor]) -> torch.dtype | None:
    """What a cell says, else the dtype of the first floating-point inputs, else that of its weights."""
    said = getattr(cell, "default_dtype", None)
    weights = cell.parameters() if isinstance(cell, nn.Module) else ()
    typed = (each.dtype for each in chain(inputs, weights) if each.is_floating_point() or each.is_complex())
    return next(typed, None) if said is None else said


def as_rows_first(cell: Any, state: Structure, name: str) -> tuple[Any, Structure, Structure]:
    """The cell and its state with rows on the first axis, and where they were."""
    if has_rows_first(cell):
        return cell, state, 0
    runs = made_for_a_call(RowsFirst, cell) if is_built(cell) else RowsFirst(cell)
    return runs, rows_first(state, cell.batch_axis, name), cell.batch_axis


def check_state_rows(state: Structure, batch_size: int, name: str, steps: int | None = None) -> None:
    """Raises `ValueError` unless every tensor of `state` with rows has one for each row of the batch."""
    for leaf in flatten(state):
        if isinstance(leaf, Tensor) and leaf.dim() and static_shape(leaf)[0] != batch_size:
            shape = static_shape(leaf)
            hint = axis_of_layers(shape, (batch_size, *shape[2:])) or in_the_other_order(shape[0], steps)
            raise ValueError(f"{name} has shape {list(shape)}, but inputs have a batch of {batch_size}{hint}")


def as_output_dtype(dtype: Any, state: Structure) -> torch.dtype:
    """`dtype`, or the one dtype of the state; of several, the one that is no whole number: counters are not put out."""
    if dtype is not None:
        return as_dtype(dtype)
    found = {leaf.dtype for leaf in flatten(state) if isinstance(leaf, Tensor)}
    told = found if len(found) == 1 else {each for each in found if each.is_floating_point or each.is_complex}
    if len(told) != 1:
        what = f"has several: {', '.join(sorted(map(str, found)))}" if found else "is empty"
        raise ValueError(f"the dtype of the outputs cannot be told from the state, which {what}; give dtype")
    return told.pop()


def check_parallel_iterations(parallel_iterations: Any) -> None:
    """Raises what TensorFlow raises: `AssertionError` for no int, `TypeError` below 0. None and 0 mean any."""
    if not parallel_iterations:
        return
    if not isinstance(parallel_iterations, int | np.integer):
        raise AssertionError(f"parallel_iterations must be an int, but is {parallel_iterations!r}")
    if parallel_iterations < 0:
        raise TypeError(f"parallel_iterations must be positive, but is {parallel_iterations}")


def scope_name(scope: Any, default: str) -> str:
    """The name of a scope: a string, something with a `name`, or for None and "" the default."""
    name = getattr(scope, "name", scope) or default
    if not isinstance(name, str):
        raise TypeError(f"scope must be a string, but is {scope!r}")
    return name
