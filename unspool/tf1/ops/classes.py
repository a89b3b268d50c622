"""Embedding lookup, `top_k` and `in_top_k`."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F

from unspool.tf1.dtypes import bool_, int32
from unspool.tf1.operations import apply, as_tensor, known_int
from unspool.tf1.ops.joining import concat
from unspool.tf1.ops.slicing import gather
from unspool.tf1.shapes import described, merged


def embedding_lookup(
    params: Any,
    ids: Any,
    partition_strategy: str = "mod",
    name: str | None = None,
    validate_indices: bool = True,
    max_norm: float | None = None,
) -> Any:
    """The rows of a table at those numbers.

    Args:
        params: the table, or a list of its parts.
        ids: the numbers.
        partition_strategy: how parts share the rows: "mod" in turn, "div" one after the other.
        name: the operation's name.
        validate_indices: accepted; numbers are always checked.
        max_norm: not supported.

    >>> from unspool import tf1 as tf
    >>> tf.nn.embedding_lookup(tf.zeros([10, 4]), tf.placeholder(tf.int32, [None, 7])).shape
    TensorShape([None, 7, 4])
    """
    if max_norm is not None:
        raise NotImplementedError("max_norm is not supported")
    parts: list[Any] = list(params) if isinstance(params, list | tuple) else [params]  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(ids, torch.Tensor):
        return F.embedding(ids, *parts)
    if len(parts) == 1:
        return gather(parts[0], ids, name=name or "embedding_lookup")
    numbers = as_tensor(ids)
    if partition_strategy == "mod":
        sizes = [as_tensor(each).shape[0].value for each in parts]
        if None in sizes:
            raise ValueError("embedding_lookup: the sizes of the parts must be known when the graph is built")
        before = torch.tensor([sum(sizes[:k]) for k in range(len(sizes))])

        def place(number: torch.Tensor) -> torch.Tensor:
            part = number % len(sizes)
            return (before.to(number.device)[part.long()] + number // len(sizes)).to(number.dtype)

        numbers = apply("embedding_lookup", place, numbers, outputs=[(numbers.dtype, numbers.dims)])
    elif partition_strategy != "div":
        raise ValueError(f"Unrecognized partition strategy: {partition_strategy}")
    return gather(concat(parts, 0), numbers, name=name or "embedding_lookup")


def in_top_k(predictions: Any, targets: Any, k: int, name: str | None = None) -> Any:
    """Whether the target of each row is among its `k` largest predictions, ties included.

    >>> from unspool import tf1 as tf
    >>> tf.Session().run(tf.nn.in_top_k([[0.1, 0.7, 0.2]], [2], 2))
    array([ True])
    """

    def compute(scores: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        inside = (wanted >= 0) & (wanted < scores.shape[1])
        own = scores.gather(1, torch.where(inside, wanted, 0).long()[:, None])
        return ((scores > own).sum(1) < k) & own[:, 0].isfinite() & inside

    given, wanted = as_tensor(predictions), as_tensor(targets)
    rows = None if given.dims is None else given.dims[0]
    dims = merged((rows,), wanted.dims)
    return apply("InTopKV2", compute, given, wanted, name=name or "in_top_k/InTopKV2", outputs=[(bool_, dims)])


def top_k(input: Any, k: Any = 1, sorted: bool = True, name: str | None = None) -> Any:
    """The `k` largest along the last axis, and where they are."""

    def compute(x: torch.Tensor, count: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if not x.dim() or x.shape[-1] < int(count):
            raise ValueError(f"input must have at least k = {int(count)} columns, but its shape is {list(x.shape)}")
        # Sorted stably: of equals the first comes first, as in TensorFlow.
        values, places = torch.sort(x, dim=-1, descending=True, stable=True)
        return values[..., : int(count)], places[..., : int(count)].int()

    given, number = as_tensor(input), as_tensor(k)
    count = known_int(number)
    dims = None
    if given.dims is not None:
        if not given.dims or (None not in (count, given.dims[-1]) and given.dims[-1] < count):  # pyright: ignore[reportOperatorIssue]
            raise ValueError(f"input must have at least k = {count} columns, but its shape is {described(given.dims)}")
        dims = (*given.dims[:-1], count)
    outputs = [(given.dtype, dims), (int32, dims)]
    return TopKV2(*apply("TopKV2", compute, given, number, name=name, outputs=outputs))


class TopKV2(tuple[Any, ...]):
    """Values and indices of the largest."""

    def __new__(cls, values: Any, indices: Any) -> TopKV2:
        """Both."""
        return super().__new__(cls, (values, indices))

    @property
    def values(self) -> Any:
        """The largest."""
        return self[0]

    @property
    def indices(self) -> Any:
        """Where they are."""
        return self[1]
