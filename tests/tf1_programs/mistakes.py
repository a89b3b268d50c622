"""Mistakes that everybody made once: each is a function of `tf` that must raise."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import numpy as np

MISTAKES: dict[str, tuple[str, str, Callable[[Any], Any]]] = {}
"""By name: the error's class, a word or two of its message, and what raises it."""

Mistake = Callable[[Any], Any]


def raises(error: str, words: str = "") -> Callable[[Mistake], Mistake]:
    """Notes a mistake; names of errors are those in `tf.errors`, or Python's own."""

    def note(mistake: Mistake) -> Mistake:
        MISTAKES[mistake.__name__] = error, words, mistake
        return mistake

    return note


@raises("FailedPreconditionError", "uninitialized value")
def no_initializer_was_run(tf: Any) -> None:
    w = tf.Variable(tf.zeros([2]), name="w")
    with tf.Session() as session:
        session.run(w * 2.0)


@raises("InvalidArgumentError", "must feed a value for placeholder")
def nothing_was_fed(tf: Any) -> None:
    x = tf.placeholder(tf.float32, [None, 2], name="x")
    with tf.Session() as session:
        session.run(x + 1.0)


@raises("ValueError", "Cannot feed value of shape (1, 3)")
def a_shape_that_does_not_fit_was_fed(tf: Any) -> None:
    x = tf.placeholder(tf.float32, [None, 2], name="x")
    with tf.Session() as session:
        session.run(x + 1.0, {x: np.ones([1, 3])})


@raises("TypeError", "feed cannot be a")
def a_tensor_was_fed(tf: Any) -> None:
    x = tf.placeholder(tf.float32, [2])
    with tf.Session() as session:
        session.run(x + 1.0, {x: tf.zeros([2])})


@raises("TypeError", "feed_dict key")
def a_key_that_is_no_tensor_was_fed(tf: Any) -> None:
    with tf.Session() as session:
        session.run(tf.constant(1.0), {"nothing:0": 1.0})


@raises("TypeError", "invalid type")
def none_was_fetched(tf: Any) -> None:
    with tf.Session() as session:
        session.run([tf.constant(1.0), None])


@raises("TypeError", "invalid type")
def a_number_was_fetched(tf: Any) -> None:
    tf.constant(1.0)
    with tf.Session() as session:
        session.run(3)


@raises("ValueError", "nothing")
def an_unknown_name_was_fetched(tf: Any) -> None:
    tf.constant(1.0)
    with tf.Session() as session:
        session.run("nothing:0")


@raises("KeyError", "nothing")
def an_unknown_name_was_looked_up(tf: Any) -> None:
    tf.get_default_graph().get_tensor_by_name("nothing:0")


@raises("ValueError", "")
def the_name_of_an_operation_was_taken_for_a_tensor(tf: Any) -> None:
    tf.constant(1.0, name="one")
    tf.get_default_graph().get_tensor_by_name("one")


@raises("RuntimeError", "closed")
def the_session_was_closed(tf: Any) -> None:
    one = tf.constant(1.0)
    with tf.Session() as session:
        session.run(one)
    session.run(one)


@raises("ValueError", "not an element of this graph")
def the_session_has_another_graph(tf: Any) -> None:
    one = tf.constant(1.0)
    with tf.Session(graph=tf.Graph()) as session:
        tf.constant(2.0)
        session.run(one)


@raises("RuntimeError", "graph is empty")
def there_is_nothing_to_run(tf: Any) -> None:
    with tf.Session() as session:
        session.run([])


@raises("ValueError", "No default session")
def there_is_no_session_to_evaluate_in(tf: Any) -> None:
    tf.constant(1.0).eval()


@raises("TypeError", "bool")
def a_tensor_was_taken_for_a_truth(tf: Any) -> None:
    if tf.constant(1.0) > 0.0:
        pass


@raises("ValueError", "already exists")
def a_variable_was_made_twice(tf: Any) -> None:
    tf.get_variable("v", [2])
    tf.get_variable("v", [2])


@raises("ValueError", "does not exist")
def a_variable_to_reuse_was_never_made(tf: Any) -> None:
    with tf.variable_scope("s", reuse=True):
        tf.get_variable("v", [2])


@raises("ValueError", "shape")
def a_variable_was_reused_with_another_shape(tf: Any) -> None:
    with tf.variable_scope("s"):
        tf.get_variable("v", [2])
    with tf.variable_scope("s", reuse=True):
        tf.get_variable("v", [3])


@raises("ValueError", "already exists")
def two_cells_are_in_one_scope(tf: Any) -> None:
    x = tf.placeholder(tf.float32, [None, 3, 2])
    tf.nn.dynamic_rnn(tf.nn.rnn_cell.BasicRNNCell(4), x, dtype=tf.float32)
    tf.nn.dynamic_rnn(tf.nn.rnn_cell.BasicRNNCell(4), x, dtype=tf.float32)


@raises("ValueError", "dtype")
def neither_a_state_nor_a_dtype_was_given(tf: Any) -> None:
    x = tf.placeholder(tf.float32, [None, 3, 2])
    tf.nn.dynamic_rnn(tf.nn.rnn_cell.BasicRNNCell(4), x)


@raises("ValueError", "Dimensions must be equal")
def matrices_do_not_fit(tf: Any) -> None:
    tf.matmul(tf.placeholder(tf.float32, [None, 2]), tf.zeros([3, 1]))


@raises("InvalidArgumentError", "")
def matrices_that_are_fed_do_not_fit(tf: Any) -> None:
    product = tf.matmul(tf.placeholder(tf.float32, [None, None], name="x"), tf.zeros([3, 1]))
    with tf.Session() as session:
        session.run(product, {"x:0": np.ones([1, 2])})


@raises("TypeError", "type")
def integers_were_added_to_floats(tf: Any) -> None:
    tf.add(tf.constant(1), tf.constant(1.0))


@raises("ValueError", "No gradients provided for any variable")
def the_loss_depends_on_no_variable(tf: Any) -> None:
    tf.Variable(1.0)
    tf.train.AdamOptimizer().minimize(tf.constant(1.0))


@raises("ValueError", "No variables to optimize")
def there_is_nothing_to_train(tf: Any) -> None:
    tf.train.AdamOptimizer().minimize(tf.constant(1.0))


@raises("ValueError", "No variables to save")
def there_is_nothing_to_save(tf: Any) -> None:
    tf.train.Saver()


@raises("ValueError", "")
def there_is_no_checkpoint(tf: Any) -> None:
    tf.Variable(1.0)
    with tf.Session() as session:
        tf.train.Saver().restore(session, "/nowhere/model.ckpt")


@raises("ValueError", "")
def logits_and_labels_were_swapped(tf: Any) -> None:
    logits, labels = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.int32, [None])
    tf.nn.sparse_softmax_cross_entropy_with_logits(labels=logits, logits=labels)


@raises("ValueError", "same graph")
def a_tensor_of_another_graph_was_used(tf: Any) -> None:
    one = tf.constant(1.0)
    with tf.Graph().as_default():
        one + tf.constant(2.0)


def complaint(tf: Any, name: str) -> str:
    """What is wrong about how a mistake is taken; nothing, if it raises as it must."""
    error, words, mistake = MISTAKES[name]
    expected = getattr(tf.errors, error, None) or getattr(builtins, error)
    with tf.Graph().as_default():
        try:
            mistake(tf)
        except expected as raised:
            return "" if words in str(raised) else f"{words!r} is not in {str(raised)!r}"
        except Exception as raised:
            return f"{type(raised).__name__}, not {error}: {raised}"
    return "nothing was raised"
