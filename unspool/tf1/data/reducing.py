"""One value of all elements of a dataset, computed by an operation that goes through it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from unspool.structure import Structure, check_same_structure, flatten, map_structure, unflatten_as
from unspool.tf1.data.elements import ElementFunction, Reading, Stage, as_element, specs_of
from unspool.tf1.functions import Like
from unspool.tf1.operations import apply

if TYPE_CHECKING:
    from unspool.tf1.session import Run


def reduced(stage: Stage, initial_state: Any, reduce_func: Callable[..., Any]) -> Structure:
    """See `Dataset.reduce`."""
    first = as_element(initial_state)
    function, state = _traced(stage, specs_of(first), reduce_func)
    begin = flatten(first)
    tensors = list(dict.fromkeys([*stage.reads(), *function.tensors]))

    def compute(run: Run, *values: Any) -> Any:
        reading = Reading(run, dict(zip(tensors, values[len(begin) :], strict=True)))
        made = list(values[: len(begin)])
        for element in stage.elements(reading):
            made = function(reading, [*made, *element])
        return made[0] if len(made) == 1 else made

    outputs = [(each.dtype, each.dims) for each in flatten(state)]
    made = apply("ReduceDataset", compute, *begin, *tensors, outputs=outputs, takes_run=True)
    return unflatten_as(first, [made] if len(begin) == 1 else made)


def _traced(stage: Stage, state: Structure, function: Callable[..., Any]) -> tuple[ElementFunction, Structure]:
    """The function of a state and an element, and what the state is like at every step."""
    while True:
        traced = ElementFunction(function, (state, stage.element))
        try:
            check_same_structure(state, traced.element, name="the new state", like="the initial state")
        except ValueError as error:
            raise TypeError(str(error)) from None
        for before, after in zip(flatten(state), flatten(traced.element), strict=True):
            if before.dtype is not after.dtype:
                raise TypeError(
                    f"The element types for the new state must match the initial state. Expected {before.dtype!r} but "
                    f"got {after.dtype!r}."
                )
        wider = map_structure(_widened, state, traced.element)
        if wider == state:
            return traced, state
        state = wider  # a size that changes from step to step is not known


def _widened(before: Like, after: Like) -> Like:
    if before.dims is None or after.dims is None or len(before.dims) != len(after.dims):
        return Like(before.dtype, None)
    pairs = zip(before.dims, after.dims, strict=True)
    return Like(before.dtype, tuple(one if one == other else None for one, other in pairs))
