"""What programs of the day do around cells and decoders, and once failed here."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

import unspool.tf1 as tf

seq2seq = tf.contrib.seq2seq
memory = np.random.default_rng(0).normal(size=(2, 7, 5)).astype(np.float32)
inputs = np.random.default_rng(1).normal(size=(2, 3, 2)).astype(np.float32)


def weights(name: str, shape: Any) -> np.ndarray:
    """Numbers for a variable, by the last part of its name: for the same cell in another scope, the same."""
    key = name.split("lstm_cell")[-1] if "lstm_cell" in name else name.split("attention_wrapper")[-1]
    return np.random.default_rng(zlib.crc32(key.encode())).normal(size=shape.as_list())


def run(fetches: Any, **given: np.ndarray) -> Any:
    with tf.Session() as session:
        for variable in tf.global_variables():
            value = next((given[name] for name in given if name in variable.name), None)
            variable.load(weights(variable.name, variable.shape) if value is None else value, session)
        return session.run(fetches)


def attention(**options: Any) -> Any:
    mechanism = seq2seq.BahdanauAttention(4, tf.constant(memory))
    return seq2seq.AttentionWrapper(tf.nn.rnn_cell.GRUCell(4), mechanism, attention_layer_size=6, **options)


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        (seq2seq.TrainingHelper, ()),
        (seq2seq.ScheduledEmbeddingTrainingHelper, (np.eye(2, dtype=np.float32), 0.5)),
        (seq2seq.ScheduledOutputTrainingHelper, (0.5,)),
    ],
)
def test_a_helper_takes_a_name(kind: Any, arguments: tuple[Any, ...]) -> None:
    named = kind(tf.constant(inputs), [3, 2], *arguments, name="helper")
    assert "name" not in named.arguments
    with pytest.raises(TypeError, match="unexpected keyword argument 'names'"):
        kind(tf.constant(inputs), [3, 2], *arguments, names="helper")


def test_a_training_helpers_name_comes_after_time_major() -> None:
    assert seq2seq.TrainingHelper(tf.constant(inputs), [3, 2], False, "helper").step_inputs.dims == (2, 2)


class TestCellInputFn:
    """With the identity for a kernel, a layer makes what the wrapper makes without one."""

    def decoded(self, cell: Any) -> Any:
        helper = seq2seq.TrainingHelper(tf.constant(inputs), [3, 2])
        decoder = seq2seq.BasicDecoder(cell, helper, cell.zero_state(2, tf.float32))
        return seq2seq.dynamic_decode(decoder)[0].rnn_output

    @pytest.mark.parametrize("outside", [False, True])
    def test_a_layer_inside(self, outside: bool) -> None:
        layer = tf.layers.Dense(8, name="mix") if outside else None

        def mixed(x: Any, a: Any) -> Any:
            joined = tf.concat([x, a], -1)
            return layer(joined) if layer is not None else tf.layers.dense(joined, 8, name="mix")

        outputs = self.decoded(attention(cell_input_fn=mixed))
        names = [each.name for each in tf.trainable_variables()]
        assert "decoder/attention_wrapper/mix/kernel:0" in names
        gradients = tf.gradients(tf.reduce_sum(tf.square(outputs)), tf.trainable_variables())
        given = {"mix/kernel": np.eye(8), "mix/bias": np.zeros(8)}
        found, slopes = run([outputs, gradients], **given)
        by_name = dict(zip(names, slopes, strict=True))
        tf.reset_default_graph()
        plain = self.decoded(attention())
        gradients = tf.gradients(tf.reduce_sum(tf.square(plain)), tf.trainable_variables())
        names = [each.name for each in tf.trainable_variables()]
        expected, slopes = run([plain, gradients])
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
        for name, slope in zip(names, slopes, strict=True):
            np.testing.assert_allclose(by_name[name], slope, rtol=1e-4, atol=1e-5, err_msg=name)
        assert np.abs(by_name["decoder/attention_wrapper/mix/kernel:0"]).max() > 0.1

    def test_a_function_without_variables(self) -> None:
        outputs = self.decoded(attention(cell_input_fn=lambda x, a: tf.concat([x, a], -1)))
        found = run(outputs)
        tf.reset_default_graph()
        np.testing.assert_allclose(found, run(self.decoded(attention())), rtol=1e-5, atol=1e-6)

    def test_something_else(self) -> None:
        with pytest.raises(TypeError, match="cell_input_fn must be callable, but got 3"):
            attention(cell_input_fn=3)


class TestAttentionInOtherCells:
    @pytest.mark.parametrize("wrapped", [False, True])
    def test_on_top_of_a_stack(self, wrapped: bool) -> None:
        top = tf.nn.rnn_cell.DropoutWrapper(attention()) if wrapped else attention()
        stack = tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.LSTMCell(3), top])
        start = stack.zero_state(2, tf.float32)
        assert start[1].alignments.shape.as_list() == [2, 7]
        assert start[0].h.shape.as_list() == [2, 3]
        outputs, state = tf.nn.dynamic_rnn(stack, tf.constant(inputs), initial_state=start)
        assert state[1].attention.shape.as_list() == [2, 6]
        found = run(outputs)
        tf.reset_default_graph()
        below, _ = tf.nn.dynamic_rnn(tf.nn.rnn_cell.LSTMCell(3), tf.constant(inputs), dtype=tf.float32)
        above, _ = tf.nn.dynamic_rnn(attention(), below, dtype=tf.float32, scope="above")
        np.testing.assert_allclose(found, run(above), rtol=1e-5, atol=1e-6)

    def test_decoded(self) -> None:
        stack = tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.LSTMCell(3), attention()])
        helper = seq2seq.TrainingHelper(tf.constant(inputs), [3, 3])
        decoder = seq2seq.BasicDecoder(stack, helper, stack.zero_state(2, tf.float32))
        outputs, state, _ = seq2seq.dynamic_decode(decoder)
        by_loop, _ = tf.nn.dynamic_rnn(stack, tf.constant(inputs), initial_state=stack.zero_state(2, tf.float32))
        one, other, alignments = run([outputs.rnn_output, by_loop, state[1].alignments])
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(alignments.sum(1), 1, rtol=1e-5)


class Vae(tf.nn.rnn_cell.RNNCell):
    """Puts out a tuple, although it says a number."""

    state_size = output_size = 4

    def call(self, inputs: Any, state: Any) -> Any:
        hidden = tf.tanh(tf.layers.dense(tf.concat([inputs, state], 1), 4, name="hidden"))
        return (tf.layers.dense(hidden, 2, name="mean"), tf.layers.dense(hidden, 3, name="scale"), hidden), hidden


class TestOutputsThatAreTuples:
    def test_static_rnn_returns_them(self) -> None:
        steps = tf.unstack(tf.constant(inputs), axis=1)
        outputs, state = tf.nn.static_rnn(Vae(), steps, dtype=tf.float32)
        assert [type(each) for each in outputs] == [tuple] * 3
        assert [each.shape.as_list() for each in outputs[0]] == [[2, 2], [2, 3], [2, 4]]
        by_hand, hidden = [], tf.zeros([2, 4])
        with tf.variable_scope("rnn/vae", reuse=True):
            for step in steps:
                hidden = tf.tanh(tf.layers.dense(tf.concat([step, hidden], 1), 4, name="hidden"))
                by_hand.append((tf.layers.dense(hidden, 2, name="mean"), tf.layers.dense(hidden, 3, name="scale")))
        variables = tf.trainable_variables()
        losses = [tf.add_n([tf.reduce_sum(x * x) for each in made for x in each[:2]]) for made in (outputs, by_hand)]
        found, expected = run([[loss, tf.gradients(loss, variables)] for loss in losses])
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)
        for one, other in zip(found[1], expected[1], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
        first, last = run([outputs[0], (outputs[-1][2], state)])
        assert len(first) == 3
        np.testing.assert_array_equal(*last)

    def test_other_loops_need_one_size_for_each(self) -> None:
        message = "the cell's output is a tuple of 3, but its output_size is 4"
        with pytest.raises(ValueError, match=message):
            tf.nn.dynamic_rnn(Vae(), tf.constant(inputs), dtype=tf.float32)
        tf.reset_default_graph()
        with pytest.raises(ValueError, match=message):
            tf.nn.static_rnn(Vae(), tf.unstack(inputs, axis=1), sequence_length=[3, 2], dtype=tf.float32)


class TestFedStates:
    """TensorFlow flattens a key and its value, and compares how many elements they have."""

    @pytest.mark.parametrize("container", [tuple, list])
    def test_an_lstm_state_may_be_fed_as_any_tuple_or_list(self, container: Any) -> None:
        state = tf.nn.rnn_cell.LSTMStateTuple(tf.placeholder(tf.float32, [1, 2]), tf.placeholder(tf.float32, [1, 2]))
        with tf.Session() as session:
            found = session.run([state.c, state.h], {state: container([np.ones((1, 2)), np.zeros((1, 2))])})
        assert [each.tolist() for each in found] == [[[1.0, 1.0]], [[0.0, 0.0]]]

    def test_a_stack_of_states_may_be_fed_as_lists_of_tuples(self) -> None:
        cell = tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.LSTMCell(2) for _ in range(2)])
        state = cell.zero_state(1, tf.float32)
        values = [(np.full((1, 2), k), np.full((1, 2), -k)) for k in (1, 2)]
        with tf.Session() as session:
            assert session.run(state[1].h, {state: values}).tolist() == [[-2.0, -2.0]]

    def test_another_number_of_values_is_refused(self) -> None:
        state = tf.nn.rnn_cell.LSTMCell(2).zero_state(1, tf.float32)
        with tf.Session() as session, pytest.raises(ValueError, match="has 2 tensors, but its value has 1 elements"):
            session.run(state.h, {state: [np.zeros((1, 2))]})


cells = tf.nn.rnn_cell


def stack() -> Any:
    return cells.MultiRNNCell([cells.GRUCell(4), cells.GRUCell(4)])


@pytest.mark.parametrize("container", [tuple, list])
@pytest.mark.parametrize(
    ("make", "own"), [(lambda: cells.LSTMCell(4), lambda parts: cells.LSTMStateTuple(*parts)), (stack, tuple)]
)
def test_calls_one_after_another_take_any_tuple_for_a_state_and_return_the_cells(
    make: Any, own: Any, container: Any
) -> None:
    cell, parts = make(), (tf.zeros([2, 4]), tf.ones([2, 4]))
    steps = tf.unstack(tf.constant(inputs), axis=1)
    outputs, state = tf.nn.static_rnn(cell, steps, initial_state=container(parts))
    assert type(state) is type(cell(steps[0], container(parts))[1]) is type(own(parts))
    expected, _ = tf.nn.dynamic_rnn(cell, tf.constant(inputs), initial_state=own(parts))
    found, wanted = run([tf.stack(outputs, 1), expected])
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("container", [tuple, list])
@pytest.mark.parametrize(
    "loop",
    [
        lambda cell, state: tf.nn.dynamic_rnn(cell, tf.constant(inputs), initial_state=state),
        lambda cell, state: tf.nn.dynamic_rnn(cell, tf.constant(inputs), [3, 2], initial_state=state),
        lambda cell, state: tf.nn.static_rnn(cell, [tf.zeros([2, 2])] * 2, state, sequence_length=[2, 1]),
        lambda cell, state: tf.nn.bidirectional_dynamic_rnn(cell, cell, tf.constant(inputs), None, state, state),
    ],
)
def test_loops_that_compare_states_refuse_other_tuples(loop: Any, container: Any) -> None:
    zeros = container([tf.zeros([2, 4]), tf.zeros([2, 4])])
    with pytest.raises(TypeError, match=r"initial_state is a (tuple|list), but cell.state_size is an LSTMStateTuple"):
        loop(cells.LSTMCell(4), zeros)
    if container is list:
        with pytest.raises(TypeError, match=r"initial_state is a list, but cell.state_size is a tuple of 2"):
            loop(stack(), zeros)
