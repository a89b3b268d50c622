"""Runs a TensorFlow 1 program, on TensorFlow or on unspool, and notes everything it computes.

The notes are arrays by key, as they are stored in an .npz file:

    variables             JSON: name, shape and whether it is trained, of all variables in the order they were made
    placeholders          JSON: the names of the placeholders
    start:NAME            a variable as its initializer left it; stored where that is a constant
    var:NAME              the value that a trained variable is given before the first step
    feed:NAME             what is fed at each of the 20 steps, and once more when training is over
    before:NAME           the fetches, with the feeds of step 0, before training; leaves of a state are NAME.0, NAME.1
    losses                the loss at each of the 20 steps
    final:NAME            every variable after these steps
    after:NAME            the fetches with the last feeds
    use:NAME              what the program computes besides, see `Program.use`
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.tf1_programs.program import Arrays, Build, Program

STEPS = 20

Value = Callable[[str, tuple[int, ...]], np.ndarray]
"""The value of a trained variable of that name and shape."""

Feeds = Callable[[Program, int], Arrays]
"""What is fed at a step."""


def run(tf: Any, build: Build, value: Value, feeds_at: Feeds) -> tuple[Program, Arrays]:
    """Builds a program in a graph of its own, trains it for 20 steps, and notes everything."""
    with tf.Graph().as_default():
        program = build(tf)
        initialize = tf.global_variables_initializer()
        with tf.Session() as session:
            session.run(initialize)
            return program, dict(_notes(tf, session, program, value, feeds_at))


def _notes(tf: Any, session: Any, program: Program, value: Value, feeds_at: Feeds) -> Iterator[tuple[str, np.ndarray]]:
    variables = {name_of(variable): variable for variable in tf.global_variables()}
    trained = {name_of(variable) for variable in tf.trainable_variables()}
    shapes = {name: tuple(variable.shape.as_list()) for name, variable in variables.items()}
    yield "variables", _as_json([[name, list(shapes[name]), name in trained] for name in variables])
    yield "placeholders", _as_json({key: tensor.name for key, tensor in program.placeholders.items()})

    yield from leaves("start:", session.run(variables))
    for name, variable in variables.items():
        if name in trained:
            given = value(name, shapes[name])
            variable.load(given, session)
            yield f"var:{name}", given

    feeds = [feeds_at(program, k) for k in range(STEPS + 1)]
    feed_dicts = [{program.placeholders[name]: fed for name, fed in each.items()} for each in feeds]
    yield from ((f"feed:{name}", np.stack([each[name] for each in feeds])) for name in feeds[0])

    yield from leaves("before:", session.run(program.fetches, feed_dicts[0]))
    steps = [session.run([program.fetches["loss"], program.train], feed_dict) for feed_dict in feed_dicts[:-1]]
    yield "losses", np.array([loss for loss, _ in steps])
    yield from leaves("final:", session.run(variables))
    yield from leaves("after:", session.run(program.fetches, feed_dicts[-1]))
    if program.use is not None:
        yield from leaves("use:", program.use(session, feeds[-1]))


def by_hand(program: Program, notes: Arrays) -> Arrays:
    """The fetches before and after training, computed in NumPy, in float64, from the variables in the notes."""
    before = {**part(notes, "start:"), **part(notes, "var:")}
    computed = {}
    for key, variables, k in ("before:", before, 0), ("after:", part(notes, "final:"), STEPS):
        exact = {name: _widened(array) for name, array in variables.items()}
        feeds = {name: _widened(array[k]) for name, array in part(notes, "feed:").items()}
        computed.update(leaves(key, program.by_hand(exact, feeds)))
    return computed


def part(notes: Arrays, prefix: str) -> Arrays:
    """The notes under a prefix, which is taken off."""
    return {key.removeprefix(prefix): array for key, array in notes.items() if key.startswith(prefix)}


def leaves(prefix: str, results: dict[str, Any]) -> Iterator[tuple[str, np.ndarray]]:
    """Results by name, those within tuples numbered."""
    for name, result in results.items():
        if isinstance(result, tuple | list):
            yield from leaves(f"{prefix}{name}.", {str(k): leaf for k, leaf in enumerate(result)})
        else:
            yield prefix + name, np.asarray(result)


def name_of(variable: Any) -> str:
    """A variable's name, without the number of the output that it is."""
    return variable.name.removesuffix(":0")


def _widened(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64) if array.dtype == np.float32 else array


def _as_json(value: Any) -> np.ndarray:
    return np.array(json.dumps(value))
