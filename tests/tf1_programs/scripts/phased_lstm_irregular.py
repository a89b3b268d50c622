"""Which of two frequencies a wave has, seen at irregular times: a Phased LSTM, which is given the times."""

import json

import numpy as np
import tensorflow as tf

flags = tf.app.flags
flags.DEFINE_integer("steps", 100, "training steps")
FLAGS = flags.FLAGS

POINTS, BATCH = 25, 32


def waves(rng):
    labels = rng.integers(0, 2, BATCH)
    times = np.sort(rng.uniform(0, 20, (BATCH, POINTS)), 1)
    speed = np.where(labels, 1.0, 0.35)[:, None]
    values = np.sin(speed * times + rng.uniform(0, 6, (BATCH, 1)))
    return times[:, :, None], values[:, :, None], labels


def main(_):
    tf.set_random_seed(7)
    times = tf.placeholder(tf.float32, [None, POINTS, 1])
    values = tf.placeholder(tf.float32, [None, POINTS, 1])
    labels = tf.placeholder(tf.int64, [None])
    lengths = tf.placeholder(tf.int32, [None])
    cell = tf.contrib.rnn.PhasedLSTMCell(32, leak=0.01, ratio_on=0.3, period_init_min=1.0, period_init_max=10.0)
    outputs, _ = tf.nn.dynamic_rnn(cell, (times, values), sequence_length=lengths, dtype=tf.float32)
    logits = tf.layers.dense(tf.reduce_mean(outputs, 1), 2)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    grads, tvars = zip(*tf.train.AdamOptimizer(0.01).compute_gradients(loss))
    grads, _ = tf.clip_by_global_norm(grads, 5.0)
    train_op = tf.train.AdamOptimizer(0.02).apply_gradients(zip(grads, tvars))
    accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), labels), tf.float32))
    rng, losses = np.random.default_rng(0), []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        feed = lambda t, v, y: {times: t, values: v, labels: y, lengths: [POINTS] * BATCH}  # noqa: E731
        for _ in range(FLAGS.steps):
            losses.append(float(sess.run([loss, train_op], feed(*waves(rng)))[0]))
        if FLAGS.steps == 100:
            score = np.mean([sess.run(accuracy, feed(*waves(rng))) for _ in range(4)])
            assert score > 0.8, (score, losses)
    print("losses:", json.dumps(losses))


if __name__ == "__main__":
    tf.app.run()
