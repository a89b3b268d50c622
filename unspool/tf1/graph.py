"""The graph: operations that know their inputs, and compute nothing until a session asks for them."""

from __future__ import annotations

import re
import threading
from collections import defaultdict
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from unspool.tf1.operation import NUMBERS, Operation

if TYPE_CHECKING:
    from unspool.tf1.tensor import Tensor

UNNAMED = "?"
"""The name of an operation that shall be named after the first that reads it."""

_NAME = re.compile(r"^[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*$")


class Graph:
    """Operations by name, and what programs keep beside them: scopes, variables, collections, a seed.

    >>> from unspool import tf1 as tf
    >>> graph = tf.Graph()
    >>> with graph.as_default():
    ...     total = tf.add(1, 2, name="total")
    >>> total.name, total.graph is graph, tf.Session(graph=graph).run(total)
    ('total:0', True, np.int32(3))
    """

    def __init__(self) -> None:
        self.outer: Graph | None = None
        """For the body of a loop or a branch, the graph around it."""
        self.seed: int | None = None
        self.finalized = False
        self._operations: dict[str, Operation] = {}
        self._uses: dict[str, int] = {}
        self._scope = ""
        self._control: list[Operation] = []
        self._collections: dict[str, list[Any]] = defaultdict(list)
        self._kept: dict[type[Any], Any] = {}
        self._gradients: dict[str, str] = {}

    @property
    def root(self) -> Graph:
        """The graph that is in no other: it has the variables and the collections."""
        return self if self.outer is None else self.outer.root

    # -- operations --------------------------------------------------------------------------------------------------

    def add(self, kind: str, name: str | None, *details: Any, **more: Any) -> Operation:
        """Adds an operation; see `Operation` for the details."""
        if self.finalized:
            raise RuntimeError("Graph is finalized and cannot be modified.")
        own = self._name_for(name, kind) if name != UNNAMED else f"_{next(NUMBERS)}"
        operation = Operation(self, kind, own, *details, **more)
        operation.unnamed = name == UNNAMED
        self._operations[operation.name] = operation
        return operation

    def name_after(self, operation: Operation, reader: Operation, role: str) -> None:
        """Names an operation that nobody named after the first that reads it, `reader/role`."""
        del self._operations[operation.name]
        operation.name, operation.unnamed = f"{reader.name}/{role}", False
        number = 0
        while operation.name in self._operations:
            number += 1
            operation.name = f"{reader.name}/{role}_{number}"
        self._uses.setdefault(operation.name.lower(), 1)
        self._operations[operation.name] = operation

    def _name_for(self, name: str | None, kind: str) -> str:
        if name and name.endswith("/"):  # a name scope, which is a whole name
            return name[:-1]
        if name:
            self._check_name(name)
        return self.unique_name(name or kind)

    def _check_name(self, name: str) -> None:
        """Raises `ValueError` unless the name below the current scope is a valid one."""
        if not _NAME.match(f"{self._scope}/{name}" if self._scope else name):
            first = "" if self._scope else ", and a letter, a digit or . begins one outside scopes"
            raise ValueError(f"'{name}' is not a valid scope name: letters, digits and _.-/ make a name{first}")

    def adopt(self, tensor: Tensor) -> Tensor:
        """The tensor, if it is of this graph; `ValueError` if it is of another."""
        if tensor.graph is not self:
            raise ValueError(
                f"{tensor!r} must be from the same graph as the operation that reads it: it was made in another one. "
                "Build both under the same `with graph.as_default():`"
            )
        return tensor

    @property
    def version(self) -> int:
        """A number that grows with every operation."""
        return len(self._operations)

    @property
    def is_empty(self) -> bool:
        """Whether it has no operations."""
        return not self._operations

    def get_operations(self) -> list[Operation]:
        """All operations, in the order in which they were made."""
        return sorted(self._operations.values(), key=lambda each: each.number)

    def get_operation_by_name(self, name: str) -> Operation:
        """The operation of that name; `KeyError` if there is none."""
        if name not in self._operations:
            raise KeyError(f"The name '{name}' refers to an Operation not in the graph.")
        return self._operations[name]

    def get_tensor_by_name(self, name: str) -> Tensor:
        """The tensor of that name, `operation:number`; `KeyError` if there is none."""
        operation, colon, number = name.partition(":")
        if not colon or not number.isdigit():
            raise ValueError(f"The name '{name}' is not a valid tensor name: it must be of the form 'operation:number'")
        if operation not in self._operations:
            raise KeyError(f"The name '{name}' refers to a Tensor which does not exist: there is no '{operation}'.")
        outputs = self._operations[operation].outputs
        if int(number) >= len(outputs):
            raise KeyError(f"The name '{name}' refers to output {number}, but '{operation}' has {len(outputs)}.")
        return outputs[int(number)]

    def as_graph_element(self, element: Any) -> Any:
        """The tensor or operation that is meant: one of them, a variable, or a name."""
        from unspool.tf1.tensor import Tensor

        if isinstance(element, str):
            return self.get_tensor_by_name(element) if ":" in element else self.get_operation_by_name(element)
        found = element._as_graph_element() if hasattr(element, "_as_graph_element") else element
        if not isinstance(found, Tensor | Operation):
            raise TypeError(f"Can not convert a {type(element).__name__} into a Tensor or Operation: {element!r}")
        if found.graph is not self:
            raise ValueError(f"{found!r} is not an element of this graph.")
        return found

    def finalize(self) -> None:
        """From now on, nothing can be added."""
        self.finalized = True

    def as_default(self) -> Any:
        """A context in which operations are added to this graph."""
        return _default.entered(self)

    # -- names -------------------------------------------------------------------------------------------------------

    def unique_name(self, name: str, mark_as_used: bool = True) -> str:
        """`name` below the current scope, with a number if it is taken."""
        full = f"{self._scope}/{name}" if self._scope else name
        base = key = full.lower()  # names that differ in case alone would be one file on some systems
        count = self._uses.get(key, 0)
        if mark_as_used:
            self._uses[key] = count + 1
        if not count:
            return full
        while key in self._uses:
            key = f"{base}_{count}"
            count += 1
        if mark_as_used:
            self._uses[key] = 1
        return f"{full}_{count - 1}"

    @contextmanager
    def name_scope(self, name: str | None) -> Generator[str, None, None]:
        """Puts `name/` before the names made inside; one that ends in "/" is entered again as it is."""
        before = self._scope
        if not name:
            self._scope = ""
        elif name.endswith("/"):
            self._scope = name[:-1]
        else:
            self._check_name(name)
            self._scope = self.unique_name(name)
        try:
            yield f"{self._scope}/" if self._scope else ""
        finally:
            self._scope = before

    def get_name_scope(self) -> str:
        """The current scope."""
        return self._scope

    # -- what must run first -----------------------------------------------------------------------------------------

    def current_control_inputs(self) -> tuple[Operation, ...]:
        """What an operation made now has to wait for."""
        return tuple(self._control)

    @contextmanager
    def control_dependencies(self, control_inputs: Iterable[Any] | None) -> Generator[None, None, None]:
        """Operations made inside run after these; None forgets those of the contexts around."""
        before = self._control
        if control_inputs is None:
            self._control = []
        else:
            first = [self.as_graph_element(each) for each in control_inputs]
            self._control = [*before, *(getattr(each, "op", each) for each in first)]
        try:
            yield
        finally:
            self._control = before

    @contextmanager
    def device(self, device_name_or_function: Any) -> Generator[None, None, None]:
        """Accepted and ignored: a session runs where torch's default device is."""
        yield

    @contextmanager
    def container(self, container_name: str) -> Generator[str, None, None]:
        """Accepted and ignored: each session has its own values of the variables."""
        yield container_name

    @contextmanager
    def gradient_override_map(self, op_type_map: Mapping[str, str]) -> Generator[None, None, None]:
        """Operations of some types that are made inside have gradients that `tf.RegisterGradient` registered.

        Args:
            op_type_map: the names of gradients by the types of operations, such as `{"Sign": "Straight"}`.
        """
        given: Any = op_type_map
        if not isinstance(given, dict) or not all(isinstance(each, str) for pair in given.items() for each in pair):  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
            raise TypeError("`op_type_map` must be a dictionary mapping strings to strings")
        before, self._gradients = self._gradients, {**self._gradients, **op_type_map}
        try:
            yield
        finally:
            self._gradients = before

    @contextmanager
    def plain_gradients(self) -> Generator[None, None, None]:
        """Operations that are made inside have gradients of their own."""
        before, self._gradients = self._gradients, {}
        with nullcontext() if self.outer is None else self.outer.plain_gradients():
            try:
                yield
            finally:
                self._gradients = before

    def gradient_name(self, kind: str) -> str | None:
        """The name of the gradient of operations of a type that are made now; None if it is autograd's."""
        return self._gradients.get(kind) or (None if self.outer is None else self.outer.gradient_name(kind))

    @contextmanager
    def colocate_with(self, op: Any, ignore_existing: bool = False) -> Generator[None, None, None]:
        """Accepted and ignored, as `device` is."""
        yield

    # -- collections -------------------------------------------------------------------------------------------------

    def add_to_collection(self, name: str, value: Any) -> None:
        """Appends to a named list."""
        self.root._collections[name].append(value)

    def add_to_collections(self, names: Any, value: Any) -> None:
        """Appends to several named lists, once each."""
        for name in dict.fromkeys([names] if isinstance(names, str) else names):
            self.add_to_collection(name, value)

    def get_collection(self, name: str, scope: str | None = None) -> list[Any]:
        """What was added to a list; with a scope, what has a name that begins so."""
        return [each for each in self.root._collections[name] if scope is None or _begins(each, scope)]

    def get_collection_ref(self, name: str) -> list[Any]:
        """The list itself."""
        return self.root._collections[name]

    def clear_collection(self, name: str) -> None:
        """Empties a list."""
        self.root._collections[name].clear()

    # -- files -------------------------------------------------------------------------------------------------------

    def as_graph_def(self, from_version: Any = None, add_shapes: bool = False) -> Any:
        """A `GraphDef` of all operations; see there."""
        from unspool.tf1.graph_def import GraphDef

        return GraphDef.of(self.root)

    def contents(self) -> dict[str, Any]:
        """All that it has, for `take` of another graph."""
        return dict(
            operations=self.get_operations(),
            uses=dict(self._uses),
            collections={name: list(values) for name, values in self._collections.items() if values},
            kept=dict(self._kept),
            seed=self.seed,
        )

    def take(self, contents: dict[str, Any], prefix: str = "") -> None:
        """Adds what another graph had, with `prefix/` before its names; `ValueError` if one of them is taken."""
        before = f"{prefix}/" if prefix else ""
        taken = [each.name for each in contents["operations"] if before + each.name in self._operations]
        if taken:
            raise ValueError(
                f"the graph has an operation {before + taken[0]!r} already: import into a new tf.Graph(), or below "
                "another name"
            )
        for each in contents["operations"]:
            each.name, each.number = before + each.name, next(NUMBERS)
            self._operations[each.name] = each
        self._uses.update({before.lower() + name: count for name, count in contents["uses"].items()})
        for name, values in contents["collections"].items():
            self._collections[name] += values
        for kind, value in contents["kept"].items():
            if hasattr(value, "absorb"):
                self.kept(kind).absorb(value)
            elif not prefix:
                self._kept.setdefault(kind, value)
        self.seed = contents["seed"] if self.seed is None else self.seed

    def kept(self, kind: type[Any]) -> Any:
        """The one object of that kind that belongs to this graph, made when first asked for."""
        store = self.root._kept
        if kind not in store:
            store[kind] = kind()
        return store[kind]


def _begins(item: Any, scope: str) -> bool:
    return re.match(scope, getattr(item, "name", "")) is not None


class _Defaults(threading.local):
    """The graphs that are the default, innermost last; each thread has its own."""

    def __init__(self) -> None:
        self.stack: list[Graph] = []
        self.bottom = Graph()

    @contextmanager
    def entered(self, graph: Graph) -> Generator[Graph, None, None]:
        stack = self.stack  # which `fresh` may have put aside when a context ends that nobody closed
        stack.append(graph)
        try:
            yield graph
        finally:
            # The innermost: a graph may be entered again inside itself, for the variables of a loop's body.
            del stack[len(stack) - 1 - stack[::-1].index(graph)]


_default = _Defaults()


def get_default_graph() -> Graph:
    """The graph that operations are added to."""
    return _default.stack[-1] if _default.stack else _default.bottom


def reset_default_graph() -> None:
    """Begins a new default graph; an error inside `with graph.as_default():`."""
    if _default.stack:
        raise AssertionError("Do not use tf.reset_default_graph() to clear nested graphs.")
    _default.bottom = Graph()


@contextmanager
def fresh() -> Generator[None, None, None]:
    """No default graphs of the caller's inside, and none from inside after it."""
    before = _default.stack, _default.bottom
    _default.stack, _default.bottom = [], Graph()
    try:
        yield
    finally:
        _default.stack, _default.bottom = before
