"""Graphs: names, scopes, what is in them, and what mistakes raise when; all as TensorFlow has it.

`conformance/tf1_ops.py` noted TensorFlow's names and errors.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.tf1_ops.mistakes import MISTAKES, complaint
from tests.tf1_ops.names import NAMED, names
from tests.tf1_ops.on_purpose import MISTAKES_ON_PURPOSE
from unspool import tf1 as tf

NOTED: dict[str, Any] = {
    each: json.loads((Path(__file__).parent / "data" / "tf1_ops" / f"{each}.json").read_text())
    for each in ("names", "mistakes")
}


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


@pytest.mark.parametrize("program", NAMED)
def test_names_are_those_of_tensorflow(program: str):
    assert names(tf, program) == NOTED["names"][program]


@pytest.mark.parametrize("mistake", [each for each in MISTAKES if each not in MISTAKES_ON_PURPOSE])
def test_mistake_raises_what_tensorflow_raises_when_it_does(mistake: str):
    assert complaint(tf, mistake) == NOTED["mistakes"][mistake]


@pytest.mark.parametrize("mistake", MISTAKES_ON_PURPOSE)
def test_mistake_that_is_taken_otherwise_is_an_error(mistake: str):
    assert "TypeError" in complaint(tf, mistake) or "ValueError" in complaint(tf, mistake)


def test_every_program_and_mistake_was_noted():
    assert NOTED["names"].keys() == NAMED.keys()
    assert NOTED["mistakes"].keys() == MISTAKES.keys()


def test_tensors_and_operations_are_found_by_name(graph: tf.Graph):
    x = tf.placeholder(tf.float32, [2], name="in/x")
    y = tf.add(x, 1.0, name="y")
    assert graph.get_tensor_by_name("in/x:0") is x
    assert graph.get_operation_by_name("y") is y.op
    assert graph.as_graph_element("y:0") is y
    assert graph.as_graph_element("y") is y.op
    assert tf.get_default_graph().get_tensor_by_name("y:0").shape.as_list() == [2]


def test_numbers_are_named_after_what_reads_them(graph: tf.Graph):
    x = tf.placeholder(tf.float32, [2])
    assert [each.name for each in (x * 2.0).op.inputs] == ["Placeholder:0", "mul/y:0"]
    assert [each.name for each in (2.0 - x).op.inputs] == ["sub/x:0", "Placeholder:0"]
    assert graph.get_tensor_by_name("mul/y:0").op.type == "Const"


def test_operations_are_listed_in_the_order_in_which_they_were_made(graph: tf.Graph):
    x = tf.constant(1.0, name="x")
    y = x + 2.0
    assert [each.name for each in graph.get_operations()] == ["x", "add/y", "add"]
    assert y.op.graph is graph


def test_a_graph_that_is_finalized_takes_nothing_more(graph: tf.Graph):
    graph.finalize()
    with pytest.raises(RuntimeError, match="finalized"):
        tf.constant(1)


def test_two_graphs_have_names_of_their_own():
    first = tf.constant(1)
    with tf.Graph().as_default() as other:
        second = tf.constant(1)
    assert first.name == second.name
    assert second.graph is other
    assert second.graph is not first.graph


def test_a_scope_that_is_entered_by_its_whole_name_is_the_same(graph: tf.Graph):
    with tf.name_scope("s") as scope:
        tf.constant(1, name="a")
    with tf.name_scope(scope):
        assert tf.constant(1, name="a").name == "s/a_1:0"
        assert graph.get_name_scope() == "s"


def test_an_operation_named_as_its_scope_has_its_name():
    with tf.name_scope("layer") as scope:
        inner = tf.constant(1.0)
        assert tf.identity(inner, name=scope).name == "layer:0"


def test_a_scope_that_is_left_by_an_error_is_left(graph: tf.Graph):
    with pytest.raises(ZeroDivisionError), tf.variable_scope("s"):
        raise ZeroDivisionError
    assert graph.get_name_scope() == ""
    assert tf.get_variable_scope().name == ""
    assert tf.get_variable("v", [1]).name == "v:0"


def test_collections_hold_what_was_added(graph: tf.Graph):
    tf.add_to_collection("mine", 1)
    tf.add_to_collection("mine", 2)
    assert tf.get_collection("mine") == [1, 2]
    assert tf.get_collection("nobody's") == []
    with tf.variable_scope("s"):
        inside = tf.get_variable("v", [1])
    outside = tf.get_variable("v", [1])
    assert tf.get_collection(tf.GraphKeys.GLOBAL_VARIABLES) == [inside, outside]
    assert tf.get_collection(tf.GraphKeys.GLOBAL_VARIABLES, "s/") == [inside]


def test_a_first_value_may_read_variables_that_have_none_yet():
    a = tf.Variable(tf.constant([1.0, 2.0]), name="a")
    b = tf.Variable(tf.reduce_sum(a * 2.0), name="b")
    with tf.Session() as session:
        session.run(b.initializer)
        assert session.run(b) == 6.0
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        np.testing.assert_array_equal(session.run(a), [1, 2])
        session.run(a.assign([5.0, 5.0]))
        session.run(b.initializer)
        assert session.run(b) == 20.0


def test_shapes_that_are_set_are_known_from_then_on():
    x = tf.placeholder(tf.float32)
    x.set_shape([None, 3])
    assert x.shape.as_list() == [None, 3]
    x.set_shape([2, None])
    assert (x + 1).shape.as_list() == [2, 3]


def placed_below(name: str) -> str:
    with tf.name_scope(name):
        return tf.constant(1.0, name="c").op.name


MAKERS: dict[str, Callable[[str], str]] = {
    "Variable": lambda name: tf.Variable([1.0], name=name).op.name,
    "get_variable": lambda name: tf.get_variable(name, [1]).op.name,
    "constant": lambda name: tf.constant(1.0, name=name).op.name,
    "name_scope": lambda name: placed_below(name).removesuffix("/c"),
}


@pytest.mark.parametrize("name", ["_a", "-a", "_a/_b"])
@pytest.mark.parametrize("make", MAKERS)
def test_a_name_may_begin_with_an_underscore_or_a_dash_inside_a_scope_only(make: str, name: str):
    with pytest.raises(ValueError, match=f"'{name}' is not a valid scope name.*begins one outside scopes"):
        MAKERS[make](name)
    with tf.variable_scope("w"):
        assert MAKERS[make](name) == f"w/{name}"
        with pytest.raises(ValueError, match="b c' is not a valid scope name"):
            MAKERS[make]("b c")


def test_a_variable_is_true_whatever_its_value():
    assert tf.Variable(0.0)
    assert tf.get_variable("none", [0])


def test_a_string_or_a_tensor_as_a_truth_is_refused():
    with pytest.raises(TypeError, match="Python bool"):
        bool(tf.constant(True))
    with pytest.raises(TypeError):
        tf.cond(tf.constant(1), lambda: 1, lambda: 2)


def test_a_constraint_is_refused_since_it_would_change_the_numbers():
    for make in (
        lambda: tf.get_variable("v", [2], constraint=tf.abs),
        lambda: tf.Variable(1.0, constraint=tf.abs),
        lambda: tf.variable_scope("s", constraint=tf.abs).__enter__(),
    ):
        with pytest.raises(NotImplementedError, match="constraint"):
            make()


def test_an_unknown_argument_of_a_variable_or_a_cell_is_an_error():
    with pytest.raises(TypeError, match="trainble"):
        tf.Variable(1.0, trainble=False)
    with pytest.raises(TypeError, match="unitss"):
        tf.nn.rnn_cell.RNNCell(unitss=3)
