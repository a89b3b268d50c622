"""A notebook's chapter in one file: cells by hand, unrolled and dynamic, forecasts, a saved model that goes on."""
# tensorflow.compat.v1 runs this.

import json
import os

import numpy as np
import tensorflow as tf

tf.app.flags.DEFINE_integer("steps", 120, "training steps of the forecast")
FLAGS = tf.app.flags.FLAGS


def reset_graph(seed=42):
    tf.reset_default_graph()
    tf.set_random_seed(seed)
    np.random.seed(seed)


# Basic RNN by hand

reset_graph()
n_inputs, n_neurons = 3, 5
X0 = tf.placeholder(tf.float32, [None, n_inputs])
X1 = tf.placeholder(tf.float32, [None, n_inputs])
Wx = tf.Variable(tf.random_normal(shape=[n_inputs, n_neurons], dtype=tf.float32))
Wy = tf.Variable(tf.random_normal(shape=[n_neurons, n_neurons], dtype=tf.float32))
b = tf.Variable(tf.zeros([1, n_neurons], dtype=tf.float32))
Y0 = tf.tanh(tf.matmul(X0, Wx) + b)
Y1 = tf.tanh(tf.matmul(Y0, Wy) + tf.matmul(X1, Wx) + b)
init = tf.global_variables_initializer()
X0_batch = np.array([[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 0, 1]])
X1_batch = np.array([[9, 8, 7], [0, 0, 0], [6, 5, 4], [3, 2, 1]])
with tf.Session() as sess:
    init.run()
    Y0_val, Y1_val = sess.run([Y0, Y1], feed_dict={X0: X0_batch, X1: X1_batch})
assert Y0_val.shape == Y1_val.shape == (4, 5)

# Packing sequences, and their lengths

reset_graph()
n_steps = 2
X = tf.placeholder(tf.float32, [None, n_steps, n_inputs])
seq_length = tf.placeholder(tf.int32, [None])
basic_cell = tf.nn.rnn_cell.BasicRNNCell(num_units=n_neurons)
X_seqs = tf.unstack(tf.transpose(X, perm=[1, 0, 2]))
output_seqs, states = tf.nn.static_rnn(basic_cell, X_seqs, dtype=tf.float32)
outputs = tf.transpose(tf.stack(output_seqs), perm=[1, 0, 2])
dynamic, states_at = tf.nn.dynamic_rnn(basic_cell, X, dtype=tf.float32, sequence_length=seq_length)
X_batch = np.stack([X0_batch, X1_batch], 1).astype(np.float32)
X_batch[1, 1] = 0.0
with tf.Session() as sess:
    tf.global_variables_initializer().run()
    one, other, last = sess.run([outputs, dynamic, states_at], {X: X_batch, seq_length: [2, 1, 2, 2]})
assert np.allclose(one[[0, 2, 3]], other[[0, 2, 3]], atol=1e-6)
assert not other[1, 1].any()
assert np.allclose(last[1], other[1, 0])

# Time series

t_min, t_max, resolution = 0, 30, 0.1


def time_series(t):
    return t * np.sin(t) / 3 + 2 * np.sin(t * 5)


rng = np.random.default_rng(0)


def next_batch(batch_size, n_steps):
    t0 = rng.random((batch_size, 1)) * (t_max - t_min - n_steps * resolution)
    ys = time_series(t0 + np.arange(0.0, n_steps + 1) * resolution)
    return ys[:, :-1].reshape(-1, n_steps, 1), ys[:, 1:].reshape(-1, n_steps, 1)


reset_graph()
n_steps, n_inputs, n_neurons, n_outputs, learning_rate = 20, 1, 30, 1, 0.01
X = tf.placeholder(tf.float32, [None, n_steps, n_inputs])
y = tf.placeholder(tf.float32, [None, n_steps, n_outputs])
cell = tf.nn.rnn_cell.MultiRNNCell(
    [tf.nn.rnn_cell.BasicRNNCell(num_units=n_neurons, activation=tf.nn.relu), tf.nn.rnn_cell.LSTMCell(n_neurons)]
)
rnn_outputs, states = tf.nn.dynamic_rnn(cell, X, dtype=tf.float32)
stacked_rnn_outputs = tf.reshape(rnn_outputs, [-1, n_neurons])
stacked_outputs = tf.layers.dense(stacked_rnn_outputs, n_outputs)
outputs = tf.reshape(stacked_outputs, [-1, n_steps, n_outputs])
loss = tf.reduce_mean(tf.square(outputs - y))
training_op = tf.train.AdamOptimizer(learning_rate=learning_rate).minimize(loss)
init = tf.global_variables_initializer()
saver = tf.train.Saver()

losses = []
with tf.Session() as sess:
    init.run()
    for iteration in range(FLAGS.steps):
        X_batch, y_batch = next_batch(32, n_steps)
        mse, _ = sess.run([loss, training_op], feed_dict={X: X_batch, y: y_batch})
        losses.append(float(mse))
        if iteration % 50 == 0:
            print(iteration, "\tMSE:", loss.eval(feed_dict={X: X_batch, y: y_batch}))
    saver.save(sess, os.path.join(os.getcwd(), "my_time_series_model"))

# Generating a creative new sequence

with tf.Session() as sess:
    saver.restore(sess, os.path.join(os.getcwd(), "my_time_series_model"))
    sequence = list(time_series(np.arange(n_steps) * resolution))
    for _ in range(10):
        X_batch = np.array(sequence[-n_steps:]).reshape(1, n_steps, 1)
        y_pred = sess.run(outputs, feed_dict={X: X_batch})
        sequence.append(y_pred[0, -1, 0])
assert np.isfinite(sequence).all()
if FLAGS.steps == 120:
    assert np.mean(losses[-10:]) < 0.2 * losses[0], losses
print("losses:", json.dumps(losses))
