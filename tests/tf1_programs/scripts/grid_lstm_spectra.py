"""Whether a tone rises or falls: a grid LSTM over time and frequency, on spectra drawn by hand."""

import json

import numpy as np
import tensorflow as tf

flags = tf.app.flags
flags.DEFINE_integer("steps", 50, "training steps")
FLAGS = flags.FLAGS

BANDS, FRAMES, BATCH = 12, 10, 16


def spectra(rng):
    rises = rng.integers(0, 2, BATCH)
    start = rng.uniform(3, BANDS - 4, BATCH)
    slope = rng.uniform(0.2, 0.5, BATCH) * np.where(rises, 1, -1)
    centre = (start[:, None] + slope[:, None] * (np.arange(FRAMES) - FRAMES / 2))[:, :, None]
    power = np.exp(-((np.arange(BANDS) - centre) ** 2)) + 0.1 * rng.normal(size=(BATCH, FRAMES, BANDS))
    return power.astype(np.float32), rises


features = tf.placeholder(tf.float32, [None, FRAMES, BANDS], name="features")
labels = tf.placeholder(tf.int32, [None], name="labels")
cell = tf.contrib.rnn.GridLSTMCell(
    num_units=6,
    use_peepholes=True,
    share_time_frequency_weights=True,
    cell_clip=10.0,
    feature_size=4,
    frequency_skip=2,
    num_frequency_blocks=[5],
    couple_input_forget_gates=True,
)
outputs, state = tf.nn.dynamic_rnn(cell, features, dtype=tf.float32)
logits = tf.layers.dense(tf.concat(tf.contrib.framework.nest.flatten(state), 1), 2, name="logits")
loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
train_op = tf.train.MomentumOptimizer(0.2, 0.9).minimize(loss)
accuracy = tf.reduce_mean(tf.cast(tf.nn.in_top_k(logits, labels, 1), tf.float32))

rng, losses = np.random.default_rng(3), []
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for _ in range(FLAGS.steps):
        x, y = spectra(rng)
        losses.append(float(sess.run([loss, train_op], {features: x, labels: y})[0]))
    if FLAGS.steps == 50:
        x, y = spectra(rng)
        score = sess.run(accuracy, {features: x, labels: y})
        assert score > 0.8, (score, losses)
print("losses:", json.dumps(losses))
