"""A language model over many words: trained by sampled softmax, evaluated with all logits."""

import json

import numpy as np
import tensorflow as tf

tf.app.flags.DEFINE_integer("steps", 150, "training steps")
FLAGS = tf.app.flags.FLAGS


class Config:
    vocab_size = 200
    batch_size = 16
    num_steps = 10
    hidden_size = 48
    num_samples = 24


class LanguageModel:
    def __init__(self, config, is_training):
        self.x = tf.placeholder(tf.int32, [config.batch_size, config.num_steps])
        self.y = tf.placeholder(tf.int32, [config.batch_size, config.num_steps])
        embedding = tf.get_variable("embedding", [config.vocab_size, config.hidden_size])
        cell = tf.contrib.rnn.LSTMCell(config.hidden_size)
        inputs = tf.nn.embedding_lookup(embedding, self.x)
        self.initial_state = cell.zero_state(config.batch_size, tf.float32)
        outputs, self.final_state = tf.nn.dynamic_rnn(cell, inputs, initial_state=self.initial_state)
        outputs = tf.reshape(outputs, [-1, config.hidden_size])
        softmax_w = tf.get_variable("softmax_w", [config.vocab_size, config.hidden_size])
        softmax_b = tf.get_variable("softmax_b", [config.vocab_size])
        targets = tf.reshape(self.y, [-1])
        if is_training:
            loss = tf.nn.sampled_softmax_loss(
                softmax_w, softmax_b, tf.expand_dims(targets, 1), outputs, config.num_samples, config.vocab_size
            )
        else:
            logits = tf.matmul(outputs, softmax_w, transpose_b=True) + softmax_b
            loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=targets, logits=logits)
        self.cost = tf.reduce_mean(loss)
        if not is_training:
            return
        tvars = tf.trainable_variables()
        grads, _ = tf.clip_by_global_norm(tf.gradients(self.cost, tvars), 5.0)
        self.train_op = tf.train.AdamOptimizer(0.02).apply_gradients(zip(grads, tvars))


def batch(rng, config):
    # A word is followed by the one seven further on; sentences begin anywhere.
    first = rng.integers(0, config.vocab_size, (config.batch_size, 1))
    rows = (first + 7 * np.arange(config.num_steps + 1)) % config.vocab_size
    return rows[:, :-1], rows[:, 1:]


def main(_):
    tf.set_random_seed(1)
    config = Config()
    with tf.variable_scope("Model", reuse=None):
        m = LanguageModel(config, is_training=True)
    with tf.variable_scope("Model", reuse=True):
        mtest = LanguageModel(config, is_training=False)
    rng = np.random.default_rng(0)
    losses = []
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(FLAGS.steps):
            x, y = batch(rng, config)
            cost, _ = session.run([m.cost, m.train_op], {m.x: x, m.y: y})
            losses.append(float(cost))
        if FLAGS.steps == 150:
            x, y = batch(rng, config)
            perplexity = np.exp(session.run(mtest.cost, {mtest.x: x, mtest.y: y}))
            print("perplexity", perplexity)
            assert perplexity < 10, perplexity  # of 200 words
    print("losses:", json.dumps(losses))


if __name__ == "__main__":
    tf.app.run()
