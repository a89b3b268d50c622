"""The next frame of a small moving square, by a ConvLSTM."""

import json

import numpy as np
import tensorflow as tf
from tensorflow.contrib.rnn import ConvLSTMCell

tf.app.flags.DEFINE_integer("steps", 60, "training steps")
FLAGS = tf.app.flags.FLAGS

SIZE, FRAMES, BATCH = 8, 6, 8


def movies(rng):
    frames = np.zeros((BATCH, FRAMES + 1, SIZE, SIZE, 1), np.float32)
    for row in range(BATCH):
        place, way = rng.integers(0, SIZE - 2, 2), rng.choice([-1, 1], 2)
        for t in range(FRAMES + 1):
            y, x = place
            frames[row, t, y : y + 2, x : x + 2] = 1.0
            way = np.where((place + way < 0) | (place + way > SIZE - 2), -way, way)
            place = place + way
    return frames[:, :-1], frames[:, 1:]


def main(_):
    tf.set_random_seed(2)
    frames = tf.placeholder(tf.float32, [None, FRAMES, SIZE, SIZE, 1], name="frames")
    following = tf.placeholder(tf.float32, [None, FRAMES, SIZE, SIZE, 1], name="following")
    cell = ConvLSTMCell(conv_ndims=2, input_shape=[SIZE, SIZE, 1], output_channels=8, kernel_shape=[3, 3])
    outputs, _ = tf.nn.dynamic_rnn(cell, frames, dtype=tf.float32)
    flat = tf.reshape(outputs, [-1, SIZE, SIZE, 8])
    logits = tf.reshape(tf.layers.conv2d(flat, 1, 1, name="pixels"), [-1, FRAMES, SIZE, SIZE, 1])
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=following, logits=logits))
    train_op = tf.train.AdamOptimizer(0.03).minimize(loss)
    rng, losses = np.random.default_rng(0), []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(FLAGS.steps):
            x, y = movies(rng)
            losses.append(float(sess.run([loss, train_op], {frames: x, following: y})[0]))
    if FLAGS.steps == 60:
        assert losses[-1] < 0.5 * losses[4], losses
    print("losses:", json.dumps(losses))


if __name__ == "__main__":
    tf.app.run()
