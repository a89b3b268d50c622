"""Variables: tensors whose values a session keeps from run to run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from unspool.tf1.dtypes import DType
from unspool.tf1.errors import OutOfRangeError
from unspool.tf1.graph import get_default_graph
from unspool.tf1.operation import Operation
from unspool.tf1.operations import apply, as_tensor
from unspool.tf1.program import needed
from unspool.tf1.shapes import Dims, TensorShape, described, fit, merged
from unspool.tf1.string_values import Strings
from unspool.tf1.tensor import Operators, Tensor

if TYPE_CHECKING:
    from unspool.tf1.session import Run


class GraphKeys:
    """The names of the collections that programs ask for."""

    GLOBAL_VARIABLES = VARIABLES = "variables"
    LOCAL_VARIABLES = "local_variables"
    TRAINABLE_VARIABLES = "trainable_variables"
    REGULARIZATION_LOSSES = "regularization_losses"
    LOSSES = "losses"
    UPDATE_OPS = "update_ops"
    TRAIN_OP = "train_op"
    SUMMARIES = "summaries"
    GLOBAL_STEP = "global_step"
    MODEL_VARIABLES = "model_variables"
    SAVEABLE_OBJECTS = "saveable_objects"
    METRIC_VARIABLES = "metric_variables"
    MOVING_AVERAGE_VARIABLES = "moving_average_variables"
    TABLE_INITIALIZERS = "table_initializer"
    QUEUE_RUNNERS = "queue_runners"
    SAVERS = "savers"
    INIT_OP = "init_op"
    LOCAL_INIT_OP = "local_init_op"
    READY_OP = "ready_op"
    SUMMARY_OP = "summary_op"
    EVAL_STEP = "eval_step"


class Variable(Operators):
    """A tensor that keeps its value between runs, once its initialiser has run.

    Args:
        initial_value: what the initialiser assigns: a tensor, numbers, or a function that makes them.
        trainable: whether optimisers change it by default.
        collections: the lists to add it to; the global variables by default.
        validate_shape: whether the shape is fixed by the initial value.
        caching_device: unused.
        name: its name, made unique.
        dtype: its dtype; by default the initial value's.
        constraint: not supported.
        expected_shape, import_scope, use_resource, synchronization, aggregation, shape: unused; TensorFlow's.

    >>> from unspool import tf1 as tf
    >>> count = tf.Variable(1.0, name="count")
    >>> step = count.assign_add(2.0)
    >>> with tf.Session() as session:
    ...     session.run(tf.global_variables_initializer())
    ...     print(session.run(step), session.run(count), count.name)
    3.0 3.0 count:0
    """

    frozen: torch.Tensor | None = None
    """The value that it has in every session, in a graph whose variables became constants."""

    def __init__(
        self,
        initial_value: Any = None,
        trainable: bool = True,
        collections: Sequence[str] | None = None,
        validate_shape: bool = True,
        caching_device: Any = None,
        name: str | None = None,
        dtype: Any = None,
        expected_shape: Any = None,
        import_scope: Any = None,
        constraint: Any = None,
        use_resource: Any = None,
        synchronization: Any = None,
        aggregation: Any = None,
        shape: Any = None,
    ) -> None:
        check_constraint(constraint)
        if initial_value is None:
            raise ValueError("initial_value must be specified.")
        graph = get_default_graph().root  # the body of a loop has no variables of its own
        self.trainable, self.validate_shape = trainable, validate_shape
        with graph.as_default(), graph.control_dependencies(None), graph.name_scope(name or "Variable") as scope:
            with graph.name_scope("Initializer"):
                made = initial_value() if callable(initial_value) else initial_value
                initial = _before_variables(as_tensor(made, dtype, name="initial_value"))
            self.initial_value = initial
            self.dtype: DType = initial.dtype
            self.dims: Dims = initial.dims if validate_shape else None
            if validate_shape and not initial.shape.is_fully_defined():
                raise ValueError(
                    f"initial_value must have a shape specified: {initial!r}; or give validate_shape=False"
                )
            self.op: Operation = graph.add(
                "VariableV2",
                scope,
                lambda run: run.state.value_of(self),
                (),
                [(self.dtype, self.dims)],
                takes_run=True,
                variables=(self,),
            )
            self._value = self.op.outputs[0]
            self.initializer: Operation = self._assignment("Assign", initial, lambda _, new: new, reads=False).op
        keys = [GraphKeys.GLOBAL_VARIABLES] if collections is None else list(collections)
        graph.add_to_collections(keys + [GraphKeys.TRAINABLE_VARIABLES] * bool(trainable), self)

    # -- what it is --------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """`operation:0`."""
        return self._value.name

    @property
    def graph(self) -> Any:
        """The graph that it is in."""
        return self.op.graph

    @property
    def shape(self) -> TensorShape:
        """Its shape."""
        return TensorShape(self.dims)

    def get_shape(self) -> TensorShape:
        """Its shape."""
        return self.shape

    def set_shape(self, shape: Any) -> None:
        """Adds what is known about the shape; `ValueError` if it contradicts what was."""
        self.dims = merged(self.dims, TensorShape(shape).sizes)
        self._value.set_shape(shape)

    @property
    def device(self) -> str:
        """Empty: a session runs where torch's default device is."""
        return ""

    def value(self) -> Tensor:
        """Its value as a tensor."""
        return self._value

    def read_value(self) -> Tensor:
        """Its value at the time when this operation runs."""
        return apply(
            "Identity",
            lambda run, value: value.clone(),
            self._value,
            outputs=[(self.dtype, self.dims)],
            takes_run=True,
            name="read",
        )

    def initialized_value(self) -> Tensor:
        """Its value, or the initial one as long as it has none."""

        def either(run: Run, initial: torch.Tensor) -> torch.Tensor:
            return run.state.value_of(self) if run.state.is_initialized(self) else initial

        outputs = [(self.dtype, self.dims)]
        with self.graph.control_dependencies(None):  # an initialiser waits for nothing
            return apply("Merge", either, self.initial_value, outputs=outputs, takes_run=True, variables=(self,))

    def _as_graph_element(self) -> Tensor:
        return self._value

    # -- changes -----------------------------------------------------------------------------------------------------

    def assign(self, value: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True) -> Tensor:
        """A tensor that, when it is computed, sets the variable, and is its new value."""
        return self._assignment("Assign", value, lambda _, new: new, name, reads=False)

    def assign_add(
        self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Tensor:
        """A tensor that, when it is computed, adds to the variable, and is its new value."""
        return self._assignment("AssignAdd", delta, torch.add, name)

    def assign_sub(
        self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Tensor:
        """A tensor that, when it is computed, subtracts from the variable, and is its new value."""
        return self._assignment("AssignSub", delta, torch.sub, name)

    def count_up_to(self, limit: int) -> Tensor:
        """The value of a counter, which is one more afterwards; `OutOfRangeError` in a run at the limit."""

        def count(run: Run) -> torch.Tensor:
            value = run.state.value_of(self).detach().clone()
            if int(value) >= limit:
                raise OutOfRangeError(None, self.op, f"Reached limit of {limit}")
            run.state.assign(self, value + 1)
            return value

        outputs = [(self.dtype, self.dims)]
        return apply("CountUpTo", count, outputs=outputs, takes_run=True, effect=True, changes=(self,))

    def _assignment(
        self, kind: str, value: Any, change: Callable[[Any, Any], Any], name: str | None = None, reads: bool = True
    ) -> Tensor:
        given = as_tensor(value, None if isinstance(value, Operators) else self.dtype)
        if given.dtype is not self.dtype:
            raise TypeError(f"{self.op.name} is {self.dtype.name}, but is assigned {given.dtype.name}; use tf.cast")
        if self.validate_shape and not fit(self.dims, given.dims) and not (reads and given.dims == ()):
            raise ValueError(
                f"{self.op.name} has shape {described(self.dims)}, but is assigned a value of shape "
                f"{described(given.dims)}"
            )

        def assign(run: Run, new: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                before = run.state.value_of(self) if reads else None
                return run.state.assign(self, change(before, new))

        outputs = [(self.dtype, self.dims)]
        return apply(kind, assign, given, outputs=outputs, takes_run=True, effect=True, changes=(self,), name=name)

    def load(self, value: Any, session: Any = None) -> None:
        """Sets the variable in a session, at once."""
        from unspool.tf1.session import session_for

        found = session_for(session, self.graph)
        found.run(self.initializer, {self.initializer.inputs[0]: value})

    def eval(self, session: Any = None) -> Any:
        """Its value in the default session, or in the one given."""
        return self._value.eval(session=session)

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    def __bool__(self) -> bool:
        return True  # `if variable:` asks whether there is one, in TensorFlow 1 too; of a tensor it is an error

    def __repr__(self) -> str:
        return f"<tf.Variable '{self.name}' shape={described(self.dims)} dtype={self.dtype.name}>"


def _before_variables(initial: Tensor) -> Tensor:
    """A first value that, where it reads variables, reads their first values as long as they have no others.

    So an initialiser may run before those of the variables that it depends on, as in TensorFlow.
    """
    operations = needed([initial], ())
    stand_ins: dict[Tensor, Tensor] = {}
    for each in operations:
        if each.type == "VariableV2":
            stand_ins[each.outputs[0]] = each.variables[0].initialized_value()
        elif any(read in stand_ins for read in each.inputs):
            copy = each.copied([stand_ins.get(read, read) for read in each.inputs])
            stand_ins.update(zip(each.outputs, copy.outputs, strict=True))
    return stand_ins.get(initial, initial)


def check_constraint(constraint: Any) -> None:
    """Raises `NotImplementedError` for what would change a variable after every update."""
    if constraint is not None:
        raise NotImplementedError(
            f"constraint is {constraint!r}, but constraints are not supported: assign what the variable is to be "
            "after the update"
        )


def assign(
    ref: Variable, value: Any, validate_shape: Any = None, use_locking: Any = None, name: str | None = None
) -> Tensor:
    """`ref.assign(value)`."""
    return ref.assign(value, name=name)


def assign_add(ref: Variable, value: Any, use_locking: Any = None, name: str | None = None) -> Tensor:
    """`ref.assign_add(value)`."""
    return ref.assign_add(value, name=name)


def assign_sub(ref: Variable, value: Any, use_locking: Any = None, name: str | None = None) -> Tensor:
    """`ref.assign_sub(value)`."""
    return ref.assign_sub(value, name=name)


def global_variables(scope: str | None = None) -> list[Variable]:
    """All variables of the default graph, in the order in which they were made; with a scope, those of such names."""
    return get_default_graph().get_collection(GraphKeys.GLOBAL_VARIABLES, scope)


def trainable_variables(scope: str | None = None) -> list[Variable]:
    """The variables that optimisers change by default."""
    return get_default_graph().get_collection(GraphKeys.TRAINABLE_VARIABLES, scope)


def local_variables(scope: str | None = None) -> list[Variable]:
    """The variables that are not saved, such as those of metrics."""
    return get_default_graph().get_collection(GraphKeys.LOCAL_VARIABLES, scope)


def variables_initializer(var_list: Sequence[Variable], name: str = "init") -> Operation:
    """An operation that initialises these variables.

    >>> from unspool import tf1 as tf
    >>> weight = tf.get_variable("weight", [2], initializer=tf.ones_initializer())
    >>> with tf.Session() as session:
    ...     session.run(tf.variables_initializer([weight]))
    ...     session.run(weight)
    array([1., 1.], dtype=float32)
    """
    graph = get_default_graph().root
    with graph.as_default():
        return group(*(each.initializer for each in var_list), name=name)


def global_variables_initializer() -> Operation:
    """An operation that initialises all variables of the default graph."""
    return variables_initializer(global_variables())


def local_variables_initializer() -> Operation:
    """An operation that initialises the local variables."""
    return variables_initializer(local_variables())


def group(*inputs: Any, name: str | None = None) -> Operation:
    """An operation that runs all of these."""
    graph = get_default_graph()
    flat = [each for one in inputs for each in (one if isinstance(one, list | tuple) else [one])]  # pyright: ignore[reportUnknownVariableType]
    with graph.control_dependencies(flat):
        return graph.add("NoOp", name or "group_deps", lambda: (), (), ())


def no_op(name: str | None = None) -> Operation:
    """An operation that does nothing."""
    return get_default_graph().add("NoOp", name, lambda: (), (), ())


def is_variable_initialized(ref: Variable, name: str | None = None) -> Tensor:
    """Whether a variable has a value."""
    from unspool.tf1.dtypes import bool_

    def ask(run: Run) -> torch.Tensor:
        return torch.tensor(run.state.is_initialized(ref))

    return apply("IsVariableInitialized", ask, outputs=[(bool_, ())], takes_run=True, name=name)


def report_uninitialized_variables(var_list: Sequence[Variable] | None = None) -> Tensor:
    """The names of the variables that have no value yet, as bytes."""
    from unspool.tf1.dtypes import string

    asked = list(global_variables() if var_list is None else var_list)

    def report(run: Run) -> Strings:
        return Strings.of([each.op.name for each in asked if not run.state.is_initialized(each)])

    return apply("ReportUninitializedVariables", report, outputs=[(string, (None,))], takes_run=True)
