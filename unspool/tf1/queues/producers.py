"""Queues that threads fill with the elements of tensors, again and again: `tf.train.input_producer` and its kind."""

from __future__ import annotations

from typing import Any

from unspool.flags import checks_flags
from unspool.tf1.dtypes import int64, string
from unspool.tf1.graph_functions import control_dependencies
from unspool.tf1.operations import as_tensor
from unspool.tf1.ops.array import identity, shape, size
from unspool.tf1.ops.control_flow import assert_
from unspool.tf1.ops.creation import range_
from unspool.tf1.ops.math import greater
from unspool.tf1.ops.random import random_shuffle
from unspool.tf1.ops.slicing import gather
from unspool.tf1.queues.queue import FIFOQueue
from unspool.tf1.queues.runners import QueueRunner, add_queue_runner
from unspool.tf1.scopes import name_scope
from unspool.tf1.shapes import TensorShape
from unspool.tf1.tensor import Tensor
from unspool.tf1.variables import GraphKeys, Variable


def limit_epochs(tensor: Any, num_epochs: int | None = None, name: str | None = None) -> Tensor:
    """The same tensor so many times, then `OutOfRangeError`; `tf.local_variables_initializer()` has to run first."""
    if num_epochs is None:
        return as_tensor(tensor)
    if num_epochs <= 0:
        raise ValueError(f"num_epochs must be > 0 not {num_epochs}.")
    with name_scope(name or "limit_epochs"):
        zero = as_tensor(0, int64)
        epochs = Variable(zero, trainable=False, collections=[GraphKeys.LOCAL_VARIABLES], name="epochs")
        with control_dependencies([epochs.count_up_to(num_epochs)]):
            return identity(tensor, name=name)


def count_up_to(ref: Variable, limit: int, name: str | None = None) -> Tensor:
    """`ref.count_up_to(limit)`."""
    return ref.count_up_to(limit)


@checks_flags
def input_producer(
    input_tensor: Any,
    element_shape: Any = None,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    summary_name: str | None = None,
    name: str | None = None,
    cancel_op: Any = None,
) -> FIFOQueue:
    """A queue that a runner fills with the rows of a tensor.

    Args:
        input_tensor: the tensor.
        element_shape: the shape of a row, if it is not known.
        num_epochs: how many times each row comes; for ever by default.
        shuffle: whether rows are in a random order, another one each time.
        seed: makes that repeatable.
        capacity: how many rows wait.
        name: of the scope of its operations.
        cancel_op: what the runner does to stop.
        shared_name, summary_name: accepted.

    Raises:
        ValueError: if the tensor has no rows, or the shape of a row is not known.
    """
    with name_scope(name or "input_producer"):
        given = as_tensor(input_tensor, name="input_tensor")
        row = given.shape[1:].merge_with(element_shape)
        if given.dims == ():
            raise ValueError(f"input_tensor must have rows, but {given!r} is a scalar")
        if not row.is_fully_defined():
            raise ValueError(
                "Either `input_tensor` must have a fully defined shape or `element_shape` must be specified"
            )
        rows = random_shuffle(given, seed=seed) if shuffle else given
        rows = limit_epochs(rows, num_epochs)
        queue = FIFOQueue(capacity, [given.dtype], [TensorShape(row)])
        add_queue_runner(QueueRunner(queue, [queue.enqueue_many([rows])], cancel_op=cancel_op))
        return queue


@checks_flags
def string_input_producer(
    string_tensor: Any,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
    cancel_op: Any = None,
) -> FIFOQueue:
    """A queue that a runner fills with strings, such as the names of files; see `input_producer`."""
    problem = "string_input_producer requires a non-null input tensor"
    if not isinstance(string_tensor, Tensor) and not len(string_tensor):
        raise ValueError(problem)
    with name_scope(name or "input_producer"):
        given = as_tensor(string_tensor, string)
        with control_dependencies([assert_(greater(size(given), 0), [problem])]):
            checked = identity(given)
        return input_producer(checked, [], num_epochs, shuffle, seed, capacity, shared_name, None, name, cancel_op)


@checks_flags
def range_input_producer(
    limit: Any,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
) -> FIFOQueue:
    """A queue that a runner fills with the numbers from 0 to `limit - 1`; see `input_producer`.

    >>> from unspool import tf1 as tf
    >>> number = tf.train.range_input_producer(3, shuffle=False).dequeue()
    >>> with tf.Session() as session:
    ...     coord = tf.train.Coordinator()
    ...     threads = tf.train.start_queue_runners(session, coord)
    ...     print([int(session.run(number)) for _ in range(5)])
    ...     coord.request_stop()
    ...     coord.join(threads)
    [0, 1, 2, 0, 1]
    """
    with name_scope(name or "input_producer"):
        numbers = range_(limit)
        return input_producer(
            numbers, [], num_epochs, shuffle, seed, capacity, shared_name, "fraction_of_32_full", name
        )


@checks_flags
def slice_input_producer(
    tensor_list: Any,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
) -> list[Tensor]:
    """A row of each tensor, the same of all, from a queue that a runner fills; see `input_producer`."""
    with name_scope(name or "input_producer"):
        given = [as_tensor(each) for each in tensor_list]
        if not given:
            raise ValueError("Expected at least one tensor in slice_input_producer().")
        count = shape(given[0])[0]
        number = range_input_producer(count, num_epochs, shuffle, seed, capacity, shared_name).dequeue()
        return [gather(each, number) for each in given]
