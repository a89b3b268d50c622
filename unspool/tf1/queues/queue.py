"""Queues: operations put elements in and take them out; each session has its own contents, which threads share."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from unspool.tf1.dtypes import DType, as_dtype, bool_, int32
from unspool.tf1.errors import CancelledError, FailedPreconditionError, OutOfRangeError
from unspool.tf1.graph import get_default_graph
from unspool.tf1.operation import Operation
from unspool.tf1.operations import apply, as_tensor, known_int
from unspool.tf1.seeds import Draw
from unspool.tf1.shapes import Dims, TensorShape, described, fit
from unspool.tf1.string_values import Strings
from unspool.tf1.tensor import Tensor

if TYPE_CHECKING:
    from unspool.tf1.session import Run, State

Element = list[Any]

_PATIENCE = 0.1
"""How many seconds a thread waits before it looks whether anybody else is there."""


class QueueBase:
    """What the queues share.

    Args:
        capacity: how many elements there may be.
        dtypes: those of an element's tensors.
        shapes: their shapes; unknown by default, which excludes `dequeue_many`.
        names: names of the tensors, for elements that are dicts.
        name: of the queue.
    """

    def __init__(self, capacity: int, dtypes: Any, shapes: Any, names: Any, name: str) -> None:
        kinds = list(dtypes) if isinstance(dtypes, list | tuple) else [dtypes]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        self._dtypes: list[DType] = [as_dtype(each) for each in kinds]
        if shapes is None:
            self._shapes: list[Dims] = [None] * len(kinds)
        else:
            listed = shapes if _is_list_of_shapes(shapes) else [shapes]
            self._shapes = [TensorShape(each).sizes for each in listed]
        if len(self._shapes) != len(self._dtypes):
            raise ValueError(
                "Queue shapes must have the same length as dtypes, but there are "
                f"{len(self._shapes)} and {len(self._dtypes)}"
            )
        if names is not None and len(names) != len(self._dtypes):
            raise ValueError(
                f"Queue names must have the same length as dtypes, but there are {len(names)} and {len(self._dtypes)}"
            )
        self._names: list[str] | None = None if names is None else list(names)
        self._capacity = 2**31 - 1 if int(capacity) < 0 else int(capacity)
        self._name = get_default_graph().unique_name(name)

    @property
    def name(self) -> str:
        """The name of the queue."""
        return self._name

    @property
    def queue_ref(self) -> QueueBase:
        """Itself."""
        return self

    @property
    def dtypes(self) -> list[DType]:
        """The dtypes of an element's tensors."""
        return self._dtypes

    @property
    def shapes(self) -> list[TensorShape]:
        """The shapes of an element's tensors."""
        return [TensorShape(each) for each in self._shapes]

    @property
    def names(self) -> list[str] | None:
        """The names of an element's tensors, if it is a dict."""
        return self._names

    def _contents(self, state: State) -> Contents:
        return state.kept(self, lambda: Contents(self._name, self._capacity, self._least, self._picker()))

    _least = 0
    """How many elements have to stay as long as the queue is open."""

    def _picker(self) -> Callable[[int], int]:
        """Takes how many elements there are to the number of the one that comes next."""
        return lambda count: 0

    def put(self, state: State, element: Element) -> None:
        """Puts an element in, in a run, and waits while the queue is full."""
        self._contents(state).put([element])

    # -- putting in --------------------------------------------------------------------------------------------------

    def enqueue(self, vals: Any, name: str | None = None) -> Operation:
        """An operation that puts an element in, and waits while the queue is full.

        Raises:
            ValueError: if it has another number of tensors, or other shapes.
            CancelledError: in a run, if the queue is closed.
        """
        given = self._given(vals)
        for each, dims in zip(given, self._shapes, strict=True):
            if not self._accepts(each.dims, dims):
                raise ValueError(f"Shapes {described(each.dims)} and {described(dims)} are incompatible")

        def put(run: Run, *values: Any) -> tuple[()]:
            self._contents(run.state).put([list(values)])
            return ()

        return self._operation("QueueEnqueue", put, given, name or f"{self._name.split('/')[-1]}_enqueue")

    def enqueue_many(self, vals: Any, name: str | None = None) -> Operation:
        """An operation that puts in an element for each slice of tensors along their first axis."""
        given = self._given(vals)
        for each, dims in zip(given, self._shapes, strict=True):
            if each.dims == () or not self._accepts(None if each.dims is None else each.dims[1:], dims):
                raise ValueError(f"Shapes {described(each.dims)} and (?, ...) of {described(dims)} are incompatible")

        def put(run: Run, *values: Any) -> tuple[()]:
            rows = [[each[place] for each in values] for place in range(len(values[0]))]
            self._contents(run.state).put(rows)
            return ()

        return self._operation("QueueEnqueueMany", put, given, name or f"{self._name.split('/')[-1]}_EnqueueMany")

    def _accepts(self, dims: Dims, wanted: Dims) -> bool:
        return fit(dims, wanted)

    def _given(self, vals: Any) -> list[Tensor]:
        if isinstance(vals, dict):
            if self._names is None:
                raise ValueError("Queue must have names to enqueue a dictionary")
            if sorted(self._names) != sorted(vals):  # pyright: ignore[reportUnknownArgumentType]
                raise ValueError(f"Keys in dictionary to enqueue must be {self._names}, but are {list(vals)}")  # pyright: ignore[reportUnknownArgumentType]
            listed: list[Any] = [vals[name] for name in self._names]
        else:
            listed = list(vals) if isinstance(vals, list | tuple) else [vals]  # pyright: ignore[reportUnknownArgumentType]
            if self._names is not None:
                raise ValueError("You must enqueue a dictionary in a Queue with names")
            if len(self._dtypes) == 1 and len(listed) != 1:
                listed = [vals]
        if len(listed) != len(self._dtypes):
            raise ValueError(f"expected {len(self._dtypes)} tensors to enqueue, but got {len(listed)}")
        graph = get_default_graph()
        return [graph.adopt(as_tensor(each, kind)) for each, kind in zip(listed, self._dtypes, strict=True)]

    def _operation(self, kind: str, function: Callable[..., Any], inputs: Sequence[Tensor], name: str) -> Operation:
        return get_default_graph().add(kind, name, function, inputs, [], takes_run=True, effect=True)

    # -- taking out --------------------------------------------------------------------------------------------------

    def dequeue(self, name: str | None = None) -> Any:
        """An element, taken out when it is computed; waits while there is none.

        Raises:
            OutOfRangeError: in a run, if the queue is closed and empty.
        """

        def take(run: Run) -> Any:
            (row,) = self._contents(run.state).take(1, 1)
            return row[0] if len(row) == 1 else row

        made = apply(
            "QueueDequeue", take, outputs=self._outputs(()), takes_run=True, name=name or f"{self._leaf}_Dequeue"
        )
        return self._returned(made)

    def dequeue_many(self, n: Any, name: str | None = None) -> Any:
        """So many elements, stacked; `OutOfRangeError` in a run if the queue is closed and has fewer."""
        return self._several("QueueDequeueMany", n, name or f"{self._leaf}_DequeueMany", all_of_them=True)

    def dequeue_up_to(self, n: Any, name: str | None = None) -> Any:
        """So many elements, stacked; fewer if the queue is closed and has no more."""
        return self._several("QueueDequeueUpTo", n, name or f"{self._leaf}_DequeueUpTo", all_of_them=False)

    def _several(self, kind: str, n: Any, name: str, *, all_of_them: bool) -> Any:
        if any(each is None or None in each for each in self._shapes) and not self._pads:
            raise ValueError(f"{kind}: the shapes of {self._name} must be known, but are {self.shapes}")
        count = as_tensor(n, int32)

        def take(run: Run, number: torch.Tensor) -> Any:
            wanted = int(number)
            rows = self._contents(run.state).take(wanted, wanted if all_of_them else 1)
            columns = [self._stacked(column) for column in zip(*rows, strict=True)]
            return columns[0] if len(columns) == 1 else columns

        outputs = self._outputs((known_int(count) if all_of_them else None,))
        return self._returned(apply(kind, take, count, outputs=outputs, takes_run=True, name=name))

    _pads = False

    @property
    def _leaf(self) -> str:
        return self._name.split("/")[-1]

    def _stacked(self, column: Sequence[torch.Tensor]) -> torch.Tensor:
        return torch.stack(list(column))

    def _outputs(self, front: tuple[int | None, ...]) -> list[tuple[DType, Dims]]:
        return [
            (kind, None if dims is None else (*front, *dims))
            for kind, dims in zip(self._dtypes, self._shapes, strict=True)
        ]

    def _returned(self, made: Any) -> Any:
        listed = [made] if isinstance(made, Tensor) else list(made)
        if self._names is not None:
            return dict(zip(self._names, listed, strict=True))
        return listed[0] if len(listed) == 1 else listed

    # -- the queue itself --------------------------------------------------------------------------------------------

    def size(self, name: str | None = None) -> Tensor:
        """How many elements it has."""

        def count(run: Run) -> torch.Tensor:
            return torch.tensor(len(self._contents(run.state).waiting), dtype=torch.int32)

        return apply("QueueSize", count, outputs=[(int32, ())], takes_run=True, name=name or f"{self._leaf}_Size")

    def is_closed(self, name: str | None = None) -> Tensor:
        """Whether it is closed."""

        def ask(run: Run) -> torch.Tensor:
            return torch.tensor(self._contents(run.state).closed)

        return apply(
            "QueueIsClosed", ask, outputs=[(bool_, ())], takes_run=True, name=name or f"{self._leaf}_is_closed"
        )

    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> Operation:
        """An operation that closes it: nothing can be put in any more, and what is there can be taken out.

        Args:
            cancel_pending_enqueues: whether threads that wait to put something in stop waiting.
            name: the operation's name.
        """

        def end(run: Run) -> tuple[()]:
            self._contents(run.state).close(cancel=cancel_pending_enqueues)
            return ()

        return self._operation("QueueClose", end, (), name or f"{self._leaf}_Close")


class FIFOQueue(QueueBase):
    """A queue whose elements come out in the order in which they went in.

    >>> from unspool import tf1 as tf
    >>> queue = tf.FIFOQueue(3, tf.int32, shapes=[[]])
    >>> fill, first = queue.enqueue_many([[1, 2, 3]]), queue.dequeue()
    >>> with tf.Session() as session:
    ...     session.run(fill)
    ...     int(session.run(first)), int(session.run(first)), int(session.run(queue.size()))
    (1, 2, 1)
    """

    def __init__(
        self,
        capacity: int,
        dtypes: Any,
        shapes: Any = None,
        names: Any = None,
        shared_name: str | None = None,
        name: str = "fifo_queue",
    ) -> None:
        super().__init__(capacity, dtypes, shapes, names, name)


class PaddingFIFOQueue(QueueBase):
    """A `FIFOQueue` of elements with unknown sizes: what is taken out together is filled up with zeros.

    Args:
        capacity: how many elements there may be.
        dtypes: those of an element's tensors.
        shapes: their shapes, None for sizes that differ.
        names: names of the tensors, for elements that are dicts.
        shared_name: accepted.
        name: of the queue.
    """

    _pads = True

    def __init__(
        self,
        capacity: int,
        dtypes: Any,
        shapes: Any,
        names: Any = None,
        shared_name: str | None = None,
        name: str = "padding_fifo_queue",
    ) -> None:
        super().__init__(capacity, dtypes, shapes, names, name)
        if any(each is None for each in self._shapes):
            raise ValueError("shapes of a PaddingFIFOQueue must have known ranks")

    def _stacked(self, column: Sequence[torch.Tensor]) -> torch.Tensor:
        from unspool.tf1.data.batching import padded

        blank = Strings.of("") if isinstance(column[0], Strings) else column[0].new_zeros(())
        return padded(column, [None] * column[0].dim(), blank)


class RandomShuffleQueue(QueueBase):
    """A queue whose elements come out in a random order.

    Args:
        capacity: how many elements there may be.
        min_after_dequeue: how many have to stay, so that the order is random, unless the queue is closed.
        dtypes: those of an element's tensors.
        shapes: their shapes.
        names: names of the tensors, for elements that are dicts.
        seed: makes the order repeatable.
        shared_name: accepted.
        name: of the queue.
    """

    def __init__(
        self,
        capacity: int,
        min_after_dequeue: int,
        dtypes: Any,
        shapes: Any = None,
        names: Any = None,
        seed: int | None = None,
        shared_name: str | None = None,
        name: str = "random_shuffle_queue",
    ) -> None:
        super().__init__(capacity, dtypes, shapes, names, name)
        if self._capacity <= min_after_dequeue:
            raise ValueError(
                f"capacity must be larger than min_after_dequeue, but they are {capacity} and {min_after_dequeue}"
            )
        self._least, self._draw = min_after_dequeue, Draw(seed)

    def _picker(self) -> Callable[[int], int]:
        own = self._draw.seed
        return random.Random(int(torch.randint(2**62, ())) if own is None else own).randrange


class Contents:
    """What a queue has in one session. Threads wait here, and are woken when something changes.

    Args:
        name: of the queue.
        capacity: how many elements there may be.
        least: how many have to stay as long as it is open.
        pick: takes how many there are to the number of the one that comes next.
    """

    def __init__(self, name: str, capacity: int, least: int, pick: Callable[[int], int]) -> None:
        self._name, self._capacity, self._least, self._pick = name, capacity, least, pick
        self.waiting: list[Element] = []
        self.closed = False
        self._cancelled = self._ended = False
        self._changed = threading.Condition()

    def put(self, rows: list[Element]) -> None:
        """Puts elements in, and waits for room."""
        with self._changed:
            if self.closed:
                raise CancelledError(None, None, f"FIFOQueue '{self._name}' is closed.")
            for row in rows:
                self._wait(lambda: len(self.waiting) < self._capacity or self._cancelled)
                if self._cancelled:
                    raise CancelledError(None, None, "Enqueue operation was cancelled")
                self.waiting.append(row)
                self._changed.notify_all()

    def take(self, count: int, least: int) -> list[Element]:
        """Takes out `count` elements; fewer, but `least`, if the queue is closed."""
        taken: list[Element] = []
        with self._changed:
            while len(taken) < count:
                if self._has_next():
                    taken.append(self.waiting.pop(self._pick(len(self.waiting))))
                    self._changed.notify_all()
                    continue
                if self._ended:
                    raise CancelledError(None, None, "Dequeue operation was cancelled")
                if self.closed:
                    if len(taken) >= least:
                        break
                    current, self.waiting = len(taken), taken + self.waiting
                    raise OutOfRangeError(
                        None,
                        None,
                        f"Queue '{self._name}' is closed and has insufficient elements (requested {count}, current "
                        f"size {current})",
                    )
                self._wait(lambda: self._has_next() or self.closed or self._ended)
        return taken

    def _has_next(self) -> bool:
        return len(self.waiting) > (0 if self.closed else self._least)

    def _wait(self, condition: Callable[[], bool]) -> None:
        """Waits until a condition holds; `FailedPreconditionError` if nobody is there to make it true."""
        while not self._changed.wait_for(condition, _PATIENCE):
            if threading.active_count() == 1:
                raise FailedPreconditionError(
                    None,
                    None,
                    f"'{self._name}' would wait for ever: no other thread runs that could fill or empty it. Call "
                    "tf.train.start_queue_runners, or use tf.train.MonitoredTrainingSession",
                )

    def close(self, *, cancel: bool) -> None:
        """Lets nothing in any more."""
        with self._changed:
            self.closed, self._cancelled = True, self._cancelled or cancel
            self._changed.notify_all()

    def end(self) -> None:
        """Lets nobody wait any more: the session is closed."""
        with self._changed:
            self.closed = self._cancelled = self._ended = True
            self._changed.notify_all()


def _is_list_of_shapes(shapes: Any) -> bool:
    return isinstance(shapes, list | tuple) and all(
        each is None or isinstance(each, list | tuple | TensorShape)
        for each in shapes  # pyright: ignore[reportUnknownVariableType]
    )
