"""What stands around a decoder: losses, beams, trees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import unspool
from unspool.flags import checks_flags
from unspool.structure import Structure, map_structure
from unspool.tf1.operations import apply, as_tensor
from unspool.tf1.ops.array import reshape
from unspool.tf1.shapes import described
from unspool.tf1.tensor import Tensor


@checks_flags
def sequence_loss(
    logits: Any,
    targets: Any,
    weights: Any,
    average_across_timesteps: bool = True,
    average_across_batch: bool = True,
    softmax_loss_function: Callable[..., Any] | None = None,
    name: str | None = None,
    sum_over_timesteps: bool = False,
    sum_over_batch: bool = False,
) -> Tensor:
    """The cross entropy of `logits` and `targets`, weighted and averaged: `unspool.sequence_loss` in the graph.

    >>> from unspool import tf1 as tf
    >>> loss = tf.contrib.seq2seq.sequence_loss(tf.zeros([2, 3, 5]), tf.zeros([2, 3], tf.int32), tf.ones([2, 3]))
    >>> tf.Session().run(loss)
    np.float32(1.609438)
    """
    given = [as_tensor(each) for each in (logits, targets, weights)]
    for what, tensor, rank in zip(("logits", "targets", "weights"), given, (3, 2, 2), strict=True):
        if tensor.dims is not None and len(tensor.dims) != rank:
            raise ValueError(f"{what} must have {rank} axes, but has shape {described(tensor.dims)}")
    options = dict(
        average_across_timesteps=average_across_timesteps,
        average_across_batch=average_across_batch,
        sum_over_timesteps=sum_over_timesteps,
        sum_over_batch=sum_over_batch,
    )
    own: list[Any] = []
    if softmax_loss_function is not None:
        classes = -1 if given[0].dims is None or given[0].dims[-1] is None else given[0].dims[-1]
        flat = reshape(given[0], [-1, classes])
        own = [softmax_loss_function(labels=reshape(given[1], [-1]), logits=flat)]

    def compute(
        scores: torch.Tensor, wanted: torch.Tensor, factors: torch.Tensor, *losses: torch.Tensor
    ) -> torch.Tensor:
        function = (lambda labels, logits: losses[0]) if losses else None
        return unspool.sequence_loss(scores, wanted, factors, softmax_loss_function=function, **options)  # pyright: ignore[reportArgumentType]

    reduced = bool(average_across_timesteps or sum_over_timesteps), bool(average_across_batch or sum_over_batch)
    axes = given[1].dims
    dims: Any = () if all(reduced) else None
    if axes is not None and not all(reduced):
        dims = axes if not any(reduced) else axes[:1] if reduced[0] else axes[1:]
    return apply("sequence_loss", compute, *given, *own, name=name, outputs=[(given[0].dtype, dims)])


def tile_batch(t: Structure, multiplier: int, name: str | None = None) -> Structure:
    """Every row as often as there are beams: `unspool.tile_batch` in the graph."""
    times = int(multiplier)

    def tiled(leaf: Any) -> Tensor:
        tensor = as_tensor(leaf)
        if tensor.dims == ():
            raise ValueError(f"tile_batch repeats rows, but {tensor!r} is a scalar")
        dims = tensor.dims
        if dims is not None:
            rows = dims[0]
            dims = (None if rows is None else rows * times, *dims[1:])
        return apply(
            "tile_batch", lambda x: unspool.tile_batch(x, times), tensor, name=name, outputs=[(tensor.dtype, dims)]
        )

    return map_structure(tiled, t)


def gather_tree(
    step_ids: Any, parent_ids: Any, max_sequence_lengths: Any, end_token: Any, name: str | None = None
) -> Tensor:
    """The sequences that a beam search has found, `[time, batch, beam]`: `unspool.gather_tree` in the graph."""
    ids = as_tensor(step_ids)
    return apply(
        "GatherTree",
        lambda *values: unspool.gather_tree(*values),
        ids,
        parent_ids,
        max_sequence_lengths,
        end_token,
        name=name,
        outputs=[(ids.dtype, ids.dims)],
    )
