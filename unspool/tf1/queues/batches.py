"""Batches of what other operations compute, by queues and their runners: `tf.train.batch` and its kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unspool.flags import checks_flags
from unspool.tf1.operations import as_tensor
from unspool.tf1.queues.queue import FIFOQueue, PaddingFIFOQueue, QueueBase, RandomShuffleQueue
from unspool.tf1.queues.runners import QueueRunner, add_queue_runner
from unspool.tf1.scopes import name_scope
from unspool.tf1.shapes import TensorShape
from unspool.tf1.tensor import Tensor


@checks_flags
def batch(
    tensors: Any,
    batch_size: Any,
    num_threads: int = 1,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Batches of tensors that runners compute again and again.

    Args:
        tensors: a list, or a dict, of what is one element.
        batch_size: how many are a batch.
        num_threads: how many threads compute elements.
        capacity: how many elements wait.
        enqueue_many: whether tensors hold several elements, one for each row.
        shapes: of an element's tensors, if they are not known.
        dynamic_pad: whether sizes may differ, and are filled up with zeros.
        allow_smaller_final_batch: whether the last batch may be smaller.
        shared_name: accepted.
        name: of the scope of its operations.

    Returns:
        Tensors in a list or dict like `tensors`; a single one for a list of one.

    Raises:
        ValueError: if there are no tensors, or a shape is not known.
    """
    return _batched(
        tensors,
        batch_size,
        num_threads,
        enqueue_many,
        shapes,
        allow_smaller_final_batch,
        lambda kinds, dims: (PaddingFIFOQueue if dynamic_pad else FIFOQueue)(capacity, kinds, dims),
        name or "batch",
        padding=dynamic_pad,
    )


@checks_flags
def shuffle_batch(
    tensors: Any,
    batch_size: Any,
    capacity: int,
    min_after_dequeue: int,
    num_threads: int = 1,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Any = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Batches of tensors that runners compute again and again, in a random order; see `batch`.

    Args:
        tensors: a list, or a dict, of what is one element.
        batch_size: how many are a batch.
        capacity: how many elements wait at most.
        min_after_dequeue: and at least, to be drawn from.
        num_threads: how many threads compute elements.
        seed: makes the order repeatable.
        enqueue_many: whether tensors hold several elements, one for each row.
        shapes: of an element's tensors, if they are not known.
        allow_smaller_final_batch: whether the last batch may be smaller.
        shared_name: accepted.
        name: of the scope of its operations.
    """
    return _batched(
        tensors,
        batch_size,
        num_threads,
        enqueue_many,
        shapes,
        allow_smaller_final_batch,
        lambda kinds, dims: RandomShuffleQueue(capacity, min_after_dequeue, kinds, dims, seed=seed),
        name or "shuffle_batch",
    )


def _batched(
    tensors: Any,
    batch_size: Any,
    num_threads: int,
    enqueue_many: bool,
    shapes: Any,
    smaller: bool,
    make: Any,
    name: str,
    *,
    padding: bool = False,
) -> Any:
    with name_scope(name):
        given, names = listed(tensors)
        dims = element_shapes(given, shapes, enqueue_many, padding)
        queue: QueueBase = make([each.dtype for each in given], dims)
        put = queue.enqueue_many if enqueue_many else queue.enqueue
        add_queue_runner(QueueRunner(queue, [put(given)] * num_threads))
        made = queue.dequeue_up_to(batch_size) if smaller else queue.dequeue_many(batch_size)
        return as_given(made, names, tensors)


def listed(tensors: Any) -> tuple[list[Tensor], list[str] | None]:
    """Tensors in a list, and their names if they were in a dict."""
    if isinstance(tensors, dict):
        names = sorted(tensors)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        return [as_tensor(tensors[name]) for name in names], names
    given = list(tensors) if isinstance(tensors, list | tuple) else [tensors]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if not given:
        raise ValueError("Must provide tensors.")
    return [as_tensor(each) for each in given], None


def as_given(made: Any, names: list[str] | None, tensors: Any) -> Any:
    """What a queue returned, in the container of what was given: a list of one tensor is returned as the tensor."""
    found = [made] if isinstance(made, Tensor) else list(made)
    if names is not None:
        return dict(zip(names, found, strict=True))
    return found[0] if len(found) == 1 else found


def element_shapes(given: Sequence[Tensor], shapes: Any, several: bool, padding: bool) -> list[TensorShape]:
    """The shapes of an element's tensors; `ValueError` if one is not known."""
    if shapes is None:
        found = [each.shape[1:] if several else each.shape for each in given]
    else:
        found = [TensorShape(each) for each in shapes]
    for each, dims in zip(given, found, strict=True):
        if dims.ndims is None or not (padding or dims.is_fully_defined()):
            raise ValueError(
                f"All shapes must be fully defined, but {each.name} has {dims}: give `shapes`, or `dynamic_pad=True`"
            )
    return found
