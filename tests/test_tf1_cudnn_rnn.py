"""Layers in the form of cuDNN: their numbers are torch's, and checkpoints hold the weights of the cells that fit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from unspool import tf1 as tf
from unspool.tf1.contrib import cudnn_rnn

STEPS, BATCH, DEPTH, UNITS = 4, 3, 2, 5
KINDS = {
    "lstm": (cudnn_rnn.CudnnLSTM, cudnn_rnn.CudnnCompatibleLSTMCell),
    "gru": (cudnn_rnn.CudnnGRU, cudnn_rnn.CudnnCompatibleGRUCell),
    "tanh": (cudnn_rnn.CudnnRNNTanh, tf.nn.rnn_cell.BasicRNNCell),
    "relu": (cudnn_rnn.CudnnRNNRelu, lambda units: tf.nn.rnn_cell.BasicRNNCell(units, tf.nn.relu)),
}


@pytest.fixture(autouse=True)
def graph() -> Iterator[Any]:
    with tf.Graph().as_default() as graph:
        yield graph


def inputs(steps: int = STEPS) -> Any:
    return np.random.default_rng(0).normal(size=(steps, BATCH, DEPTH)).astype("float32")


def noisy(session: Any) -> None:
    """Draws the variables, biases too: what is zero hides where it is added."""
    session.run(tf.global_variables_initializer())
    rng = np.random.default_rng(1)
    for each in tf.trainable_variables():
        session.run(each.assign(rng.normal(size=each.shape.as_list(), scale=0.5).astype("float32")))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("direction", ["unidirectional", "bidirectional"])
def test_cells_take_the_checkpoint_of_a_layer_and_compute_the_same(kind: str, direction: str, tmp_path: Path) -> None:
    layer, cell = KINDS[kind]
    x, lengths = tf.placeholder(tf.float32, [STEPS, None, DEPTH]), np.array([4, 2, 3], "int32")
    made = layer(2, UNITS, direction=direction)
    outputs, state = made(x, sequence_lengths=lengths)
    slope = tf.gradients(tf.reduce_sum(outputs * outputs), x)[0]
    with tf.Session() as session:
        noisy(session)
        expected = session.run([outputs, slope, state[0]], {x: inputs()})
        path = tf.train.Saver().save(session, str(tmp_path / "model"))
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [STEPS, None, DEPTH])
        with tf.variable_scope(made.name):
            if direction == "unidirectional":
                stack = tf.nn.rnn_cell.MultiRNNCell([cell(UNITS) for _ in range(2)])
                outputs, _ = tf.nn.dynamic_rnn(stack, x, lengths, dtype=tf.float32, time_major=True)
            else:
                cells = [[cell(UNITS) for _ in range(2)] for _ in range(2)]
                outputs, _, _ = tf.contrib.rnn.stack_bidirectional_dynamic_rnn(
                    *cells, x, sequence_length=lengths, dtype=tf.float32, time_major=True
                )
        slope = tf.gradients(tf.reduce_sum(outputs * outputs), x)[0]
        with tf.Session() as session:
            tf.train.Saver().restore(session, path)
            found = session.run([outputs, slope], {x: inputs()})
    for one, other in zip(expected, found, strict=False):  # float32, of sums in another order
        np.testing.assert_allclose(one, other, rtol=0, atol=2e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("direction", ["unidirectional", "bidirectional"])
def test_a_layer_takes_its_own_checkpoint(kind: str, direction: str, tmp_path: Path) -> None:
    layer, _ = KINDS[kind]
    outputs, state = layer(2, UNITS, direction=direction)(inputs())
    saver = tf.train.Saver()
    with tf.Session() as session:
        noisy(session)
        expected = session.run([outputs, *state])
        path = saver.save(session, str(tmp_path / "model"))
        session.run(tf.global_variables_initializer())
        saver.restore(session, path)
        for one, other in zip(expected, session.run([outputs, *state]), strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)  # sums of biases are halved


def test_names_in_a_checkpoint_are_tensorflow_s(tmp_path: Path) -> None:
    cudnn_rnn.CudnnLSTM(1, UNITS)(inputs())
    with tf.variable_scope("decoder"):
        cudnn_rnn.CudnnGRU(1, UNITS, direction="bidirectional", name="own")(inputs())
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        path = tf.train.Saver().save(session, str(tmp_path / "model"))
    found = dict(tf.train.list_variables(path))
    gru = [
        f"decoder/own/stack_bidirectional_rnn/cell_0/bidirectional_rnn/{way}/cudnn_compatible_gru_cell/{part}/{each}"
        for way in ("fw", "bw")
        for part in ("gates", "candidate/input_projection", "candidate/hidden_projection")
        for each in ("kernel", "bias")
    ]
    lstm = [f"cudnn_lstm/rnn/multi_rnn_cell/cell_0/cudnn_compatible_lstm_cell/{each}" for each in ("kernel", "bias")]
    assert set(found) == {*gru, *lstm, "cudnn_lstm/opaque_kernel", "decoder/own/opaque_kernel"}
    assert list(found[lstm[0]]) == [DEPTH + UNITS, 4 * UNITS]


def test_a_layer_takes_the_checkpoint_of_cells(tmp_path: Path) -> None:
    with tf.variable_scope("cudnn_lstm"):
        stack = tf.nn.rnn_cell.MultiRNNCell([cudnn_rnn.CudnnCompatibleLSTMCell(UNITS)])
        outputs, _ = tf.nn.dynamic_rnn(stack, tf.constant(inputs()), dtype=tf.float32, time_major=True)
    with tf.Session() as session:
        noisy(session)
        expected = session.run(outputs)
        path = tf.train.Saver().save(session, str(tmp_path / "model"))
    with tf.Graph().as_default():
        outputs, _ = cudnn_rnn.CudnnLSTM(1, UNITS)(inputs())
        with tf.Session() as session:
            tf.train.Saver().restore(session, path)
            np.testing.assert_allclose(session.run(outputs), expected, rtol=0, atol=1e-6)


def test_a_state_goes_in_and_comes_out_rows_first_where_inputs_do() -> None:
    layer = cudnn_rnn.CudnnLSTM(2, UNITS)
    h, c = (np.random.default_rng(k).normal(size=(2, BATCH, UNITS)).astype("float32") for k in range(2))
    outputs, state = layer(inputs(), initial_state=(tf.constant(h), tf.constant(c)))
    turned = [np.swapaxes(each, 0, 1) for each in (inputs(), h, c)]
    others, other = layer(turned[0], initial_state=tuple(map(tf.constant, turned[1:])), time_major=False)
    assert others.shape.as_list() == [BATCH, STEPS, UNITS]
    with tf.Session() as session:
        noisy(session)
        one, two = session.run([(outputs, *state), (others, *other)])
    for each, turn in zip(one, two, strict=True):
        np.testing.assert_allclose(each, np.swapaxes(turn, 0, 1), rtol=0, atol=1e-6)


def test_the_numbers_are_torchs() -> None:
    layer = cudnn_rnn.CudnnGRU(1, UNITS)
    outputs, _ = layer(inputs())
    peer = torch.nn.GRU(DEPTH, UNITS)
    flat = torch.cat([each.detach().reshape(-1) for each in (peer.weight_ih_l0, peer.weight_hh_l0, peer.bias_ih_l0, peer.bias_hh_l0)])  # fmt: skip  # noqa: E501
    with tf.Session() as session:
        session.run(layer.kernel.assign(flat.numpy()))
        found = session.run(outputs)
    np.testing.assert_allclose(found, peer(torch.from_numpy(inputs()))[0].detach().numpy(), rtol=0, atol=1e-6)


def test_dropout_is_between_layers_while_training() -> None:
    layer = cudnn_rnn.CudnnLSTM(2, 40, dropout=0.5)
    trained, tested = layer(inputs(), training=True)[0], layer(inputs(), training=False)[0]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert not np.array_equal(session.run(trained), session.run(trained))
        np.testing.assert_array_equal(session.run(tested), session.run(tested))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: cudnn_rnn.CudnnLSTM(1, 2, direction="up"), ValueError, "Invalid direction: up"),
        (lambda: cudnn_rnn.CudnnLSTM(1, 2, input_mode="none"), ValueError, "Invalid input_mode: none"),
        (lambda: cudnn_rnn.CudnnLSTM(1, 2, dtype=tf.int32), ValueError, "Only support float16, float32, float64"),
        (lambda: cudnn_rnn.CudnnLSTM(1, 2)(inputs()[0]), ValueError, "Expecting input_shape with 3 dims, got 2"),
        (
            lambda: cudnn_rnn.CudnnLSTM(1, 2)(tf.placeholder(tf.float32, [3, 2, None])),
            ValueError,
            "last dimension of the inputs to `CudnnRNN` should be defined",
        ),
        (lambda: cudnn_rnn.CudnnLSTM(1, 2, input_mode="skip_input")(inputs()), ValueError, "use linear_input"),
        (
            lambda: cudnn_rnn.CudnnLSTM(1, 2)(inputs(), initial_state=[1, 2]),
            TypeError,
            "Invalid initial_state type: .*, expecting tuple",
        ),
        (lambda: cudnn_rnn.CudnnLSTM(1, 2).input_size, ValueError, "'input_size' is unknown"),
    ],
)
def test_arguments_are_checked(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()
