"""A recurrent layer in a `while_loop` of its own, with TensorArrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import by_hand as np_rnn
from .program import Arrays, Generator, Program, normal

n_inputs, n_neurons = 3, 4


def build(tf: Any) -> Program:
    x = tf.placeholder(tf.float32, [None, None, n_inputs], name="x")  # time comes first
    target = tf.placeholder(tf.float32, [None, None, n_neurons], name="target")

    w = tf.get_variable("W", [n_inputs, n_neurons], initializer=tf.random_normal_initializer(stddev=0.3))
    u = tf.get_variable("U", [n_neurons, n_neurons], initializer=tf.orthogonal_initializer())
    b = tf.get_variable("b", [n_neurons], initializer=tf.constant_initializer(0.0))

    time_steps, batch_size = tf.shape(x)[0], tf.shape(x)[1]
    inputs_ta = tf.TensorArray(tf.float32, size=time_steps).unstack(x)
    outputs_ta = tf.TensorArray(tf.float32, size=time_steps)
    h0 = tf.zeros(tf.stack([batch_size, n_neurons]))

    def body(t: Any, h: Any, outputs: Any) -> Any:
        h = tf.nn.tanh(tf.matmul(inputs_ta.read(t), w) + tf.matmul(h, u) + b)
        h.set_shape([None, n_neurons])
        return t + 1, h, outputs.write(t, h)

    t_end, h_final, outputs_ta = tf.while_loop(
        cond=lambda t, *_: t < time_steps,
        body=body,
        loop_vars=(tf.constant(0), h0, outputs_ta),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, n_neurons]), tf.TensorShape(None)),
    )
    outputs = outputs_ta.stack(name="outputs")

    loss = tf.reduce_mean(tf.square(outputs - target))
    train = tf.train.AdamOptimizer(0.02).minimize(loss)
    return Program(
        placeholders=dict(x=x, target=target),
        feeds=feeds,
        fetches=dict(outputs=outputs, h_final=h_final, t_end=t_end, loss=loss),
        train=train,
        by_hand=by_hand,
    )


def feeds(rng: Generator) -> Arrays:
    return dict(x=normal(rng, 5, 4, n_inputs), target=0.5 * normal(rng, 5, 4, n_neurons))


def by_hand(variables: Arrays, feeds: Arrays) -> dict[str, Any]:
    h, outputs = np_rnn.zeros(4, n_neurons), []
    for x in feeds["x"]:
        h = np.tanh(x @ variables["W"] + h @ variables["U"] + variables["b"])
        outputs.append(h)
    return dict(outputs=np.stack(outputs), h_final=h, t_end=5, loss=np.mean((outputs - feeds["target"]) ** 2))
