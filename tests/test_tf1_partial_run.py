"""A run in several calls: what was fed and computed is known to the next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import unspool.tf1 as tf


@pytest.fixture
def graph() -> Any:
    class Graph:
        x, y, z = (tf.placeholder(tf.float32, [], name) for name in "xyz")
        first = x + y
        second = first * z

    return Graph


def test_fetches_come_one_after_the_other(graph: Any) -> None:
    with tf.Session() as session:
        handle = session.partial_run_setup([graph.first, graph.second], [graph.x, graph.y, graph.z])
        first = session.partial_run(handle, graph.first, {graph.x: 1, graph.y: 2})
        assert first == 3
        assert session.partial_run(handle, {"second": graph.second}, {graph.z: first}) == {"second": 9}


def test_what_was_drawn_is_not_drawn_again(graph: Any) -> None:
    noise = tf.random_uniform([4]) + graph.x
    scaled = noise * graph.z
    with tf.Session() as session:
        handle = session.partial_run_setup([noise, scaled], [graph.x, graph.z])
        drawn = session.partial_run(handle, noise, {graph.x: 1})
        np.testing.assert_array_equal(3 * drawn, session.partial_run(handle, scaled, {graph.z: 3}))


def test_a_variable_changes_once(graph: Any) -> None:
    count = tf.Variable(0.0)
    added = count.assign_add(graph.x)
    after = added * graph.z
    with tf.Session() as session:
        session.run(count.initializer)
        handle = session.partial_run_setup([added, after], [graph.x, graph.z])
        assert session.partial_run(handle, added, {graph.x: 2}) == 2
        assert session.partial_run(handle, after, {graph.z: 5}) == 10
        assert session.run(count) == 2


def test_a_gradient_of_what_an_earlier_call_computed(graph: Any) -> None:
    noise = tf.random_uniform([])
    value = tf.square(graph.x) * noise
    (slope,) = tf.gradients(value * graph.z, graph.x)
    with tf.Session() as session:
        handle = session.partial_run_setup([noise, value, slope], [graph.x, graph.z])
        drawn, found = session.partial_run(handle, [noise, value], {graph.x: 3})
        assert found == pytest.approx(9 * drawn)
        assert session.partial_run(handle, slope, {graph.z: 2}) == pytest.approx(2 * 6 * drawn)


MISTAKES: dict[str, tuple[Callable[..., Any], str]] = {
    "fetch twice": (lambda run, g: [run(g.first, {g.x: 1, g.y: 2}), run(g.first)], "add:0 has already been fetched"),
    "feed twice": (
        lambda run, g: [run(g.first, {g.x: 1, g.y: 2}), run(g.second, {g.x: 1})],
        "x:0 has already been fed",
    ),
    "feed too little": (lambda run, g: run(g.second, {g.x: 1, g.z: 1}), "y:0 is not among them"),
    "fetch something else": (lambda run, g: run(g.first * 2, {}), "was not specified in partial_run_setup"),
    "feed something else": (lambda run, g: run(g.first, {g.first: 2}), "was not specified in partial_run_setup"),
    "go on": (
        lambda run, g: [run([g.first, g.second], {g.x: 1, g.y: 2, g.z: 3}), run(g.first)],
        "Must run 'setup' before performing partial runs!",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str, graph: Any) -> None:
    mistake, message = MISTAKES[name]
    with tf.Session() as session:
        handle = session.partial_run_setup([graph.first, graph.second], [graph.x, graph.y, graph.z])
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            mistake(lambda *arguments: session.partial_run(handle, *arguments), graph)


def test_mistakes_when_it_is_set_up(graph: Any) -> None:
    with tf.Session() as session:
        with pytest.raises(tf.errors.InvalidArgumentError, match="at least one target"):
            session.partial_run_setup([], [graph.x])
        with pytest.raises(tf.errors.InvalidArgumentError, match="Must run 'setup'"):
            session.partial_run("handle", graph.first)
        with pytest.raises(RuntimeError, match=r"partial_run\(\) fetches and feeds tensors"):
            session.partial_run_setup([tf.no_op()], [graph.x])
