"""The cells of `tf.contrib.rnn` in the graph: TensorFlow's names and shapes of variables, and the gallery's numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

import unspool
from tests import tf1_blocks, tf1_recorded
from unspool import gallery
from unspool import tf1 as tf
from unspool.structure import flatten
from unspool.tf1.contrib import rnn

ROWS, STEPS = 2, 3


@pytest.fixture(autouse=True)
def graph() -> Iterator[Any]:
    with tf.Graph().as_default() as graph:
        yield graph


class Case(NamedTuple):
    """A cell of the graph, the same of the gallery, a row of its inputs, and the variables with their shapes."""

    cell: Callable[[], Any]
    peer: Callable[[], Any]
    row: Any
    variables: str


GATES = ["input", "transform", "forget", "output", "state"]
NORMS = " ".join(f"{gate}/{each}[4]" for gate in GATES for each in ("gamma", "beta"))
GRID = dict(feature_size=2, frequency_skip=2, num_frequency_blocks=[2])
GRID_VARIABLES = "W_f_0_0[10,16] B_f_0[16] W_t_0_0[10,16] B_t_0[16]"
DIAGONALS = " ".join(f"W_{gate}_diag_{of}{by}_0[4]" for of in ("freq", "time") for gate in "FIO" for by in "ft")
CASES = {
    "ugrnn_cell": Case(lambda: rnn.UGRNNCell(4), lambda: gallery.UGRNNCell(4), 3, "kernel[7,8] bias[8]"),
    "intersection_rnn_cell": Case(
        lambda: rnn.IntersectionRNNCell(4, 4),
        lambda: gallery.IntersectionRNNCell(4, 4),
        3,
        "in_projection/kernel[3,4] in_projection/bias[4] kernel[8,16] bias[16]",
    ),
    "nas_cell": Case(
        lambda: rnn.NASCell(4, 2, True),
        lambda: gallery.NASCell(4, 2, True),
        3,
        "recurrent_kernel[2,32] kernel[3,32] bias[32] projection_weights[4,2]",
    ),
    "glstm_cell": Case(
        lambda: rnn.GLSTMCell(4, num_proj=2, number_of_groups=2),
        lambda: gallery.GLSTMCell(4, num_proj=2, number_of_groups=2),
        6,
        "group0/kernel[4,8] group1/kernel[4,8] bias_i[4] bias_j[4] bias_f[4] bias_o[4] projection/kernel[4,2]",
    ),
    "layer_norm_basic_lstm_cell": Case(
        lambda: rnn.LayerNormBasicLSTMCell(4, input_size=9),
        lambda: gallery.LayerNormBasicLSTMCell(4),
        3,
        f"kernel[7,16] {NORMS}",
    ),
    "coupled_input_forget_gate_lstm_cell": Case(
        lambda: rnn.CoupledInputForgetGateLSTMCell(4, True, num_proj=2, num_unit_shards=2),
        lambda: gallery.CoupledInputForgetGateLSTMCell(4, True, num_proj=2, num_unit_shards=2),
        3,
        "W_0[3,12] W_1[2,12] B[12] W_F_diag[4] W_O_diag[4] W_P_0[4,2]",
    ),
    "grid_lstm_cell": Case(
        lambda: rnn.GridLSTMCell(4, True, **GRID),
        lambda: gallery.GridLSTMCell(4, True, **GRID),
        4,
        f"{GRID_VARIABLES} {DIAGONALS}",
    ),
    "bidirectional_grid_lstm_cell": Case(
        lambda: rnn.BidirectionalGridLSTMCell(4, **GRID),
        lambda: gallery.BidirectionalGridLSTMCell(4, **GRID),
        4,
        " ".join(f"{way}/{each}" for way in ("fwd", "bwd") for each in GRID_VARIABLES.split()),
    ),
    "time_freq_lstm_cell": Case(
        lambda: rnn.TimeFreqLSTMCell(4, True, feature_size=3),
        lambda: gallery.TimeFreqLSTMCell(4, True, feature_size=3),
        3,
        "W_0[11,16] B[16] W_F_diag[4] W_I_diag[4] W_O_diag[4]",
    ),
    "conv_2d_lstm_cell": Case(
        lambda: rnn.Conv2DLSTMCell(input_shape=[4, 3, 2], output_channels=3, kernel_shape=[3, 3]),
        lambda: gallery.Conv2DLSTMCell(input_shape=[4, 3, 2], output_channels=3, kernel_shape=[3, 3]),
        (4, 3, 2),
        "kernel[3,3,5,12] biases[12]",
    ),
    "phased_lstm_cell": Case(
        lambda: rnn.PhasedLSTMCell(4, True, period_init_max=3.0),
        lambda: gallery.contrib.PhasedLSTMCell(4, True, period_init_max=3.0),
        (1, 3),
        "mask_gates/kernel[11,8] mask_gates/bias[8] new_input/kernel[7,4] new_input/bias[4] output_gate/kernel[11,4] "
        "output_gate/bias[4] period[4] phase[4] ratio_on[4]",
    ),
    "attention_cell_wrapper": Case(
        lambda: rnn.AttentionCellWrapper(rnn.LSTMBlockCell(4), 3),
        lambda: gallery.AttentionCellWrapper(gallery.LSTMBlockCell(4), 3),
        3,
        "kernel[7,3] bias[3] lstm_cell/kernel[7,16] lstm_cell/bias[16] attention/attn_w[1,1,4,4] attention/attn_v[4] "
        "attention/kernel[8,4] attention/bias[4] attn_output_projection/kernel[8,4] attn_output_projection/bias[4]",
    ),
    "lstm_cell": Case(
        lambda: rnn.LSTMBlockCell(4, use_peephole=True, cell_clip=0.3),
        lambda: gallery.LSTMBlockCell(4, use_peephole=True, cell_clip=0.3),
        3,
        "kernel[7,16] bias[16] w_i_diag[4] w_f_diag[4] w_o_diag[4]",
    ),
    "gru_cell": Case(
        lambda: rnn.GRUBlockCell(4), lambda: gallery.GRUBlockCell(4), 3, "w_ru[7,8] b_ru[8] w_c[7,4] b_c[4]"
    ),
}


def drawn(row: Any, name: str) -> Any:
    rng = np.random.default_rng(0)
    if name == "phased_lstm_cell":
        return rng.uniform(0, 9, (ROWS, STEPS, 1)).astype("float32"), rng.normal(size=(ROWS, STEPS, 3)).astype(
            "float32"
        )
    return rng.normal(size=(ROWS, STEPS, *(row if isinstance(row, tuple) else [row]))).astype("float32")


@pytest.mark.parametrize("name", CASES)
def test_variables_and_numbers(name: str) -> None:
    case = CASES[name]
    values = drawn(case.row, name)
    x = _placeholders(values)
    cell = case.cell()
    outputs, state = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32)
    slopes = tf.gradients(tf.reduce_sum(outputs * outputs), tf.trainable_variables())
    found = [f"{each.op.name}[{','.join(map(str, each.shape.as_list()))}]" for each in tf.global_variables()]
    assert found == [f"rnn/{name}/{each}" for each in case.variables.split()]
    rng, peer = np.random.default_rng(2), case.peer()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        weights = {}
        for each in tf.global_variables():
            noise = np.abs if "period" in each.name or "ratio" in each.name else np.asarray
            weights[each.op.name] = noise(session.run(each) + rng.normal(size=each.shape.as_list(), scale=0.3))
            session.run(each.assign(weights[each.op.name].astype("float32")))
        fed = dict(zip(flatten(x), flatten(values), strict=True))
        there = session.run([outputs, *flatten(state), *slopes], fed)
    inputs = unspool.structure.map_structure(torch.from_numpy, values)
    peer(*_first(inputs, peer))  # which builds it
    for path, weight in peer.variables():
        weight.data.copy_(torch.from_numpy(weights[f"rnn/{path}"]))
    made, last = unspool.dynamic_rnn(peer, inputs, dtype=torch.float32)
    (made * made).sum().backward()
    here = [made, *flatten(last), *(weight.grad for _, weight in peer.variables())]
    for one, other in zip(there, here, strict=True):
        np.testing.assert_allclose(one, other.detach().numpy(), rtol=1e-5, atol=1e-5)


def _placeholders(values: Any) -> Any:
    return unspool.structure.map_structure(lambda each: tf.placeholder(tf.float32, [None, *each.shape[1:]]), values)


def _first(inputs: Any, cell: Any) -> Any:
    return unspool.structure.map_structure(lambda each: each[:, 0], inputs), cell.zero_state(ROWS, torch.float32)


def test_a_keep_probability_may_be_fed() -> None:
    keep = tf.placeholder(tf.float32, [])
    cell = rnn.LayerNormBasicLSTMCell(30, dropout_keep_prob=keep)
    outputs, _ = tf.nn.dynamic_rnn(cell, tf.constant(drawn(3, "")), dtype=tf.float32)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        whole = [session.run(outputs, {keep: 1.0}) for _ in range(2)]
        part = [session.run(outputs, {keep: 0.5}) for _ in range(2)]
    np.testing.assert_array_equal(*whole)
    assert not np.array_equal(*part)


def test_times_may_be_wider_than_what_is_seen() -> None:
    times, x = tf.placeholder(tf.float64, [None, STEPS, 1]), tf.placeholder(tf.float32, [None, STEPS, 3])
    outputs, _ = tf.nn.dynamic_rnn(rnn.PhasedLSTMCell(4), (times, x), dtype=tf.float32)
    assert outputs.dtype is tf.float32
    assert {each.dtype for each in tf.global_variables()} == {tf.float32}
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        periods, phases = session.run([tf.global_variables()[6], tf.global_variables()[7]])
        assert np.isfinite(session.run(outputs, {times: np.full((2, STEPS, 1), 1e6), x: np.zeros((2, STEPS, 3))})).all()
    assert (phases <= periods).all()
    assert periods.min() >= 1
    assert periods.max() <= 1000


def test_a_step_of_a_time_frequency_cell_has_all_windows() -> None:
    cell = rnn.TimeFreqLSTMCell(4, feature_size=2, frequency_skip=1)
    assert (cell.state_size, cell.output_size) == (8, 4)  # TensorFlow's, which cannot know how many there will be
    output, state = cell(tf.zeros([2, 3]), tf.zeros([2, 16]))
    assert output.shape.as_list() == [2, 8]
    assert state.shape.as_list() == [2, 16]


def test_images_have_static_shapes_and_sizes() -> None:
    cell = rnn.ConvLSTMCell(1, [5, 2], 3, [3], skip_connection=True)
    assert cell.output_size.as_list() == [5, 5]
    assert cell.state_size.c.as_list() == [5, 3]
    assert cell.zero_state(2, tf.float32).h.shape.as_list() == [2, 5, 3]
    outputs, _ = tf.nn.dynamic_rnn(cell, tf.placeholder(tf.float32, [None, 4, 5, 2]), dtype=tf.float32)
    assert outputs.shape.as_list() == [None, 4, 5, 5]
    assert tf.global_variables()[0].op.name == "rnn/conv_lstm_cell/kernel"


def test_a_cell_of_ones_own_is_wrapped_by_attention() -> None:
    class Own(rnn.LayerRNNCell):
        state_size = output_size = 4

        def build(self, inputs_shape: Any) -> None:
            self.kernel = self.add_variable("kernel", [inputs_shape[-1] + 4, 4])

        def call(self, inputs: Any, state: Any) -> Any:
            state = tf.tanh(tf.matmul(tf.concat([inputs, state], 1), self.kernel))
            return state, state

    cell = rnn.CompiledWrapper(rnn.AttentionCellWrapper(Own(), 2))
    outputs, _ = tf.nn.dynamic_rnn(cell, tf.constant(drawn(3, "")), dtype=tf.float32)
    assert "rnn/attention_cell_wrapper/own/kernel" in [each.op.name for each in tf.global_variables()]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(outputs).shape == (ROWS, STEPS, 4)


def test_cells_of_one_kind_that_are_layers_have_names_of_their_own() -> None:
    x = tf.zeros([2, 3])
    for cell in (rnn.LSTMBlockCell(4), rnn.LSTMBlockCell(4)):
        cell(x, cell.zero_state(2, tf.float32))
    kernels = [each.op.name for each in tf.global_variables() if each.op.name.endswith("kernel")]
    assert kernels == ["lstm_cell/kernel", "lstm_cell_1/kernel"]


def test_a_second_cell_of_one_kind_that_is_no_layer_asks_for_the_same_variables() -> None:
    x, state = tf.zeros([2, 3]), tf.zeros([2, 4])
    rnn.UGRNNCell(4)(x, state)
    with pytest.raises(ValueError, match="ugrnn_cell/kernel already exists"):
        rnn.UGRNNCell(4)(x, state)
    rnn.UGRNNCell(4, reuse=True)(x, state)
    assert len(tf.global_variables()) == 2


@pytest.mark.parametrize("case", tf1_blocks.ALL, ids=lambda case: case.__name__)
def test_fused_cells_are_tensorflow_s_kernels(case: Callable[..., Any]) -> None:
    tf1_recorded.check("blocks", case.__name__, case(tf))


# -- fused cells -----------------------------------------------------------------------------------------------------


def steps_first() -> Any:
    return np.random.default_rng(4).normal(size=(STEPS, ROWS, 3)).astype("float32")


def test_a_fused_lstm_has_the_numbers_of_its_cell() -> None:
    lengths = np.array([2, 0], "int32")
    fused = rnn.LSTMBlockFusedCell(4, use_peephole=True, cell_clip=0.2)
    outputs, state = fused(tf.constant(steps_first()), dtype=tf.float32, sequence_length=lengths)
    names = [each.op.name for each in tf.global_variables()]
    assert names == [f"lstm_fused_cell/{each}" for each in ["kernel", "bias", "w_i_diag", "w_f_diag", "w_o_diag"]]
    with tf.variable_scope("lstm_fused_cell", reuse=True):
        cell = rnn.LSTMBlockCell(4, use_peephole=True, cell_clip=0.2, name="lstm_fused_cell")
    others, other = tf.nn.dynamic_rnn(cell, tf.constant(steps_first()), lengths, dtype=tf.float32, time_major=True)
    pairs = list(zip(fused.variables, cell.variables, strict=True))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run([two.assign(one.value()) for one, two in pairs])
        for one, two in zip(*session.run([(outputs, *state), (others, *other)]), strict=True):
            np.testing.assert_array_equal(one, two)


def test_a_fused_lstm_starts_from_a_state_and_takes_a_list() -> None:
    fused, zeros = rnn.LSTMBlockFusedCell(4, name="own"), tf.zeros([ROWS, 4])
    one, last = fused([tf.constant(each) for each in steps_first()], initial_state=(zeros, zeros))
    two, _ = fused(tf.constant(steps_first()), dtype=tf.float32)
    assert len(one) == STEPS
    assert last.c.shape.as_list() == [ROWS, 4]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        np.testing.assert_array_equal(np.stack(session.run(one)), session.run(two))


@pytest.mark.parametrize("dynamic", [True, False])
@pytest.mark.parametrize("lengths", [None, [3, 1]])
def test_a_reversed_cell_runs_from_the_end_of_every_row(dynamic: bool, lengths: Any) -> None:
    cell = tf.nn.rnn_cell.GRUCell(4)
    forward = rnn.FusedRNNCellAdaptor(cell, use_dynamic_rnn=dynamic)
    backward = rnn.TimeReversedFusedRNN(forward)
    x = tf.constant(steps_first())
    outputs, state = backward(x, dtype=tf.float32, sequence_length=lengths)
    turned = tf.reverse(x, [0]) if lengths is None else tf.reverse_sequence(x, lengths, 0, 1)
    with tf.variable_scope(tf.get_variable_scope(), reuse=True):
        others, other = forward(turned, dtype=tf.float32, sequence_length=lengths)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        found, expected, *states = session.run([outputs, others, state, other])
    np.testing.assert_allclose(*states, rtol=0, atol=1e-6)
    for row, length in enumerate(lengths or [STEPS] * ROWS):
        np.testing.assert_allclose(found[:length, row][::-1], expected[:length, row], rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: rnn.LSTMBlockFusedCell(4)(tf.zeros([3, 2, 3])), ValueError, "Either initial_state or dtype needs"),
        (
            lambda: rnn.LSTMBlockFusedCell(4)(tf.zeros([2, 3]), dtype=tf.float32),
            ValueError,
            r"must be \[time, batch, depth\]",
        ),
        (
            lambda: rnn.LSTMBlockFusedCell(4)(tf.zeros([3, 2, 3]), (tf.zeros([2, 4]),)),
            ValueError,
            "initial_state to be a tuple with length 2",
        ),
        (lambda: rnn.FusedRNNCell()(tf.zeros([3, 2, 3])), NotImplementedError, "must define __call__"),
        (
            lambda: rnn.IntersectionRNNCell(4)(tf.zeros([2, 3]), tf.zeros([2, 4])),
            ValueError,
            "num_in_proj should be set",
        ),
        (lambda: rnn.GridLSTMCell(4), ValueError, "Must specify num_frequency_blocks"),
        (lambda: rnn.AttentionCellWrapper(tf.nn.rnn_cell.GRUCell(4), 0), ValueError, "greater than zero, got 0"),
        (lambda: rnn.AttentionCellWrapper(4, 2), TypeError, "cell"),
    ],
)
def test_arguments_are_checked(make: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()
