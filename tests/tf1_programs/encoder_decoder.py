"""Two `dynamic_rnn`s, an encoder whose final state starts a decoder, without contrib."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import by_hand as np_rnn
from .program import Arrays, Generator, Program

vocabulary, n_embedding, n_units, n_source, n_target = 8, 3, 4, 5, 4
EOS = 1


def build(tf: Any) -> Program:
    encoder_inputs = tf.placeholder(shape=(None, None), dtype=tf.int32, name="encoder_inputs")
    decoder_inputs = tf.placeholder(shape=(None, None), dtype=tf.int32, name="decoder_inputs")
    decoder_targets = tf.placeholder(shape=(None, None), dtype=tf.int32, name="decoder_targets")

    embeddings = tf.Variable(tf.random_uniform([vocabulary, n_embedding], -1.0, 1.0), dtype=tf.float32)
    encoder_embedded = tf.nn.embedding_lookup(embeddings, encoder_inputs)
    decoder_embedded = tf.nn.embedding_lookup(embeddings, decoder_inputs)

    encoder_cell = tf.nn.rnn_cell.LSTMCell(n_units)
    encoder_outputs, encoder_final_state = tf.nn.dynamic_rnn(
        encoder_cell, encoder_embedded, dtype=tf.float32, time_major=True, scope="plain_encoder"
    )
    del encoder_outputs
    decoder_cell = tf.nn.rnn_cell.LSTMCell(n_units)
    decoder_outputs, decoder_final_state = tf.nn.dynamic_rnn(
        decoder_cell,
        decoder_embedded,
        initial_state=encoder_final_state,
        dtype=tf.float32,
        time_major=True,
        scope="plain_decoder",
    )
    decoder_logits = tf.layers.dense(decoder_outputs, vocabulary)
    decoder_prediction = tf.argmax(decoder_logits, 2)

    stepwise_cross_entropy = tf.nn.softmax_cross_entropy_with_logits_v2(
        labels=tf.one_hot(decoder_targets, depth=vocabulary, dtype=tf.float32), logits=decoder_logits
    )
    loss = tf.reduce_mean(stepwise_cross_entropy)
    train = tf.train.AdamOptimizer().minimize(loss)

    def use(session: Any, feeds: Arrays) -> dict[str, Any]:
        """Decodes symbol by symbol, with the state fed from run to run."""
        state = session.run(encoder_final_state, {encoder_inputs: feeds["encoder_inputs"]})
        symbol, decoded = np.full((1, 4), EOS), []
        for _ in range(3):
            feed = {decoder_inputs: symbol, encoder_final_state: state}
            symbol, state = session.run([decoder_prediction, decoder_final_state], feed)
            decoded.append(symbol[0])
        return dict(decoded=np.array(decoded), state=state)

    return Program(
        placeholders=dict(
            encoder_inputs=encoder_inputs, decoder_inputs=decoder_inputs, decoder_targets=decoder_targets
        ),
        feeds=feeds,
        fetches=dict(
            context=encoder_final_state,
            outputs=decoder_outputs,
            logits=decoder_logits,
            prediction=decoder_prediction,
            loss=loss,
        ),
        train=train,
        by_hand=by_hand,
        use=use,
    )


def feeds(rng: Generator) -> Arrays:
    """Batches with time first: sequences to copy."""
    source = rng.integers(2, vocabulary, (n_source, 4)).astype(np.int32)
    target = np.concatenate([source[: n_target - 1], np.full((1, 4), EOS, np.int32)])
    inputs = np.concatenate([np.full((1, 4), EOS, np.int32), target[:-1]])
    return dict(encoder_inputs=source, decoder_inputs=inputs, decoder_targets=target)


def by_hand(variables: Arrays, feeds: Arrays) -> dict[str, Any]:
    embeddings = variables["Variable"]
    encoder = np_rnn.lstm(variables, "plain_encoder/lstm_cell")
    decoder = np_rnn.lstm(variables, "plain_decoder/lstm_cell")
    _, context = np_rnn.unroll(encoder, embeddings[feeds["encoder_inputs"].T], np_rnn.zeros(4, n_units, n_units))
    outputs, _ = np_rnn.unroll(decoder, embeddings[feeds["decoder_inputs"].T], context)
    outputs = outputs.swapaxes(0, 1)
    logits = np_rnn.dense(variables, "dense", outputs)
    loss = np.mean(np_rnn.cross_entropy(logits, feeds["decoder_targets"]))
    return dict(context=context, outputs=outputs, logits=logits, prediction=logits.argmax(2), loss=loss)
