"""A forecast of a noisy wave, trained by contrib.layers.optimize_loss with clipping and a rate that decays."""

import json

import numpy as np
import tensorflow as tf
from tensorflow.contrib import layers

tf.app.flags.DEFINE_integer("steps", 60, "training steps")
FLAGS = tf.app.flags.FLAGS

TIME, BATCH = 20, 16


def waves(rng):
    phase, speed = rng.uniform(0, 6, (BATCH, 1)), rng.uniform(0.2, 0.5, (BATCH, 1))
    values = np.sin(phase + speed * np.arange(TIME + 1)) + 0.05 * rng.normal(size=(BATCH, TIME + 1))
    return values[:, :-1, None], values[:, 1:, None]


def model_fn(features, targets):
    cells = [tf.contrib.rnn.LSTMBlockCell(16), tf.contrib.rnn.UGRNNCell(16)]
    outputs, _ = tf.nn.dynamic_rnn(tf.nn.rnn_cell.MultiRNNCell(cells), features, dtype=tf.float32)
    predictions = layers.fully_connected(
        outputs, 1, activation_fn=None, weights_regularizer=layers.l2_regularizer(1e-4), scope="prediction"
    )
    loss = tf.losses.mean_squared_error(targets, predictions) + tf.losses.get_regularization_loss()
    train_op = layers.optimize_loss(
        loss,
        tf.contrib.framework.get_or_create_global_step(),
        learning_rate=0.05,
        optimizer="Adam",
        clip_gradients=1.0,
        learning_rate_decay_fn=lambda rate, step: tf.train.exponential_decay(rate, step, 20, 0.7, staircase=True),
        gradient_multipliers={"prediction/weights:0": 2.0},
        summaries=["loss", "learning_rate", "gradients", "global_gradient_norm"],
    )
    return predictions, train_op


def main(_):
    tf.set_random_seed(6)
    features = tf.placeholder(tf.float32, [None, TIME, 1])
    targets = tf.placeholder(tf.float32, [None, TIME, 1])
    _, train_op = model_fn(features, targets)
    rng, losses = np.random.default_rng(0), []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(FLAGS.steps):
            x, y = waves(rng)
            losses.append(float(sess.run(train_op, {features: x, targets: y})))
        assert sess.run(tf.train.get_global_step()) == FLAGS.steps
    if FLAGS.steps == 60:
        assert losses[-1] < 0.1 * losses[0], losses
    print("losses:", json.dumps(losses))


if __name__ == "__main__":
    tf.app.run()
