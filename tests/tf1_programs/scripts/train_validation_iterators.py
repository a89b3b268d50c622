"""A forecast of the next value: one iterator that is initialised with training data, and with validation data."""
# tensorflow.compat.v1 runs this.

import json

import numpy as np
import tensorflow as tf

tf.flags.DEFINE_integer("steps", 120, "training steps")
tf.flags.DEFINE_integer("batch_size", 20, "rows in a batch")
FLAGS = tf.flags.FLAGS
n_steps, n_units = 15, 16


def waves(seed, count):
    rng = np.random.default_rng(seed)
    start, speed = rng.uniform(0, 6.28, (count, 1)), rng.uniform(0.3, 0.6, (count, 1))
    rows = np.sin(start + speed * np.arange(n_steps + 1)).astype(np.float32)
    return rows[:, :-1, None], rows[:, 1:, None]


training, validation = waves(0, 200), waves(1, 60)
features = tf.placeholder(tf.float32, [None, n_steps, 1])
labels = tf.placeholder(tf.float32, [None, n_steps, 1])
train_dataset = tf.data.Dataset.from_tensor_slices((features, labels)).batch(FLAGS.batch_size)
valid_dataset = tf.data.Dataset.from_tensor_slices(validation).batch(FLAGS.batch_size)

iterator = tf.data.Iterator.from_structure(train_dataset.output_types, train_dataset.output_shapes)
train_init_op = iterator.make_initializer(train_dataset)
valid_init_op = iterator.make_initializer(valid_dataset)
x, y = iterator.get_next()

tf.set_random_seed(2)
cell = tf.nn.rnn_cell.BasicRNNCell(n_units)
outputs, _ = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32)
forecast = tf.layers.dense(outputs, 1)
loss = tf.losses.mean_squared_error(y, forecast)
train_op = tf.train.AdamOptimizer(0.01).minimize(loss)

losses, scores = [], []
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    while len(losses) < FLAGS.steps:
        sess.run(train_init_op, {features: training[0], labels: training[1]})
        while len(losses) < FLAGS.steps:
            try:
                _, value = sess.run([train_op, loss])
            except tf.errors.OutOfRangeError:
                break
            losses.append(float(value))
        sess.run(valid_init_op)
        found = []
        while True:
            try:
                found.append(sess.run(loss))
            except tf.errors.OutOfRangeError:
                break
        assert len(found) == 3, found
        scores.append(float(np.mean(found)))
print("validation", scores)
if FLAGS.steps == 120:
    assert scores[-1] < 0.5 * scores[0], scores
print("losses:", json.dumps(losses))
