"""The states that layers start from: given, one for each of several, or learned."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import nn

from unspool.sizes import shape_of
from unspool.structure import Structure, describe, flatten, map_structure, unflatten_as


def as_states(state: Any, count: int, of: str) -> list[Any]:
    """A state for each of several, or None for each.

    Raises:
        ValueError: if there are not so many.
    """
    if state is None:
        return [None] * count
    if not isinstance(state, tuple | list) or len(cast("tuple[Any, ...]", state)) != count:
        raise ValueError(f"state must be a tuple of {count} states, one for each {of}, but is {describe(state)}")
    return list(cast("tuple[Any, ...]", state))


class LearnedState(nn.Module):
    """A state that is learned, from zeros on: a parameter for each of its tensors.

    Args:
        state_size: the size of one row.
    """

    def __init__(self, state_size: Any) -> None:
        super().__init__()
        self._sizes = state_size
        for name, size in self._named():
            self.register_parameter(name, nn.Parameter(torch.zeros(shape_of(size, "cell.state_size"))))

    def _named(self) -> list[tuple[str, Any]]:
        return [(f"state_{k}", size) for k, size in enumerate(flatten(self._sizes))]

    def _row(self) -> Structure:
        return unflatten_as(self._sizes, [getattr(self, name) for name, _ in self._named()])

    def rows(self, count: int, device: Any) -> Structure:
        """The learned row, so many times."""
        row = self._row()
        if not torch.is_grad_enabled():  # where a view of a parameter still says that it requires a gradient
            row = map_structure(lambda leaf: leaf.detach(), row)
        return map_structure(lambda leaf: leaf.to(device).expand(count, *leaf.shape), row)

    def rows_like(self, state: Structure) -> Structure:
        """The learned row, for every row of a state."""
        return map_structure(lambda leaf, like: leaf.to(like.dtype).expand_as(like), self._row(), state)

    def reset_parameters(self) -> None:
        """Starts from zeros again."""
        for parameter in self.parameters():
            nn.init.zeros_(parameter)
