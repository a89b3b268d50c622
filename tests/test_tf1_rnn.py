"""Cells and loops of `unspool.tf1` are those of unspool: the same numbers and gradients, under TensorFlow's names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import unspool
from tests.tf1_sequences import BATCH, DEPTH, INPUTS, LENGTHS, STEPS, UNITS, gradients_of, inputs_placeholder, names
from unspool import tf1 as tf
from unspool.structure import flatten

CELLS = {
    "BasicRNNCell": lambda cells: cells.BasicRNNCell(UNITS),
    "BasicRNNCell, relu": lambda cells: cells.BasicRNNCell(
        UNITS, activation=tf.nn.relu if cells is tf.nn.rnn_cell else torch.relu
    ),
    "GRUCell": lambda cells: cells.GRUCell(UNITS),
    "BasicLSTMCell": lambda cells: cells.BasicLSTMCell(UNITS),
    "LSTMCell": lambda cells: cells.LSTMCell(UNITS, use_peepholes=True, num_proj=3, cell_clip=0.5),
    "MultiRNNCell": lambda cells: cells.MultiRNNCell([cells.LSTMCell(UNITS), cells.GRUCell(2)]),
    "ResidualWrapper": lambda cells: cells.ResidualWrapper(cells.GRUCell(DEPTH)),
}


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("lengths", [None, LENGTHS])
def test_dynamic_rnn_is_that_of_unspool_with_every_gradient(cell: str, lengths: Any):
    x = inputs_placeholder()
    outputs, state = tf.nn.dynamic_rnn(CELLS[cell](tf.nn.rnn_cell), x, lengths, dtype=tf.float64)
    gradients = gradients_of(outputs, state)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        weights = session.run(tf.trainable_variables())
        found = session.run([outputs, state, gradients], {x: INPUTS})
    module = CELLS[cell](unspool)
    inputs = torch.as_tensor(INPUTS)
    module.ensure_built(inputs[:, 0])
    variables = unspool.tf_variables(module)
    assert [f"{name}:0" for name in variables] == names()
    with torch.no_grad():
        for parameter, weight in zip(variables.values(), weights, strict=True):
            parameter.copy_(torch.as_tensor(weight))
    expected = unspool.dynamic_rnn(module, inputs, lengths, dtype=torch.float64)
    loss = sum(leaf.square().sum() for leaf in flatten(expected))
    wanted = [*flatten(expected), *torch.autograd.grad(loss, list(variables.values()))]
    for ours, theirs in zip(flatten(found), wanted, strict=True):
        # The same operations in the same order: only the sum of the loss may round differently.
        np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=1e-12, atol=1e-12)


def test_static_rnn_is_dynamic_rnn():
    x = inputs_placeholder()
    cell = tf.nn.rnn_cell.LSTMCell(UNITS)
    stacked, last = tf.nn.dynamic_rnn(cell, x, LENGTHS, dtype=tf.float64)
    listed, end = tf.nn.static_rnn(cell, tf.unstack(x, axis=1), dtype=tf.float64, sequence_length=LENGTHS)
    assert len(listed) == STEPS
    assert listed[0].shape.as_list() == [None, UNITS]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        one, other, first, second = session.run([stacked, listed, last, end], {x: INPUTS})
    np.testing.assert_array_equal(one, np.stack(other, 1))
    np.testing.assert_array_equal(np.stack(first), np.stack(second))


def test_both_directions_have_their_scopes_and_reverse_within_lengths():
    x = inputs_placeholder()
    cells = tf.nn.rnn_cell.GRUCell(UNITS), tf.nn.rnn_cell.BasicRNNCell(2)
    (fw, bw), (_, last) = tf.nn.bidirectional_dynamic_rnn(*cells, x, LENGTHS, dtype=tf.float64)
    assert names()[0] == "bidirectional_rnn/fw/gru_cell/gates/kernel:0"
    assert names()[-1] == "bidirectional_rnn/bw/basic_rnn_cell/bias:0"
    assert (fw.shape.as_list(), bw.shape.as_list()) == ([None, STEPS, UNITS], [None, STEPS, 2])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        outputs, state = session.run([bw, last], {x: INPUTS})
    np.testing.assert_array_equal(outputs[0, 0], state[0])  # the last step backwards is the first
    assert not outputs[1].any()
    assert not outputs[2, 3:].any()


def test_static_bidirectional_rnn_puts_both_side_by_side():
    x = inputs_placeholder()
    cells = tf.nn.rnn_cell.GRUCell(UNITS), tf.nn.rnn_cell.BasicRNNCell(2)
    (fw, bw), _ = tf.nn.bidirectional_dynamic_rnn(*cells, x, LENGTHS, dtype=tf.float64)
    listed, _, _ = tf.nn.static_bidirectional_rnn(
        *cells, tf.unstack(x, axis=1), dtype=tf.float64, sequence_length=LENGTHS
    )
    assert listed[0].shape.as_list() == [None, UNITS + 2]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        one, other, both = session.run([fw, bw, listed], {x: INPUTS})
    np.testing.assert_array_equal(np.concatenate([one, other], 2), np.stack(both, 1))


def test_stacks_of_both_directions_have_the_names_of_contrib():
    x = inputs_placeholder()
    cells = [[tf.nn.rnn_cell.GRUCell(2) for _ in range(2)] for _ in range(2)]
    outputs, states, _ = tf.contrib.rnn.stack_bidirectional_dynamic_rnn(*cells, x, dtype=tf.float64)
    assert (outputs.shape.as_list(), len(states)) == ([None, STEPS, 4], 2)
    assert names()[0] == "stack_bidirectional_rnn/cell_0/bidirectional_rnn/fw/gru_cell/gates/kernel:0"
    with pytest.raises(ValueError, match="must have the same depth"):
        tf.contrib.rnn.stack_bidirectional_dynamic_rnn(cells[0], cells[1][:1], x, dtype=tf.float64)


def test_cells_can_be_called_by_hand_and_share_weights_from_step_to_step():
    x = inputs_placeholder()
    cell = tf.nn.rnn_cell.BasicLSTMCell(UNITS)
    state: Any = cell.zero_state(tf.shape(x)[0], tf.float64)
    looped, _ = tf.nn.dynamic_rnn(cell, x, dtype=tf.float64, scope="loop")
    outputs: list[Any] = []
    for step in tf.unstack(x, axis=1):
        output, state = cell(step, state)
        outputs.append(output)
    assert names() == ["loop/basic_lstm_cell/kernel:0", "loop/basic_lstm_cell/bias:0"]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        one, other = session.run([looped, tf.stack(outputs, 1)], {x: INPUTS})
    np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_a_cell_belongs_to_the_graph_that_it_was_used_in():
    cell = tf.nn.rnn_cell.GRUCell(UNITS)
    with tf.Graph().as_default():
        tf.nn.dynamic_rnn(cell, inputs_placeholder(), dtype=tf.float64)
    with pytest.raises(ValueError, match="gru_cell has its variables in another graph"):
        tf.nn.dynamic_rnn(cell, inputs_placeholder(), dtype=tf.float64)


# -- scopes ----------------------------------------------------------------------------------------------------------


def test_names_follow_the_scopes():
    x = inputs_placeholder()
    run = lambda cell, scope=None: tf.nn.dynamic_rnn(cell, x, dtype=tf.float64, scope=scope)  # noqa: E731
    run(tf.nn.rnn_cell.LSTMCell(UNITS))
    run(tf.nn.rnn_cell.LSTMCell(UNITS), "enc")
    run(tf.nn.rnn_cell.LSTMCell(UNITS, name="foo"), "named")
    with tf.variable_scope("o"):
        run(tf.nn.rnn_cell.LSTMCell(UNITS))
    with tf.variable_scope("p") as scope:
        run(tf.nn.rnn_cell.LSTMCell(UNITS), scope)
    kernels = [name for name in names() if "kernel" in name]
    assert kernels == [
        "rnn/lstm_cell/kernel:0",
        "enc/lstm_cell/kernel:0",
        "named/foo/kernel:0",
        "o/rnn/lstm_cell/kernel:0",
        "p/lstm_cell/kernel:0",
    ]


def test_a_second_cell_in_the_same_scope_is_an_error_unless_reuse_is_set():
    x = inputs_placeholder()
    tf.nn.dynamic_rnn(tf.nn.rnn_cell.LSTMCell(UNITS), x, dtype=tf.float64)
    with pytest.raises(ValueError, match="rnn/lstm_cell/kernel already exists"):
        tf.nn.dynamic_rnn(tf.nn.rnn_cell.LSTMCell(UNITS), x, dtype=tf.float64)
    with tf.variable_scope(tf.get_variable_scope(), reuse=True):
        tf.nn.dynamic_rnn(tf.nn.rnn_cell.LSTMCell(UNITS), x, dtype=tf.float64)
    assert len(names()) == 2


def test_the_same_cell_in_two_scopes_is_named_after_the_first():
    x, cell = inputs_placeholder(), tf.nn.rnn_cell.GRUCell(UNITS)
    for scope in ("one", "two"):
        tf.nn.dynamic_rnn(cell, x, dtype=tf.float64, scope=scope)
    assert all(name.startswith("one/gru_cell/") for name in names())
    assert [variable.name for variable in cell.trainable_variables] == names()


def test_cells_called_by_hand_are_numbered():
    step, state = tf.zeros([2, DEPTH]), tf.zeros([2, UNITS])
    for _ in range(2):
        tf.nn.rnn_cell.BasicRNNCell(UNITS)(step, state)
    assert [name for name in names() if "kernel" in name] == ["basic_rnn_cell/kernel:0", "basic_rnn_cell_1/kernel:0"]


def test_the_initializer_of_a_scope_fills_kernels_but_not_biases():
    with tf.variable_scope("model", initializer=tf.constant_initializer(0.5)):
        tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(UNITS), inputs_placeholder(), dtype=tf.float64)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        kernel, bias, *_ = session.run(tf.trainable_variables())
    assert (kernel == 0.5).all()
    assert (bias == 1.0).all()


def test_initial_weights_are_repeatable_with_a_seed():
    def drawn() -> list[Any]:
        with tf.Graph().as_default():
            tf.set_random_seed(7)
            tf.nn.dynamic_rnn(tf.nn.rnn_cell.LSTMCell(UNITS), inputs_placeholder(), dtype=tf.float64)
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                return session.run(tf.trainable_variables())

    for one, other in zip(drawn(), drawn(), strict=True):
        np.testing.assert_array_equal(one, other)


# -- what is only known when the graph runs --------------------------------------------------------------------------


def test_a_keep_probability_can_be_fed():
    x, keep = inputs_placeholder(), tf.placeholder_with_default(tf.constant(1.0, tf.float64), [])
    cell = tf.nn.rnn_cell.DropoutWrapper(tf.nn.rnn_cell.GRUCell(UNITS), output_keep_prob=keep)
    outputs, _ = tf.nn.dynamic_rnn(cell, x, dtype=tf.float64)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        whole = session.run(outputs, {x: INPUTS})
        dropped = session.run(outputs, {x: INPUTS, keep: 0.5})
    assert (dropped == 0).mean() > 0.2
    np.testing.assert_allclose(dropped[dropped != 0], 2 * whole[dropped != 0], rtol=1e-12)


def test_a_state_can_be_fed_back():
    x = tf.placeholder(tf.float64, [BATCH, None, DEPTH])
    cell = tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.LSTMCell(UNITS) for _ in range(2)])
    first = cell.zero_state(BATCH, tf.float64)
    outputs, last = tf.nn.dynamic_rnn(cell, x, initial_state=first)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        whole = session.run(outputs, {x: INPUTS})
        state: Any = session.run(first)
        parts: list[Any] = []
        for part in (INPUTS[:, :2], INPUTS[:, 2:]):
            output, state = session.run([outputs, last], {x: part, first: state})
            parts.append(output)
    np.testing.assert_allclose(np.concatenate(parts, 1), whole, rtol=1e-12, atol=1e-12)


def test_two_sessions_have_weights_of_their_own():
    x = inputs_placeholder()
    outputs, _ = tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(UNITS), x, dtype=tf.float64)
    one, other = tf.Session(), tf.Session()
    one.run(tf.global_variables_initializer())
    with pytest.raises(tf.errors.FailedPreconditionError, match="rnn/gru_cell/gates/kernel"):
        other.run(outputs, {x: INPUTS})
    other.run(tf.global_variables_initializer())
    assert not np.array_equal(one.run(outputs, {x: INPUTS}), other.run(outputs, {x: INPUTS}))


# -- errors ----------------------------------------------------------------------------------------------------------

WRONG = {
    "no cell": (TypeError, "is not an RNNCell", lambda x: tf.nn.dynamic_rnn(3, x, dtype=tf.float64)),
    "no dtype": (ValueError, "must give a dtype", lambda x: tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(2), x)),
    "rank": (
        ValueError,
        "rank at least 3",
        lambda x: tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(2), x[0], dtype=tf.float64),
    ),
    "rank of token ids": (
        ValueError,
        "rank at least 3",
        lambda x: tf.nn.dynamic_rnn(
            tf.contrib.rnn.EmbeddingWrapper(tf.nn.rnn_cell.GRUCell(2), 9, 4),
            tf.placeholder(tf.int32, [BATCH, 3]),
            dtype=tf.float64,
        ),
    ),
    "rank of one of two": (
        ValueError,
        "rank at least 3",
        lambda x: tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(2), (x, x[:, :, 0]), dtype=tf.float64),
    ),
    "rank in both directions": (
        ValueError,
        "rank at least 3",
        lambda x: tf.nn.bidirectional_dynamic_rnn(
            tf.nn.rnn_cell.GRUCell(2), tf.nn.rnn_cell.GRUCell(2), x[0], dtype=tf.float64
        ),
    ),
    "rank of a step": (
        ValueError,
        r"must be \[batch, depth...\]",
        lambda x: tf.nn.static_rnn(tf.nn.rnn_cell.GRUCell(2), [x[:, 0], x[:, 0, 0]], dtype=tf.float64),
    ),
    "torch's own cell": (
        TypeError,
        "is not an RNNCell",
        lambda x: tf.nn.dynamic_rnn(torch.nn.GRUCell(3, 2), x, dtype=tf.float64),
    ),
    "lengths": (
        ValueError,
        "must be a vector",
        lambda x: tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(2), x, [[1]], dtype=tf.float64),
    ),
    "depth": (
        ValueError,
        "Input size",
        lambda x: tf.nn.dynamic_rnn(
            tf.nn.rnn_cell.GRUCell(2), tf.placeholder(tf.float64, [2, 3, None]), dtype=tf.float64
        ),
    ),
    "state": (
        ValueError,
        "expected",
        lambda x: tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(2), x, initial_state=tf.zeros([BATCH, 9], tf.float64)),
    ),
    "state dtype": (
        TypeError,
        "float32",
        lambda x: tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(2), x, initial_state=tf.zeros([BATCH, 2])),
    ),
    "a tensor for a list": (
        TypeError,
        "sequence of steps",
        lambda x: tf.nn.static_rnn(tf.nn.rnn_cell.GRUCell(2), x, dtype=tf.float64),
    ),
    "no steps": (ValueError, "empty", lambda x: tf.nn.static_rnn(tf.nn.rnn_cell.GRUCell(2), [], dtype=tf.float64)),
    "another depth": (
        ValueError,
        "was built for",
        lambda x: [tf.nn.dynamic_rnn(CELL[0], each, dtype=tf.float64) for each in (x, tf.concat([x, x], 2))],
    ),
    "units": (ValueError, "num_units", lambda x: tf.nn.rnn_cell.GRUCell(0)),
    "loop_fn": (TypeError, "callable", lambda x: tf.nn.raw_rnn(tf.nn.rnn_cell.GRUCell(2), 3)),
}
CELL: list[Any] = []


@pytest.mark.parametrize("mistake", WRONG)
def test_mistakes_are_errors_when_the_graph_is_built(mistake: str):
    error, words, build = WRONG[mistake]
    CELL[:] = [tf.nn.rnn_cell.GRUCell(2)]
    with pytest.raises(error, match=words):
        build(inputs_placeholder())


def test_lengths_that_do_not_fit_are_an_error_of_the_run():
    x, lengths = inputs_placeholder(), tf.placeholder(tf.int32, [None])
    outputs, _ = tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(UNITS), x, lengths, dtype=tf.float64)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError, match="dynamic_rnn"):
            session.run(outputs, {x: INPUTS, lengths: [1, 2]})
