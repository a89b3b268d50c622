"""The operands of a loop by name: the one place that knows the order in which autograd sees them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from unspool.structure import Structure, flatten, map_structure

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True)
class Signature:
    """What a cell's operands are called, and the structures that some of them come in.

    Args:
        names: the names of weights and row buffers.
        inputs: the structure of the inputs, without their tensors.
        state: that of the state.
    """

    names: Operands[str]
    inputs: Structure
    state: Structure

    @classmethod
    def of(cls, weights: Iterable[str], inputs: Structure, state: Structure, row_buffers: Iterable[str]) -> Signature:
        """That of these operands."""
        inputs, state = (map_structure(lambda leaf: "", each) for each in (inputs, state))
        return cls(Operands(list(weights), flatten(inputs), flatten(state), list(row_buffers)), inputs, state)


@dataclass(frozen=True)
class Operands(Generic[T]):
    """One thing for each operand: a tensor, a node of the trace, a name, or a flag.

    Args:
        weights: the cell's parameters and buffers.
        inputs: the leaves of the inputs.
        state: the leaves of the initial state.
        row_buffers: buffers of the cell with a row for each of the batch, such as what an attention looks at: more
            state, which every step hands on as it is.

    >>> operands = Operands(["w", "b"], ["x"], ["c", "h"], [])
    >>> operands.flat()
    ['w', 'b', 'x', 'c', 'h']
    >>> operands.regroup([1, 2, 3, 4, 5]).state
    [4, 5]
    """

    weights: Sequence[T]
    inputs: Sequence[T]
    state: Sequence[T]
    row_buffers: Sequence[T]

    @property
    def carried(self) -> list[T]:
        """What a step takes over from the one before."""
        return [*self.state, *self.row_buffers]

    def flat(self) -> list[T]:
        """All of them, in order."""
        return [*self.weights, *self.inputs, *self.state, *self.row_buffers]

    def regroup(self, flat: Sequence[U]) -> Operands[U]:
        """Other things, given in the order of `flat`, in the same groups.

        Raises:
            ValueError: if there are more or fewer.
        """
        first = len(self.weights)
        second = first + len(self.inputs)
        third = second + len(self.state)
        if len(flat) != third + len(self.row_buffers):
            raise ValueError(f"expected {third + len(self.row_buffers)} operands, but got {len(flat)}")
        return Operands(flat[:first], flat[first:second], flat[second:third], flat[third:])
