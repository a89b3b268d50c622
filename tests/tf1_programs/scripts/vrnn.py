"""A variational recurrent network: the cell puts out what a step believed before and after it saw the data."""
# tensorflow.compat.v1 runs this.

import json

import numpy as np
import tensorflow as tf

tf.app.flags.DEFINE_integer("steps", 80, "training steps")
FLAGS = tf.app.flags.FLAGS
n_x, n_h, n_z, n_steps, n_rows = 2, 16, 3, 10, 16


def linear(x, size, name):
    with tf.variable_scope(name):
        matrix = tf.get_variable(
            "matrix", [x.get_shape()[1], size], initializer=tf.random_normal_initializer(stddev=0.1)
        )
        bias = tf.get_variable("bias", [size], initializer=tf.constant_initializer(0.0))
        return tf.matmul(x, matrix) + bias


class VRNNCell(tf.nn.rnn_cell.RNNCell):
    """Inputs are the data and the noise; the output is a tuple, whatever output_size says."""

    def __init__(self):
        super(VRNNCell, self).__init__()
        self.lstm = tf.nn.rnn_cell.LSTMCell(n_h)

    @property
    def state_size(self):
        return self.lstm.state_size

    @property
    def output_size(self):
        return n_h

    def call(self, inputs, state):
        x, eps = tf.split(inputs, [n_x, n_z], 1)
        c, h = state
        prior = tf.nn.relu(linear(h, n_h, "prior"))
        prior_mu, prior_sigma = linear(prior, n_z, "prior_mu"), tf.nn.softplus(linear(prior, n_z, "prior_sigma"))
        phi_x = tf.nn.relu(linear(x, n_h, "phi_x"))
        enc = tf.nn.relu(linear(tf.concat([phi_x, h], 1), n_h, "enc"))
        enc_mu, enc_sigma = linear(enc, n_z, "enc_mu"), tf.nn.softplus(linear(enc, n_z, "enc_sigma"))
        phi_z = tf.nn.relu(linear(enc_mu + enc_sigma * eps, n_h, "phi_z"))
        dec = tf.nn.relu(linear(tf.concat([phi_z, h], 1), n_h, "dec"))
        dec_mu, dec_sigma = linear(dec, n_x, "dec_mu"), tf.nn.softplus(linear(dec, n_x, "dec_sigma"))
        _, state2 = self.lstm(tf.concat([phi_x, phi_z], 1), (c, h))
        return (enc_mu, enc_sigma, dec_mu, dec_sigma, prior_mu, prior_sigma), state2


x = tf.placeholder(tf.float32, [n_rows, n_steps, n_x])
eps = tf.placeholder(tf.float32, [n_rows, n_steps, n_z])
tf.set_random_seed(2)
with tf.variable_scope("vrnn"):
    cell = VRNNCell()
    inputs = tf.unstack(tf.concat([x, eps], 2), axis=1)
    outputs, last_state = tf.nn.static_rnn(cell, inputs, initial_state=cell.zero_state(n_rows, tf.float32))
names = ["enc_mu", "enc_sigma", "dec_mu", "dec_sigma", "prior_mu", "prior_sigma"]
enc_mu, enc_sigma, dec_mu, dec_sigma, prior_mu, prior_sigma = [
    tf.stack([step[k] for step in outputs], 1, name=name) for k, name in enumerate(names)
]

small = 1e-3
nll = tf.reduce_sum(
    0.5 * tf.square((x - dec_mu) / (dec_sigma + small)) + tf.log(dec_sigma + small) + 0.5 * np.log(2 * np.pi), [1, 2]
)
kl = tf.reduce_sum(
    tf.log(prior_sigma + small)
    - tf.log(enc_sigma + small)
    + (tf.square(enc_sigma) + tf.square(enc_mu - prior_mu)) / (2 * tf.square(prior_sigma + small))
    - 0.5,
    [1, 2],
)
cost = tf.reduce_mean(nll + kl) / n_steps
tvars = tf.trainable_variables()
grads, _ = tf.clip_by_global_norm(tf.gradients(cost, tvars), 1.0)
train_op = tf.train.AdamOptimizer(0.01).apply_gradients(zip(grads, tvars))

rng = np.random.default_rng(0)
losses = []
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for _ in range(FLAGS.steps):
        phase = rng.uniform(0, 2 * np.pi, (n_rows, 1)) + 0.6 * np.arange(n_steps)
        wave = np.stack([np.sin(phase), np.cos(phase)], 2) + 0.05 * rng.normal(size=(n_rows, n_steps, n_x))
        loss, _ = sess.run([cost, train_op], {x: wave, eps: rng.normal(size=(n_rows, n_steps, n_z))})
        losses.append(float(loss))
if FLAGS.steps == 80:
    assert losses[-1] < 0.6 * losses[0], losses
print("losses:", json.dumps(losses))
