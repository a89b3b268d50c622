"""Layers of `tf.keras` in graphs, beyond the numbers in `tests/tf1_ops`: variables, training, errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import unspool
import unspool.tf1 as tf

layers = tf.keras.layers


@pytest.fixture(autouse=True)
def graph() -> Iterator[Any]:
    with tf.Graph().as_default() as graph:
        yield graph


def test_variables_have_the_names_and_first_values_of_keras() -> None:
    lstm = layers.LSTM(4, name="encoder")
    lstm(tf.zeros([2, 5, 3]))
    layers.GRU(4, use_bias=False, kernel_initializer="ones")(tf.zeros([2, 5, 3]))
    table = layers.Embedding(7, 3)
    table(tf.constant([[1.0]]))
    expected = {
        "encoder/kernel": [3, 16],
        "encoder/recurrent_kernel": [4, 16],
        "encoder/bias": [16],
        "gru/kernel": [3, 12],
        "gru/recurrent_kernel": [4, 12],
        "embedding/embeddings": [7, 3],
    }
    assert {each.op.name: each.shape.as_list() for each in tf.trainable_variables()} == expected
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(lstm.bias).tolist() == [0.0] * 4 + [1.0] * 4 + [0.0] * 8
        recurrent = session.run(lstm.recurrent_kernel)
        np.testing.assert_allclose(recurrent @ recurrent.T, np.eye(4), atol=1e-5)
        assert np.abs(session.run(table.embeddings)).max() <= 0.05
        assert set(session.run(tf.trainable_variables()[3]).reshape(-1)) == {1.0}


def test_a_second_call_shares_the_weights() -> None:
    gru, x = layers.GRU(4), tf.placeholder(tf.float32, [None, 5, 3])
    assert gru(x).shape.as_list() == gru(x[:, :3]).shape.as_list() == [None, 4]
    assert len(tf.trainable_variables()) == 3


def test_a_network_of_them_learns_which_words_come_first() -> None:
    tf.set_random_seed(1)
    words = np.random.default_rng(0).integers(0, 5, (64, 6))
    ids, wanted = tf.placeholder(tf.int32, [None, 6]), tf.placeholder(tf.int32, [None])
    hidden = layers.LSTM(16)(layers.Embedding(5, 8)(ids))
    logits = layers.Dense(5)(layers.Dense(16, activation="relu", kernel_initializer="he_normal")(hidden))
    loss = tf.losses.sparse_softmax_cross_entropy(wanted, logits)
    train = tf.train.AdamOptimizer(0.02).minimize(loss)
    with tf.Session() as session, unspool.strict():
        session.run(tf.global_variables_initializer())
        feeds = {ids: words, wanted: words[:, -1]}
        losses = [session.run([loss, train], feeds)[0] for _ in range(60)]
    assert losses[0] > 1.5
    assert losses[-1] < 0.1


@pytest.mark.parametrize(
    ("use", "error", "message"),
    [
        (lambda x: layers.LSTM(4, dropout=0.5), NotImplementedError, "use tf.nn.rnn_cell.DropoutWrapper"),
        (lambda x: layers.GRU(4, stateful=True), NotImplementedError, "give initial_state"),
        (lambda x: layers.LSTM(4)(x, mask=tf.ones([2, 5])), NotImplementedError, "with sequence_length"),
        (
            lambda x: layers.LSTM(4)(x, initial_state=tf.zeros([2, 4])),
            ValueError,
            "expects 2 states, but it received 1",
        ),
        (lambda x: layers.LSTM(4, activation="no"), ValueError, "Unknown activation function: no"),
        (lambda x: layers.LSTM(4)(tf.placeholder(tf.float32, [2, 5, None])), ValueError, "should be defined"),
        (lambda x: layers.Embedding(4, 3, mask_zero=True), NotImplementedError, "with sequence_length"),
        (lambda x: layers.Dense(4, kernel_initializer="no"), AttributeError, r"tf.initializers.no\b"),
        (lambda x: layers.LSTM(4, units=3), TypeError, "units"),
        (lambda x: tf.keras.models, AttributeError, "models that are fitted are for Keras 3"),
    ],
)
def test_what_is_not_there_says_what_to_do(use: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        use(tf.zeros([2, 5, 3]))
