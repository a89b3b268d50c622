"""How far a decode has come, and one step of it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from unspool.decode.decoder import Decoder
from unspool.decode.rows import FinishedRows, as_finished
from unspool.dtypes import as_dtype
from unspool.loops.arguments import check_state_rows
from unspool.loops.tensors import as_tensors
from unspool.sizes import shape_of
from unspool.step import checked, checked_like
from unspool.structure import Structure, check_same_structure, describe, flatten, unflatten_as
from unspool.tracers import has_values, obstacle, static_shape


class Progress:
    """How far a decode has come: what the next step reads, and what those before it put out."""

    def __init__(self, decoder: Decoder) -> None:
        finished, inputs, state = decoder.initialize()
        self.finished = as_finished(finished)
        if static_shape(self.finished)[0] != decoder.batch_size:
            have, expected = list(static_shape(self.finished)), decoder.batch_size
            raise ValueError(f"finished has shape {have}, but the decoder has a batch of {expected}")
        self.inputs, self.state = as_tensors(inputs, "inputs"), as_tensors(state, "state")
        self.lengths = torch.zeros_like(self.finished, dtype=torch.int32)
        self.outputs = Outputs(decoder)
        self.time = 0

    def check_rows(self) -> None:
        """Raises unless inputs and state have the rows of `finished`, so that finished ones can be told."""
        if self.finished.dim() != 1:
            raise ValueError(
                f"impute_finished needs one bool for each row, but finished has shape {list(self.finished.shape)}"
            )
        (rows,) = static_shape(self.finished)
        check_state_rows(self.inputs, rows, "an input")
        check_state_rows(self.state, rows, "the state")

    def go_to(self, position: Any) -> None:
        """Goes on from a `StreamPosition`; raises unless it is one of such a decoder."""
        self.inputs = checked_like(self.inputs, position.inputs, "position.inputs", "what the decoder starts with")
        self.state = checked_like(self.state, position.state, "position.state", "the decoder's state")
        for name in ("finished", "lengths"):
            own, given = getattr(self, name), getattr(position, name)
            setattr(self, name, checked(given, own.shape, own.dtype, f"position.{name}", "the decoder's rows have"))
        if not isinstance(position.time, int) or position.time < 0:
            raise ValueError(f"position.time must be the number of steps taken, but is {position.time!r}")
        self.time = position.time

    def running(self) -> int:
        """How many rows are not finished. On a GPU, this waits for it.

        Raises:
            RuntimeError: if there are no values that could tell, or a tracer would repeat them for others.
        """
        if not has_values(self.finished):
            raise RuntimeError(
                f"how many steps a decode takes depends on values, which cannot be read under {obstacle()}: run it "
                "outside, record a single step, or, where all inputs are known, use dynamic_rnn with sequence_length"
            )
        return self.finished.numel() - int(self.finished.sum())


def take_step(decoder: Decoder, progress: Progress, *, impute: bool) -> None:
    """One step of `decoder`; with `impute`, some rows are finished and to be left alone."""
    now = progress
    rows = FinishedRows(now.finished) if impute else None
    given = (now.inputs, now.state) if rows is None else rows.borrow((now.inputs, now.state))
    output, state, inputs, finished = _checked_step(decoder, now.time, *given)
    now.inputs = checked_like(now.inputs, as_tensors(inputs, "inputs"), "the decoder's next inputs", "the inputs")
    state = checked_like(now.state, as_tensors(state, "state"), "the decoder's next state", "the state")
    now.state = state if rows is None else rows.keep(state, now.state)
    now.outputs.append(output, rows)
    now.lengths = torch.where(now.finished, now.lengths, now.time + 1)
    finished = as_finished(finished, now.finished.shape).to(now.finished.device)
    now.finished = finished if decoder.tracks_own_finished else finished | now.finished
    now.time += 1


class Outputs:
    """What a decoder puts out, step by step, checked against what it says of its outputs."""

    def __init__(self, decoder: Decoder) -> None:
        self._sizes = decoder.output_size
        shapes = [(decoder.batch_size, *shape_of(size, "decoder.output_size")) for size in flatten(self._sizes)]
        dtypes = [as_dtype(dtype, "decoder.output_dtype") for dtype in flatten(decoder.output_dtype)]
        padding = decoder.output_padding
        paddings = [0] * len(shapes) if padding is None else flatten(padding)
        if not len(shapes) == len(dtypes) == len(paddings):
            raise ValueError(
                f"decoder.output_size has {len(shapes)} leaves, but decoder.output_dtype has {len(dtypes)} and "
                f"decoder.output_padding {len(paddings)}"
            )
        self._kinds = list(zip(shapes, dtypes, paddings, strict=True))
        self._steps: list[list[Tensor]] = []
        self._whole: list[Tensor] = []

    def append(self, output: Structure, finished: FinishedRows | None) -> None:
        """Adds what a step put out; rows that were finished before it get their padding."""
        name = "the decoder's output"
        check_same_structure(self._sizes, output, name=name, like="decoder.output_size")
        leaves = [
            checked(leaf, shape, dtype, name, "decoder.output_size and decoder.batch_size say")
            for leaf, (shape, dtype, _) in zip(flatten(output), self._kinds, strict=True)
        ]
        if finished is not None:
            leaves = [finished.pad(leaf, kind[2]) for leaf, kind in zip(leaves, self._kinds, strict=True)]
        self._steps.append(leaves)

    def take(self, outputs: Structure) -> None:
        """Takes all steps at once, time-major."""
        check_same_structure(self._sizes, outputs, name="the decoder's outputs", like="decoder.output_size")
        self._whole = flatten(outputs)

    def append_rows(self, leaves: list[Tensor], rows: Tensor) -> None:
        """Adds the leaves of what a step put out for some rows; the others get their padding."""
        if rows.shape[0] < self._kinds[0][0][0]:
            for k, (shape, _, padding) in enumerate(self._kinds):
                whole = leaves[k].new_full(shape, padding)
                whole[rows] = leaves[k]
                leaves[k] = whole
        self._steps.append(leaves)

    def end(self, lengths: Tensor) -> int:
        """Puts the padding where rows had ended and ran on, because nobody had looked; returns how many steps count."""
        if lengths.device.type == "cpu":
            return len(self._steps)  # where somebody always has
        del self._steps[int(lengths.max()) :]
        for time, leaves in enumerate(self._steps):
            over = lengths <= time
            for k, (shape, _, padding) in enumerate(self._kinds):
                leaves[k] = leaves[k].masked_fill(over.reshape(-1, *[1] * (len(shape) - 1)), padding)
        return len(self._steps)

    def last(self) -> Structure:
        """What the last step put out, which is then forgotten."""
        return unflatten_as(self._sizes, self._steps.pop())

    def stacked(self, device: torch.device) -> Structure:
        """All steps, time-major; without any, they are empty tensors on `device`."""
        if self._whole:
            leaves = self._whole
        elif self._steps:
            leaves = [torch.stack(column) for column in zip(*self._steps, strict=True)]
        else:
            leaves = [torch.empty((0, *shape), dtype=dtype, device=device) for shape, dtype, _ in self._kinds]
        return unflatten_as(self._sizes, leaves)


def _checked_step(decoder: Decoder, time: int, inputs: Structure, state: Structure) -> tuple[Any, Any, Any, Any]:
    returned: Any = decoder.step(time, inputs, state)
    if not issubclass(type(returned), tuple | list) or len(returned) != 4:
        raise TypeError(
            "a decoder's step must return (outputs, next_state, next_inputs, finished), but this one returned "
            f"{describe(returned)}"
        )
    return tuple(returned)
