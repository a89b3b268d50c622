"""Cells share variables by name as TensorFlow's do: what it makes of each way to share was recorded by its own run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from unspool import tf1 as tf

LSTM, Stack, Dropout = tf.nn.rnn_cell.BasicLSTMCell, tf.nn.rnn_cell.MultiRNNCell, tf.nn.rnn_cell.DropoutWrapper
AUTO = tf.AUTO_REUSE


class Own(tf.nn.rnn_cell.RNNCell):
    """A cell as users write them, which asks for its variable where it uses it."""

    state_size = output_size = 3

    def call(self, inputs: Any, state: Any) -> Any:
        return tf.matmul(inputs, tf.get_variable("kernel", [3, 3])) + state, state


class OwnLayer(tf.contrib.rnn.LayerRNNCell):
    """A cell that is a layer, and makes its variable when it is built."""

    state_size = output_size = 3

    def build(self, inputs_shape: Any) -> None:
        self._kernel = self.add_variable("kernel", [3, 3])

    def call(self, inputs: Any, state: Any) -> Any:
        return tf.matmul(inputs, self._kernel) + state, state


def call(cell: Any, scope: Any = None) -> Any:
    return cell(tf.ones([2, 3]), cell.zero_state(2, tf.float32), scope=scope)


def dynamic(cell: Any) -> Any:
    return tf.nn.dynamic_rnn(cell, tf.ones([2, 4, 3]), dtype=tf.float32)


def static(cell: Any) -> Any:
    return tf.nn.static_rnn(cell, [tf.ones([2, 3])] * 2, dtype=tf.float32)


def called_twice_with_reuse_variables_between(make: Callable[[], Any]) -> None:
    with tf.variable_scope("a") as scope:
        call(make())
        scope.reuse_variables()
        call(make())


def called_after_a_scope_of_its_name() -> None:
    with tf.variable_scope("multi_rnn_cell"):
        tf.get_variable("kernel", [1])
    call(Stack([LSTM(4)]))


def kernels() -> list[str]:
    names = [variable.op.name for variable in tf.trainable_variables() if "kernel" in variable.name]
    return [name.replace("basic_lstm_cell", "lstm").replace("multi_rnn_cell", "stack") for name in names]


IN_STACK = "stack/cell_0/lstm/kernel"

WAYS: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "two layers": (lambda: (call(LSTM(4)), call(LSTM(4))), ["lstm/kernel", "lstm_1/kernel"]),
    "reuse": (lambda: (call(LSTM(4)), call(LSTM(4, reuse=True))), ["lstm/kernel"]),
    "auto reuse": (lambda: (call(LSTM(4, reuse=AUTO)), call(LSTM(4, reuse=AUTO))), ["lstm/kernel"]),
    "reuse of a name": (lambda: (call(LSTM(4, name="n")), call(LSTM(4, name="n", reuse=True))), ["n/kernel"]),
    "reuse does not number": (
        lambda: (call(LSTM(4)), call(Dropout(LSTM(4, reuse=True))), call(LSTM(4))),
        ["lstm/kernel", "lstm_1/kernel"],
    ),
    "stack": (
        lambda: (call(Stack([LSTM(4), LSTM(4)])), call(Stack([LSTM(4, reuse=True), LSTM(4, reuse=True)]))),
        [IN_STACK, "stack/cell_1/lstm/kernel"],
    ),
    "part of a stack": (
        lambda: (call(Stack([LSTM(4)])), call(Stack([LSTM(4, reuse=True), LSTM(4)]))),
        [IN_STACK, "stack/cell_1/lstm/kernel"],
    ),
    "stack, auto reuse": (lambda: (call(Stack([LSTM(4, reuse=AUTO)])), call(Stack([LSTM(4, reuse=AUTO)]))), [IN_STACK]),
    "stack in a stack": (
        lambda: (
            call(Stack([Stack([LSTM(4)]), LSTM(4)])),
            call(Stack([Stack([LSTM(4, reuse=True)]), LSTM(4, reuse=True)])),
        ),
        ["stack/cell_0/" + IN_STACK, "stack/cell_1/lstm/kernel"],
    ),
    "dropout": (lambda: (call(Dropout(LSTM(4))), call(Dropout(LSTM(4, reuse=True)))), ["lstm/kernel"]),
    "two with dropout": (lambda: (call(Dropout(LSTM(4))), call(Dropout(LSTM(4)))), ["lstm/kernel", "lstm_1/kernel"]),
    "dropout around and inside": (
        lambda: (call(Dropout(Stack([LSTM(4)]))), call(Stack([Dropout(LSTM(4, reuse=True))]))),
        [IN_STACK],
    ),
    "reuse_variables, stack": (
        lambda: called_twice_with_reuse_variables_between(lambda: Stack([LSTM(4)])),
        ["a/" + IN_STACK],
    ),
    "a scope of that name": (called_after_a_scope_of_its_name, ["stack/kernel", "stack_1/cell_0/lstm/kernel"]),
    "own cell": (lambda: (call(Own()), call(Own(_reuse=True))), ["own/kernel"]),
    "own cell, auto reuse": (lambda: (call(Own(_reuse=AUTO)), call(Own(_reuse=AUTO))), ["own/kernel"]),
    "own cell in a stack": (
        lambda: (call(Stack([Own()])), call(Stack([Own(_reuse=True)]))),
        ["stack/cell_0/own/kernel"],
    ),
    "two own layers": (lambda: (call(OwnLayer()), call(OwnLayer())), ["own_layer/kernel", "own_layer_1/kernel"]),
    "scope": (lambda: (call(LSTM(4), "s"), call(LSTM(4, reuse=True), "s")), ["s/kernel"]),
    "scope of a stack": (
        lambda: (call(Stack([LSTM(4)]), "s"), call(Stack([LSTM(4, reuse=True)]), "s")),
        ["s/cell_0/lstm/kernel"],
    ),
    "scope through dropout": (
        lambda: (call(Dropout(LSTM(4)), "s"), call(Dropout(Own()), "t")),
        ["s/kernel", "t/kernel"],
    ),
    "dynamic_rnn, stack": (
        lambda: (dynamic(Stack([LSTM(4)])), dynamic(Stack([Dropout(LSTM(4, reuse=True))]))),
        ["rnn/" + IN_STACK],
    ),
    "dynamic_rnn, dropout": (
        lambda: (dynamic(Dropout(LSTM(4))), dynamic(Dropout(LSTM(4, reuse=True)))),
        ["rnn/lstm/kernel"],
    ),
    "static_rnn, stack": (
        lambda: (static(Stack([LSTM(4)])), static(Stack([LSTM(4, reuse=True)]))),
        ["rnn/" + IN_STACK],
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_variables_are_shared_and_named_as_in_tensorflow(way: str) -> None:
    build, expected = WAYS[way]
    with tf.Graph().as_default():
        build()
        assert kernels() == expected


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "two stacks": (
        lambda: (call(Stack([LSTM(4)])), call(Stack([LSTM(4)]))),
        "multi_rnn_cell/cell_0/basic_lstm_cell/kernel already exists",
    ),
    "two stacks with dropout": (
        lambda: (call(Dropout(Stack([LSTM(4)]))), call(Dropout(Stack([LSTM(4)])))),
        "multi_rnn_cell/cell_0/basic_lstm_cell/kernel already exists",
    ),
    "two own cells": (lambda: (call(Own()), call(Own())), "own/kernel already exists"),
    "two own cells in stacks": (
        lambda: (call(Stack([Own()])), call(Stack([Own()]))),
        "multi_rnn_cell/cell_0/own/kernel already exists",
    ),
    "nothing to reuse": (lambda: call(LSTM(4, reuse=True)), "basic_lstm_cell/kernel does not exist"),
    "reuse_variables, layer": (
        lambda: called_twice_with_reuse_variables_between(lambda: LSTM(4)),
        "a/basic_lstm_cell_1/kernel does not exist",
    ),
}


@pytest.mark.parametrize("way", REFUSED)
def test_what_tensorflow_refuses_to_share_or_to_make_is_refused(way: str) -> None:
    build, message = REFUSED[way]
    with tf.Graph().as_default(), pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize("run", [call, dynamic, static])
def test_cells_that_share_compute_the_same_and_train_the_same_variables(run: Callable[[Any], Any]) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        first, second = (run(Stack([Dropout(LSTM(4, reuse=reuse))])) for reuse in (None, True))
        losses = [tf.reduce_sum(each[0]) for each in (first, second)]
        gradients = [tf.gradients(loss, tf.trainable_variables()) for loss in losses]
        session.run(tf.global_variables_initializer())
        one, other = session.run(gradients)
        assert len(one) == 2
        for gradient, same in zip(one, other, strict=True):
            assert np.abs(gradient).max() > 0
            np.testing.assert_array_equal(gradient, same)  # the same operations on the same values
