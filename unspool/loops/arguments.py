"""What a loop is given, checked in TensorFlow's order, before any work is done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unspool import engine
from unspool.cells.cell import RNNCell
from unspool.cells.like import assert_like_rnncell, initial_state_of, start_sequence
from unspool.dtypes import as_dtype
from unspool.loops.lengths import as_lengths, check_lengths_fit, reverse_sequence
from unspool.sizes import check_sizes
from unspool.structure import Structure, check_same_structure, flatten, map_structure


@dataclass(frozen=True)
class Sequences:
    """A valid call of a loop over whole sequences: a cell, where it starts, and time-major inputs."""

    cell: Any
    inputs: Structure
    lengths: Tensor | None
    state: Structure
    output_dtype: torch.dtype

    def run(self, scope: str) -> tuple[Structure, Structure]:
        """Runs the cell through time; outputs are time-major. `scope` names a profiler range."""
        begin(self.cell, map_structure(lambda leaf: leaf.new_empty(leaf.shape[1:]), self.inputs), self.state)
        with torch.profiler.record_function(scope):
            return engine.run(self.cell, self.inputs, self.lengths, self.state, self.output_dtype)

    def run_reversed(self, scope: str) -> tuple[Structure, Structure]:
        """Runs the cell from the end of each sequence to its start; outputs are in the order of the inputs."""
        outputs, state = replace(self, inputs=self._reversed(self.inputs)).run(scope)
        return self._reversed(outputs), state

    def _reversed(self, structure: Structure) -> Structure:
        return map_structure(lambda leaf: reverse_sequence(leaf, self.lengths), structure)


def as_sequences(
    cell: Any,
    inputs: Structure,
    sequence_length: Any,
    initial_state: Structure,
    dtype: Any,
    parallel_iterations: Any,
    time_major: bool,
    *,
    cell_name: str = "cell",
    state_name: str = "initial_state",
) -> Sequences:
    """The arguments of `dynamic_rnn`, converted and checked."""
    assert_like_rnncell(cell_name, cell)
    inputs = map_structure(lambda leaf: as_tensor(leaf, "inputs"), inputs)
    if not time_major:
        inputs = map_structure(lambda leaf: leaf.transpose(0, 1) if leaf.dim() >= 2 else leaf, inputs)
    lengths = None if sequence_length is None else as_lengths(sequence_length)
    leaves = flatten(inputs)
    if not leaves:
        raise ValueError(f"inputs is empty: {inputs!r} has no tensor to run over")
    if leaves[0].dim() < 2:
        raise ValueError(f"Expected inputs to have rank at least 2, but got shape {list(leaves[0].shape)}")
    batch_size = leaves[0].shape[1]
    state = as_state(cell, initial_state, dtype, batch_size, leaves[0].device, state_name)
    if lengths is not None and lengths.shape[0] != batch_size:
        raise ValueError(f"sequence_length has {lengths.shape[0]} entries, but inputs have a batch of {batch_size}")
    check_parallel_iterations(parallel_iterations)
    for leaf in leaves:
        if leaf.dim() < 3:
            axes = "[time, batch, depth...]" if time_major else "[batch, time, depth...]"
            shape = list(leaf.shape if time_major else leaf.transpose(0, 1).shape)
            raise ValueError(f"inputs must have rank at least 3, {axes}, but got shape {shape}")
    for axis, what in enumerate(["Time steps is not the same", "Batch_size is not the same"]):
        found = [leaf.shape[axis] for leaf in leaves]
        if len(set(found)) > 1:
            raise ValueError(f"{what} for all the tensors of inputs: {found}")
    output_dtype = as_output_dtype(dtype, state)
    check_sizes(cell.output_size, f"{cell_name}.output_size")
    if lengths is not None:
        check_lengths_fit(lengths, leaves[0].shape[0])
    return Sequences(cell, inputs, lengths, state, output_dtype)


def begin(cell: Any, step_inputs: Structure, state: Structure) -> None:
    """Makes `cell` ready for a sequence: built, with what is drawn once a sequence to be drawn anew."""
    if isinstance(cell, RNNCell):
        cell.ensure_built(step_inputs, state)
    start_sequence(cell)


def as_tensor(leaf: Any, name: str) -> Tensor:
    """A tensor from a tensor, an array or a number."""
    if isinstance(leaf, Tensor):
        return leaf
    if leaf is None:
        raise ValueError(f"{name}: None values not supported")
    if isinstance(leaf, np.ndarray | np.generic | int | float | complex):
        return torch.as_tensor(leaf)
    raise TypeError(f"{name} must be made of tensors or arrays, but has a {type(leaf).__name__}: {leaf!r}")


def as_state(cell: Any, initial_state: Structure, dtype: Any, batch_size: int, device: Any, name: str) -> Structure:
    """The initial state, given or the cell's own."""
    dtype = None if dtype is None else as_dtype(dtype)
    if initial_state is None:
        if dtype is None:
            raise ValueError(f"If there is no {name}, you must give a dtype.")
        return initial_state_of(cell, batch_size, dtype, device)
    # Only the containers: TensorFlow leaves shapes to the cell. A tuple in the place of an LSTMStateTuple is refused
    # before it can be taken in the wrong order.
    check_same_structure(cell.state_size, initial_state, name=name, like="cell.state_size", opaque=True)
    return map_structure(lambda leaf: as_tensor(leaf, name) if _is_number_like(leaf) else leaf, initial_state)


def _is_number_like(leaf: Any) -> bool:
    # Anything else in a state, such as a TensorArray, is the cell's own business.
    return leaf is None or isinstance(leaf, np.ndarray | np.generic | int | float | complex)


def as_output_dtype(dtype: Any, state: Structure) -> torch.dtype:
    """`dtype`, or the one dtype of the state."""
    if dtype is not None:
        return as_dtype(dtype)
    found = {leaf.dtype for leaf in flatten(state) if isinstance(leaf, Tensor)}
    if len(found) != 1:
        what = f"has several: {', '.join(sorted(map(str, found)))}" if found else "is empty"
        raise ValueError(f"the dtype of the outputs cannot be told from the state, which {what}; give dtype")
    return found.pop()


def check_parallel_iterations(parallel_iterations: Any) -> None:
    """Raises what TensorFlow raises: `AssertionError` for no int, `TypeError` below 0. None and 0 mean 32."""
    if not parallel_iterations:
        return
    if isinstance(parallel_iterations, bool) or not isinstance(parallel_iterations, int | np.integer):
        raise AssertionError(f"parallel_iterations must be an int, but is {parallel_iterations!r}")
    if parallel_iterations < 0:
        raise TypeError(f"parallel_iterations must be positive, but is {parallel_iterations}")


def scope_name(scope: Any, default: str) -> str:
    """The name of a scope: a string, something with a `name`, or for None and "" the default."""
    name = getattr(scope, "name", scope) or default
    if not isinstance(name, str):
        raise TypeError(f"scope must be a string, but is {scope!r}")
    return name


def check_step_list(inputs: Any) -> Sequence[Structure]:
    """`inputs`, if it is a list or tuple of at least one step."""
    if not isinstance(inputs, list | tuple):
        raise TypeError(f"inputs must be a list with one entry a step, but is a {type(inputs).__name__}")
    if not inputs:
        raise ValueError("inputs must not be empty: there is no step to run")
    return inputs  # pyright: ignore[reportUnknownVariableType]
