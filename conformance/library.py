"""What TensorFlow and unspool have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol


class Library(Protocol):
    """TensorFlow or unspool: the loops and cells to compare, and the few operations the program needs around them."""

    cpu: str

    def loop(self, name: str) -> Callable[..., Any]:
        """The loop of that name."""
        ...

    def cell(self, kind: str) -> Callable[..., Any]:
        """The cell class of that name."""
        ...

    def activation(self, name: str) -> Callable[[Any], Any]:
        """The library's own function of that name."""
        ...

    def keep_all(self, dtype: str) -> Any:
        """A keep probability of 1 that is known only at run time."""
        ...

    def flatten(self, structure: Any) -> list[Any]:
        """The leaves of a structure."""
        ...

    def pack_as(self, structure: Any, leaves: Sequence[Any]) -> Any:
        """The leaves in the containers of a structure."""
        ...

    def stack(self, tensors: Sequence[Any], axis: int) -> Any:
        """Tensors along a new axis."""
        ...

    def unstack(self, tensor: Any, axis: int) -> Sequence[Any]:
        """A tensor's slices along an axis."""
        ...

    def at(self, tensor: Any, index: Any) -> Any:
        """`tensor[index]`, or its last element where the index is past the end."""
        ...

    def sum_of_rows(self, tensor: Any) -> Any:
        """The sum of each row of a matrix."""
        ...

    def constant(self, values: Any, dtype: str) -> Any:
        """A tensor of these values."""
        ...

    def is_floating(self, tensor: Any) -> bool:
        """Whether a tensor can have a gradient."""
        ...

    def tensor_array(self, dtype: str) -> Any:
        """An empty TensorArray that grows."""
        ...

    def state_saver(self, states: dict[str, Any]) -> Any:
        """A state saver that starts from `states`; what it is given it keeps in `saved`, by name."""
        ...


class StateSaver:
    """Starts from `states`; what it is given, as each library saves it, is in `saved`, by name."""

    def __init__(self, states: dict[str, Any]) -> None:
        self._states = states
        self.saved: dict[str, Any] = {}

    def state(self, name: str) -> Any:
        """The state to start from."""
        return self._states[name]
