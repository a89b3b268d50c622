"""Tokens: the ids that sequences start and end with, and the vectors that stand for them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from unspool.loops.tensors import as_tensor


def as_token(token: Any, name: str) -> int:
    """One token id, from an int or a scalar of integers.

    >>> as_token(torch.tensor(3), "end_token")
    3
    """
    tensor = torch.as_tensor(token) if type(token) in (list, tuple) else as_tensor(token, name)
    if tensor.dim():
        raise ValueError(f"{name} must be a scalar, but has shape {list(tensor.shape)}")
    if not _is_integral(tensor):
        raise TypeError(f"{name} must be an integer, but is {token!r}")
    return int(tensor)


def as_tokens(tokens: Any, name: str) -> Tensor:
    """A token id for each row, `[batch]`."""
    tensor = torch.as_tensor(tokens) if type(tokens) in (list, tuple) else as_tensor(tokens, name)
    if tensor.dim() != 1:
        raise ValueError(f"{name} must have one token per row, [batch], but has shape {list(tensor.shape)}")
    if not _is_integral(tensor):
        raise TypeError(f"{name} must be integers, but they are {tensor.dtype}")
    return tensor.long()


class Embedding(NamedTuple):
    """What turns token ids into inputs of a cell, and for how many tokens, where that is known."""

    lookup: Callable[[Tensor], Any]
    tokens: int | None


def as_embedding(embedding: Any) -> Embedding:
    """An embedding from a matrix `[tokens, depth]`, an `nn.Embedding`, or any function from ids to inputs.

    >>> as_embedding(torch.eye(3)).lookup(torch.tensor([2]))
    tensor([[0., 0., 1.]])
    """
    if callable(embedding):
        return Embedding(embedding, getattr(embedding, "num_embeddings", None))
    matrix = as_tensor(embedding, "embedding")
    if matrix.dim() < 2:
        raise ValueError(f"embedding must be [tokens, depth...] or a function, but has shape {list(matrix.shape)}")
    if matrix.dim() == 2:
        return Embedding(partial(F.embedding, weight=matrix), len(matrix))
    return Embedding(matrix.__getitem__, len(matrix))


def _is_integral(tensor: Tensor) -> bool:
    return not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool)
