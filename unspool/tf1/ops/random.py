"""Random numbers."""

from __future__ import annotations

from typing import Any

import torch

from unspool.tf1.dtypes import as_dtype, float32, int64
from unspool.tf1.initializers import truncated_normal_
from unspool.tf1.operations import apply, as_sizes, as_tensor, ints, known_int, known_ints
from unspool.tf1.seeds import Draw
from unspool.tf1.shapes import described

__all__ = [
    "multinomial",
    "random_normal",
    "random_shuffle",
    "random_uniform",
    "truncated_normal",
]


def _drawn(kind: str, fill: Any, shape: Any, dtype: Any, seed: int | None, name: str | None, *bounds: Any) -> Any:
    """Numbers of a shape, made by `fill(blank, generator, *bounds)`."""
    wanted, sizes, draw = as_dtype(dtype), as_sizes(shape), Draw(seed)
    found = known_ints(sizes)

    def compute(run: Any, s: torch.Tensor, *bounds: torch.Tensor) -> torch.Tensor:
        return fill(torch.empty(ints(s), dtype=wanted.torch), draw.generator(run), *bounds)

    dims = None if found is None else tuple(found)
    given = [as_tensor(each, wanted) for each in bounds]
    made = apply(kind, compute, sizes, *given, name=name, outputs=[(wanted, dims)], takes_run=True)
    return draw.noted(made)


def random_uniform(
    shape: Any,
    minval: Any = 0,
    maxval: Any = None,
    dtype: Any = float32,
    seed: int | None = None,
    name: str | None = None,
) -> Any:
    """Uniform numbers from `minval` up to `maxval`, 1 by default; whole ones need a `maxval`.

    >>> from unspool import tf1 as tf
    >>> bool((abs(tf.Session().run(tf.random_uniform([100], -1, 1))) <= 1).all())
    True
    """
    whole = as_dtype(dtype).is_integer
    if whole and maxval is None:
        raise ValueError("Must specify maxval for integer dtype")

    def fill(blank: torch.Tensor, generator: Any, low: torch.Tensor, high: torch.Tensor) -> torch.Tensor:
        if whole:
            return blank.random_(int(low), int(high), generator=generator)
        return blank.uniform_(generator=generator) * (high - low) + low

    return _drawn("random_uniform", fill, shape, dtype, seed, name, minval, 1 if maxval is None else maxval)


def random_normal(
    shape: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = float32,
    seed: int | None = None,
    name: str | None = None,
) -> Any:
    """Normal numbers; with gradients by their mean and deviation, where these are tensors."""
    fill = lambda blank, generator, m, s: blank.normal_(generator=generator) * s + m  # noqa: E731
    return _drawn("random_normal", fill, shape, dtype, seed, name, mean, stddev)


def truncated_normal(
    shape: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = float32,
    seed: int | None = None,
    name: str | None = None,
) -> Any:
    """Normal numbers no further than two standard deviations from the mean."""
    fill = lambda blank, generator, m, s: truncated_normal_(blank, 0.0, 1.0, generator) * s + m  # noqa: E731
    return _drawn("truncated_normal", fill, shape, dtype, seed, name, mean, stddev)


def random_shuffle(value: Any, seed: int | None = None, name: str | None = None) -> Any:
    """A tensor with its first axis in random order."""
    given, draw = as_tensor(value), Draw(seed)

    def compute(run: Any, x: torch.Tensor) -> torch.Tensor:
        return x.detach()[torch.randperm(len(x), generator=draw.generator(run), device=x.device)]

    return apply("RandomShuffle", compute, given, name=name, outputs=[(given.dtype, given.dims)], takes_run=True)


def multinomial(
    logits: Any, num_samples: Any, seed: int | None = None, name: str | None = None, output_dtype: Any = None
) -> Any:
    """Classes drawn with the probabilities `softmax(logits)`: `[batch, num_samples]`."""
    given, draw = as_tensor(logits), Draw(seed)
    wanted = int64 if output_dtype is None else as_dtype(output_dtype)

    number = as_tensor(num_samples)

    def compute(run: Any, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        drawn = torch.multinomial(x.softmax(-1), int(n), replacement=True, generator=draw.generator(run))
        return drawn.to(wanted.torch)

    if given.dims is not None and len(given.dims) != 2:
        raise ValueError(f"Multinomial: logits must have rank 2, but have shape {described(given.dims)}")
    dims = (None if given.dims is None else given.dims[0], known_int(number))
    name = name or "multinomial/Multinomial"
    return apply("Multinomial", compute, given, number, name=name, outputs=[(wanted, dims)], takes_run=True)
