"""The gradient of a table that is read inside branches, loops and cells is what every optimiser and clip takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests import tf1_recorded, tf1_tables
from unspool import tf1 as tf


@pytest.mark.parametrize("place", tf1_tables.PLACES, ids=lambda place: place.__name__)
def test_five_steps_by_every_optimiser_are_tensorflows(place: Callable[..., Any]):
    # A few last bits of float32: five steps that divide by roots of small numbers make more of one.
    tf1_recorded.check("tables", place.__name__, tf1_tables.by_all(tf, place), 5e-6)


def test_a_table_of_any_rank_has_slices():
    for shape in ([5], [5, 2], [5, 2, 3]):
        table = tf.get_variable(f"table_{len(shape)}", shape, initializer=tf.ones_initializer())
        (gradient,) = tf.gradients(tf.reduce_sum(tf.gather(table, [[3, 1], [3, 0]]) ** 2), [table])
        assert isinstance(gradient, tf.IndexedSlices)
        assert gradient.values.shape.as_list() == [None, *shape[1:]]
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            values, whole = session.run([gradient, tf.convert_to_tensor(gradient)])
        assert values.indices.tolist() == [3, 1, 3, 0]
        assert values.values.shape == (4, *shape[1:])
        assert (whole.reshape(5, -1) == [[2], [2], [0], [4], [0]]).all()


def test_a_gradient_inside_a_body_is_a_whole_tensor():
    table = tf.get_variable("table", initializer=[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])

    def slope(k: Any) -> Any:
        (gradient,) = tf.gradients(tf.reduce_sum(tf.nn.embedding_lookup(table, [k, k]) ** 2), [table])
        return gradient

    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        found = session.run(tf.map_fn(slope, tf.constant([2, 0]), dtype=tf.float32))
    assert found.tolist() == [[[0, 0], [0, 0], [20, 24]], [[4, 8], [0, 0], [0, 0]]]


def test_a_gradient_of_what_was_read_can_be_differentiated_again():
    table = tf.get_variable("table", initializer=[[1.0, 2.0], [3.0, 4.0]])
    (slices,) = tf.gradients(tf.reduce_sum(tf.gather(table, [1, 1]) ** 3), [table])
    (again,) = tf.gradients(tf.reduce_sum(slices.values**2), [table])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        found = session.run(tf.convert_to_tensor(again))
    # Each reading of x has the slope 3x^2, whose square has the slope 36x^3; there are two.
    assert found.tolist() == [[0, 0], [2 * 36 * 27, 2 * 36 * 64]]


def test_two_sessions_of_one_graph_keep_their_readings_apart():
    table = tf.get_variable("table", initializer=[[1.0], [2.0], [3.0]])
    ids = tf.placeholder(tf.int32, [None])
    read = tf.cond(tf.size(ids) > 0, lambda: tf.nn.embedding_lookup(table, ids), lambda: tf.zeros([1, 1]))
    train = tf.train.MomentumOptimizer(1.0, 0.5).minimize(tf.reduce_sum(read))
    with tf.Session() as one, tf.Session() as other:
        for session in (one, other):
            session.run(tf.global_variables_initializer())
        one.run(train, {ids: [0]})
        other.run(train, {ids: [1, 1]})
        one.run(train, {ids: [2]})
        assert one.run(table).tolist() == [[0.0], [2.0], [2.0]]
        assert other.run(table).tolist() == [[1.0], [0.0], [3.0]]
