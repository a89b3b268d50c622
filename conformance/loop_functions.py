"""What raw_rnn is asked to do, in either library."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from conformance.library import Library
from conformance.structures import pack

LoopFn = Callable[[Any, Any, Any, Any], tuple[Any, Any, Any, Any, Any]]


@dataclass(frozen=True)
class Sequences:
    """What a loop function reads from: time-major inputs, lengths, and the state to start from."""

    library: Library
    spec: dict[str, Any]
    inputs: list[Any]
    start: Any

    def finished(self, time: Any) -> Any:
        """Which rows have reached their lengths."""
        return time >= self._lengths()

    def finished_just_now(self, time: Any) -> Any:
        """Which rows reach their lengths at this very time; all of them at the last one."""
        lengths = self._lengths()
        return ((time >= lengths) & (time <= lengths)) | (time >= self.spec["T"])

    def at(self, time: Any) -> Any:
        """The inputs at a time, or the last ones where it is past the end."""
        return pack(self.spec.get("inputs", "leaf"), [self.library.at(leaf, time) for leaf in self.inputs])

    def _lengths(self) -> Any:
        lengths = self.spec["lengths"] or [self.spec["T"]] * self.spec["B"]
        return self.library.constant(lengths, "int32")


def until_lengths(sequences: Sequences) -> LoopFn:
    """What dynamic_rnn does: runs each row for its length and emits the cell's output."""

    def loop_fn(time: Any, output: Any, state: Any, loop_state: Any) -> Any:
        state = sequences.start if output is None else state
        return sequences.finished(time), sequences.at(time), state, output, None

    return loop_fn


def other_emits(sequences: Sequences) -> LoopFn:
    """Emits a structure of its own, in two dtypes, and keeps a sum and a count in the loop state."""
    library, spec = sequences.library, sequences.spec
    row, rows = library.constant(0, "int32"), library.constant([0] * spec["B"], "int32")

    def loop_fn(time: Any, output: Any, state: Any, loop_state: Any) -> Any:
        if output is None:
            # A template has no batch dimension, and its values do not matter.
            emit = [library.constant([7] * spec["emit_width"], spec["dtype"]), row]
            state, loop_state = sequences.start, (library.constant([0] * spec["B"], spec["dtype"]), row)
        else:
            emit = [output * 2, rows + time]
            loop_state = (loop_state[0] + library.sum_of_rows(output), loop_state[1] + 1)
        return sequences.finished(time), sequences.at(time), state, pack(spec["emits"], emit), loop_state

    return loop_fn


def feedback(sequences: Sequences) -> LoopFn:
    """Feeds each output back into the next input, decays the state, and keeps a history in a TensorArray.

    It says only once that a row is finished, which raw_rnn must remember.
    """
    library = sequences.library

    def loop_fn(time: Any, output: Any, state: Any, loop_state: Any) -> Any:
        finished, inputs = sequences.finished_just_now(time), sequences.at(time)
        if output is None:
            return finished, inputs, sequences.start, None, library.tensor_array(sequences.spec["dtype"])
        sums = library.sum_of_rows(output)
        decayed = [leaf * 0.9 if library.is_floating(leaf) else leaf for leaf in library.flatten(state)]
        inputs = inputs + library.activation("tanh")(sums)[:, None]
        return finished, inputs, library.pack_as(state, decayed), output, loop_state.write(time - 1, sums)

    return loop_fn


LOOP_FUNCTIONS: dict[str, Callable[[Sequences], LoopFn]] = {
    "until_lengths": until_lengths,
    "other_emits": other_emits,
    "feedback": feedback,
}
