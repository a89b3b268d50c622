"""`raw_rnn`: a loop whose inputs, states and end are decided step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unspool.cells.rows_first import own_layout, rows_first
from unspool.cells.torch_cells import as_cell
from unspool.dynamo import called_as_it_is
from unspool.engine import entry
from unspool.flags import checks_flags
from unspool.loops.arguments import as_rows_first, begin, check_parallel_iterations, check_state_rows, scope_name
from unspool.loops.tensors import as_tensor, as_tensors
from unspool.outputs import Outputs
from unspool.profiling import profiled
from unspool.sizes import UNKNOWN, check_sizes, shape_of
from unspool.step import checked, checked_like, select_rows, step
from unspool.structure import Structure, check_same_structure, flatten, is_leaf, map_structure, unflatten_as
from unspool.tensor_array import TensorArray
from unspool.tracers import constant, has_values, obstacle, static_shape

LoopFn = Callable[[int, Any, Any, Any], tuple[Any, Any, Any, Any, Any]]


@called_as_it_is
@checks_flags
def raw_rnn(
    cell: Any,
    loop_fn: LoopFn,
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    scope: Any = None,
) -> tuple[Structure, Structure, Structure]:
    """Runs a cell for as long as `loop_fn` asks, on the inputs and states it gives.

    It stands for

        finished, input, state, _, loop_state = loop_fn(0, None, None, None)
        while not all(finished):
            output, cell_state = cell(input, state)
            finished_now, input, new_state, emit, loop_state = loop_fn(time + 1, output, cell_state, loop_state)
            emits[time] = where(finished, 0, emit)
            state       = where(finished, state, new_state)
            finished   |= finished_now
            time       += 1

    Args:
        cell: an `RNNCell`, one of torch's cells, or anything with `state_size`, `output_size`, `zero_state` and a call;
            `unspool.cell` makes one of any step.
        loop_fn: `loop_fn(time, cell_output, cell_state, loop_state)` returns `(finished, next_input, next_state, emit,
            next_loop_state)`. The first call, with time 0 and None for the rest, gives the first input and state, a
            template of what will be emitted (without its batch dimension; None for the cell's output) and a loop state
            or None. `finished` is a bool for each row; a row that is finished stays so. `next_input` is needed even
            when all rows are finished. `next_loop_state` None keeps the loop state as it was.
        parallel_iterations: TensorFlow's. It is checked, and does nothing: `loop_fn` says what is read only when a step
            is done, so that steps cannot be worked on together.
        swap_memory: TensorFlow's, likewise.
        scope: a name for profiler ranges, "rnn" by default.

    Returns:
        A `TensorArray` of what was emitted, in the structure of the template, whose `stack()` is time-major; the final
        state; and the final loop state, None if there was none at first.

    Raises:
        TypeError: if `cell` is no cell or `loop_fn` cannot be called, or a container changes.
        ValueError: if what `loop_fn` returns does not fit the cell, the template or the step before.

    >>> from unspool import GRUCell, raw_rnn
    >>> inputs, lengths, cell = torch.randn(5, 2, 3), torch.tensor([5, 2]), GRUCell(4)
    >>> def loop_fn(time, output, state, loop_state):
    ...     state = cell.zero_state(2, torch.float32) if output is None else state
    ...     return time >= lengths, inputs[min(time, 4)], state, output, None
    >>> emits, state, _ = raw_rnn(cell, loop_fn)
    >>> emits.stack().shape
    torch.Size([5, 2, 4])
    """
    cell = as_cell("cell", cell, starts=False)
    if not callable(loop_fn):
        raise TypeError(f"loop_fn must be callable, but is {loop_fn!r}")
    check_parallel_iterations(parallel_iterations)

    finished, inputs, state, template, loop_state = _call(loop_fn, 0, None, None, None)
    inputs, state = as_tensors(inputs, "next_input"), as_tensors(state, "next_cell_state")
    leaves = flatten(inputs)
    if not leaves or any(not isinstance(leaf, Tensor) or leaf.dim() == 0 for leaf in leaves):
        raise ValueError("next_input must be made of tensors [batch, ...]")
    batch_size, *others = [static_shape(leaf)[0] for leaf in leaves]
    if any(each != batch_size for each in others):
        raise ValueError(f"the batch sizes of next_input differ: {[batch_size, *others]}")
    if UNKNOWN not in flatten(cell.state_size):
        check_same_structure(cell.state_size, state, name="the initial state", like="cell.state_size", opaque=True)
    cell, state, axes = as_rows_first(cell, state, "the initial state")
    check_state_rows(state, batch_size, "the initial state")
    has_loop_state = loop_state is not None
    emits = _Emits(cell, template, state, batch_size)
    finished = _Finished(finished, batch_size)

    time = 0
    begin(cell, inputs, state)
    with profiled(scope_name(scope, "rnn")):
        while not finished.all():
            output, cell_state = step(cell, inputs, state)
            check_same_structure(state, cell_state, name="the cell's new state", like="its state")
            if cell.output_size is not UNKNOWN:
                check_same_structure(cell.output_size, output, name="the cell's output", like="cell.output_size")
            time += 1
            now, next_inputs, next_state, emit, next_loop_state = _call(
                loop_fn, time, output, own_layout(cell_state, axes), loop_state if has_loop_state else None
            )
            inputs = checked_like(inputs, as_tensors(next_inputs, "next_input"), "next_input", "the input")
            next_state = rows_first(as_tensors(next_state, "next_cell_state"), axes, "next_cell_state")
            next_state = checked_like(state, next_state, "next_cell_state", "the state")
            emits.append(emit, finished.rows)
            state = map_structure(lambda new, old, done=finished.rows: select_rows(~done, new, old), next_state, state)
            loop_state = loop_state if next_loop_state is None else next_loop_state
            finished.add(now)
    if not emits.known:  # no step has shown what they are
        emits.learn(entry.outputs_of_a_step(cell, inputs, state))
    return emits.arrays(), own_layout(state, axes), loop_state if has_loop_state else None


class _Finished:
    """Which rows are finished: one that was once stays so."""

    def __init__(self, finished: Any, batch_size: int) -> None:
        self._batch_size = batch_size
        self.rows = _as_finished(finished, batch_size)
        # What is no tensor is known for all values that a tracer may repeat the loop with.
        self._known: Any = None if isinstance(finished, Tensor) else np.asarray(finished)

    def add(self, finished: Any) -> None:
        self.rows = self.rows | _as_finished(finished, self._batch_size).to(self.rows.device)
        if self._known is not None:
            self._known = None if isinstance(finished, Tensor) else np.logical_or(self._known, finished)

    def all(self) -> bool:
        if self._known is not None:
            return bool(self._known.all())
        if not has_values(self.rows):
            raise RuntimeError(
                f"raw_rnn asks the tensor finished when to stop, which cannot be read under {obstacle()}: let loop_fn "
                "return bools that no tensor decides, such as time >= 5, or use dynamic_rnn with sequence_length"
            )
        return bool(self.rows.all())


def _as_finished(finished: Any, batch_size: int) -> Tensor:
    finished = constant(finished) if type(finished) in (list, tuple) else as_tensor(finished, "finished")
    if finished.dtype != torch.bool:
        raise TypeError(f"finished must be bool, but is {finished.dtype}")
    if finished.dim() and static_shape(finished) != (batch_size,):
        shape = list(static_shape(finished))
        raise ValueError(f"finished must have one entry per row, [{batch_size}], but has shape {shape}")
    return finished


def _call(loop_fn: LoopFn, *arguments: Any) -> tuple[Any, Any, Any, Any, Any]:
    returned: Any = loop_fn(*arguments)
    if not issubclass(type(returned), tuple | list) or len(returned) != 5:
        raise ValueError(
            "loop_fn must return (finished, next_input, next_cell_state, emit_output, next_loop_state), "
            f"but returned {returned!r}"
        )
    return tuple(returned)


class _Emits:
    """What a raw loop emits, step by step, in the structure of its template."""

    def __init__(self, cell: Any, template: Structure, state: Structure, batch_size: int) -> None:
        self._batch_size = batch_size
        self.known = template is not None or cell.output_size is not UNKNOWN
        self._template: Structure = None
        self._kinds: list[tuple[tuple[int, ...], torch.dtype]] = []
        if not self.known:
            pass  # the first emit shows it
        elif template is None:
            check_sizes(cell.output_size, "cell.output_size")
            self._template = cell.output_size
            dtype = next((leaf.dtype for leaf in flatten(state) if isinstance(leaf, Tensor)), None)
            if dtype is None:
                raise ValueError("a cell without a state needs an emit template: the dtype of its output is unknown")
            self._kinds = [((batch_size, *shape_of(size)), dtype) for size in flatten(cell.output_size)]
        else:
            self._template = map_structure(lambda leaf: as_tensor(leaf, "emit_output"), template)
            self._kinds = [((batch_size, *leaf.shape), leaf.dtype) for leaf in flatten(self._template)]
        self._steps: list[list[Tensor]] = []

    def learn(self, outputs: Outputs) -> None:
        """Takes what is emitted from an output."""
        if None in flatten(outputs.sizes):
            raise ValueError("the cell's output has None, so that loop_fn must give a template of what is emitted")
        self._template, self.known = outputs.sizes, True
        self._kinds = [((self._batch_size, *shape), dtype) for shape, dtype in outputs.leaves]

    def append(self, emit: Structure, finished: Tensor) -> None:
        if not self.known:
            self.learn(Outputs.of(emit, self._batch_size))
        check_same_structure(self._template, emit, name="emit_output", like="its template")
        expectation = "its template, which has no batch dimension, says"
        leaves = [
            checked(as_tensor(leaf, "emit_output"), shape, dtype, "emit_output", expectation)
            for leaf, (shape, dtype) in zip(flatten(emit), self._kinds, strict=True)
        ]
        self._steps.append([select_rows(~finished, leaf, leaf.new_zeros(())) for leaf in leaves])

    def arrays(self) -> Structure:
        columns = list(zip(*self._steps, strict=True)) or [()] * len(self._kinds)
        arrays = [
            TensorArray(dtype, element_shape=shape, elements=column)
            for column, (shape, dtype) in zip(columns, self._kinds, strict=True)
        ]
        return arrays[0] if is_leaf(self._template) else unflatten_as(self._template, arrays)
