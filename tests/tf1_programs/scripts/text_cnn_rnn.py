"""Whether a sentence has one of two words: an embedding, a convolution over words by tf.layers, and a GRU."""
# tensorflow.compat.v1 runs this.

import json

import numpy as np
import tensorflow as tf

tf.app.flags.DEFINE_integer("steps", 80, "training steps")
FLAGS = tf.app.flags.FLAGS

VOCABULARY, LENGTH, BATCH = 30, 16, 32


def sentences(rng):
    words = rng.integers(2, VOCABULARY, (BATCH, LENGTH))
    labels = rng.integers(0, 2, BATCH)
    for row, label in enumerate(labels):
        words[row, rng.integers(0, LENGTH)] = label
    return words, labels


class TextCNNRNN(object):
    def __init__(self):
        self.input_x = tf.placeholder(tf.int32, [None, LENGTH], name="input_x")
        self.input_y = tf.placeholder(tf.int32, [None], name="input_y")
        with tf.variable_scope("embedding"):
            table = tf.get_variable("W", [VOCABULARY, 16])
            embedded = tf.nn.embedding_lookup(table, self.input_x)
        with tf.variable_scope("cnn"):
            conv = tf.layers.conv1d(embedded, 16, 3, padding="same", activation=tf.nn.relu, name="conv")
            pooled = tf.layers.max_pooling1d(conv, pool_size=2, strides=2)
        with tf.variable_scope("rnn"):
            _, state = tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(16), pooled, dtype=tf.float32)
        self.scores = tf.layers.dense(state, 2, name="scores")
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=self.input_y, logits=self.scores)
        self.loss = tf.reduce_mean(losses)
        hits = tf.equal(tf.argmax(self.scores, 1, output_type=tf.int32), self.input_y)
        self.accuracy = tf.reduce_mean(tf.cast(hits, tf.float32))


def main(_):
    tf.set_random_seed(3)
    model = TextCNNRNN()
    step = tf.Variable(0, name="global_step", trainable=False)
    optimizer = tf.train.AdamOptimizer(0.01)
    train_op = optimizer.apply_gradients(optimizer.compute_gradients(model.loss), global_step=step)
    rng, losses = np.random.default_rng(0), []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(FLAGS.steps):
            words, labels = sentences(rng)
            feed = {model.input_x: words, model.input_y: labels}
            _, loss, accuracy = sess.run([train_op, model.loss, model.accuracy], feed)
            losses.append(float(loss))
        if FLAGS.steps == 80:
            words, labels = sentences(rng)
            accuracy = sess.run(model.accuracy, {model.input_x: words, model.input_y: labels})
            assert accuracy > 0.85, accuracy
    print("losses:", json.dumps(losses))


if __name__ == "__main__":
    tf.app.run()
