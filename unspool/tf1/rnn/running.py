"""A session's loops: what is checked when the graph is built need not be checked in every run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from unspool.cells.cell import RNNCell
from unspool.cells.like import start_sequence
from unspool.cells.rows_first import has_rows_first
from unspool.engine import Options, Request, StrictError, entry, strict
from unspool.loops.arguments import Sequences, as_sequences
from unspool.profiling import profiled
from unspool.structure import Structure, flatten, map_tensors
from unspool.tf1.dtypes import DType

if TYPE_CHECKING:
    from unspool.tf1.session import Run

SHORT = 1 << 15
"""Elements of all states of a loop in both directions up to which it costs more to begin a loop than to run it."""


class Looped:
    """How a loop of the graph runs a session's cell over values.

    Args:
        dtype: of the outputs.
        time_major: whether inputs and outputs are `[time, batch, ...]`.
        scope: what a profiler shows.
        parallel_iterations, swap_memory: passed on.
    """

    def __init__(
        self,
        dtype: DType,
        time_major: bool,
        scope: str,
        *,
        parallel_iterations: int | None = None,
        swap_memory: bool = False,
    ) -> None:
        self._dtype, self.time_major, self._scope = dtype.torch, time_major, scope
        self._options = Options(parallel_iterations or None, swap_memory)

    def __call__(
        self,
        cell: Any,
        inputs: Structure,
        lengths: Any,
        state: Structure,
        *,
        reverse: bool = False,
        fixed: bool = False,
    ) -> Any:
        """The outputs and the final state.

        Args:
            cell: the session's copy of a module.
            inputs, lengths, state: what `dynamic_rnn` takes.
            reverse: whether to run from the end of each sequence to its start.
            fixed: whether nothing about the cell changes between runs but its weights.
        """
        if lengths is not None or not isinstance(inputs, torch.Tensor) or not has_rows_first(cell):
            found = self._sequences(cell, inputs, lengths, state)
            outputs, end = found.run_reversed(self._scope) if reverse else found.run(self._scope)
            return self._ordered(outputs, reverse=False), end
        steps = inputs if self.time_major else inputs.transpose(0, 1)
        start_sequence(cell)
        with profiled(self._scope):
            order = steps.flip(0) if reverse else steps
            request = Request(cell, order, None, state, self._dtype, self._options, fixed=fixed)
            outputs, end = entry.run(request, self._scope)
        return self._ordered(outputs, reverse=reverse), end

    def both_ways(self, pair: Any, inputs: torch.Tensor, states: Structure) -> tuple[Structure, Structure]:
        """What a pair of cells puts out, the second from the end of the sequences to their start; and final states."""
        steps = inputs if self.time_major else inputs.transpose(0, 1)
        start_sequence(pair)
        with profiled(self._scope):
            request = Request(pair, (steps, steps.flip(0)), None, states, self._dtype, self._options, fixed=True)
            (outputs, turned), end = entry.run(request, self._scope)
        return (self._ordered(outputs, reverse=False), self._ordered(turned, reverse=True)), end

    def _sequences(self, cell: Any, inputs: Structure, lengths: Any, state: Structure) -> Sequences:
        options = self._options
        return as_sequences(
            cell,
            inputs,
            lengths,
            state,
            self._dtype,
            options.parallel_iterations,
            self.time_major,
            swap_memory=options.swap_memory,
        )

    def _ordered(self, outputs: Structure, *, reverse: bool) -> Structure:
        """Time-major outputs as the caller wants them."""

        def ordered(leaf: torch.Tensor) -> torch.Tensor:
            steps = leaf.flip(0) if reverse else leaf
            return steps if self.time_major else steps.transpose(0, 1)

        if self.time_major and not reverse:
            return outputs
        return ordered(outputs) if isinstance(outputs, torch.Tensor) else map_tensors(ordered, outputs)


class BothWays:
    """Runs one cell forwards and one backwards; short sequences in one loop, since most of their time is its begin.

    Args:
        forwards, backwards: the loops of each direction.
        fixed: whether nothing about each of the cells changes between runs but its weights.
    """

    def __init__(self, forwards: Looped, backwards: Looped, fixed: Sequence[bool]) -> None:
        self._loops, self._fixed = (forwards, backwards), fixed

    def __call__(
        self, cells: Sequence[Any], run: Run, inputs: Structure, lengths: Any, states: Sequence[Structure]
    ) -> Any:
        """The outputs of both, and their final states."""
        if all(self._fixed) and lengths is None and isinstance(inputs, torch.Tensor):
            carried = sum(leaf.numel() for leaf in flatten(states) if isinstance(leaf, torch.Tensor))
            steps = inputs.shape[0 if self._loops[0].time_major else 1]
            if steps * carried <= SHORT and all(map(has_rows_first, cells)):
                found = self._together(run, cells, inputs, states)
                if found is not None:
                    return found
        each = zip(self._loops, cells, states, self._fixed, (False, True), strict=True)
        made = [loop(cell, inputs, lengths, s, fixed=fixed, reverse=turns) for loop, cell, s, fixed, turns in each]
        return tuple(outputs for outputs, _ in made), tuple(state for _, state in made)

    def _together(self, run: Run, cells: Sequence[Any], inputs: torch.Tensor, states: Sequence[Structure]) -> Any:
        """The same by one loop; None if the engine has no plan for it."""
        pair: list[_SideBySide] = run.state.kept(self, lambda: [_SideBySide(*cells)])
        if not pair:
            return None
        try:
            with strict():
                return self._loops[0].both_ways(pair[0], inputs, tuple(states))
        except StrictError:
            pair.clear()
            return None


class _SideBySide(RNNCell):
    """Two cells, each with inputs and a state of its own."""

    def __init__(self, one: Any, other: Any) -> None:
        super().__init__()
        self.one, self.other = one, other
        self.built = True

    @property
    def state_size(self) -> Structure:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Those of both."""
        return self.one.state_size, self.other.state_size

    @property
    def output_size(self) -> Structure:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Those of both."""
        return self.one.output_size, self.other.output_size

    def forward(self, inputs: Structure, state: Structure) -> tuple[Structure, Structure]:
        """One step of each."""
        output, new = self.one(inputs[0], state[0])
        other_output, other_new = self.other(inputs[1], state[1])
        return (output, other_output), (new, other_new)
