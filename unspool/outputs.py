"""What a step puts out: its containers, and the shape and dtype of each tensor in them, for one row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from unspool.sizes import UNKNOWN, shape_of, size_of
from unspool.structure import Structure, check_same_structure, describe, flatten, map_structure, unflatten_as
from unspool.tracers import static_shape

RowKind = tuple[tuple[int, ...], torch.dtype]
"""The shape and dtype of one row."""


@dataclass(frozen=True)
class Outputs:
    """What a step puts out for one row, as its cell declares it or as one output shows it.

    Args:
        sizes: the size of each tensor, in the containers of an output, with None where it has None.
        leaves: the shape and dtype of each of its tensors.
        name: whose word it is, for messages.

    >>> found = Outputs.of({"h": torch.zeros(2, 3), "done": torch.zeros(2, dtype=torch.bool), "extra": None}, 2)
    >>> found.leaves
    (((), torch.bool), ((3,), torch.float32))
    >>> found.unflatten(["done", "h"])
    {'h': 'h', 'done': 'done', 'extra': None}
    """

    sizes: Structure
    leaves: tuple[RowKind, ...]
    name: str = "cell.output_size"

    @classmethod
    def declared(cls, output_size: Structure, dtype: torch.dtype | None) -> Outputs | None:
        """Outputs of `output_size`, all of one dtype; None if the size is not known."""
        if output_size is UNKNOWN:
            return None
        if dtype is None:
            raise ValueError("outputs of a declared size need a dtype")
        kinds = tuple((shape_of(size, "cell.output_size"), dtype) for size in flatten(output_size))
        return cls(output_size, kinds)

    @classmethod
    def of(cls, output: Structure, batch_size: int) -> Outputs:
        """Outputs like this one, of a batch.

        Raises:
            TypeError: if it holds something else than tensors and None.
            ValueError: if one of its tensors has not one row for each of the batch.
        """
        kinds: list[RowKind] = []
        for leaf in flatten(output):
            if leaf is None:
                continue
            if not isinstance(leaf, Tensor):
                raise TypeError(f"the cell's output must be made of tensors, but has {describe(leaf)}")
            shape = static_shape(leaf)
            if not shape or shape[0] != batch_size:
                raise ValueError(
                    f"the cell's output has shape {list(shape)}, but must have a row for each of {batch_size}"
                )
            kinds.append((tuple(shape[1:]), leaf.dtype))
        sizes = map_structure(lambda leaf: None if leaf is None else size_of(leaf), output)
        return cls(sizes, tuple(kinds), "its first output")

    def flatten(self, output: Structure) -> list[Any]:
        """The tensors of an output, in order."""
        return flatten(output) if self._is_whole else [leaf for leaf in flatten(output) if leaf is not None]

    def unflatten(self, tensors: Iterable[Any]) -> Structure:
        """The output that has these tensors."""
        if self._is_whole:
            return unflatten_as(self.sizes, tensors)
        remaining = iter(tensors)
        return map_structure(lambda leaf: None if leaf is None else next(remaining), self.sizes)

    @cached_property
    def _is_whole(self) -> bool:
        return all(leaf is not None for leaf in flatten(self.sizes))

    def check_containers(self, output: Structure) -> None:
        """Raises unless an output has these containers."""
        check_same_structure(self.sizes, output, name="the cell's output", like=self.name)

    def zeros(self, axes: Sequence[int], device: Any) -> Structure:
        """Outputs of zeros, with these axes in front."""
        return self.unflatten([torch.zeros((*axes, *row), dtype=dtype, device=device) for row, dtype in self.leaves])
