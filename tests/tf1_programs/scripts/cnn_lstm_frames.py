"""Which way a dot moves over small frames: convolutions of every frame by tf.nn, then an LSTM over frames."""
# tensorflow.compat.v1 runs this.

import json

import numpy as np
import tensorflow as tf

flags = tf.app.flags
flags.DEFINE_integer("steps", 80, "training steps")
FLAGS = flags.FLAGS

FRAMES, SIZE, BATCH = 5, 8, 16
WAYS = np.array([[0, 1], [0, -1], [1, 0], [-1, 0]])


def videos(rng):
    way = rng.integers(0, 4, BATCH)
    start = rng.integers(3, 5, (BATCH, 2))
    frames = np.zeros((BATCH, FRAMES, SIZE, SIZE, 1), np.float32)
    for row in range(BATCH):
        for t in range(FRAMES):
            y, x = np.clip(start[row] + t * WAYS[way[row]], 0, SIZE - 1)
            frames[row, t, y, x] = 3.0
    return frames, way


def weight_variable(name, shape):
    return tf.get_variable(name, shape, initializer=tf.truncated_normal_initializer(stddev=0.1))


def conv2d(x, w):
    return tf.nn.conv2d(x, w, strides=[1, 1, 1, 1], padding="SAME")


def max_pool_2x2(x):
    return tf.nn.max_pool(x, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")


frames = tf.placeholder(tf.float32, [None, FRAMES, SIZE, SIZE, 1])
labels = tf.placeholder(tf.int64, [None])
images = tf.reshape(frames, [-1, SIZE, SIZE, 1])
with tf.variable_scope("conv1"):
    h = max_pool_2x2(
        tf.nn.relu(tf.nn.bias_add(conv2d(images, weight_variable("w", [3, 3, 1, 8])), weight_variable("b", [8])))
    )
with tf.variable_scope("conv2"):
    h = tf.nn.relu(conv2d(h, weight_variable("w", [3, 3, 8, 8])) + weight_variable("b", [8]))
    h = tf.nn.avg_pool(h, [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
features = tf.reshape(h, [-1, FRAMES, 2 * 2 * 8])
outputs, _ = tf.nn.dynamic_rnn(tf.nn.rnn_cell.LSTMCell(24), features, dtype=tf.float32)
logits = tf.layers.dense(outputs[:, -1], 4)
loss = tf.losses.sparse_softmax_cross_entropy(labels=labels, logits=logits)
train = tf.train.AdamOptimizer(0.02).minimize(loss)
correct = tf.reduce_mean(tf.to_float(tf.equal(tf.argmax(logits, 1), labels)))

rng, losses = np.random.default_rng(0), []
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for _ in range(FLAGS.steps):
        x, y = videos(rng)
        losses.append(float(sess.run([train, loss], {frames: x, labels: y})[1]))
    if FLAGS.steps == 80:
        tests = [videos(rng) for _ in range(4)]
        score = np.mean([sess.run(correct, {frames: x, labels: y}) for x, y in tests])
        assert score > 0.6, (score, losses)
print("losses:", json.dumps(losses))
