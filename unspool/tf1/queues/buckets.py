"""Queues by length: elements that are alike come out together (`tf.contrib.training.bucket_by_sequence_length`)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch

from unspool.tf1.dtypes import int32
from unspool.tf1.errors import CancelledError, OutOfRangeError
from unspool.tf1.graph import get_default_graph
from unspool.tf1.operation import Operation
from unspool.tf1.operations import as_tensor, constant, known_int
from unspool.tf1.ops.math import cast, less_equal
from unspool.tf1.ops.reductions import reduce_sum
from unspool.tf1.queues.batches import as_given, element_shapes, listed
from unspool.tf1.queues.queue import FIFOQueue, PaddingFIFOQueue, QueueBase
from unspool.tf1.queues.runners import QueueRunner, add_queue_runner
from unspool.tf1.scopes import name_scope
from unspool.tf1.shapes import TensorShape
from unspool.tf1.tensor import Tensor
from unspool.tf1.variables import group

if TYPE_CHECKING:
    from unspool.tf1.session import Run


def bucket(
    tensors: Any,
    which_bucket: Any,
    batch_size: Any,
    num_buckets: int,
    num_threads: int = 1,
    capacity: int = 32,
    bucket_capacities: Sequence[int] | None = None,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    keep_input: Any = True,
    shared_name: str | None = None,
    name: str | None = None,
) -> tuple[Tensor, Any]:
    """Batches of elements of one bucket each.

    Args:
        tensors: a list, or a dict, of what is one element.
        which_bucket: the number of its bucket.
        batch_size: how many elements are a batch; or a list, one number for each bucket.
        num_buckets: how many buckets there are, at least 2.
        num_threads: how many threads compute elements.
        capacity: how many batches wait, and elements in each bucket.
        bucket_capacities: how many elements wait in each bucket.
        shapes: of an element's tensors, if they are not known.
        dynamic_pad: whether sizes may differ, and are filled up with zeros.
        allow_smaller_final_batch: whether last batches may be smaller.
        keep_input: whether an element is taken at all.
        shared_name: accepted.
        name: of the scope of its operations.

    Returns:
        The number of the bucket, and the tensors in a list or dict like `tensors`.

    Raises:
        ValueError: if there are fewer than 2 buckets, or lists have another length.
    """
    if num_buckets < 2:
        raise ValueError(f"num_buckets must be >= 2, but is {num_buckets}")
    sizes = list(batch_size) if isinstance(batch_size, list | tuple) else [batch_size] * num_buckets  # pyright: ignore[reportUnknownArgumentType]
    room = [capacity] * num_buckets if bucket_capacities is None else list(bucket_capacities)
    for what, found in (("batch_size", sizes), ("bucket_capacities", room)):
        if len(found) != num_buckets:  # pyright: ignore[reportUnknownArgumentType]
            raise ValueError(f"{what} must have {num_buckets} numbers, one for each bucket, but has {len(found)}")  # pyright: ignore[reportUnknownArgumentType]
    with name_scope(name or "bucket"):
        given, names = listed(tensors)
        dims = element_shapes(given, shapes, several=False, padding=dynamic_pad)
        kinds = [each.dtype for each in given]
        make = PaddingFIFOQueue if dynamic_pad else FIFOQueue
        queues: list[QueueBase] = [
            make(each, kinds, dims, name=f"bucket_queue_{number}") for number, each in enumerate(room)
        ]
        counts = [known_int(as_tensor(each, int32)) for each in sizes]
        count = counts[0] if len(set(counts)) == 1 and not allow_smaller_final_batch else None
        top = FIFOQueue(
            capacity, [int32, *kinds], [TensorShape([]), *(_batched(count, each) for each in dims)], name="top_queue"
        )
        put = _put(queues, given, as_tensor(which_bucket), as_tensor(keep_input))
        ends = (OutOfRangeError, CancelledError)
        add_queue_runner(
            QueueRunner(
                queues[0],
                [put] * num_threads,
                close_op=group(*(each.close() for each in queues)),
                cancel_op=group(*(each.close(cancel_pending_enqueues=True) for each in queues)),
                queue_closed_exception_types=ends,
            )
        )
        moves: list[Operation] = []
        for number, (queue, size) in enumerate(zip(queues, sizes, strict=True)):
            taken = queue.dequeue_up_to(size) if allow_smaller_final_batch else queue.dequeue_many(size)
            moves.append(top.enqueue([number, *([taken] if isinstance(taken, Tensor) else taken)]))
        add_queue_runner(QueueRunner(top, moves, queue_closed_exception_types=ends))
        which, *found = top.dequeue()
        return which, as_given(found[0] if len(found) == 1 else found, names, tensors)


def _put(queues: Sequence[QueueBase], given: Sequence[Tensor], which: Tensor, keep: Tensor) -> Operation:
    """An operation that puts an element into the queue of its bucket."""

    def put(run: Run, number: torch.Tensor, kept: torch.Tensor, *values: Any) -> tuple[()]:
        if bool(kept):
            if not 0 <= int(number) < len(queues):
                raise ValueError(f"which_bucket is {int(number)}, but there are {len(queues)} buckets")
            queues[int(number)].put(run.state, list(values))
        return ()

    graph = get_default_graph()
    inputs = [graph.adopt(each) for each in (which, keep, *given)]
    return graph.add("BucketEnqueue", "bucket_enqueue", put, inputs, [], takes_run=True, effect=True)


def _batched(count: int | None, shape: TensorShape) -> TensorShape:
    return TensorShape([count, *shape.as_list()])


def bucket_by_sequence_length(
    input_length: Any,
    tensors: Any,
    batch_size: Any,
    bucket_boundaries: Sequence[Any],
    num_threads: int = 1,
    capacity: int = 32,
    bucket_capacities: Sequence[int] | None = None,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    keep_input: Any = True,
    shared_name: str | None = None,
    name: str | None = None,
) -> tuple[Tensor, Any]:
    """Batches of elements of similar lengths; see `bucket`.

    Args:
        input_length: the length of an element, of int32.
        tensors: a list, or a dict, of what is one element.
        batch_size: how many elements are a batch; or a list, one number for each bucket.
        bucket_boundaries: the least lengths of the buckets after the first, rising.
        num_threads, capacity, bucket_capacities, shapes, dynamic_pad, allow_smaller_final_batch, keep_input,
            shared_name, name: see `bucket`.

    Returns:
        The lengths of the elements, and the tensors in a list or dict like `tensors`.

    Raises:
        ValueError: if there are no boundaries, or they do not rise.
        TypeError: if boundaries are not whole numbers.
    """
    limits = list(bucket_boundaries)
    if not limits:
        raise ValueError("bucket_boundaries must not be empty")
    if not all(isinstance(each, int) for each in limits):
        raise TypeError(f"bucket boundaries must be integers, but saw {limits}")
    if any(one >= other for one, other in pairwise(limits)):
        raise ValueError(f"Buckets must contain sequential increasing lengths, but saw {limits}")
    with name_scope(name or "bucket_by_sequence_length"):
        length = as_tensor(input_length, int32)
        given, names = listed(tensors)
        which = reduce_sum(cast(less_equal(constant(limits, int32), length), int32))
        sizes = None if shapes is None else [TensorShape([]), *(TensorShape(each) for each in shapes)]
        _, found = bucket(
            [length, *given],
            which,
            batch_size,
            len(limits) + 1,
            num_threads,
            capacity,
            bucket_capacities,
            sizes,
            dynamic_pad,
            allow_smaller_final_batch,
            keep_input,
        )
        lengths, *others = found
        return lengths, as_given(others[0] if len(others) == 1 else others, names, tensors)
