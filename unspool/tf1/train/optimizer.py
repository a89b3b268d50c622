"""What optimisers share: gradients, what is remembered of each variable, and one operation that updates them all."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import torch

from unspool.flags import checks_flags
from unspool.structure import flatten
from unspool.tf1.gradients import gradients
from unspool.tf1.graph import get_default_graph
from unspool.tf1.indexed_slices import IndexedSlices
from unspool.tf1.operation import Operation
from unspool.tf1.operations import as_tensor
from unspool.tf1.shapes import described, fit
from unspool.tf1.tensor import Operators, Tensor
from unspool.tf1.train.slots import create_filled_slot
from unspool.tf1.variables import GraphKeys, Variable, trainable_variables

if TYPE_CHECKING:
    from unspool.tf1.session import Run

Tensors: TypeAlias = list[torch.Tensor]
Number: TypeAlias = "float | torch.Tensor"


class Optimizer:
    """The base of optimisers. One of them says what it remembers of a variable, and how it changes a list of them.

    Args:
        use_locking: accepted; there is one update at a time.
        name: of its operations, and of what it remembers: `weight/Adam`.

    >>> from unspool import tf1 as tf
    >>> tf.reset_default_graph()
    >>> weight = tf.Variable([3.0], name="weight")
    >>> step = tf.train.MomentumOptimizer(0.1, momentum=0.9).minimize(tf.reduce_sum(weight**2))
    >>> with tf.Session() as session:
    ...     session.run(tf.global_variables_initializer())
    ...     session.run(step)
    ...     print(session.run(weight).round(4), [variable.name for variable in tf.global_variables()])
    [2.4] ['weight:0', 'weight/Momentum:0']
    """

    GATE_NONE, GATE_OP, GATE_GRAPH = 0, 1, 2

    by_rows = True
    """Whether rows of a table that nobody looked up are left alone, with all that is remembered of them."""

    @checks_flags
    def __init__(self, use_locking: bool = False, name: str = "") -> None:
        if not name:
            raise ValueError("Must specify the optimizer name")
        self._name = name
        self._slots: dict[str, dict[Variable, Variable]] = {}
        self._shared: dict[tuple[str, Any], Variable] = {}

    # -- what an optimiser says --------------------------------------------------------------------------------------

    def slot_values(self) -> Mapping[str, tuple[str, float]]:
        """What is remembered of a variable: for each, its name in the graph, and the number that it begins with."""
        return {}

    def shared_values(self) -> Mapping[str, Any]:
        """What is remembered once for all variables: for each, the number that it begins with."""
        return {}

    def hyperparameters(self) -> Mapping[str, Any]:
        """Numbers or scalar tensors that an update needs; "learning_rate" is one."""
        raise NotImplementedError

    def update(
        self,
        weights: Tensors,
        grads: Tensors,
        slots: Mapping[str, Tensors],
        shared: Mapping[str, torch.Tensor],
        numbers: Numbers,
    ) -> None:
        """Changes variables, and what is remembered of them, in place; all are of one dtype."""
        raise NotImplementedError

    def finish(self, shared: Mapping[str, torch.Tensor], numbers: Numbers) -> None:
        """Changes what is remembered once, after all updates."""

    # -- what programs call ------------------------------------------------------------------------------------------

    def get_name(self) -> str:
        """Its name."""
        return self._name

    @checks_flags
    def minimize(
        self,
        loss: Any,
        global_step: Any = None,
        var_list: Any = None,
        gate_gradients: int = GATE_OP,
        aggregation_method: Any = None,
        colocate_gradients_with_ops: bool = False,
        name: str | None = None,
        grad_loss: Any = None,
    ) -> Operation:
        """An operation that changes variables so that `loss` gets less: `compute_gradients`, then `apply_gradients`.

        Args:
            loss: the tensor to minimise.
            global_step: a variable that is counted up by one afterwards.
            var_list: the variables to change; all trainable ones by default.
            name: the operation's name.
            grad_loss: what the loss is weighted with.
            gate_gradients: accepted, as the next two; results never depend on them.
            aggregation_method: accepted.
            colocate_gradients_with_ops: accepted.

        Raises:
            ValueError: if there are no variables, or the loss depends on none of them.
        """
        pairs = self.compute_gradients(loss, var_list, grad_loss=grad_loss)
        if all(grad is None for grad, _ in pairs):
            raise ValueError(
                "No gradients provided for any variable, check your graph for ops that do not support gradients, "
                f"between variables {[str(variable) for _, variable in pairs]} and loss {loss}."
            )
        return self.apply_gradients(pairs, global_step, name)

    @checks_flags
    def compute_gradients(
        self,
        loss: Any,
        var_list: Any = None,
        gate_gradients: int = GATE_OP,
        aggregation_method: Any = None,
        colocate_gradients_with_ops: bool = False,
        grad_loss: Any = None,
    ) -> list[tuple[Any, Any]]:
        """Pairs of a gradient, None where the loss does not depend on the variable, and the variable."""
        if loss is None:
            raise ValueError("loss is None, but must be the tensor to minimise")
        given = as_tensor(loss)
        if not given.dtype.is_floating:
            raise ValueError(f"Invalid type {given.dtype!r} for {given.name}, expected: floating-point numbers.")
        chosen = trainable_variables() if var_list is None else flatten(list(_iterated(var_list)))
        if not chosen:
            raise ValueError("No variables to optimize.")
        for each in chosen:
            if not isinstance(each, Operators):
                raise TypeError(f"Argument is not a tf.Variable: {each!r}")
        return list(zip(gradients(given, chosen, grad_ys=grad_loss), chosen, strict=True))

    def apply_gradients(
        self, grads_and_vars: Iterable[tuple[Any, Any]], global_step: Any = None, name: str | None = None
    ) -> Operation:
        """An operation that changes variables by gradients.

        Args:
            grads_and_vars: pairs as of `compute_gradients`; those without a gradient are left out.
            global_step: a variable that is counted up by one afterwards.
            name: the operation's name; by default the optimiser's.

        Raises:
            ValueError: if there are no pairs, or no gradients, or one has not the shape of its variable.
            TypeError: if no tensor can be made of a gradient.
        """
        pairs = list(grads_and_vars)
        if not pairs:
            raise ValueError("No variables provided.")
        kept = [(_gradient(grad, variable), variable) for grad, variable in pairs if grad is not None]
        if not kept:
            raise ValueError(f"No gradients provided for any variable: {[str(variable) for _, variable in pairs]}.")
        if global_step is not None and not isinstance(global_step, Variable):
            raise TypeError(f"global_step must be a tf.Variable, but is {global_step!r}")
        variables = [variable for _, variable in kept]
        shared = {key: self._shared_variable(key, number) for key, number in self.shared_values().items()}
        self._create_slots(variables)
        graph = get_default_graph()
        with graph.name_scope(name or self._name) as scope:
            change = _Update(self, kept, shared, global_step)
            operation = graph.add(f"Apply{self._name}", scope, change, change.inputs, (), takes_run=True, effect=True)
        graph.add_to_collection(GraphKeys.TRAIN_OP, operation)
        return operation

    def get_slot(self, var: Any, name: str) -> Variable | None:
        """What is remembered of a variable under that name; None if nothing is."""
        return self._slots.get(name, {}).get(var)

    def get_slot_names(self) -> list[str]:
        """The names for `get_slot`."""
        return sorted(self._slots)

    def variables(self) -> list[Variable]:
        """All that is remembered, by name."""
        graph = get_default_graph().root
        found = [*self._shared.values(), *(slot for each in self._slots.values() for slot in each.values())]
        return sorted((each for each in found if each.graph is graph), key=lambda each: each.name)

    # -- memory ------------------------------------------------------------------------------------------------------

    def _shared_variable(self, key: str, number: Any) -> Variable:
        place = key, get_default_graph().root
        if place not in self._shared:
            self._shared[place] = Variable(number, trainable=False, name=key)
        return self._shared[place]

    def _create_slots(self, variables: Sequence[Variable]) -> None:
        for variable in variables:
            for slot, (name, number) in self.slot_values().items():
                made = self._slots.setdefault(slot, {})
                if variable not in made:
                    made[variable] = create_filled_slot(variable, number, name)


class Numbers:
    """The hyperparameters of one update, as TensorFlow has them: float32 at first, then the variables' dtype.

    The learning rate may stay on the device; the others are Python's numbers.
    """

    def __init__(self, values: Mapping[str, Number], dtype: torch.dtype) -> None:
        self._values, self._dtype = values, dtype

    @property
    def rate(self) -> Number:
        """The learning rate."""
        value = self._values["learning_rate"]
        return value.to(self._dtype) if isinstance(value, torch.Tensor) else _rounded(value, self._dtype)

    def __getitem__(self, name: str) -> float:
        return _rounded(float(self._values[name]), self._dtype)

    def rest(self, name: str) -> float:
        """What is missing to 1, which for 0.999 is not 0.001 in float32."""
        return _rounded(1 - self[name], self._dtype)


@functools.lru_cache(maxsize=256)
def _rounded(number: float, dtype: torch.dtype) -> float:
    return torch.tensor(number, dtype=torch.float32).to(dtype).item() if dtype != torch.float64 else number


class _Update:
    """Changes all variables of an optimiser at once."""

    def __init__(
        self,
        optimizer: Optimizer,
        pairs: Sequence[tuple[Tensor | IndexedSlices, Variable]],
        shared: Mapping[str, Variable],
        global_step: Variable | None,
    ) -> None:
        self._optimizer, self._shared, self._global_step = optimizer, shared, global_step
        self._variables = [variable for _, variable in pairs]
        self._slots = {
            key: [slots[variable] for variable in self._variables] for key, slots in _slots_of(optimizer).items()
        }
        self._by_dtype: dict[torch.dtype, list[int]] = {}
        for number, variable in enumerate(self._variables):
            dtype = variable.dtype.torch
            assert dtype is not None, "only numbers have gradients"
            self._by_dtype.setdefault(dtype, []).append(number)
        self._numbers: dict[str, float] = {}
        self._symbolic: list[str] = []
        self.inputs: list[Tensor] = []
        graph = get_default_graph()
        for key, value in optimizer.hyperparameters().items():
            made = value() if callable(value) else value
            if isinstance(made, Operators):
                self._symbolic.append(key)
                self.inputs.append(graph.adopt(as_tensor(made)))
            else:
                self._numbers[key] = _as_float32(made, key)
        self._sliced = [isinstance(grad, IndexedSlices) for grad, _ in pairs]
        for grad, _ in pairs:
            parts = [grad.values, grad.indices] if isinstance(grad, IndexedSlices) else [grad]
            self.inputs += [graph.adopt(each) for each in parts]

    @torch.no_grad()
    def __call__(self, run: Run, *values: torch.Tensor) -> tuple[()]:
        given: dict[str, Any] = {**self._numbers, **dict(zip(self._symbolic, values, strict=False))}
        remaining = iter(values[len(self._symbolic) :])
        value_of = run.state.value_of
        weights: Tensors = [value_of(each) for each in self._variables]
        slots: dict[str, Tensors] = {key: [value_of(v) for v in each] for key, each in self._slots.items()}
        shared: dict[str, torch.Tensor] = {key: value_of(each) for key, each in self._shared.items()}
        grads: Tensors = []
        tables: list[_Rows] = []
        for number, sliced in enumerate(self._sliced):
            grad = next(remaining).detach()
            if sliced and self._optimizer.by_rows:
                places, grad = _added_up(grad, next(remaining))
                tables.append(_Rows(places, number, weights, slots))
            elif sliced:
                # Torch adds rows at int64 places in half the time that it takes for int32.
                grad = torch.zeros_like(weights[number]).index_add_(0, next(remaining).long(), grad)
            grads.append(grad)
        for dtype, own in self._by_dtype.items():
            one_kind = len(own) == len(weights)
            lists = [weights, grads, *slots.values()]
            chosen = lists if one_kind else [[each[k] for k in own] for each in lists]
            remembered = dict(zip(slots, chosen[2:], strict=True))
            self._optimizer.update(chosen[0], chosen[1], remembered, shared, Numbers(given, dtype))
        for table in tables:
            table.put_back()
        if shared:
            self._optimizer.finish(shared, Numbers(given, torch.float32))
        if self._global_step is not None:
            run.state.value_of(self._global_step).add_(1)
        return ()


def _added_up(values: torch.Tensor, indices: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The numbers of the rows that there are, each once, and their sums."""
    places, which = cast(Any, indices.long()).unique(return_inverse=True)
    return places, values.new_zeros(len(places), *values.shape[1:]).index_add_(0, which, values)


class _Rows:
    """Some rows of a variable, and of what is remembered of it, in the place of all."""

    def __init__(self, places: torch.Tensor, number: int, weights: Tensors, slots: Mapping[str, Tensors]) -> None:
        self._places = places
        self._parts: list[tuple[torch.Tensor, torch.Tensor]] = []
        for each in (weights, *slots.values()):
            whole, each[number] = each[number], each[number].detach()[places]
            self._parts.append((whole, each[number]))

    def put_back(self) -> None:
        for whole, part in self._parts:
            whole[self._places] = part


def _slots_of(optimizer: Optimizer) -> Mapping[str, dict[Variable, Variable]]:
    return optimizer._slots  # pyright: ignore[reportPrivateUsage]


def _gradient(grad: Any, variable: Any) -> Tensor | IndexedSlices:
    if not isinstance(variable, Variable):
        raise TypeError(f"Argument is not a tf.Variable: {variable!r}")
    if isinstance(grad, IndexedSlices):
        return grad
    try:
        made = as_tensor(grad, variable.dtype)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"Gradient must be convertible to a Tensor, or None: {grad!r} for {variable!r}; {error}"
        ) from None
    if not fit(made.dims, variable.dims):
        raise ValueError(
            f"the gradient of {variable.name} has shape {described(made.dims)}, but the variable "
            f"{described(variable.dims)}"
        )
    return made


def _as_float32(value: Any, name: str) -> float:
    try:
        return torch.tensor(float(value), dtype=torch.float32).item()
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number or a scalar tensor, but is {value!r}") from None


def _iterated(var_list: Any) -> Iterable[Any]:
    return [var_list] if isinstance(var_list, Operators) else var_list
