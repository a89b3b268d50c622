"""Iterators: stateful operations that go through a dataset, an element for every run that reads `get_next()`."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator as Elements
from typing import TYPE_CHECKING, Any

from unspool.structure import Structure, check_same_structure, flatten, map_structure, unflatten_as
from unspool.tf1.data.elements import Reading, Stage, shapes_of, spec_from, types_of
from unspool.tf1.dtypes import string
from unspool.tf1.errors import FailedPreconditionError, OpError, OutOfRangeError
from unspool.tf1.graph import get_default_graph
from unspool.tf1.operation import Operation
from unspool.tf1.operations import apply, as_tensor
from unspool.tf1.program import Program, needed
from unspool.tf1.shapes import fit
from unspool.tf1.string_values import Strings
from unspool.tf1.tensor import Tensor

if TYPE_CHECKING:
    from unspool.tf1.data.dataset import Dataset
    from unspool.tf1.session import Run, State

_NUMBERS = itertools.count()


class Iterator:
    """Goes through a dataset: `get_next()` is an element, and another one in every run.

    Args:
        element: what elements are like.
        once: the dataset, for an iterator that begins by itself.

    >>> from unspool import tf1 as tf
    >>> data = tf.placeholder(tf.int32, [None])
    >>> iterator = tf.data.Dataset.from_tensor_slices(data).make_initializable_iterator()
    >>> element = iterator.get_next()
    >>> with tf.Session() as session:
    ...     session.run(iterator.initializer, {data: [3, 4]})
    ...     int(session.run(element)), int(session.run(element))
    ...     try:
    ...         session.run(element)
    ...     except tf.errors.OutOfRangeError as error:
    ...         print(error.message)
    (3, 4)
    End of sequence
    """

    def __init__(self, element: Structure, once: Stage | None = None) -> None:
        self._element, self._once = element, once
        self._initializer: Operation | None = None
        self._handle: str = f"iterator-{next(_NUMBERS)}"
        self._fed: Tensor | None = None

    @staticmethod
    def from_structure(
        output_types: Any, output_shapes: Any = None, shared_name: str | None = None, output_classes: Any = None
    ) -> Iterator:
        """An iterator without a dataset: `make_initializer(dataset)` gives it one, and another one later.

        Args:
            output_types: the dtypes of elements, in their structure.
            output_shapes: their shapes; unknown by default.
            shared_name: accepted.
            output_classes: accepted.
        """
        return Iterator(spec_from(output_types, output_shapes))

    @staticmethod
    def from_string_handle(
        string_handle: Any, output_types: Any, output_shapes: Any = None, output_classes: Any = None
    ) -> Iterator:
        """The iterator that a handle names, which is fed: see `string_handle()`."""
        made = Iterator(spec_from(output_types, output_shapes))
        made._fed = as_tensor(string_handle, string)
        if not fit(made._fed.dims, ()):
            raise ValueError(f"string_handle must be a scalar, but is {made._fed!r}")
        return made

    def get_next(self, name: str | None = None) -> Structure:
        """An element: fetched in two runs it is two elements, fetched twice in one run it is one.

        Raises:
            FailedPreconditionError: in a run, if the iterator was not initialised.
            OutOfRangeError: in a run, if there is no element left.
        """
        leaves = flatten(self._element)
        outputs = [(each.dtype, each.dims) for each in leaves]

        def advance(run: Run, *handle: Strings) -> Any:
            position = _position(run.state, handle[0].item()) if handle else self._place(run.state)
            made = position.next(leaves)
            return made[0] if len(made) == 1 else made

        inputs = [] if self._fed is None else [self._fed]
        made = apply("IteratorGetNext", advance, *inputs, outputs=outputs, takes_run=True, name=name)
        return unflatten_as(self._element, [made] if len(leaves) == 1 else made)

    @property
    def initializer(self) -> Operation:
        """The operation that begins; `ValueError` if the iterator begins by itself, or has no dataset."""
        if self._initializer is None:
            raise ValueError("Iterator does not have an initializer.")
        return self._initializer

    def make_initializer(self, dataset: Dataset, name: str | None = None) -> Operation:
        """An operation that lets the iterator begin with a dataset.

        Raises:
            TypeError: if its elements are of another structure, dtype or shape.
        """
        stage = dataset.stage
        try:
            check_same_structure(self._element, stage.element, name="the dataset's element", like="the iterator's")
        except ValueError as error:
            raise TypeError(str(error)) from None
        for mine, theirs in zip(flatten(self._element), flatten(stage.element), strict=True):
            if mine.dtype is not theirs.dtype:
                raise TypeError(
                    f"Expected output types {types_of(self._element)!r} but got dataset with output types "
                    f"{types_of(stage.element)!r}."
                )
            if not fit(mine.dims, theirs.dims):
                raise TypeError(
                    f"Expected output shapes compatible with {shapes_of(self._element)!r} but got dataset with output "
                    f"shapes {shapes_of(stage.element)!r}."
                )
        tensors = stage.reads()

        def begin(run: Run, *values: Any) -> tuple[()]:
            # Copies: variables and arrays that were fed may change while the iterator is under way.
            kept = [x if each.op.constant is not None else x.clone() for each, x in zip(tensors, values, strict=True)]
            self._place(run.state).begin(run, stage, dict(zip(tensors, kept, strict=True)))
            return ()

        graph = get_default_graph()
        read = [graph.adopt(each) for each in tensors]
        return graph.add("MakeIterator", name, begin, read, [], takes_run=True, effect=True)

    def string_handle(self, name: str | None = None) -> Tensor:
        """What `from_string_handle` is fed so that it reads from this iterator."""

        def known(run: Run) -> Strings:
            _handles(run.state)[self._handle.encode()] = self._place(run.state)
            return Strings.of(self._handle)

        made: Tensor = apply("IteratorToStringHandle", known, outputs=[(string, ())], takes_run=True, name=name)
        return made

    def _place(self, state: State) -> _Position:
        """Where a session is in the dataset."""
        return state.kept(self, lambda: _Position(state, self._once))

    @property
    def output_types(self) -> Structure:
        """The dtypes of an element, in its structure."""
        return types_of(self._element)

    @property
    def output_shapes(self) -> Structure:
        """The shapes of an element, in its structure."""
        return shapes_of(self._element)

    @property
    def output_classes(self) -> Structure:
        """`tf.Tensor`, in the structure of an element."""
        return map_structure(lambda _: Tensor, self._element)


def initializable(dataset: Dataset) -> Iterator:
    """See `Dataset.make_initializable_iterator`."""
    made = Iterator(dataset.stage.element)
    made._initializer = made.make_initializer(dataset)  # pyright: ignore[reportPrivateUsage]
    return made


def one_shot(dataset: Dataset) -> Iterator:
    """See `Dataset.make_one_shot_iterator`."""
    for each in needed(dataset.stage.reads(), ()):
        if each.type == "Placeholder":
            raise ValueError(
                f"Cannot capture a placeholder (name:{each.name}, type:Placeholder) by value: use "
                "`make_initializable_iterator`, and feed it to the initializer"
            )
        if each.variables:
            raise ValueError(
                "Failed to create a one-shot iterator for a dataset. `Dataset.make_one_shot_iterator()` does not "
                f"support datasets that capture stateful objects, such as {each.name}. In these cases, consider using "
                "`Dataset.make_initializable_iterator()`"
            )
    return Iterator(dataset.stage.element, dataset.stage)


class _Position:
    """Where a session is in a dataset. Threads may share it: each takes an element of its own."""

    def __init__(self, state: State, once: Stage | None) -> None:
        self._state, self._once = state, once
        self._elements: Elements[list[Any]] | None = None
        self._error: Exception | None = None
        self._lock = threading.Lock()

    def begin(self, run: Run, stage: Stage, values: dict[Tensor, Any]) -> None:
        """Starts with the first element."""
        with self._lock:
            self._elements, self._error = stage.elements(Reading(run, values)), None

    def next(self, leaves: list[Any]) -> list[Any]:
        """The values of the next element."""
        with self._lock:
            if self._elements is None and self._once is not None:
                self._begin_once(self._once)
            if self._elements is None:
                raise FailedPreconditionError(
                    None,
                    None,
                    "GetNext() failed because the iterator has not been initialized. Ensure that you have run the "
                    "initializer operation for this iterator before getting the next element.",
                )
            if self._error is not None:
                raise self._error
            try:
                made = next(self._elements, None)
            except (OpError, RuntimeError, ValueError, IndexError, TypeError) as error:
                self._error = error  # what was under way is lost: it must not look like the end
                raise
        if made is None:
            raise OutOfRangeError(None, None, "End of sequence")
        for value, leaf in zip(made, leaves, strict=True):
            if not fit(leaf.dims, tuple(value.shape)):
                raise ValueError(f"an element has shape {tuple(value.shape)}, but the iterator's is {leaf.dims}")
        return made

    def _begin_once(self, stage: Stage) -> None:
        from unspool.tf1.session import Run

        tensors = stage.reads()
        program = Program(tensors, ())
        run = Run(self._state, program)
        self._elements = stage.elements(Reading(run, dict(zip(tensors, program(run, {}), strict=True))))


def _handles(state: State) -> dict[bytes, _Position]:
    return state.kept(_Position, dict)


def _position(state: State, handle: bytes) -> _Position:
    found = _handles(state).get(handle)
    if found is None:
        raise ValueError(
            f"{handle!r} is no handle of an iterator in this session: feed what session.run(iterator.string_handle()) "
            "returned"
        )
    return found
