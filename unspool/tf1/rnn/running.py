"""A session's loops: what is checked when the graph is built need not be checked at every step of training."""

from __future__ import annotations

from typing import Any

import torch

from unspool.cells.like import start_sequence
from unspool.cells.rows_first import has_rows_first
from unspool.engine import Options, Request, entry
from unspool.loops.arguments import Sequences, as_sequences
from unspool.profiling import profiled
from unspool.structure import Structure, map_tensors
from unspool.tf1.dtypes import DType


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
        self._dtype, self._time_major, self._scope = dtype.torch, time_major, scope
        self._options = Options(parallel_iterations or None, swap_memory)

    def __call__(self, cell: Any, inputs: Structure, lengths: Any, state: Structure, *, reverse: bool = False) -> Any:
        """The outputs and the final state; with `reverse`, from the end of each sequence to its start."""
        if lengths is not None or not isinstance(inputs, torch.Tensor) or not has_rows_first(cell):
            found = self._sequences(cell, inputs, lengths, state)
            outputs, end = found.run_reversed(self._scope) if reverse else found.run(self._scope)
            return self._ordered(outputs, reverse=False), end
        steps = inputs if self._time_major else inputs.transpose(0, 1)
        start_sequence(cell)
        with profiled(self._scope):
            request = Request(cell, steps.flip(0) if reverse else steps, None, state, self._dtype, self._options)
            outputs, end = entry.run(request, self._scope)
        return self._ordered(outputs, reverse=reverse), end

    def _sequences(self, cell: Any, inputs: Structure, lengths: Any, state: Structure) -> Sequences:
        options = self._options
        return as_sequences(
            cell,
            inputs,
            lengths,
            state,
            self._dtype,
            options.parallel_iterations,
            self._time_major,
            swap_memory=options.swap_memory,
        )

    def _ordered(self, outputs: Structure, *, reverse: bool) -> Structure:
        """Time-major outputs as the caller wants them."""

        def ordered(leaf: torch.Tensor) -> torch.Tensor:
            steps = leaf.flip(0) if reverse else leaf
            return steps if self._time_major else steps.transpose(0, 1)

        return outputs if self._time_major and not reverse else map_tensors(ordered, outputs)
