"""What can be known of an operation's outputs before it runs: dtypes and shapes, found by trying it.

The operation's own torch function is called on tensors without values (torch's "meta" device). Unknown sizes are tried
with several numbers: what comes out the same each time is known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from unspool.tf1.dtypes import DType, as_dtype, string
from unspool.tf1.shapes import Dim, Dims, described
from unspool.tf1.string_values import Strings
from unspool.tf1.tensor import Tensor

TRIALS = (10007, 10009, 0)
"""The sizes tried for an unknown one. The two primes are likely to fit nothing else; slices see the end at 0."""


def infer(kind: str, function: Callable[..., Any], inputs: Sequence[Tensor]) -> list[tuple[DType, Dims]]:
    """The dtype and shape of each output.

    Raises:
        ValueError: if all shapes are known and the function cannot take them.
    """
    if any(each.dims is None for each in inputs):
        return _unranked(function, inputs)
    complete = all(None not in (each.dims or ()) for each in inputs)
    seen: list[list[torch.Tensor]] = []
    for size in TRIALS[:1] if complete else TRIALS:
        try:
            seen.append(_outputs(function, [_blank(each, size) for each in inputs]))
        except (RuntimeError, ValueError, IndexError, TypeError) as error:
            if complete:
                shapes = ", ".join(described(each.dims) for each in inputs)
                raise ValueError(f"{kind}: {_first_line(error)}; the shapes are {shapes}") from None
    if not seen:  # sizes that are unknown would have to fit known ones: the run will tell
        return _unranked(function, inputs)
    return [(_kind(each[0]), _agreed([list(one.shape) for one in each])) for each in zip(*seen, strict=True)]


def broadcast(kind: str, *shapes: Dims) -> Dims:
    """The shape of elementwise results; `ValueError` if shapes cannot be stretched to each other."""
    if any(each is None for each in shapes):
        return None
    known = [each for each in shapes if each is not None]
    rank = max((len(each) for each in known), default=0)
    sizes: list[Dim] = []
    for axis in range(-rank, 0):
        column = [each[axis] for each in known if len(each) >= -axis]
        wide = {size for size in column if size not in (1, None)}
        if len(wide) > 1:
            words = " and ".join(described(each) for each in known)
            raise ValueError(f"{kind}: shapes {words} are not compatible: one has {wide.pop()}, the other {wide.pop()}")
        sizes.append(wide.pop() if wide else None if None in column else 1)
    return tuple(sizes)


def _unranked(function: Callable[..., Any], inputs: Sequence[Tensor]) -> list[tuple[DType, Dims]]:
    """The dtypes alone, from whatever ranks the function takes."""
    for rank in (2, 1, 3, 0, 4):
        sizes = [
            [2] * rank if each.dims is None else [2 if size is None else size for size in each.dims] for each in inputs
        ]
        try:
            made = _outputs(function, [_meta(each, size) for each, size in zip(inputs, sizes, strict=True)])
            return [(_kind(each), None) for each in made]
        except (RuntimeError, ValueError, IndexError, TypeError):
            continue
    return [(inputs[0].dtype, None)]


def _blank(tensor: Tensor, size: int) -> torch.Tensor:
    return _meta(tensor, [size if each is None else each for each in tensor.dims or ()])


def _meta(tensor: Tensor, sizes: Sequence[int]) -> torch.Tensor:
    if tensor.dtype is string:
        return Strings.blank(sizes)
    return torch.empty(tuple(sizes), dtype=tensor.dtype.torch, device="meta")


def _kind(value: torch.Tensor) -> DType:
    return string if isinstance(value, Strings) else as_dtype(value.dtype)


def _outputs(function: Callable[..., Any], blanks: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    with torch.no_grad():
        made = function(*blanks)
    return list(made) if isinstance(made, list | tuple) else [made]


def _agreed(shapes: Sequence[Sequence[int]]) -> Dims:
    if len({len(each) for each in shapes}) > 1:
        return None
    return tuple(column[0] if len(set(column)) == 1 else None for column in zip(*shapes, strict=True))


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
