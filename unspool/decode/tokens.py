"""Tokens: the ids that sequences start and end with, and the vectors that stand for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unspool.loops.tensors import as_tensor
from unspool.structure import describe
from unspool.tracers import constant, has_values


def as_token(token: Any, name: str) -> int:
    """One id, from an int or a scalar of ints.

    >>> as_token(torch.tensor(3), "end_token")
    3
    """
    return token if type(token) is int else int(_as_ids(token, name, 0, "a scalar"))


def as_tokens(tokens: Any, name: str) -> Tensor:
    """An id for each row, `[batch]`.

    >>> as_tokens([3, 1], "start_tokens")
    tensor([3, 1])
    """
    return _as_ids(tokens, name, 1, "a vector [batch]")


class Embedding:
    """Looks ids up: in a matrix with a row for each, or by a function.

    >>> Embedding(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))(torch.tensor([1]))
    tensor([[3., 4.]])
    """

    def __init__(self, embedding: Any) -> None:
        if isinstance(embedding, type):
            raise TypeError(f"embedding is the class {embedding.__name__}, not something made from it")
        self._function: Callable[[Tensor], Any] = embedding
        self._matrix = None if callable(embedding) else as_tensor(embedding, "embedding")
        if self._matrix is not None and self._matrix.dim() < 2:
            raise ValueError(f"embedding must be a matrix or a function, but has shape {list(self._matrix.shape)}")

    def __call__(self, ids: Tensor) -> Any:
        """The inputs that `ids` stand for."""
        ids = ids.long()  # what torch indexes with, and `one_hot` insists on
        if self._matrix is None:
            return self._function(ids)
        return F.embedding(ids, self._matrix) if self._matrix.dim() == 2 else self._matrix[ids]

    def as_module(self) -> Any:
        """The same with its weights in sight: the module that was given, or one made of the matrix."""
        return self._function if self._matrix is None else Lookup(self._matrix)

    @property
    def rows(self) -> int | None:
        """How many ids there are; None where only the function knows."""
        if self._matrix is not None:
            return len(self._matrix)
        return getattr(self._function, "num_embeddings", None)

    @property
    def device(self) -> torch.device | None:
        """Where it takes ids; None where only the function knows."""
        weights = self._function.parameters() if isinstance(self._function, nn.Module) else [self._matrix]
        weight = next(iter(weights), None)
        return None if weight is None else weight.device

    def check_ids(self, ids: Tensor, name: str) -> None:
        """Raises `ValueError` naming the first id that there is not. Only where looking is free: on the CPU."""
        if ids.device.type != "cpu" or not has_values(ids):
            return
        wrong = ids < 0 if self.rows is None else (ids < 0) | (ids >= self.rows)
        if wrong.any():
            place = [int(index) for index in wrong.nonzero()[0]]
            found = int(ids[wrong][0])
            raise ValueError(f"{name}{place} is {found}, which is {self._beyond()}")

    def check_id(self, number: int, name: str) -> None:
        """Raises `ValueError` if there is no such id."""
        if number < 0 or (self.rows is not None and number >= self.rows):
            raise ValueError(f"{name} is {number}, which is {self._beyond()}")

    def check_logits(self, logits: int) -> None:
        """Raises `ValueError` if there are more logits than ids: what is sampled must be there to be looked up."""
        if self.rows is not None and logits > self.rows:
            raise ValueError(f"the output has {logits} logits, but the embedding has only {self.rows} rows")

    def _beyond(self) -> str:
        return "no id" if self.rows is None else f"not in the vocabulary: the embedding has {self.rows} rows"


class Lookup(nn.Module):
    """Rows of a matrix, by number."""

    matrix: Tensor

    def __init__(self, matrix: Tensor) -> None:
        super().__init__()
        self.register_buffer("matrix", matrix.detach(), persistent=False)

    def forward(self, ids: Tensor) -> Tensor:
        """The row of each id."""
        return F.embedding(ids, self.matrix) if self.matrix.dim() == 2 else self.matrix[ids]


def _as_ids(ids: Any, name: str, rank: int, expected: str) -> Tensor:
    if type(ids) in (list, tuple):
        try:
            ids = constant(ids)
        except (TypeError, ValueError, RuntimeError):
            raise TypeError(f"{name} must hold ints, but is {describe(ids)}: {ids!r}") from None
    tensor = as_tensor(ids, name)
    if tensor.dim() != rank:
        raise ValueError(f"{name} must be {expected}, but has shape {list(tensor.shape)}")
    if (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool) and tensor.numel():
        raise TypeError(f"{name} must hold ints, but is {tensor.dtype}")
    return tensor if tensor.dtype in (torch.int32, torch.int64) else tensor.long()
