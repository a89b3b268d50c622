"""Averages of variables over the steps of training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from unspool.flags import checks_flags
from unspool.tf1.graph import get_default_graph
from unspool.tf1.operation import Operation
from unspool.tf1.operations import as_tensor
from unspool.tf1.ops.array import zeros_like
from unspool.tf1.tensor import Operators, Tensor
from unspool.tf1.train.slots import create_filled_slot, create_slot
from unspool.tf1.variables import GraphKeys, Variable, global_variables, trainable_variables

if TYPE_CHECKING:
    from unspool.tf1.session import Run


class ExponentialMovingAverage:
    """Keeps for each variable an average in which older values count less.

        average -= (1 - decay) * (average - variable)

    Args:
        decay: how much of the average stays, 0.999 for example; a number or a scalar tensor.
        num_updates: how many updates there were; with it, the decay is at most `(1 + n) / (10 + n)`.
        zero_debias: not supported.
        name: of the averages: `weight/ExponentialMovingAverage`.

    >>> from unspool import tf1 as tf
    >>> weight = tf.Variable(1.0, name="weight")
    >>> averages = tf.train.ExponentialMovingAverage(0.5)
    >>> update = averages.apply([weight])
    >>> with tf.Session() as session:
    ...     session.run(tf.global_variables_initializer())
    ...     session.run(weight.assign(3.0))
    ...     session.run(update)
    ...     session.run(averages.average(weight))
    np.float32(3.0)
    np.float32(2.0)
    """

    @checks_flags
    def __init__(
        self,
        decay: Any,
        num_updates: Any = None,
        zero_debias: bool = False,
        name: str = "ExponentialMovingAverage",
    ) -> None:
        if zero_debias:
            raise NotImplementedError("zero_debias is not supported; averages of variables never need it")
        self._decay, self._num_updates, self._name = decay, num_updates, name
        self._averages: dict[Any, Variable] = {}

    @property
    def name(self) -> str:
        """The name of the averages below their variables."""
        return self._name

    def apply(self, var_list: Sequence[Any] | None = None) -> Operation:
        """An operation that updates the averages of variables, or of other tensors; all trainable ones by default.

        Raises:
            TypeError: if one does not hold floating-point numbers.
            ValueError: if the average of one is computed already.
        """
        chosen = list(trainable_variables() if var_list is None else var_list)
        for each in chosen:
            if not each.dtype.is_floating:
                raise TypeError(f"The variables must be half, float, or double: {each.name}")
            if each in self._averages:
                raise ValueError(f"Moving average already computed for: {each.name}")
            self._averages[each] = self._created(each)
        graph = get_default_graph()
        with graph.name_scope(self._name) as scope:
            change = _Update(chosen, [self._averages[each] for each in chosen], self._decay, self._num_updates)
            return graph.add("AssignMovingAverage", scope, change, change.inputs, (), takes_run=True, effect=True)

    def _created(self, each: Any) -> Variable:
        if not isinstance(each, Variable):
            if each.shape.is_fully_defined():
                return create_filled_slot(each, 0.0, self._name)
            return create_slot(each, zeros_like(each), self._name)
        made = create_slot(each, each.initialized_value(), self._name)
        each.graph.add_to_collection(GraphKeys.MOVING_AVERAGE_VARIABLES, each)
        return made

    def average(self, var: Any) -> Variable | None:
        """The variable that holds the average of another; None if there is none."""
        return self._averages.get(var)

    def average_name(self, var: Any) -> str:
        """The name of the variable that holds the average, or would."""
        if var in self._averages:
            return self._averages[var].op.name
        graph = get_default_graph()
        with graph.name_scope(None):
            return graph.unique_name(f"{var.op.name}/{self._name}", mark_as_used=False)

    def variables_to_restore(self, moving_avg_variables: Sequence[Variable] | None = None) -> dict[str, Variable]:
        """For `Saver`: variables by the names of their averages, and those without one by their own.

        Args:
            moving_avg_variables: those whose averages are restored; by default the trainable ones, and those that have
                an average.
        """
        if moving_avg_variables is None:
            averaged = get_default_graph().get_collection(GraphKeys.MOVING_AVERAGE_VARIABLES)
            chosen = [*trainable_variables(), *averaged]
        else:
            chosen = list(moving_avg_variables)
        unique = dict.fromkeys(chosen)
        found = {self.average_name(each): each for each in unique}
        for each in global_variables():
            if each not in unique:
                found.setdefault(each.op.name, each)
        return found


class _Update:
    """Brings averages nearer to what the variables are now."""

    def __init__(self, averaged: Sequence[Any], averages: Sequence[Variable], decay: Any, updates: Any) -> None:
        graph = get_default_graph()
        self._averages = averages
        self._variables = [each if isinstance(each, Variable) else None for each in averaged]
        tensors = [as_tensor(each) for each in averaged if not isinstance(each, Variable)]
        # One that is a number is no input: on a GPU it would have to come back.
        self._decay: float | None = None if isinstance(decay, Operators) else _as_float32(decay)
        scalars = [as_tensor(each) for each in (decay, updates) if isinstance(each, Operators)]
        self._updates: float | None = None if updates is None or isinstance(updates, Operators) else float(updates)
        self._counts_updates = updates is not None
        self._scalars = len(scalars)
        self.inputs: list[Tensor] = [graph.adopt(each) for each in (*scalars, *tensors)]

    @torch.no_grad()
    def __call__(self, run: Run, *values: torch.Tensor) -> tuple[()]:
        scalars, tensors = iter(values[: self._scalars]), iter(values[self._scalars :])
        decay = torch.tensor(self._decay, device="cpu") if self._decay is not None else next(scalars).float()
        if self._counts_updates:
            count = next(scalars).float() if self._updates is None else torch.tensor(self._updates)
            decay = torch.minimum(decay, ((1.0 + count) / (10.0 + count)).to(decay.device))
        rest = 1 - decay
        for average, variable in zip(self._averages, self._variables, strict=True):
            place = run.state.value_of(average)
            value = next(tensors).detach() if variable is None else run.state.value_of(variable)
            place.sub_((place - value) * rest.to(place.dtype))
        return ()


def _as_float32(number: Any) -> float:
    return torch.tensor(float(number), dtype=torch.float32).item()
