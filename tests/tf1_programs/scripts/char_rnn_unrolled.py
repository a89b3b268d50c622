"""A character model whose steps are written out, one call of the cell after the other."""
# tensorflow.compat.v1 runs this.

import json

import numpy as np
import tensorflow as tf

flags = tf.app.flags
flags.DEFINE_integer("steps", 60, "training steps")
flags.DEFINE_integer("batch_size", 8, "rows in a batch")
flags.DEFINE_integer("seq_length", 10, "characters in a row")
flags.DEFINE_float("learning_rate", 0.02, "of Adam")
FLAGS = flags.FLAGS

text = "the quick brown fox jumps over the lazy dog. " * 4
chars = sorted(set(text))
vocab = {c: i for i, c in enumerate(chars)}
data = np.array([vocab[c] for c in text])


def next_batch(rng):
    starts = rng.integers(0, len(data) - FLAGS.seq_length - 1, FLAGS.batch_size)
    rows = np.stack([data[s : s + FLAGS.seq_length + 1] for s in starts])
    return rows[:, :-1], rows[:, 1:]


def main(_):
    tf.set_random_seed(1)
    inputs = tf.placeholder(tf.int32, [FLAGS.batch_size, FLAGS.seq_length])
    targets = tf.placeholder(tf.int32, [FLAGS.batch_size, FLAGS.seq_length])
    with tf.variable_scope("rnnlm"):
        softmax_w = tf.get_variable("softmax_w", [32, len(chars)])
        softmax_b = tf.get_variable("softmax_b", [len(chars)])
        embedding = tf.get_variable("embedding", [len(chars), 16])
        cell = tf.nn.rnn_cell.BasicLSTMCell(32)
        state = cell.zero_state(FLAGS.batch_size, tf.float32)
        outputs = []
        for i, x in enumerate(tf.unstack(tf.nn.embedding_lookup(embedding, inputs), axis=1)):
            if i > 0:
                tf.get_variable_scope().reuse_variables()
            output, state = cell(x, state)
            outputs.append(output)
    output = tf.reshape(tf.concat(outputs, 1), [-1, 32])
    logits = tf.matmul(output, softmax_w) + softmax_b
    cost = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.reshape(targets, [-1]), logits=logits)
    )
    tvars = tf.trainable_variables()
    grads, _ = tf.clip_by_global_norm(tf.gradients(cost, tvars), 5.0)
    train_op = tf.train.AdamOptimizer(FLAGS.learning_rate).apply_gradients(zip(grads, tvars))

    rng = np.random.default_rng(0)
    losses = []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(FLAGS.steps):
            x, y = next_batch(rng)
            loss, _ = sess.run([cost, train_op], {inputs: x, targets: y})
            losses.append(float(loss))
    if FLAGS.steps == 60:
        assert losses[-1] < 0.5 * losses[0], losses
    print("losses:", json.dumps(losses))


if __name__ == "__main__":
    tf.app.run()
