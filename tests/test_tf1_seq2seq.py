"""Decoding in the graph is decoding of unspool: the same numbers, under TensorFlow's names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import unspool
from unspool import tf1 as tf
from unspool.structure import flatten

BATCH, PLACES, STEPS, DEPTH, UNITS, VOCABULARY, END = 3, 4, 5, 2, 6, 7, 2
rng = np.random.default_rng(0)
MEMORY, MEMORY_LENGTHS = rng.normal(size=(BATCH, PLACES, DEPTH)), [4, 2, 3]
TOKENS, LENGTHS = rng.integers(VOCABULARY, size=(BATCH, STEPS)), [5, 1, 3]
seq2seq = tf.contrib.seq2seq


class Model:
    """A decoder with an embedding and an output layer, whose start the memory gives."""

    def __init__(self, attention: str | None = None) -> None:
        self.memory = tf.placeholder(tf.float64, [None, None, DEPTH])
        self.tokens = tf.placeholder(tf.int32, [None, None])
        self.rows = tf.shape(self.memory)[0]
        self.table = tf.get_variable("table", [VOCABULARY, 3], tf.float64)
        self.cell: Any = tf.nn.rnn_cell.GRUCell(UNITS)
        if attention is not None:
            mechanism = getattr(seq2seq, attention)(UNITS, self.memory, MEMORY_LENGTHS)
            self.cell = seq2seq.AttentionWrapper(self.cell, mechanism, attention_layer_size=4)
        self.state = self.cell.zero_state(self.rows, tf.float64)
        self.layer = tf.layers.Dense(VOCABULARY)
        self.start = tf.fill([self.rows], 1)
        self.feed = {self.memory: MEMORY, self.tokens: TOKENS}

    def decoded(self, helper: Any, **options: Any) -> Any:
        decoder = seq2seq.BasicDecoder(self.cell, helper, self.state, self.layer)
        return seq2seq.dynamic_decode(decoder, **options)

    def trained(self) -> Any:
        inputs = tf.nn.embedding_lookup(self.table, self.tokens)
        return self.decoded(seq2seq.TrainingHelper(inputs, LENGTHS), impute_finished=True)

    def run(self, fetches: Any, session: Any = None) -> Any:
        if session is not None:
            return session.run(fetches, self.feed)
        with tf.Session() as own:
            own.run(tf.global_variables_initializer())
            return own.run(fetches, self.feed)

    def in_torch(self, values: dict[str, Any], attention: str | None) -> Any:
        """The same model of unspool with the same weights: table, cell, layer."""
        weights = {name: torch.as_tensor(value) for name, value in values.items()}
        cell: Any = unspool.GRUCell(UNITS)
        if attention is not None:
            mechanism = getattr(unspool, attention)(UNITS)
            mechanism.setup_memory(torch.as_tensor(MEMORY), MEMORY_LENGTHS)
            cell = unspool.AttentionWrapper(cell, mechanism, attention_layer_size=4)
        cell.ensure_built(torch.zeros(BATCH, 3, dtype=torch.float64), cell.zero_state(BATCH, torch.float64))
        with torch.no_grad():
            for name, weight in unspool.tf_variables(cell, "decoder").items():
                known = name if name in weights else "memory_layer/kernel"  # in the scope around the decoder
                weight.copy_(weights[known])
        if attention is not None:
            cell.attention_mechanisms[0].setup_memory(torch.as_tensor(MEMORY), MEMORY_LENGTHS)
        layer = lambda output: output @ weights["decoder/dense/kernel"] + weights["decoder/dense/bias"]  # noqa: E731
        return weights["table"], cell, layer


ATTENTIONS = [None, "BahdanauAttention", "LuongAttention"]


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_a_decoder_that_reads_known_inputs_is_that_of_unspool(attention: str | None):
    model = Model(attention)
    fetches = model.trained(), {each.op.name: each for each in tf.trainable_variables()}
    found, weights = model.run(fetches)
    table, cell, layer = model.in_torch(weights, attention)
    helper = unspool.TrainingHelper(table[torch.as_tensor(TOKENS)], LENGTHS)
    decoder = unspool.BasicDecoder(cell, helper, cell.zero_state(BATCH, torch.float64), layer)
    for ours, theirs in zip(flatten(found), flatten(unspool.dynamic_decode(decoder)), strict=True):
        np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=1e-12, atol=1e-12)


def test_greedy_decoding_reads_its_own_words_until_the_end():
    model = Model()
    helper = seq2seq.GreedyEmbeddingHelper(model.table, model.start, END)
    fetches = model.decoded(helper, impute_finished=True, maximum_iterations=9)
    found, weights = model.run((fetches, {each.op.name: each for each in tf.trainable_variables()}))
    table, cell, layer = model.in_torch(weights, None)
    own = unspool.GreedyEmbeddingHelper(table, [1] * BATCH, END)
    decoder = unspool.BasicDecoder(cell, own, cell.zero_state(BATCH, torch.float64), layer)
    expected = unspool.dynamic_decode(decoder, maximum_iterations=9)
    np.testing.assert_array_equal(found[0].sample_id, expected[0].sample_id.numpy())
    np.testing.assert_array_equal(found[2], expected[2].numpy())


def test_an_embedding_may_be_a_function_of_the_graph():
    model = Model()
    by_table = model.decoded(seq2seq.GreedyEmbeddingHelper(model.table, model.start, END), maximum_iterations=4)
    lookup = lambda ids: tf.nn.embedding_lookup(model.table, ids)  # noqa: E731
    by_function = model.decoded(
        seq2seq.GreedyEmbeddingHelper(lookup, model.start, END), maximum_iterations=4, scope="again"
    )
    one, other = model.run((by_table[0].sample_id, by_function[0].sample_id))
    np.testing.assert_array_equal(one, other)


def test_a_custom_helper_is_made_of_functions_of_the_graph():
    model = Model()
    helper = seq2seq.CustomHelper(
        initialize_fn=lambda: (tf.zeros([model.rows], tf.bool), tf.zeros([model.rows, 3], tf.float64)),
        sample_fn=lambda time, outputs, state: tf.cast(tf.argmax(outputs, -1), tf.int32),
        next_inputs_fn=lambda time, outputs, state, sample_ids: (
            tf.fill([model.rows], time >= 2),
            tf.nn.embedding_lookup(model.table, sample_ids),
            state,
        ),
    )
    outputs, _, lengths = model.run(model.decoded(helper, maximum_iterations=8))
    assert lengths.tolist() == [3] * BATCH
    assert outputs.rnn_output.shape == (BATCH, 3, VOCABULARY)


def test_an_inference_helper_reads_what_it_samples():
    model = Model()
    helper = seq2seq.InferenceHelper(
        sample_fn=lambda outputs: outputs[:, :3],
        sample_shape=[3],
        sample_dtype=tf.float64,
        start_inputs=tf.zeros([BATCH, 3], tf.float64),
        end_fn=lambda sample: tf.reduce_sum(sample, 1) > 100.0,
    )
    outputs, _, lengths = model.run(model.decoded(helper, maximum_iterations=4))
    assert lengths.tolist() == [4] * BATCH
    np.testing.assert_array_equal(outputs.sample_id, outputs.rnn_output[:, :, :3])


def test_beams_have_the_log_probabilities_of_unspool():
    model = Model()
    start = seq2seq.tile_batch(model.state, 3)
    decoder = seq2seq.BeamSearchDecoder(model.cell, model.table, model.start, END, start, 3, model.layer)
    fetches = seq2seq.dynamic_decode(decoder, maximum_iterations=4)
    found, weights = model.run((fetches, {each.op.name: each for each in tf.trainable_variables()}))
    table, cell, layer = model.in_torch(weights, None)
    state = unspool.tile_batch(cell.zero_state(BATCH, torch.float64), 3)
    own = unspool.BeamSearchDecoder(cell, table, [1] * BATCH, END, state, 3, layer)
    expected = unspool.dynamic_decode(own, maximum_iterations=4)
    np.testing.assert_array_equal(found[0].predicted_ids, expected[0].predicted_ids.numpy())
    np.testing.assert_allclose(found[1].log_probs, expected[1].log_probs.detach().numpy(), rtol=1e-12)
    np.testing.assert_array_equal(found[2], expected[2].numpy())


def test_a_model_with_attention_learns_what_it_then_writes():
    tf.set_random_seed(1)  # before variables are made, which have their seeds from then on
    model = Model("BahdanauAttention")
    outputs, _, _ = model.trained()
    weights = tf.sequence_mask(LENGTHS, STEPS, tf.float64)
    targets = np.array([[3, 4, 5, 6, END], [END, 0, 0, 0, 0], [5, 5, END, 0, 0]])
    loss = seq2seq.sequence_loss(outputs.rnn_output, targets, weights)
    train = tf.train.AdamOptimizer(0.03).minimize(loss)
    with tf.variable_scope("decoder", reuse=True) as scope:
        helper = seq2seq.GreedyEmbeddingHelper(model.table, model.start, END)
        written = model.decoded(helper, impute_finished=True, maximum_iterations=STEPS, scope=scope)
    model.feed[model.tokens] = np.concatenate([np.ones((BATCH, 1), int), targets[:, :-1]], 1)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(150):
            model.run(train, session)
        ids, lengths = model.run((written[0].sample_id, written[2]), session)
    assert lengths.tolist() == LENGTHS
    for row, length in enumerate(LENGTHS):
        np.testing.assert_array_equal(ids[row, :length], targets[row, :length])


def test_names_are_those_of_contrib():
    Model("LuongAttention").trained()
    assert [variable.name for variable in tf.trainable_variables()] == [
        "table:0",
        "memory_layer/kernel:0",
        "decoder/attention_wrapper/gru_cell/gates/kernel:0",
        "decoder/attention_wrapper/gru_cell/gates/bias:0",
        "decoder/attention_wrapper/gru_cell/candidate/kernel:0",
        "decoder/attention_wrapper/gru_cell/candidate/bias:0",
        "decoder/attention_wrapper/attention_layer/kernel:0",
        "decoder/dense/kernel:0",
        "decoder/dense/bias:0",
    ]


def test_losses_of_sequences_are_those_of_unspool():
    logits, targets = rng.normal(size=(BATCH, STEPS, VOCABULARY)), TOKENS
    weights = np.array([[1.0] * length + [0.0] * (STEPS - length) for length in LENGTHS])
    given = [torch.as_tensor(each) for each in (logits, targets, weights)]
    for time, batch in ((True, True), (True, False), (False, True), (False, False)):
        options = dict(average_across_timesteps=time, average_across_batch=batch)
        loss = seq2seq.sequence_loss(logits, targets, weights, **options)
        with tf.Session() as session:
            found = session.run(loss)
        assert list(found.shape) == loss.shape.as_list()
        np.testing.assert_allclose(found, unspool.sequence_loss(*given, **options).numpy(), rtol=1e-12)


def test_a_loss_function_of_the_graph_takes_the_place_of_cross_entropy():
    logits, weights = tf.zeros([BATCH, STEPS, VOCABULARY]), tf.ones([BATCH, STEPS])
    loss = seq2seq.sequence_loss(
        logits, TOKENS, weights, softmax_loss_function=lambda labels, logits: 3.0 + 0.0 * logits[:, 0]
    )
    with tf.Session() as session:
        assert session.run(loss) == pytest.approx(3.0)


MISTAKES = {
    "no decoder": (TypeError, "Expected decoder", lambda model: seq2seq.dynamic_decode(model.cell)),
    "no helper": (TypeError, "must be a Helper", lambda model: model.decoded(model.cell)),
    "no layer": (
        TypeError,
        "output_layer",
        lambda model: seq2seq.BasicDecoder(
            model.cell, seq2seq.TrainingHelper(tf.zeros([1, 2, 3]), [1]), model.state, torch.relu
        ),
    ),
    "iterations": (ValueError, "must be a scalar", lambda model: model.decoded(_greedy(model), maximum_iterations=[3])),
    "start tokens": (
        ValueError,
        "start_tokens must be a vector",
        lambda model: seq2seq.GreedyEmbeddingHelper(model.table, [[1]], END),
    ),
    "end token": (
        ValueError,
        "end_token must be a scalar",
        lambda model: seq2seq.GreedyEmbeddingHelper(model.table, [1], [END]),
    ),
    "memory": (ValueError, "memory must be", lambda model: seq2seq.LuongAttention(UNITS, tf.zeros([2, 3]))),
    "mechanism": (TypeError, "attention_mechanism", lambda model: seq2seq.AttentionWrapper(model.cell, model.cell)),
    "ranks": (ValueError, "3 axes", lambda model: seq2seq.sequence_loss(model.tokens, model.tokens, model.tokens)),
    "a scalar tiled": (ValueError, "scalar", lambda model: seq2seq.tile_batch(tf.constant(1.0), 2)),
}


def _greedy(model: Model) -> Any:
    return seq2seq.GreedyEmbeddingHelper(model.table, model.start, END)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_errors_when_the_graph_is_built(mistake: str):
    error, words, build = MISTAKES[mistake]
    with pytest.raises(error, match=words):
        build(Model())
