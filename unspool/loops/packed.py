"""How a batch is laid out in time, from either end: sequences of one length, and packed ones of many.

The engine runs over packed rows as they are. This is the one place that knows how they lie.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from unspool.cells.rows_first import plan_owner_of
from unspool.cells.torch_cells import as_cell
from unspool.engine import Options
from unspool.loops.arguments import Sequences, as_state, check_state_rows, checked_output_dtype
from unspool.structure import Structure, map_structure, map_tensors
from unspool.tracers import differentiator, has_values, onlooker


class Full:
    """Sequences of one length, as time-major rows `[T, B, ...]`.

    >>> Full(2).reversed(torch.tensor([[1, 10], [2, 20], [3, 30]]))
    tensor([[ 3, 30],
            [ 2, 20],
            [ 1, 10]])
    """

    counts: tuple[int, ...] | None = None
    """The rows of each step, if they are packed."""

    def __init__(self, batch_size: int) -> None:
        self.batch_size = batch_size

    def reversed(self, rows: Tensor) -> Tensor:
        """The rows in the order of a loop that begins at the end of each sequence; and back."""
        return rows.flip(0)


class Packed(Full):
    """Sequences of many lengths, as the rows `[sum(lengths), ...]` of a `PackedSequence`, the longest first.

    >>> Packed(torch.tensor([2, 2, 1])).reversed(torch.tensor([1, 10, 2, 20, 3]))
    tensor([ 3, 20,  2, 10,  1])
    """

    def __init__(self, batch_sizes: Tensor) -> None:
        self.counts = tuple(cast("list[int]", batch_sizes.tolist()))
        super().__init__(self.counts[0])
        self._batch_sizes = batch_sizes

    def reversed(self, rows: Tensor) -> Tensor:
        """Each sequence from its end to its start."""
        return cast(Tensor, _Reversed.apply(rows, self._order))

    @cached_property
    def _order(self) -> Tensor:
        """Where the row is that takes the place of each: an order that undoes itself."""
        runs = self._batch_sizes[:, None] > torch.arange(self.batch_size)
        time, row = runs.nonzero(as_tuple=True)
        starts = self._batch_sizes.cumsum(0) - self._batch_sizes
        return starts[runs.sum(0)[row] - 1 - time] + row


class Sorted(Packed):
    """A `PackedSequence`: packed rows, and where each of its sequences is for the caller.

    Args:
        sequence: what the caller has.
    """

    def __init__(self, sequence: PackedSequence) -> None:
        super().__init__(sequence.batch_sizes)
        self._sequence = sequence

    @staticmethod
    def serves(sequence: PackedSequence) -> bool:
        """Whether the engine takes the rows as they are: on a CPU, where nobody watches torch's operations."""
        return onlooker() is None and differentiator() is None and sequence.data.is_cpu and has_values(sequence.data)

    def packed(self, rows: Structure) -> Structure:
        """Rows of outputs as a `PackedSequence` each."""
        return map_tensors(lambda leaf: self._sequence._replace(data=leaf), rows)

    def run(self, cell: Any, start: Structure, options: Options, *, backwards: bool = False, name: str = "") -> Any:
        """Runs a cell, whose states have rows on the first axes: rows of outputs, and the final state.

        Args:
            cell: the cell.
            start: its state before the first step, of the caller's rows; None for its own.
            options: how to run.
            backwards: whether it begins at the end of each sequence.
            name: of the direction, for messages and profilers; none if there is but one.
        """
        cell_name, state_name = (f"{word}_{name}" if name else word for word in ("cell", "initial_state"))
        rows = self.reversed(self._sequence.data) if backwards else self._sequence.data
        given = as_cell(cell_name, cell, starts=start is None, kept=False)
        state = as_state(given, start, None, self.batch_size, [rows], state_name)
        dtype = checked_output_dtype(given, state, None, cell_name, state_name)
        check_state_rows(state, self.batch_size, state_name)
        state = _picked(state, self._sequence.sorted_indices)
        owner = plan_owner_of(given)
        order = self._sequence.sorted_indices
        sequences = Sequences(given, rows, None, state, dtype, options, owner, counts=self.counts, order=order)
        outputs, state = sequences.run(f"bidirectional_rnn/{name}" if name else "rnn")
        outputs = map_tensors(self.reversed, outputs) if backwards else outputs
        return outputs, _picked(state, self._sequence.unsorted_indices)


def _picked(state: Structure, order: Tensor | None) -> Structure:
    """The rows of a state in another order."""
    if order is None:
        return state
    return map_structure(lambda leaf: leaf.index_select(0, order) if leaf.dim() else leaf, state)


class _Reversed(torch.autograd.Function):
    """Rows in an order that undoes itself: its adjoint is the same, where that of an index would add rows up."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, order: Tensor) -> Tensor:
        ctx.order = order
        return rows.index_select(0, order)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return _Reversed.apply(gradients[0], ctx.order), None
