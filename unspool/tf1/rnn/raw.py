"""`raw_rnn`: a loop whose inputs, states and end a function of the graph decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from unspool.cells.like import assert_like_rnncell
from unspool.flags import checks_flags
from unspool.loops.arguments import check_parallel_iterations
from unspool.sizes import shape_of
from unspool.structure import Structure, check_same_structure, flatten, map_structure, unflatten_as
from unspool.tf1.dtypes import DType
from unspool.tf1.operations import apply, as_tensor, constant
from unspool.tf1.ops.array import shape
from unspool.tf1.ops.control_flow import while_loop
from unspool.tf1.ops.math import logical_not, logical_or, reduce_any
from unspool.tf1.rnn.modules import as_sizes
from unspool.tf1.scopes import variable_scope
from unspool.tf1.shapes import Dims, described
from unspool.tf1.tensor import Tensor
from unspool.tf1.tensor_array import TensorArray


@checks_flags
def raw_rnn(
    cell: Any,
    loop_fn: Callable[[Any, Any, Any, Any], Any],
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    scope: Any = None,
) -> tuple[Structure, Structure, Structure]:
    """Runs a cell for as long as `loop_fn` asks, on the inputs and states it gives: see `unspool.raw_rnn`.

    Args:
        cell: a cell.
        loop_fn: `loop_fn(time, cell_output, cell_state, loop_state)` returns `(finished, next_input, next_state, emit,
            next_loop_state)`; at first it is called with time 0 and None for the rest.
        parallel_iterations, swap_memory: checked; they do nothing, see `unspool.raw_rnn`.
        scope: the scope of the variables, "rnn" by default.

    Returns:
        A `TensorArray` of what was emitted, in the structure of the template; the final state; the final loop state.

    Raises:
        TypeError: if `cell` is no cell or `loop_fn` cannot be called.
        ValueError: if what `loop_fn` returns does not fit the cell, the template or the step before.
    """
    assert_like_rnncell("cell", cell)
    check_parallel_iterations(parallel_iterations)
    if not callable(loop_fn):
        raise TypeError("loop_fn must be a callable")
    with variable_scope(scope or "rnn") as found:
        time = constant(0, name="time")
        finished, inputs, state, template, loop_state = loop_fn(time, None, None, None)
        inputs, state = (map_structure(as_tensor, each) for each in (inputs, state))
        check_same_structure(
            as_sizes(cell.state_size), state, name="the first state of loop_fn", like="cell.state_size"
        )
        emits = _templates(cell, template, flatten(state)[0].dtype)
        outline = cell.output_size if template is None else template
        carries_loop = loop_state is not None
        arrays = [TensorArray(kind, 0, True, element_shape=dims) for kind, dims in _with_rows(emits, inputs)]
        rows = shape(flatten(inputs)[0])[0]

        def going(t: Any, ended: Any, *_: Any) -> Any:
            return reduce_any(logical_not(ended))

        def turn(t: Any, ended: Any, x: Any, s: Any, written: Any, carried: Any) -> Any:
            with variable_scope(found, auxiliary_name_scope=False):
                output, new = cell(x, s)
            now, following, wanted, emit, passed = loop_fn(t + 1, output, new, carried if carries_loop else None)
            emit = output if emit is None else emit
            check_same_structure(s, wanted, name="the state of loop_fn", like="the state before")
            check_same_structure(
                map_structure(lambda _: 0, outline),
                map_structure(lambda _: 0, emit),
                name="what loop_fn emits",
                like="its template",
            )
            kept = [_masked(ended, each, None) for each in flatten(emit)]
            wanted = map_structure(lambda after, before: _masked(ended, after, before), wanted, s)
            written = [array.write(t, each) for array, each in zip(written, kept, strict=True)]
            carried = carried if not carries_loop or passed is None else passed
            return t + 1, logical_or(ended, now), following, wanted, written, carried

        first = [time, as_tensor(finished), inputs, state, arrays, loop_state if carries_loop else time]
        _, _, _, last, written, carried = while_loop(going, turn, first, parallel_iterations=parallel_iterations or 32)
        made = [_sized_array(array, kind, dims, rows) for array, (kind, dims) in zip(written, emits, strict=True)]
        return unflatten_as(map_structure(lambda _: 0, outline), made), last, carried if carries_loop else None


def _templates(cell: Any, template: Structure, dtype: DType) -> list[tuple[DType, Dims]]:
    """The dtype and the shape of a row of everything that is emitted."""
    if template is None:
        return [(dtype, shape_of(size)) for size in flatten(as_sizes(cell.output_size))]
    return [(each.dtype, each.dims) for each in map(as_tensor, flatten(template))]


def _with_rows(emits: list[tuple[DType, Dims]], inputs: Structure) -> list[tuple[DType, Dims]]:
    rows = (flatten(inputs)[0].dims or (None,))[0]
    return [(kind, None if dims is None else (rows, *dims)) for kind, dims in emits]


def _masked(ended: Tensor, new: Any, old: Any) -> Any:
    """`old`, or zeros, for the rows that had ended; what has no rows is always new."""
    if isinstance(new, TensorArray):
        return new
    value = as_tensor(new)
    if value.dims == ():
        return value

    def choose(rows: torch.Tensor, after: torch.Tensor, *before: torch.Tensor) -> torch.Tensor:
        if after.dim() == 0:
            return after
        over = rows.reshape(-1, *[1] * (after.dim() - 1)) if rows.dim() else rows
        return torch.where(over, before[0] if before else after.new_zeros(()), after)

    others = [] if old is None else [as_tensor(old)]
    for each in others:
        if each.dims is not None and value.dims is not None and len(each.dims) != len(value.dims):
            raise ValueError(
                f"a state may not change its shape: it was {described(each.dims)}, and is {described(value.dims)}"
            )
    return apply("Select", choose, ended, value, *others, outputs=[(value.dtype, value.dims)])


def _sized_array(array: TensorArray, kind: DType, dims: Dims, rows: Tensor) -> TensorArray:
    """An array that can be stacked even if no step ran: it knows the shape of its elements."""

    def told(values: Any, count: torch.Tensor) -> Any:
        if values.size() or dims is None:
            return values
        return type(values)(kind.torch, element_shape=(int(count), *(size or 0 for size in dims)))

    return array.with_flow(apply("Identity", told, array.flow, rows, outputs=[(kind, ())]))
