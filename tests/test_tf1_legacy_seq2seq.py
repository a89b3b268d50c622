"""`tf.contrib.legacy_seq2seq`: TensorFlow 1.15's numbers and names of variables, by hand in NumPy."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from tests.tf1_legacy_seq2seq import ANSWER_IDS, ANSWERS, IDS, MEMORY, MODELS, SIZE, START, SYMBOLS, Y, cell
from unspool import tf1 as tf

legacy = tf.contrib.legacy_seq2seq
CLOSE = dict(rtol=1e-12, atol=1e-12)
"""Float64, summed in another order."""


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


def filled(session: tf.Session) -> dict[str, np.ndarray]:
    """Gives every variable numbers, biases too, and returns them by name."""
    rng = np.random.default_rng(0)
    values = {each: rng.normal(size=each.shape.as_list()) for each in tf.global_variables()}
    session.run([tf.assign(each, value) for each, value in values.items()])
    return {each.op.name: value for each, value in values.items()}


@pytest.mark.parametrize("name", MODELS)
def test_outputs_are_those_of_numpy_with_variables_of_these_names(name: str):
    outputs, state = MODELS[name].build()
    with tf.Session() as session:
        variables = filled(session)
        found = session.run([outputs, state])
    expected = MODELS[name].by_hand(variables)
    for ours, theirs in zip([*found[0], found[1]], [*expected[0], expected[1]], strict=True):
        np.testing.assert_allclose(ours, theirs, **CLOSE)


@pytest.mark.parametrize("name", [each for each in MODELS if "feed_previous=True tensor" not in each])
def test_gradients_are_the_slopes_of_the_loss(name: str):
    outputs, state = MODELS[name].build()
    loss = tf.add_n([tf.reduce_sum(tf.sin(each)) for each in [*outputs, state]])
    variables = tf.trainable_variables()
    slopes = tf.gradients(loss, variables)
    with tf.Session() as session:
        values = list(filled(session).values())
        found = session.run([tf.convert_to_tensor(each) for each in slopes])
        rng = np.random.default_rng(1)
        ways = [rng.normal(size=each.shape) for each in values]

        def at(far: float) -> float:
            session.run([tf.assign(v, x + far * w) for v, x, w in zip(variables, values, ways, strict=True)])
            return session.run(loss)

        rise = (at(1e-6) - at(-1e-6)) / 2e-6
    along = sum(float((slope * way).sum()) for slope, way in zip(found, ways, strict=True))
    assert along == pytest.approx(rise, rel=1e-6, abs=1e-6)  # a difference of float64 numbers over 2e-6


def test_an_embedding_that_is_fed_by_a_tensor_is_not_changed_by_what_it_found():
    fed = tf.placeholder(tf.bool, [])
    outputs, _ = legacy.embedding_rnn_seq2seq(
        IDS, ANSWER_IDS, cell(), SYMBOLS, ANSWERS, SIZE, feed_previous=fed, dtype=tf.float64
    )
    embedding = next(each for each in tf.global_variables() if "embedding_rnn_decoder/embedding" in each.name)
    (slope,) = tf.gradients(tf.add_n([tf.reduce_sum(each) for each in outputs]), embedding)
    assert isinstance(slope, tf.IndexedSlices)
    with tf.Session() as session:
        filled(session)
        read = {number: session.run(tf.convert_to_tensor(slope), {fed: number}).any(1) for number in (True, False)}
    assert set(np.flatnonzero(read[True])) == set(ANSWER_IDS[0].tolist())
    assert set(np.flatnonzero(read[False])) == set(np.concatenate(ANSWER_IDS).tolist())


@pytest.mark.parametrize("fed", [False, True])
def test_the_gradient_of_a_shared_embedding_is_the_rows_that_were_read_outside_of_branches(fed: bool):
    feed_previous = tf.placeholder_with_default(tf.constant(fed), [])
    outputs, _ = legacy.embedding_tied_rnn_seq2seq(
        IDS, ANSWER_IDS, cell(), SYMBOLS, SIZE, feed_previous=feed_previous, dtype=tf.float64
    )
    embedding = tf.global_variables()[0]
    (slope,) = tf.gradients(tf.add_n([tf.reduce_sum(each) for each in outputs]), embedding)
    assert isinstance(slope, tf.IndexedSlices)
    with tf.Session() as session:
        filled(session)
        found = session.run(slope)
    read = [*IDS, *(ANSWER_IDS[:1] if fed else ANSWER_IDS)]
    assert sorted(found.indices.tolist()) == sorted(np.concatenate(read).tolist())


def test_gradients_of_embeddings_are_the_rows_that_were_read():
    legacy.embedding_attention_seq2seq(IDS, ANSWER_IDS, cell(), SYMBOLS, ANSWERS, SIZE, dtype=tf.float64)
    outputs = tf.get_default_graph().get_operations()[-1].outputs[0]
    embeddings = [each for each in tf.global_variables() if each.op.name.endswith("embedding")]
    slopes = tf.gradients(outputs, embeddings)
    with tf.Session() as session:
        filled(session)
        for slope, ids in zip(session.run(slopes), (IDS, ANSWER_IDS), strict=True):
            assert sorted(slope.indices.tolist()) == sorted(np.concatenate(ids).tolist())


def test_names_of_a_stack_are_those_of_the_translation_tutorial():
    cells = tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.GRUCell(5), tf.nn.rnn_cell.GRUCell(5)])
    legacy.embedding_attention_seq2seq(IDS, ANSWER_IDS, cells, SYMBOLS, ANSWERS, SIZE)
    found = [each.op.name.removeprefix("embedding_attention_seq2seq/") for each in tf.trainable_variables()]
    stack = [
        f"multi_rnn_cell/cell_{layer}/gru_cell/{part}/{each}"
        for layer in (0, 1)
        for part in ("gates", "candidate")
        for each in ("kernel", "bias")
    ]
    decoder = "embedding_attention_decoder"
    inside = f"{decoder}/attention_decoder"
    assert found == [
        "rnn/embedding_wrapper/embedding",
        *(f"rnn/embedding_wrapper/{each}" for each in stack),
        f"{decoder}/embedding",
        f"{inside}/AttnW_0",
        f"{inside}/AttnV_0",
        f"{inside}/kernel",
        f"{inside}/bias",
        *(f"{inside}/output_projection_wrapper/{each}" for each in stack),
        f"{inside}/output_projection_wrapper/kernel",
        f"{inside}/output_projection_wrapper/bias",
        f"{inside}/Attention_0/kernel",
        f"{inside}/Attention_0/bias",
        f"{inside}/AttnOutputProjection/kernel",
        f"{inside}/AttnOutputProjection/bias",
    ]


def losses(logits: Any, targets: Any, weights: Any) -> np.ndarray:
    """The weighted cross entropy of each row."""
    total = 0
    for x, y, w in zip(logits, targets, weights, strict=True):
        chances = np.log(np.exp(x).sum(1)) - x[np.arange(len(y)), y]
        total = total + chances * w
    return total


@pytest.mark.parametrize("steps", [True, False])
@pytest.mark.parametrize("batch", [True, False])
def test_sequence_loss_is_that_of_numpy(steps: bool, batch: bool):
    rng = np.random.default_rng(2)
    logits, weights = list(rng.normal(size=(3, 4, 5))), list(rng.uniform(size=(3, 4)))
    targets = list(rng.integers(0, 5, (3, 4)))
    expected = losses(logits, targets, weights) / (sum(weights) + 1e-12 if steps else 1)
    tensors = [list(map(tf.constant, each)) for each in (logits, targets, weights)]
    with tf.Session() as session:
        each = session.run(legacy.sequence_loss_by_example(*tensors, average_across_timesteps=steps))
        total = session.run(legacy.sequence_loss(*tensors, steps, batch))
    np.testing.assert_allclose(each, expected, **CLOSE)
    np.testing.assert_allclose(total, expected.sum() / (4 if batch else 1), **CLOSE)


def test_a_loss_of_ones_own_is_called_by_the_names_of_its_arguments():
    seen = []

    def mine(labels: Any, logits: Any) -> Any:
        seen.append((labels, logits))
        return tf.reduce_sum(logits, 1)

    logits, labels = tf.constant([[1.0, 2.0]]), tf.constant([0])
    loss = legacy.sequence_loss([logits], [labels], [[1.0]], softmax_loss_function=mine)
    assert tf.Session().run(loss) == 3.0
    assert seen == [(labels, logits)]


BUCKETS = [(2, 2), (4, 3)]


@pytest.mark.parametrize("per_example", [False, True])
@pytest.mark.parametrize("made", ["inside", "outside"])
def test_buckets_share_their_variables(per_example: bool, made: str):
    shared = tf.nn.rnn_cell.BasicLSTMCell(5)

    def model(encoder_inputs: Any, decoder_inputs: Any) -> Any:
        inner = shared if made == "outside" else tf.nn.rnn_cell.BasicLSTMCell(5)
        return legacy.embedding_attention_seq2seq(encoder_inputs, decoder_inputs, inner, SYMBOLS, ANSWERS, SIZE)

    ids, answers = ([tf.constant(each, tf.int32) for each in side] for side in (IDS, ANSWER_IDS))
    weights = [tf.ones([3])] * 3
    outputs, found = legacy.model_with_buckets(
        ids, answers, answers, weights, BUCKETS, model, per_example_loss=per_example
    )
    assert [len(each) for each in outputs] == [2, 3]
    names = [each.op.name for each in tf.global_variables()]
    assert len(names) == len(set(names)) == 16
    with tf.Session() as session:
        filled(session)
        every, losses_of = session.run([outputs, found])
    for number, (_, written) in enumerate(BUCKETS):
        expected = losses(every[number], ANSWER_IDS[:written], [np.ones(3)] * written) / written
        np.testing.assert_allclose(losses_of[number], expected if per_example else expected.mean(), rtol=1e-5)


def test_a_copy_of_a_cell_has_variables_of_its_own():
    keep = tf.placeholder_with_default(1.0, [])
    one = tf.nn.rnn_cell.MultiRNNCell(
        [tf.nn.rnn_cell.DropoutWrapper(tf.nn.rnn_cell.GRUCell(5), output_keep_prob=keep) for _ in range(2)]
    )
    state = one.zero_state(3, tf.float64)
    with tf.variable_scope("one"):
        one(tf.constant(Y[0]), state)
    other = copy.deepcopy(one)
    with tf.variable_scope("other"):
        output, _ = other(tf.constant(Y[0]), state)
    names = [each.op.name for each in tf.global_variables()]
    assert len(names) == 16
    assert {each.split("/")[0] for each in names} == {"one", "other"}
    with tf.Session() as session:
        filled(session)
        assert session.run(output).shape == (3, 5)


def test_a_copy_of_a_cell_of_ones_own_has_variables_of_its_own():
    class Mine(tf.nn.rnn_cell.RNNCell):
        state_size = output_size = 4

        def __init__(self, scale: float) -> None:
            super().__init__()
            self.scale = scale

        def call(self, inputs: Any, state: Any) -> Any:
            kernel = tf.get_variable("kernel", [4, 4], tf.float64)
            return state, self.scale * tf.tanh(inputs + tf.matmul(state, kernel))

    legacy.basic_rnn_seq2seq(Y, Y, Mine(0.5), tf.float64)
    assert [each.op.name for each in tf.global_variables()] == [
        "basic_rnn_seq2seq/rnn/mine/kernel",
        "basic_rnn_seq2seq/rnn_decoder/mine/kernel",
    ]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: legacy.attention_decoder([], START, MEMORY, cell()), "at least 1 input"),
        (lambda: legacy.attention_decoder(Y, START, MEMORY, cell(), num_heads=0), "less than 1 heads"),
        (
            lambda: legacy.attention_decoder(Y, START, tf.placeholder(tf.float64, [3, 4, None]), cell()),
            r"Shape\[2\] of attention_states must be known",
        ),
        (
            lambda: legacy.attention_decoder([tf.placeholder(tf.float64, [3, None])], START, MEMORY, cell()),
            "Could not infer input size",
        ),
        (
            lambda: legacy.embedding_rnn_decoder(
                ANSWER_IDS, START, cell(), 6, 4, (tf.zeros([5, 7]), tf.zeros([7])), True
            ),
            "output_projection: Shapes",
        ),
        (
            lambda: legacy.embedding_attention_decoder(
                ANSWER_IDS, START, MEMORY, cell(), 6, 4, output_projection=(tf.zeros([5, 7]), tf.zeros([7]))
            ),
            "output_projection: there are 6 symbols",
        ),
        (
            lambda: legacy.one2many_rnn_seq2seq(IDS, {"a": IDS}, cell(), {"b": cell()}, 6, {"a": 6}, 4),
            r"dec_cells_dict has the keys \['b'\], but decoder_inputs_dict \['a'\]",
        ),
        (lambda: legacy.sequence_loss_by_example([1.0], [1, 2], [1.0]), "must be the same 1, 1, 2"),
        (
            lambda: legacy.model_with_buckets(IDS[:1], ANSWER_IDS, ANSWER_IDS, [1.0] * 3, BUCKETS, None),
            r"Length of encoder_inputs \(1\) must be at least that of last bucket \(4\)",
        ),
        (
            lambda: legacy.model_with_buckets(IDS, ANSWER_IDS, ANSWER_IDS[:1], [1.0] * 3, BUCKETS, None),
            r"Length of targets \(1\) must be at least that of last bucket \(3\)",
        ),
        (
            lambda: legacy.model_with_buckets(IDS, ANSWER_IDS, ANSWER_IDS, [1.0], BUCKETS, None),
            r"Length of weights \(1\)",
        ),
    ],
)
def test_mistakes_are_named(call: Any, message: str):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_decoder_without_a_cell_is_a_type_error():
    with pytest.raises(TypeError, match=r"dec_cells_dict\['a'\]"):
        legacy.one2many_rnn_seq2seq(IDS, {"a": IDS}, cell(), {"a": 5}, 6, {"a": 6}, 4)


@pytest.mark.parametrize(
    ("path", "advice"),
    [("nn.seq2seq", "tf.contrib.legacy_seq2seq"), ("contrib.legacy_seq2seq.rnn_decodr", "rnn_decoder")],
)
def test_names_that_are_absent_say_what_to_use(path: str, advice: str):
    *modules, name = path.split(".")
    found = tf
    for each in modules:
        found = getattr(found, each)
    with pytest.raises(AttributeError, match=advice):
        getattr(found, name)
