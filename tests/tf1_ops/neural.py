"""`tf.nn`: activations, losses, and the rest."""

from __future__ import annotations

import numpy as np

from tests.tf1_ops.call import Calls, floats, ints

CALLS = Calls()
add = CALLS.add

ACTIVATIONS = ["relu", "relu6", "elu", "selu", "softplus", "softsign", "swish", "leaky_relu", "sigmoid", "tanh"]
ACTIVATIONS += ["softmax", "log_softmax"]
for _name in ACTIVATIONS:
    _call = lambda tf, x, _name=_name: getattr(tf.nn, _name)(x)  # noqa: E731
    add(_name, _call, floats(2, 3))
    add(f"{_name} of large numbers", _call, [[-30.0, 0.0, 30.0]])
    add(f"{_name} of float64", _call, np.array([0.5, -1.5]))
    add(f"{_name} of nothing", _call, floats(0, 3))
    add(f"{_name} of a list", lambda tf, _name=_name: getattr(tf.nn, _name)([1.0, -2.0]))
    add(f"{_name} of integers", _call, ints(3))
    add(f"{_name} of a scalar", _call, 0.5)
add("relu at its corners", lambda tf, x: [tf.nn.relu(x), tf.nn.relu6(x), tf.nn.elu(x)], [-1.0, 0.0, 6.0, 7.0])
add("leaky_relu with a slope", lambda tf, x: tf.nn.leaky_relu(x, 0.01), floats(2, 3))
for _name in ["softmax", "log_softmax"]:
    for _axis in [0, 1, -1]:
        add(f"{_name} along {_axis}", lambda tf, x, a=_axis, _name=_name: getattr(tf.nn, _name)(x, a), floats(2, 3, 4))
    add(f"{_name} by the old name", lambda tf, x, _name=_name: getattr(tf.nn, _name)(x, dim=0), floats(2, 3))
    add(f"{_name} past the end", lambda tf, x, _name=_name: getattr(tf.nn, _name)(x, 2), floats(2, 3))
add("l2_normalize", lambda tf, x: tf.nn.l2_normalize(x, 1), floats(2, 3))
add("l2_normalize of all", lambda tf, x: tf.nn.l2_normalize(x), floats(2, 3))
add("l2_normalize by the old name", lambda tf, x: tf.nn.l2_normalize(x, dim=[0, 1]), floats(2, 3))
add("l2_normalize of zero", lambda tf, x: tf.nn.l2_normalize(x, 0), [0.0, 0.0])
add("l2_loss", lambda tf, x: tf.nn.l2_loss(x), floats(2, 3))
add("bias_add", lambda tf, x, b: tf.nn.bias_add(x, b), floats(2, 3), floats(3))
add("bias_add of sequences", lambda tf, x, b: tf.nn.bias_add(x, b), floats(2, 4, 3), floats(3))
add("bias_add of another size", lambda tf, x, b: tf.nn.bias_add(x, b), floats(2, 3), floats(4))
add("bias_add of a matrix", lambda tf, x, b: tf.nn.bias_add(x, b), floats(2, 3), floats(2, 3))
add("bias_add of one", lambda tf, x, b: tf.nn.bias_add(x, b), floats(2, 3), floats(1))
add("xw_plus_b", lambda tf, x, w, b: tf.nn.xw_plus_b(x, w, b), floats(2, 3), floats(3, 4), floats(4))
for _axes in [[0], [1], [0, 1], [-1]]:
    for _keep in [False, True]:
        add(f"moments {_axes} keep_dims={_keep}", lambda tf, x, a=_axes, k=_keep: tf.nn.moments(x, a, keep_dims=k), floats(3, 4))  # fmt: skip  # noqa: E501
_STATISTICS = floats(3), floats(3, low=0.1, seed=1)
add("batch_normalization", lambda tf, x, m, v, o, s: tf.nn.batch_normalization(x, m, v, o, s, 1e-3), floats(4, 3), *_STATISTICS, floats(3, seed=2), floats(3, seed=3))  # fmt: skip  # noqa: E501
add("batch_normalization without scale", lambda tf, x, m, v, o: tf.nn.batch_normalization(x, m, v, o, None, 1e-3), floats(4, 3), *_STATISTICS, floats(3, seed=2))  # fmt: skip  # noqa: E501
add("batch_normalization without both", lambda tf, x, m, v: tf.nn.batch_normalization(x, m, v, None, None, 1e-3), floats(4, 3), *_STATISTICS)  # fmt: skip  # noqa: E501

_P = np.array([[0.2, 0.5, 0.3], [1.0, 0.0, 0.0]], np.float32)


def _sparse(tf, labels, logits):
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)


def _soft(tf, labels, logits, **how):
    return tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=logits, **how)


def _soft_v2(tf, labels, logits, **how):
    return tf.nn.softmax_cross_entropy_with_logits_v2(labels=labels, logits=logits, **how)


def _logistic(tf, labels, logits):
    return tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)


add("sparse_softmax_cross_entropy", _sparse, [2, 0], floats(2, 3))
add("sparse_softmax_cross_entropy of int64", _sparse, np.array([2, 0]), floats(2, 3))
add("sparse_softmax_cross_entropy of sequences", _sparse, ints(2, 4, low=0, high=3), floats(2, 4, 3))
add("sparse_softmax_cross_entropy of one", _sparse, 1, floats(3))
add("sparse_softmax_cross_entropy of large logits", _sparse, [0, 1], [[1000.0, -1000.0], [1000.0, -1000.0]])
add("sparse_softmax_cross_entropy outside", _sparse, [2, 3], floats(2, 3))
add("sparse_softmax_cross_entropy below", _sparse, [-1, 0], floats(2, 3))
add("sparse_softmax_cross_entropy of another rank", _sparse, ints(2, 1, low=0, high=3), floats(2, 3))
add("sparse_softmax_cross_entropy of another number", _sparse, [0, 1, 2], floats(2, 3))
add("sparse_softmax_cross_entropy of floats", _sparse, [0.0, 1.0], floats(2, 3))
add("sparse_softmax_cross_entropy by position", lambda tf, a, b: tf.nn.sparse_softmax_cross_entropy_with_logits(a, b), [0], floats(1, 3))  # fmt: skip  # noqa: E501
add("softmax_cross_entropy", _soft, _P, floats(2, 3))
add("softmax_cross_entropy along 0", lambda tf, p, x: _soft(tf, p, x, dim=0), _P, floats(2, 3))
add("softmax_cross_entropy of sequences", _soft, floats(2, 4, 3, low=0.0), floats(2, 4, 3))
add("softmax_cross_entropy of another shape", _soft, _P, floats(2, 4))
add("softmax_cross_entropy stretched", _soft, _P[:1], floats(2, 3))
add("softmax_cross_entropy stretched along another axis", _soft, floats(3, 2, low=0.0), floats(3, 3, 2))
add("softmax_cross_entropy of large logits", _soft, [[1.0, 0.0]], [[1000.0, -1000.0]])
add("softmax_cross_entropy of integers", _soft, [[1, 0, 0]], floats(1, 3))
add("softmax_cross_entropy_v2", _soft_v2, _P, floats(2, 3))
add("softmax_cross_entropy_v2 along 0", lambda tf, p, x: _soft_v2(tf, p, x, axis=0), _P, floats(2, 3))
add("sigmoid_cross_entropy", _logistic, _P, floats(2, 3))
add("sigmoid_cross_entropy of large logits", _logistic, [1.0, 0.0, 1.0], [100.0, 100.0, 0.0])
add("sigmoid_cross_entropy of another shape", _logistic, floats(3), floats(2, 3))
add("sigmoid_cross_entropy of two dtypes", _logistic, ints(3, low=0, high=2), floats(3))
add("weighted_cross_entropy", lambda tf, z, x: tf.nn.weighted_cross_entropy_with_logits(labels=z, logits=x, pos_weight=2.0), _P, floats(2, 3))  # fmt: skip  # noqa: E501

add("in_top_k", lambda tf, p, t: tf.nn.in_top_k(p, t, 2), floats(3, 4), [0, 1, 3])
add("in_top_k with ties", lambda tf, p, t: tf.nn.in_top_k(p, t, 1), [[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]], [1, 2])
add("in_top_k outside", lambda tf, p, t: tf.nn.in_top_k(p, t, 2), floats(2, 4), [4, -1])
add("top_k", lambda tf, x: tf.nn.top_k(x, 2), floats(3, 4))
add("top_k of a vector", lambda tf, x: tf.nn.top_k(x), floats(4))
add("top_k with ties", lambda tf, x: tf.nn.top_k(x, 3), [[1, 2, 2, 1], [3, 3, 3, 3]])
add("top_k of too many", lambda tf, x: tf.nn.top_k(x, 5), floats(3, 4))
add("top_k by a tensor", lambda tf, x, k: tf.nn.top_k(x, k), floats(3, 4), 2)
add("embedding_lookup", lambda tf, w, i: tf.nn.embedding_lookup(w, i), floats(5, 3), [[0, 4], [2, 2]])
add("embedding_lookup of a list", lambda tf, w, i: tf.nn.embedding_lookup([w], i), floats(5, 3), [1])
add("embedding_lookup outside", lambda tf, w, i: tf.nn.embedding_lookup(w, i), floats(5, 3), [5])
add("embedding_lookup in parts", lambda tf, w, v, i: tf.nn.embedding_lookup([w, v], i), floats(3, 2), floats(2, 2), [0, 4, 1])  # fmt: skip  # noqa: E501
add("zero_fraction", lambda tf, x: tf.nn.zero_fraction(x), [0.0, 1.0, 0.0, 2.0])
add("dropout of nothing", lambda tf, x: tf.nn.dropout(x, 1.0), floats(2, 3))
add("dropout by rate", lambda tf, x: tf.nn.dropout(x, rate=0.0), floats(2, 3))
add("dropout of integers", lambda tf, x: tf.nn.dropout(x, 0.5), ints(2, 3))
add("dropout by no probability", lambda tf, x: tf.nn.dropout(x, 1.5), floats(2, 3))
add("dropout by two", lambda tf, x: tf.nn.dropout(x, 0.5, rate=0.5), floats(2, 3))
add("dropout by neither", lambda tf, x: tf.nn.dropout(x), floats(2, 3))
