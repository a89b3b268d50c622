"""The program both libraries run: the loop of a spec, with its cells, inputs and initial states.

TensorFlow's functions and unspool's have the same names and the same arguments, so one text calls either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from conformance.library import Library
from conformance.loop_functions import LOOP_FUNCTIONS, Sequences
from conformance.structures import outline, pack

Spec = dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """What a loop returned."""

    outputs: Any
    """In the loop's own containers."""
    output_leaves: list[Any]
    """The leaves of the outputs; those of a list of steps are stacked along axis 1."""
    state: Any
    loop_state: Any = None
    saved: Sequence[Any] = ()

    def named_leaves(self, library: Library) -> dict[str, Any]:
        """Outputs, states and loop states, leaf by leaf, by the names they have in a case."""
        loop_state = [] if self.loop_state is None else library.flatten(self.loop_state)
        groups = {"out": self.output_leaves, "state": library.flatten(self.state), "loop": loop_state}
        return {f"{group}_{k}": leaf for group, leaves in groups.items() for k, leaf in enumerate(leaves)}

    def outlines(self) -> dict[str, str]:
        """The containers of what the loop returned."""
        parts = {"outputs": self.outputs, "state": self.state, "loop_state": self.loop_state}
        return {name: outline(part) for name, part in parts.items()}


@dataclass(frozen=True)
class Call:
    """One call of a loop: cells, the leaves of the inputs, and for each cell its initial state or None.

    The cells of a bidirectional loop are in pairs, layer by layer: forward, backward.
    """

    spec: Spec
    library: Library
    cells: list[Any]
    inputs: list[Any]
    starts: list[Any]

    def run(self) -> Outcome:
        """Runs the loop of the spec."""
        return _RUN[self.spec["loop"]](self)

    @property
    def loop(self) -> Callable[..., Any]:
        """The function itself."""
        return self.library.loop(self.spec["loop"])

    @property
    def common(self) -> dict[str, Any]:
        """The arguments most loops take."""
        arguments = {"scope": self.spec["scope"], "sequence_length": self._lengths()}
        return {**arguments, "dtype": self.spec["dtype"]} if self.spec.get("pass_dtype", True) else arguments

    @property
    def iteration(self) -> dict[str, Any]:
        """The arguments of loops over whole sequences."""
        names = ("time_major", "parallel_iterations", "swap_memory")
        return {name: self.spec[name] for name in names if name in self.spec}

    def sequences(self) -> Any:
        """The inputs as one structure of whole sequences."""
        return pack(self.spec.get("inputs", "leaf"), self.inputs)

    def steps(self) -> list[Any]:
        """The inputs as a list of steps."""
        columns = [self.library.unstack(leaf, 1) for leaf in self.inputs]
        return [pack(self.spec.get("inputs", "leaf"), step) for step in zip(*columns, strict=True)]

    def starts_of_both(self, name: str) -> dict[str, list[Any]]:
        """The initial states of every layer, as arguments called `name` for each direction that has them."""
        directions = {f"{name}_fw": self.starts[::2], f"{name}_bw": self.starts[1::2]}
        return {argument: states for argument, states in directions.items() if states[0] is not None}

    def whole(self, outputs: Any, state: Any, **more: Any) -> Outcome:
        """The outcome of a loop whose outputs are whole sequences."""
        return Outcome(outputs, self.library.flatten(outputs), state, **more)

    def listed(self, outputs: list[Any], state: Any, **more: Any) -> Outcome:
        """The outcome of a loop whose outputs are a list of steps."""
        columns = zip(*map(self.library.flatten, outputs), strict=True)
        return Outcome(outputs, [self.library.stack(column, 1) for column in columns], state, **more)

    def _lengths(self) -> Any:
        lengths, dtype = self.spec["lengths"], self.spec.get("lengths_dtype", "int32")
        return lengths if lengths is None or dtype == "list" else np.array(lengths, dtype)


def _dynamic(call: Call) -> Outcome:
    start = {"initial_state": call.starts[0]}
    return call.whole(*call.loop(call.cells[0], call.sequences(), **start, **call.common, **call.iteration))


def _static(call: Call) -> Outcome:
    return call.listed(*call.loop(call.cells[0], call.steps(), initial_state=call.starts[0], **call.common))


def _bidirectional_dynamic(call: Call) -> Outcome:
    starts = {argument: states[0] for argument, states in call.starts_of_both("initial_state").items()}
    return call.whole(*call.loop(*call.cells, call.sequences(), **starts, **call.common, **call.iteration))


def _static_bidirectional(call: Call) -> Outcome:
    starts = {argument: states[0] for argument, states in call.starts_of_both("initial_state").items()}
    outputs, *states = call.loop(*call.cells, call.steps(), **starts, **call.common)
    return call.listed(outputs, tuple(states))


def _stack_bidirectional_dynamic(call: Call) -> Outcome:
    starts, cells = call.starts_of_both("initial_states"), (call.cells[::2], call.cells[1::2])
    outputs, *states = call.loop(*cells, call.sequences(), **starts, **call.common, **call.iteration)
    return call.whole(outputs, tuple(states))


def _stack_bidirectional(call: Call) -> Outcome:
    starts, cells = call.starts_of_both("initial_states"), (call.cells[::2], call.cells[1::2])
    outputs, *states = call.loop(*cells, call.steps(), **starts, **call.common)
    return call.listed(outputs, tuple(states))


def _state_saving(call: Call) -> Outcome:
    leaves = call.library.flatten(call.starts[0])
    names = [f"state_{k}" for k in range(len(leaves))]
    state_name = names[0] if call.starts[0] is leaves[0] else {"list": list, "tuple": tuple}[call.spec["names"]](names)
    saver = call.library.state_saver(dict(zip(names, leaves, strict=True)))
    options = {name: value for name, value in call.common.items() if name != "dtype"}
    outputs, state = call.loop(call.cells[0], call.steps(), saver, state_name, **options)
    return call.listed(outputs, state, saved=[saver.saved[name] for name in names])


def _raw(call: Call) -> Outcome:
    spec, cell = call.spec, call.cells[0]
    start = cell.zero_state(spec["B"], spec["dtype"]) if call.starts[0] is None else call.starts[0]
    loop_fn = LOOP_FUNCTIONS[spec["loop_fn"]](Sequences(call.library, spec, call.inputs, start))
    options = {name: value for name, value in call.iteration.items() if name != "time_major"}
    emits, state, loop_state = call.loop(cell, loop_fn, scope=spec["scope"], **options)
    outputs = call.library.pack_as(emits, [array.stack() for array in call.library.flatten(emits)])
    if spec["loop_fn"] == "feedback":
        loop_state = loop_state.stack()
    return call.whole(outputs, state, loop_state=loop_state)


_RUN: dict[str, Callable[[Call], Outcome]] = {
    "dynamic_rnn": _dynamic,
    "static_rnn": _static,
    "bidirectional_dynamic_rnn": _bidirectional_dynamic,
    "static_bidirectional_rnn": _static_bidirectional,
    "stack_bidirectional_dynamic_rnn": _stack_bidirectional_dynamic,
    "stack_bidirectional_rnn": _stack_bidirectional,
    "static_state_saving_rnn": _state_saving,
    "raw_rnn": _raw,
}
