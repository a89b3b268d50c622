"""Scopes: the names of operations and variables, and how `get_variable` shares variables by name."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from typing import Any

from unspool.tf1.dtypes import DType, as_dtype, float32
from unspool.tf1.graph import get_default_graph
from unspool.tf1.initializers import as_initializer, glorot_uniform_initializer, zeros_initializer
from unspool.tf1.operations import as_array, as_tensor
from unspool.tf1.shapes import TensorShape, described, fit
from unspool.tf1.tensor import Operators, Tensor
from unspool.tf1.variables import GraphKeys, Variable, check_constraint

AUTO_REUSE = "AUTO_REUSE"
"""For `reuse`: variables that are there are shared, others are made."""


class VariableScope:
    """Where `get_variable` looks: a name, and what variables made inside have in common.

    Args:
        reuse: whether variables must be there already (True), must not (False), or may be (`AUTO_REUSE`).
        name: before the names of variables.
        initializer, regularizer, dtype, custom_getter: for variables that do not say otherwise.
        original_name_scope: before the names of operations.
    """

    def __init__(
        self,
        reuse: Any,
        name: str = "",
        initializer: Any = None,
        regularizer: Any = None,
        dtype: DType = float32,
        custom_getter: Any = None,
        original_name_scope: str = "",
    ) -> None:
        self.name, self.reuse, self.initializer, self.regularizer = name, reuse, initializer, regularizer
        self.dtype, self.custom_getter, self.original_name_scope = dtype, custom_getter, original_name_scope

    def reuse_variables(self) -> None:
        """From now on, variables must be there already."""
        self.reuse = True

    def set_initializer(self, initializer: Any) -> None:
        """Sets the initialiser of variables that do not say otherwise."""
        self.initializer = initializer

    def set_regularizer(self, regularizer: Any) -> None:
        """Sets the regulariser of variables that do not say otherwise."""
        self.regularizer = regularizer

    def set_custom_getter(self, custom_getter: Any) -> None:
        """Sets what is called instead of `get_variable`."""
        self.custom_getter = custom_getter

    def set_caching_device(self, caching_device: Any) -> None:
        """Accepted and ignored: a session runs where torch's default device is."""

    def set_partitioner(self, partitioner: Any) -> None:
        """Accepted and ignored: a variable is in one piece."""

    def set_use_resource(self, use_resource: Any) -> None:
        """Accepted and ignored: there is one kind of variables."""

    @property
    def caching_device(self) -> None:
        """None: a session runs where torch's default device is."""

    @property
    def partitioner(self) -> None:
        """None: a variable is in one piece."""

    def global_variables(self) -> list[Variable]:
        """The variables below this scope."""
        return get_default_graph().get_collection(GraphKeys.GLOBAL_VARIABLES, self.name + "/" if self.name else None)

    def trainable_variables(self) -> list[Variable]:
        """The trainable variables below this scope."""
        return get_default_graph().get_collection(GraphKeys.TRAINABLE_VARIABLES, self.name + "/" if self.name else None)

    def with_changes(self, **changes: Any) -> VariableScope:
        """The same scope with some of its attributes changed, where the change is not None."""
        arguments: dict[str, Any] = {
            **vars(self),
            **{key: value for key, value in changes.items() if value is not None},
        }
        return VariableScope(**arguments)


class VariableStore:
    """The variables of a graph that were made by `get_variable`, and the scopes that are open."""

    def __init__(self) -> None:
        self.variables: dict[str, Variable] = {}
        self.scope = VariableScope(False)
        self.counts: dict[str, int] = {}
        """How often each scope was opened, for names made from a default."""

    def unique(self, default_name: str) -> str:
        """`default_name` in the current scope, with a number if such a scope was opened before."""
        prefix = f"{self.scope.name}/" if self.scope.name else ""
        name, number = default_name, 0
        while self.counts.get(prefix + name):
            number += 1
            name = f"{default_name}_{number}"
        return name

    def forget_below(self, name: str) -> None:
        """What is opened inside a scope the next time is named as if for the first."""
        for key in self.counts:
            if not name or key.startswith(name + "/"):
                self.counts[key] = 0


def _store() -> VariableStore:
    return get_default_graph().kept(VariableStore)


def get_variable_scope() -> VariableScope:
    """The current scope of variables."""
    return _store().scope


@contextmanager
def name_scope(name: str | None, default_name: str | None = None, values: Any = None) -> Generator[str, None, None]:
    """Puts `name/` before the names of operations made inside.

    >>> from unspool import tf1 as tf
    >>> with tf.name_scope("layer"):
    ...     print(tf.constant(1, name="one").name)
    layer/one:0
    """
    with get_default_graph().name_scope(default_name if name is None else name) as scope:
        yield scope


@contextmanager
def variable_scope(
    name_or_scope: str | VariableScope | None,
    default_name: str | None = None,
    values: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    caching_device: Any = None,
    partitioner: Any = None,
    custom_getter: Any = None,
    reuse: Any = None,
    dtype: Any = None,
    use_resource: Any = None,
    constraint: Any = None,
    auxiliary_name_scope: bool = True,
) -> Generator[VariableScope, None, None]:
    """A scope for `get_variable`, and for the names of operations.

    Args:
        name_or_scope: its name below the current scope; or a scope to enter again, whose name is kept.
        default_name: the name if there is none, made unique.
        values: unused.
        initializer, regularizer, custom_getter, dtype: for variables that do not say otherwise.
        reuse: True if variables must be there already, `AUTO_REUSE` if they may be; else as around.
        auxiliary_name_scope: whether operations are named by it too.
        constraint: not supported.
        caching_device, partitioner, use_resource: unused.

    >>> from unspool import tf1 as tf
    >>> with tf.variable_scope("model"):
    ...     weight = tf.get_variable("weight", [2])
    >>> with tf.variable_scope("model", reuse=True):
    ...     print(weight.name, tf.get_variable("weight") is weight)
    model/weight:0 True
    """
    if default_name is None and name_or_scope is None:
        raise TypeError("If default_name is None then name_or_scope is required")
    if not isinstance(name_or_scope, str | VariableScope | None):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"VariableScope: name_or_scope must be a string or VariableScope, but is {name_or_scope!r}")
    check_constraint(constraint)
    store, graph = _store(), get_default_graph()
    before, counts = store.scope, None
    changes = dict(initializer=initializer, regularizer=regularizer, custom_getter=custom_getter)
    if dtype is not None:
        changes["dtype"] = as_dtype(dtype)
    if isinstance(name_or_scope, VariableScope):
        name, short = name_or_scope.name, name_or_scope.name.split("/")[-1]
        scope = name_or_scope.with_changes(reuse=reuse or name_or_scope.reuse, **changes)
        counts = dict(store.counts)
    else:
        short = name_or_scope or store.unique(default_name or "")
        name = f"{before.name}/{short}" if before.name else short
        scope = before.with_changes(reuse=reuse or before.reuse, **changes)
        if reuse is False and before.reuse is AUTO_REUSE:
            scope.reuse = False
        scope.name = name
    names = graph.name_scope(short)
    if not auxiliary_name_scope or not short:
        names = graph.name_scope(graph.get_name_scope() + "/" if graph.get_name_scope() else None)
    with names as operations:
        if not isinstance(name_or_scope, VariableScope):
            scope.original_name_scope = operations
        store.counts[name] = store.counts.get(name, 0) + 1
        store.scope = scope
        try:
            yield scope
        finally:
            store.scope = before
            store.forget_below(name)
            if counts is not None:
                store.counts = counts


@contextmanager
def resumed(scope: VariableScope) -> Generator[VariableScope, None, None]:
    """A scope as if it had not been left: names that were made unique in it stay taken."""
    store = _store()
    before, store.scope = store.scope, scope
    try:
        yield scope
    finally:
        store.scope = before


@contextmanager
def cell_scope(
    name: str, scope: Any, reuse: Any, numbered: bool, names_operations: bool = True
) -> Generator[VariableScope, None, None]:
    """The scope of a recurrent cell's variables, when it is called for the first time.

    Args:
        name: the cell's.
        scope: in the place of one of that name, if not None.
        reuse: whether the variables must be there already, or may be: then the name gets no number.
        numbered: whether a later cell of that name in the current scope gets a number, or the same scope.
        names_operations: whether operations are named by it too.
    """
    around = nullcontext()
    if not numbered and scope is None:
        around = variable_scope(get_variable_scope(), auxiliary_name_scope=False)  # forgets the names opened in it
    given = name if scope is None and reuse else scope
    with around, variable_scope(given, name, reuse=reuse, auxiliary_name_scope=names_operations) as entered:
        yield entered


def get_variable(
    name: str,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool | None = None,
    collections: Any = None,
    caching_device: Any = None,
    partitioner: Any = None,
    validate_shape: bool = True,
    use_resource: Any = None,
    custom_getter: Any = None,
    constraint: Any = None,
) -> Any:
    """The variable of that name in the current scope: a new one, or where the scope says reuse, the one that is there.

    Args:
        name: its name below the scope.
        shape: its shape; the initialiser's if that is a constant.
        dtype: its dtype; the scope's by default, which is float32.
        initializer: a tensor, numbers, or an initialiser; else the scope's, else Glorot's uniform.
        regularizer: a function of it whose result is added to the regularisation losses.
        trainable: whether optimisers change it by default.
        collections: the lists to add it to; the global variables by default.
        validate_shape: whether the shape is fixed.
        custom_getter: called instead of this function, with it as the first argument.
        constraint: not supported.
        caching_device, partitioner, use_resource: unused.

    Raises:
        ValueError: if it exists and is not to be reused, or the other way round, or its shape is not known or another.

    >>> from unspool import tf1 as tf
    >>> tf.get_variable("kernel", [3, 4])
    <tf.Variable 'kernel:0' shape=(3, 4) dtype=float32>
    """
    check_constraint(constraint)
    scope = get_variable_scope()
    getter = custom_getter or scope.custom_getter
    full = f"{scope.name}/{name}" if scope.name else name
    if initializer is not None and not callable(initializer):
        dtype = _dtype_of_value(initializer, dtype)
    details: dict[str, Any] = dict(
        shape=shape,
        dtype=scope.dtype if dtype is None else as_dtype(dtype),
        initializer=scope.initializer if initializer is None else initializer,
        regularizer=scope.regularizer if regularizer is None else regularizer,
        trainable=True if trainable is None else trainable,
        collections=collections,
        validate_shape=validate_shape,
        reuse=scope.reuse,
    )
    return _get(full, **details) if getter is None else getter(_get, full, **details)


def _dtype_of_value(value: Any, dtype: Any) -> DType:
    """The dtype of a first value, whatever the scope says; `ValueError` if another one is asked for."""
    own = value.dtype if isinstance(value, Operators) else as_dtype(as_array(value, None).dtype)  # pyright: ignore[reportAttributeAccessIssue]
    if dtype is not None and as_dtype(dtype) is not own:
        raise ValueError(f"Initializer type '{own!r}' and explicit dtype '{as_dtype(dtype)!r}' don't match.")
    return own


def _get(
    name: str,
    shape: Any = None,
    dtype: DType = float32,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    collections: Any = None,
    validate_shape: bool = True,
    reuse: Any = None,
    **_: Any,
) -> Variable:
    store = _store()
    found = store.variables.get(name)
    if found is None and reuse is True:
        raise ValueError(
            f"Variable {name} does not exist, or was not created with tf.get_variable(). Did you mean to set "
            "reuse=tf.AUTO_REUSE in VarScope?"
        )
    if found is None:
        found = store.variables[name] = _made(name, shape, dtype, initializer, trainable, collections, validate_shape)
        _regularize(found, regularizer)
        return found
    if not reuse:
        raise ValueError(
            f"Variable {name} already exists, disallowed. Did you mean to set reuse=True or reuse=tf.AUTO_REUSE in "
            "VarScope?"
        )
    if shape is not None and not fit(found.dims, TensorShape(shape).sizes):
        asked = described(TensorShape(shape).sizes)
        raise ValueError(
            f"Trying to share variable {name}, but specified shape {asked} and found shape {described(found.dims)}."
        )
    if dtype is not found.dtype:
        raise ValueError(
            f"Trying to share variable {name}, but specified dtype {dtype.name} and found dtype {found.dtype.name}."
        )
    return found


def _made(
    name: str, shape: Any, dtype: DType, initializer: Any, trainable: bool, collections: Any, validate_shape: bool
) -> Variable:
    graph = get_default_graph().root
    with graph.as_default(), graph.name_scope(None), graph.control_dependencies(None):
        initial: Any = initializer
        if initializer is None or callable(initializer):
            sizes = TensorShape(shape)
            if not sizes.is_fully_defined():
                raise ValueError(
                    f"Shape of a new variable ({name}) must be fully defined, but instead was {described(sizes.sizes)}."
                )
            default = glorot_uniform_initializer() if dtype.is_floating else zeros_initializer()
            chosen = default if initializer is None else as_initializer(initializer)
            initial = lambda: chosen(sizes.as_list(), dtype)  # noqa: E731
        elif shape is not None and not isinstance(initializer, Tensor):
            raise ValueError("If initializer is a constant, do not specify shape.")
        else:
            initial = as_tensor(initializer, None if isinstance(initializer, Tensor) else dtype)
        return Variable(initial, trainable, collections, validate_shape, name=name)


def _regularize(variable: Variable, regularizer: Callable[[Any], Any] | None) -> None:
    if regularizer is None:
        return
    with get_default_graph().root.name_scope(variable.op.name + "/Regularizer/"):
        loss = regularizer(variable)
    if loss is not None:
        get_default_graph().add_to_collection(GraphKeys.REGULARIZATION_LOSSES, loss)


def no_regularizer(_: Any) -> None:
    """For `regularizer`: none, whatever the scope says."""
