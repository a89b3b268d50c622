"""Small graphs of layers of images, for TensorFlow 1: the tests run them here, `conformance/tf1_training.py` on
TensorFlow. Each takes the module that it calls `tf`, and returns arrays by name.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def _drawn(*shape: int) -> Any:
    return np.random.RandomState(sum(shape)).uniform(-1, 1, shape).astype("float32")


def _trained(tf: Any, x: Any, made: Any, losses: bool = False) -> dict[str, Any]:
    """What a layer computes with variables that their names decide, its gradients, names and static shape."""
    total = tf.reduce_sum(made * made * made)
    if losses:
        total += tf.losses.get_regularization_loss()
    variables = tf.global_variables()
    slopes = tf.gradients(total, [*([] if x is None else [x]), *tf.trainable_variables()])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for each in variables:
            session.run(tf.assign(each, _drawn(*each.shape.as_list())))
        values = session.run([made, total, *slopes])
    found = {f"value_{k}": value for k, value in enumerate(values)}
    found["names"] = np.array([f"{each.name} {each.shape.as_list()}" for each in variables])
    found["shape"] = np.array([str(made.shape.as_list())])
    return found


def conv1d(tf: Any) -> dict[str, Any]:
    """Lines, with zeros before them alone, and an activation."""
    x = tf.constant(_drawn(2, 7, 3))
    made = tf.layers.conv1d(x, 4, 3, padding="causal", dilation_rate=2, activation=tf.tanh)
    return _trained(tf, x, tf.layers.conv1d(made, 2, [2], 2))


def conv2d(tf: Any) -> dict[str, Any]:
    """Images, named and not, with regularisers."""
    x = tf.constant(_drawn(2, 6, 5, 2))
    square = lambda weight: 0.5 * tf.reduce_sum(tf.square(weight))  # noqa: E731
    made = tf.layers.conv2d(x, 3, [3, 2], strides=(2, 1), padding="same", kernel_regularizer=square, name="first")
    made = tf.layers.conv2d(made, 2, 2, use_bias=False, activation=tf.nn.relu)
    return _trained(tf, x, made, losses=True)


def conv2d_shared(tf: Any) -> dict[str, Any]:
    """Two calls of a layer, a call that reuses one, and an object."""
    x = tf.constant(_drawn(1, 4, 4, 2))
    one = tf.layers.conv2d(x, 2, 3, padding="same", name="shared")
    two = tf.layers.conv2d(one, 2, 3, padding="same", name="shared", reuse=True)
    layer = tf.layers.Conv2D(2, 3, padding="same")
    return _trained(tf, x, layer(layer(two)))


def conv3d(tf: Any) -> dict[str, Any]:
    """Volumes."""
    x = tf.constant(_drawn(1, 3, 4, 3, 2))
    return _trained(tf, x, tf.layers.conv3d(x, 2, (2, 3, 2), padding="same"))


def separable(tf: Any) -> dict[str, Any]:
    """Each channel by itself, then all."""
    x = tf.constant(_drawn(2, 5, 4, 3))
    return _trained(tf, x, tf.layers.separable_conv2d(x, 4, 3, depth_multiplier=2, padding="same"))


def transposed(tf: Any) -> dict[str, Any]:
    """Images that grow, by both paddings."""
    x = tf.constant(_drawn(2, 3, 4, 2))
    made = tf.layers.conv2d_transpose(x, 3, 3, strides=2, padding="same")
    return _trained(tf, x, tf.layers.conv2d_transpose(made, 2, [4, 2], strides=(2, 3)))


def transposed_unknown(tf: Any) -> dict[str, Any]:
    """The static shape of images whose sizes are not known."""
    x = tf.placeholder(tf.float32, [None, None, 4, 2])
    made = tf.layers.conv2d_transpose(x, 3, 3, strides=2, padding="same")
    return {"shape": np.array([str(made.shape.as_list())])}


def pooled(tf: Any) -> dict[str, Any]:
    """The largest and the mean, of lines, images and volumes."""
    x = tf.constant(_drawn(2, 5, 4, 3))
    made = [
        tf.layers.max_pooling2d(x, 2, 2),
        tf.layers.average_pooling2d(x, [3, 2], (2, 1), padding="same"),
        tf.layers.max_pooling1d(x[:, :, 0], 2, 2, "same"),
        tf.layers.average_pooling1d(x[:, :, 0], 3, 1),
        tf.layers.max_pooling3d(x[:, None], (1, 2, 2), 2),
        tf.layers.average_pooling3d(x[:, None], (1, 2, 2), 1, padding="same"),
        tf.layers.MaxPooling2D(3, 2, padding="same")(x),
    ]
    return _trained(tf, x, tf.concat([tf.layers.flatten(each) for each in made], 1))


def flat(tf: Any) -> dict[str, Any]:
    """Rows of images with channels first."""
    x = tf.constant(_drawn(2, 3, 4, 2))
    return _trained(tf, x, tf.layers.flatten(x, data_format="channels_first"))


def network(tf: Any) -> dict[str, Any]:
    """A small network as tutorials have it, in a scope."""
    x = tf.placeholder(tf.float32, [None, 64])
    with tf.variable_scope("model"):
        images = tf.reshape(x, [-1, 8, 8, 1])
        made = tf.layers.conv2d(images, 4, 5, padding="same", activation=tf.nn.relu)
        made = tf.layers.max_pooling2d(made, pool_size=[2, 2], strides=2)
        made = tf.layers.batch_normalization(tf.layers.conv2d(made, 3, 3), training=True)
        made = tf.layers.dense(tf.layers.flatten(made), 5)
    loss = tf.losses.sparse_softmax_cross_entropy(labels=[1, 4, 0], logits=made)
    step = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for each in tf.trainable_variables():
            session.run(tf.assign(each, _drawn(*each.shape.as_list())))
        losses = [session.run([loss, step], {x: _drawn(3, 64)})[0] for _ in range(10)]
    names = np.array([f"{each.name} {each.shape.as_list()}" for each in tf.global_variables()])
    return {"losses": np.array(losses), "names": names}


ALL = [
    conv1d,
    conv2d,
    conv2d_shared,
    conv3d,
    separable,
    transposed,
    transposed_unknown,
    pooled,
    flat,
    network,
]
