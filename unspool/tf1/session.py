"""The session: it holds the values of variables, and runs a graph for what is fetched."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from unspool.structure import Structure, describe, flatten, unflatten_as
from unspool.tf1.errors import FailedPreconditionError, InvalidArgumentError
from unspool.tf1.feeding import as_fed
from unspool.tf1.graph import Graph, get_default_graph
from unspool.tf1.indexed_slices import IndexedSlices, IndexedSlicesValue
from unspool.tf1.internals.device_lib import DeviceAttributes, session_devices
from unspool.tf1.operation import Operation
from unspool.tf1.program import Program
from unspool.tf1.rerolling.chains import joined
from unspool.tf1.sparse.tensor import SparseTensor, SparseTensorValue
from unspool.tf1.string_values import Strings
from unspool.tf1.tables import noting_lookups
from unspool.tf1.tensor import Tensor

if TYPE_CHECKING:
    from unspool.tf1.variables import Variable


class Session:
    """Runs a graph. Each session has its own values of the variables, and is closed when it is no longer needed.

    It computes on torch's default device: `torch.set_default_device("cuda")` before it is made for a GPU.

    Args:
        target: unused; TensorFlow's address of a server.
        graph: the graph to run; the default one if None.
        config: unused; TensorFlow's options.

    >>> from unspool import tf1 as tf
    >>> x = tf.placeholder(tf.float32, [None])
    >>> with tf.Session() as session:
    ...     session.run({"double": 2 * x}, feed_dict={x: [1, 2]})
    {'double': array([2., 4.], dtype=float32)}
    """

    def __init__(self, target: str = "", graph: Graph | None = None, config: Any = None) -> None:
        if graph is not None and not isinstance(graph, Graph):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"graph must be a tf.Graph, but got a {type(graph).__name__}")
        self.graph = graph or get_default_graph().root
        self.device = torch.get_default_device()
        self.state = State(self.device)
        self._programs: dict[Any, Program] = {}
        self._partial_runs: dict[str, Any] = {}
        self._closed = False
        self._contexts: list[AbstractContextManager[Any]] = []

    def run(self, fetches: Structure, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """Computes what is fetched.

        Args:
            fetches: a tensor, an operation, a variable, the name of one, or a nested structure of these.
            feed_dict: values for placeholders, or for any other tensors.
            options, run_metadata: unused; TensorFlow's tracing.

        Returns:
            NumPy arrays in the structure of `fetches`; None for operations.

        Raises:
            RuntimeError: if the session is closed.
            TypeError: if something cannot be fetched, or a value has the wrong dtype.
            ValueError: if something is not of this graph, or a value has the wrong shape.
            InvalidArgumentError: if a placeholder is not fed, or an operation cannot take its inputs.
            FailedPreconditionError: if a variable is not initialised.
        """
        if self._closed:
            raise RuntimeError("Attempted to use a closed Session.")
        if self.graph.is_empty:
            raise RuntimeError("The Session graph is empty. Add operations to the graph before calling run().")
        listed = type(fetches) in (list, tuple) and all(isinstance(each, Tensor | Operation) for each in fetches)
        wanted: list[Any] = list(fetches) if listed else flatten(fetches)
        leaves = [self._element(part) for each in wanted for part in _parts(each)]
        fed = as_fed(self.graph, feed_dict, self.device)
        key = tuple(map(id, leaves)), frozenset(map(id, fed))
        program = self._programs.get(key)
        if program is None:
            program = self._programs[key] = Program(leaves, list(fed), joined)
        with torch.set_grad_enabled(bool(program.gradients)), self._placed(), noting_lookups():
            found = [_as_numpy(value) for value in program(Run(self.state, program), fed)]
        if listed:
            return found if type(fetches) is list else tuple(found)
        values = iter(found)
        return unflatten_as(fetches, [_whole(each, [next(values) for _ in _parts(each)]) for each in wanted])

    def _element(self, fetch: Any) -> Tensor | Operation:
        if isinstance(fetch, Tensor | Operation) and fetch.graph is self.graph:
            return fetch
        if not isinstance(fetch, str | Operation | Tensor) and not hasattr(fetch, "_as_graph_element"):
            raise TypeError(
                f"Fetch argument {fetch!r} has invalid type {type(fetch)}, must be a string or Tensor. "
                f"(Can not convert {describe(fetch)} into a Tensor or Operation.)"
            )
        try:
            return self.graph.as_graph_element(fetch)
        except (KeyError, ValueError) as error:
            raise ValueError(f"Fetch argument {fetch!r} cannot be interpreted as a Tensor. ({error})") from None

    def _placed(self) -> AbstractContextManager[Any]:
        return nullcontext() if self.device.type == "cpu" else self.device

    def make_callable(self, fetches: Structure, feed_list: Any = None) -> Any:
        """A function that takes the values of `feed_list` and returns those of `fetches`."""
        names = list(feed_list or ())
        return lambda *values: self.run(fetches, dict(zip(names, values, strict=True)))

    def partial_run_setup(self, fetches: Structure, feeds: Structure = None) -> str:
        """Prepares a run in several calls, of `partial_run`, and returns its handle.

        Args:
            fetches: the tensors that will be fetched, each once.
            feeds: those that will be fed, each once.

        >>> from unspool import tf1 as tf
        >>> x, y = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
        >>> first = x + 1.0
        >>> second = first * y
        >>> session = tf.Session()
        >>> handle = session.partial_run_setup([first, second], [x, y])
        >>> session.partial_run(handle, first, {x: 1.0}), session.partial_run(handle, second, {y: 3.0})
        (np.float32(2.0), np.float32(6.0))
        """
        from unspool.tf1.partial_run import PartialRun

        made = PartialRun(self, fetches, feeds)
        self._partial_runs[handle := f"{len(self._partial_runs)};{id(made)}"] = made
        return handle

    def partial_run(self, handle: str, fetches: Structure, feed_dict: Any = None) -> Any:
        """Computes some of the fetches that were set up, from what was fed and computed so far."""
        found = self._partial_runs.get(handle)
        if found is None or found.finished:
            raise InvalidArgumentError(None, None, "Must run 'setup' before performing partial runs!")
        return found.run(fetches, feed_dict)

    def list_devices(self) -> list[DeviceAttributes]:
        """The CPU, and the GPUs that torch sees."""
        return session_devices()

    @property
    def graph_def(self) -> Any:
        """A `GraphDef` of its graph."""
        return self.graph.as_graph_def()

    def close(self) -> None:
        """Forgets all values; the session cannot run any more."""
        self._closed = True
        self._programs.clear()
        self.state.clear()

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._closed

    def as_default(self) -> AbstractContextManager[Session]:
        """A context in which `tensor.eval()` and `operation.run()` use this session."""
        return _sessions.entered(self)

    def __enter__(self) -> Session:
        if self._closed:
            raise RuntimeError("Attempted to use a closed Session.")
        graph, session = self.graph.as_default(), self.as_default()
        graph.__enter__()
        session.__enter__()
        self._contexts += [graph, session]
        return self

    def __exit__(self, *error: Any) -> None:
        for context in (self._contexts.pop(), self._contexts.pop()):
            context.__exit__(*error)
        self.close()


class InteractiveSession(Session):
    """A session that is the default one from when it is made until it is closed, for a notebook or a shell.

    >>> from unspool import tf1 as tf
    >>> session = tf.InteractiveSession()
    >>> tf.constant(3).eval()
    np.int32(3)
    >>> session.close()
    """

    def __init__(self, target: str = "", graph: Graph | None = None, config: Any = None) -> None:
        super().__init__(target, graph, config)
        self._entered = [self.graph.as_default()] if graph is not None else []
        self._entered.append(self.as_default())
        for context in self._entered:
            context.__enter__()

    def close(self) -> None:
        """Ends it, and is no longer the default."""
        super().close()
        while self._entered:
            self._entered.pop().__exit__(None, None, None)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


class State:
    """What a session holds between runs: the values of variables, and what else lives as long as it."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._values: dict[Variable, torch.nn.Parameter] = {}
        self._set: set[Variable] = set()
        self._kept: dict[Any, Any] = {}
        self._making = threading.RLock()

    def is_initialized(self, variable: Variable) -> bool:
        """Whether it has a value."""
        return variable in self._set

    def place_of(self, variable: Variable) -> torch.nn.Parameter:
        """Where its value is or will be: always the same tensor, also for modules that use it as their weight."""
        if variable not in self._values:
            sizes = [0 if size is None else size for size in variable.dims or ()]
            blank = torch.empty(sizes, dtype=variable.dtype.torch, device=self.device)
            self._values[variable] = torch.nn.Parameter(blank, variable.trainable and variable.dtype.is_floating)
        return self._values[variable]

    def value_of(self, variable: Variable) -> torch.nn.Parameter:
        """Its value; `FailedPreconditionError` if it has none."""
        if variable not in self._set and variable.frozen is not None:
            return self.assign(variable, variable.frozen)
        if variable not in self._set:
            message = f"Attempting to use uninitialized value {variable.op.name}"
            raise FailedPreconditionError(None, variable.op, message)
        return self._values[variable]

    def assign(self, variable: Variable, value: torch.Tensor) -> torch.nn.Parameter:
        """Gives it a value."""
        place = self.place_of(variable)
        with torch.no_grad():
            if place.shape == value.shape:
                place.copy_(value)
            elif variable.validate_shape:
                raise ValueError(
                    f"variable {variable.op.name} has shape {list(place.shape)}, but is assigned a value of shape "
                    f"{list(value.shape)}"
                )
            else:
                place.data = value.detach().clone()
        self._set.add(variable)
        return place

    def kept(self, key: Any, make: Any) -> Any:
        """What belongs to `key` as long as the session lives, made when first asked for."""
        if key not in self._kept:
            with self._making:  # threads that run the same session share what is kept
                if key not in self._kept:
                    self._kept[key] = make()
        return self._kept[key]

    def part(self, variables: Iterable[Variable]) -> State:
        """A state that has the values of these variables, and nothing else of the session's."""
        made = State(self.device)
        made._values = {each: self.place_of(each) for each in variables}
        made._set = set(made._values)
        return made

    def clear(self) -> None:
        """Forgets everything, and lets threads go that wait for something in it."""
        for each in list(self._kept.values()):
            if hasattr(each, "end"):
                each.end()
        self._values.clear()
        self._set.clear()
        self._kept.clear()


class Run:
    """One call of `Session.run`, as operations see it."""

    def __init__(self, state: State, program: Program, cells: Mapping[Any, Any] | None = None) -> None:
        self.state, self.program, self._cells = state, program, cells or {}
        self.is_step = False
        """Whether random operations draw from torch's own generators, which whoever runs a loop has seeded."""

    def inside(self, cells: Mapping[Any, Any]) -> Run:
        """The same run inside a module, whose parts some cells are."""
        if not cells:
            return self
        made = Run(self.state, self.program, cells)
        made.is_step = self.is_step
        return made

    def alone(self, variables: Iterable[Variable]) -> Run:
        """A run of what needs the values of these variables alone: whoever looks into it finds nothing else."""
        made = Run(self.state.part(variables), self.program)
        made.is_step = True
        return made

    def module(self, bound: Any, values: Sequence[Any]) -> Any:
        """The module of a cell, with the values that it needs of the run."""
        return self._cells[bound] if bound in self._cells and not values else bound.in_run(self, values)

    def placed(self, constant: torch.Tensor) -> torch.Tensor:
        """A constant on the session's device."""
        if self.state.device.type == "cpu":
            return constant
        return self.state.kept(id(constant), lambda: (constant, constant.to(self.state.device)))[1]


class _Sessions(threading.local):
    """The sessions that are the default, innermost last; each thread has its own."""

    def __init__(self) -> None:
        self.stack: list[Session] = []

    @contextmanager
    def entered(self, session: Session) -> Generator[Session, None, None]:
        stack = self.stack  # which `fresh` may have put aside when a context ends that nobody closed
        stack.append(session)
        try:
            yield session
        finally:
            del stack[len(stack) - 1 - stack[::-1].index(session)]


_sessions = _Sessions()


def get_default_session() -> Session | None:
    """The session that `eval()` and `run()` use, if there is one."""
    return _sessions.stack[-1] if _sessions.stack else None


@contextmanager
def fresh() -> Generator[None, None, None]:
    """No default sessions of the caller's inside, and none from inside after it."""
    before, _sessions.stack = _sessions.stack, []
    try:
        yield
    finally:
        _sessions.stack = before


def session_for(session: Any, graph: Graph) -> Session:
    """The session given, or the default one; `ValueError` if there is none for the graph."""
    found = session or get_default_session()
    if found is None:
        raise ValueError(
            "Cannot evaluate without a session: No default session is registered. Use `with sess.as_default()` or pass "
            "an explicit session to eval(session=sess) or run(session=sess)"
        )
    if found.graph is not graph.root:
        raise ValueError("Cannot use the default session: what is evaluated is of another graph than the session's")
    return found


def _parts(fetch: Any) -> list[Any]:
    """What is computed for a fetch."""
    if isinstance(fetch, SparseTensor):
        return fetch.parts()
    return [fetch.values, fetch.indices] if isinstance(fetch, IndexedSlices) else [fetch]


def _whole(fetch: Any, values: list[Any]) -> Any:
    if isinstance(fetch, SparseTensor):
        return SparseTensorValue(*values)
    return (
        IndexedSlicesValue(values[0], values[1], fetch.dense_shape) if isinstance(fetch, IndexedSlices) else values[0]
    )


def _as_numpy(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return _as_numpy(value.stack()) if hasattr(value, "stack") else value
    if isinstance(value, Strings):
        return value.item() if value.dim() == 0 else value.array()
    kept = value.detach().cpu()
    if kept.dtype == torch.bfloat16:  # NumPy has none
        kept = kept.float()
    array: np.ndarray[Any, Any] = kept.numpy()
    return array[()] if array.ndim == 0 else array.copy()
