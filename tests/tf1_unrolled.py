"""Cells that a program calls step by step, run as loops and as they are called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

import unspool
from unspool import tf1 as tf
from unspool.tf1.rerolling import chains
from unspool.tf1.rerolling.composite import Rolled
from unspool.tf1.rerolling.loop import Loop

ROWS, STEPS, DEPTH, UNITS = 2, 5, 3, 4
NEVER = 10**9
CLOSE = dict(rtol=1e-9, atol=1e-11)
"""In float64 a loop differs from its calls by the order of sums alone."""


class Model(NamedTuple):
    """What a program fetches, all of it float64, and what it feeds."""

    fetches: Any
    feeds: dict[Any, Any] = {}
    train: Any = ()


class Ran(NamedTuple):
    """Two runs, a training step between them, then the variables.

    Args:
        values: these.
        loops: how many loops took the places of calls.
        planned: whether the engine ran all of them.
    """

    values: list[Any]
    loops: int
    planned: bool


def ran(build: Callable[[], Model], fewest: int, turns: int = 2) -> Ran:
    with pytest.MonkeyPatch.context() as patch, tf.Graph().as_default():
        patch.setattr(chains, "FEWEST", fewest)
        unplanned: list[Any] = []
        for kind in (Loop, Rolled):
            patch.setattr(kind, "_called", noted(kind._called, unplanned))
        model = build()
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for number, variable in enumerate(tf.trainable_variables()):
                variable.load(numbers(*variable.shape.as_list(), seed=number), session)
            values = [whole(session.run((model.fetches, model.train), model.feeds)[0]) for _ in range(turns)]
            values.append(session.run(tf.global_variables()))
            return Ran(unspool.structure.flatten(values), loops_of(session), not unplanned)


def whole(fetched: Any) -> list[Any]:
    """All arrays; of gradients of tables, for each row the sums of what was read of it, and of their squares.

    The order of readings is nobody's business, but an optimiser may ask for the norm of all of them.
    """
    found: list[Any] = []
    for each in unspool.structure.flatten(fetched):
        if isinstance(each, tf.IndexedSlicesValue):
            blank = np.zeros((each.indices.max() + 1, *each.values.shape[1:]))
            for power in (1, 2):
                found.append(blank.copy())
                np.add.at(found[-1], each.indices, each.values**power)
            found.append(len(each.indices))
        else:
            found.append(each)
    return found


def noted(function: Callable[..., Any], calls: list[Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        calls.append(function)
        return function(*arguments)

    return call


def loops_of(session: Any) -> int:
    programs = session._programs.values()
    return sum(isinstance(step.operation.function, Loop | Rolled) for each in programs for step in each._steps)


def check_same(build: Callable[[], Model], loops: int, turns: int = 2, *, planned: bool = True) -> None:
    """So many loops take the places of the calls of a program, and compute what these compute."""
    joined, called = ran(build, 2, turns), ran(build, NEVER, turns)
    assert called.loops == 0
    assert (joined.loops, joined.planned) == (loops, planned)
    for one, other in zip(joined.values, called.values, strict=True):
        np.testing.assert_allclose(one, other, **CLOSE)


def numbers(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).uniform(-1, 1, shape)


def sequence(steps: int = STEPS) -> tuple[Any, dict[Any, Any]]:
    x = tf.placeholder(tf.float64, [None, steps, DEPTH])
    return x, {x: numbers(ROWS, steps, DEPTH, seed=99)}


def unrolled(cell: Any, inputs: Sequence[Any], state: Any = None) -> tuple[list[Any], list[Any]]:
    """The outputs and states of all steps."""
    state = cell.zero_state(ROWS, tf.float64) if state is None else state
    outputs, states = [], []
    for x in inputs:
        output, state = cell(x, state)
        outputs.append(output)
        states.append(state)
    return outputs, states


def trained(loss: Any, feeds: dict[Any, Any], *more: Any) -> Model:
    """The loss, its gradients by all variables, and a step of an optimiser."""
    weights = tf.trainable_variables()
    train = tf.train.AdamOptimizer(0.01).minimize(loss)
    return Model((loss, [each for each in tf.gradients(loss, weights) if each is not None], more), feeds, train)


def squares(tensors: Sequence[Any]) -> Any:
    return tf.add_n([tf.reduce_sum(each * each) for each in tensors])
