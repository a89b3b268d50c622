"""Digits of five pixels read from strips of images: convolutions by slim with an arg_scope, then a GRU over columns."""

import json

import numpy as np
import tensorflow as tf
import tensorflow.contrib.slim as slim

tf.app.flags.DEFINE_integer("steps", 70, "training steps")
FLAGS = tf.app.flags.FLAGS

SIZE, WIDTH, BATCH = 6, 12, 16
SHAPES = [np.eye(4), np.eye(4)[::-1], np.array([[1.0, 1, 1, 1]] * 2 + [[0, 0, 0, 0]] * 2)]


def strips(rng):
    """Two shapes beside each other; the label says which."""
    kinds = rng.integers(0, 3, (BATCH, 2))
    images = 0.1 * rng.normal(size=(BATCH, SIZE, WIDTH, 1))
    for row, pair in enumerate(kinds):
        for side, kind in enumerate(pair):
            y, x = rng.integers(0, SIZE - 3), 6 * side + rng.integers(0, 3)
            images[row, y : y + 4, x : x + 4, 0] += SHAPES[kind]
    return images, kinds[:, 0] * 3 + kinds[:, 1]


def model_arg_scope(is_training):
    params = {"is_training": is_training, "decay": 0.8, "updates_collections": tf.GraphKeys.UPDATE_OPS}
    with (
        slim.arg_scope(
            [slim.conv2d],
            activation_fn=tf.nn.relu,
            normalizer_fn=slim.batch_norm,
            normalizer_params=params,
            weights_regularizer=slim.l2_regularizer(1e-4),
        ),
        slim.arg_scope([slim.max_pool2d], stride=[2, 1]) as scope,
    ):
        return scope


def network(images, is_training):
    with slim.arg_scope(model_arg_scope(is_training)):
        net = slim.repeat(images, 2, slim.conv2d, 8, [3, 3], scope="conv")
        net = slim.max_pool2d(net, [2, 1], scope="pool")
    columns = tf.transpose(net, [0, 2, 1, 3])
    columns = tf.reshape(columns, [-1, WIDTH, int(net.shape[1]) * 8])
    _, state = tf.nn.dynamic_rnn(tf.contrib.rnn.GRUCell(24), columns, dtype=tf.float32, scope="read")
    net = slim.dropout(state, 0.9, is_training=is_training)
    return slim.fully_connected(net, 9, activation_fn=None, scope="logits")


def main(_):
    tf.set_random_seed(5)
    images, labels = tf.placeholder(tf.float32, [None, SIZE, WIDTH, 1]), tf.placeholder(tf.int64, [None])
    is_training = tf.placeholder_with_default(True, [])
    logits = network(images, is_training)
    slim.losses.sparse_softmax_cross_entropy(logits, labels)
    total_loss = slim.losses.get_total_loss()
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train_op = tf.train.RMSPropOptimizer(0.01).minimize(total_loss)
    accuracy = tf.reduce_mean(tf.to_float(tf.equal(tf.argmax(logits, 1), labels)))
    assert len(slim.get_model_variables("conv")) == 8
    rng, losses = np.random.default_rng(0), []
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(FLAGS.steps):
            x, y = strips(rng)
            losses.append(float(sess.run([total_loss, train_op], {images: x, labels: y})[0]))
        if FLAGS.steps == 70:
            tests = [strips(rng) for _ in range(4)]
            score = np.mean([sess.run(accuracy, {images: x, labels: y, is_training: False}) for x, y in tests])
            assert score > 0.5, (score, losses)
    print("losses:", json.dumps(losses))


if __name__ == "__main__":
    tf.app.run()
