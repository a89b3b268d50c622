"""Rows of a CSV file, read by queues in threads of their own, and an LSTM that sums them up."""
# tensorflow.compat.v1 runs this.

import json
import os
import tempfile

import numpy as np
import tensorflow as tf

tf.app.flags.DEFINE_integer("steps", 120, "training steps")
FLAGS = tf.app.flags.FLAGS
n_steps, batch_size = 8, 16


def write_files(folder):
    rng = np.random.default_rng(0)
    names = []
    for number in range(2):
        rows = rng.normal(size=(100, n_steps)).round(3)
        names.append(os.path.join(folder, "part-%d.csv" % number))
        with open(names[-1], "w") as file:
            file.write(",".join("x%d" % k for k in range(n_steps)) + ",sum\n")
            for row in rows:
                file.write(",".join("%g" % value for value in [*row, row.sum()]) + "\n")
    return names


def read(names):
    filename_queue = tf.train.string_input_producer(names, shuffle=False)
    reader = tf.TextLineReader(skip_header_lines=1)
    _, line = reader.read(filename_queue)
    *columns, total = tf.decode_csv(line, record_defaults=[[0.0]] * (n_steps + 1))
    return tf.train.batch([tf.stack(columns), total], batch_size=batch_size, capacity=4 * batch_size)


tf.set_random_seed(1)
features, target = read(write_files(tempfile.mkdtemp()))
outputs, state = tf.nn.dynamic_rnn(
    tf.nn.rnn_cell.LSTMCell(16), tf.expand_dims(features, -1), dtype=tf.float32, scope="reader"
)
prediction = tf.squeeze(tf.layers.dense(state.h, 1), 1)
loss = tf.reduce_mean(tf.square(prediction - target))
train_op = tf.train.AdamOptimizer(0.02).minimize(loss)

losses = []
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    coord = tf.train.Coordinator()
    threads = tf.train.start_queue_runners(sess=sess, coord=coord)
    try:
        while len(losses) < FLAGS.steps and not coord.should_stop():
            _, value = sess.run([train_op, loss])
            losses.append(float(value))
    finally:
        coord.request_stop()
        coord.join(threads)
if FLAGS.steps == 120:
    print("at first", np.mean(losses[:10]), "at last", np.mean(losses[-10:]))
    assert np.mean(losses[-10:]) < 0.2 * np.mean(losses[:10]), losses
print("losses:", json.dumps(losses))
