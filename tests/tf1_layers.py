"""Small graphs of layers, for TensorFlow 1: the tests run them here, `conformance/tf1_training.py` on TensorFlow.

Each takes the module that it calls `tf`, and returns arrays by name; names of variables come as an array of strings.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def _drawn(*shape: int) -> Any:
    return np.random.RandomState(sum(shape)).uniform(-1, 1, shape).astype("float32")


def _named(variables: Any) -> Any:
    return np.array([variable.name for variable in variables])


def dense_names(tf: Any) -> dict[str, Any]:
    """How layers, named and not, in scopes and out of them, name their variables."""
    x = tf.placeholder(tf.float32, [None, 3])
    tf.layers.dense(x, 4)
    tf.layers.dense(x, 4, use_bias=False)
    tf.layers.dense(x, 4, name="named")
    tf.layers.dense(x, 4, name="named", reuse=True)
    with tf.variable_scope("around"):
        tf.layers.dense(x, 4)
        tf.layers.dense(x, 4)
    with tf.variable_scope("around", reuse=True):
        tf.layers.dense(x, 4)
    with tf.variable_scope("around", reuse=tf.AUTO_REUSE):
        tf.layers.dense(x, 4, name="other")
        tf.layers.dense(x, 4, name="other")
    layer = tf.layers.Dense(2, name="named")
    layer(x)
    layer(x)
    built = tf.layers.Dense(2)
    built.build([None, 5])
    with tf.name_scope("operations"):
        tf.layers.dense(x, 4)
    tf.layers.batch_normalization(x)
    tf.layers.batch_normalization(x, center=False, name="plain")
    return {
        "order": _named(tf.global_variables()),
        "trainable": _named(tf.trainable_variables()),
        "layer": _named(layer.variables),
    }


def dense_values(tf: Any) -> dict[str, Any]:
    """What a layer computes, its gradients, and the losses of its regularisers."""
    x = tf.constant(_drawn(2, 3, 4))
    made = tf.layers.dense(
        x,
        5,
        tf.tanh,
        kernel_initializer=tf.constant_initializer(_drawn(4, 5)),
        bias_initializer=tf.constant_initializer(0.25),
        kernel_regularizer=lambda weight: 0.5 * tf.reduce_sum(tf.square(weight)),
        bias_regularizer=lambda weight: tf.reduce_sum(weight),
    )
    total = tf.reduce_sum(tf.square(made)) + tf.losses.get_regularization_loss()
    slopes = tf.gradients(total, [x, *tf.trainable_variables()])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        values = session.run([made, total, *slopes])
    return {f"value_{k}": value for k, value in enumerate(values)}


def _normalized(tf: Any, shape: tuple[int, ...], **arguments: Any) -> dict[str, Any]:
    x = tf.placeholder(tf.float32, [None, *shape[1:]])
    training = tf.placeholder(tf.bool, [])
    made = tf.layers.batch_normalization(x, training=training, momentum=0.9, **arguments)
    updates = tf.get_default_graph().get_collection(tf.GraphKeys.UPDATE_OPS)
    slopes = tf.gradients(tf.reduce_sum(made * made * x), [x, *tf.trainable_variables()])
    given = _drawn(*shape)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        first, _ = session.run([[made, *slopes], updates], {x: given, training: True})
        session.run(updates, {x: given + 1, training: True})
        session.run(updates, {x: given + 7, training: False})
        later = session.run([made, *slopes, *tf.global_variables()], {x: given, training: False})
    return {f"value_{k}": value for k, value in enumerate([*first, *later])}


def normalized_rows(tf: Any) -> dict[str, Any]:
    """Batch normalisation of vectors, training and not."""
    return _normalized(tf, (5, 3))


def normalized_sequences(tf: Any) -> dict[str, Any]:
    """Batch normalisation of sequences, along another axis."""
    return _normalized(tf, (5, 3, 2), axis=1, scale=False, epsilon=0.1)


def normalized_images(tf: Any) -> dict[str, Any]:
    """Batch normalisation of images."""
    return _normalized(tf, (2, 4, 3, 2))


def flattened(tf: Any) -> dict[str, Any]:
    """Rows of what has more axes, and of what has one."""
    shapes = [[None, 3, 4], [2, 3, 4], [None, None, 4], [5]]
    made = [tf.layers.flatten(tf.placeholder(tf.float32, shape)) for shape in shapes]
    return {"shapes": np.array([str(each.shape.as_list()) for each in made])}


def metrics(tf: Any) -> dict[str, Any]:
    """Means and accuracies over three batches."""
    values, weights = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.float32, [None])
    labels, found = tf.placeholder(tf.int64, [None, 1]), tf.placeholder(tf.int64, [None])
    pairs = [
        tf.metrics.mean(values),
        tf.metrics.mean(values, weights, name="weighted"),
        tf.metrics.accuracy(labels, found),
        tf.metrics.accuracy(labels, found),
    ]
    made = []
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        made.append(session.run([value for value, _ in pairs]))
        for k in range(3):
            fed = {
                values: _drawn(k + 1),
                weights: np.arange(k + 1.0) * k,
                labels: np.arange(k + 1)[:, None],
                found: np.arange(k + 1) % 2,
            }
            made.append(session.run([update for _, update in pairs], fed))
            made.append(session.run([value for value, _ in pairs]))
        kept = session.run(tf.local_variables())
    return {"values": np.array(made), "kept": np.array(kept), "order": _named(tf.local_variables())}


ALL = [
    dense_names,
    dense_values,
    normalized_rows,
    normalized_sequences,
    normalized_images,
    flattened,
    metrics,
]
