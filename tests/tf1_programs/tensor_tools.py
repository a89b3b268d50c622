"""What stands around the layers of a program: slices, tiles, pads, reversals, reductions and arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import by_hand as np_rnn
from .program import Arrays, Program, normal

n_steps, n_inputs = 4, 3


def build(tf: Any) -> Program:
    x = tf.placeholder(tf.float32, [None, n_steps, n_inputs], name="x")
    lengths = tf.placeholder(tf.int32, [None], name="lengths")
    w = tf.get_variable("w", [n_inputs, 2], dtype=tf.float32)
    scale = tf.get_variable("scale", shape=[], initializer=tf.ones_initializer())

    z = tf.einsum("bti,io->bto", x, w) * scale
    batch = tf.shape(z)[0]
    reversed_z = tf.reverse_sequence(z, lengths, seq_axis=1, batch_axis=0)
    fetches = dict(
        z=z,
        reversed=reversed_z,
        backwards=tf.reverse(z, axis=[1]),
        flipped=z[:, ::-1],
        sliced=tf.slice(z, [0, 1, 0], [-1, 2, -1]),
        shifted=tf.concat([tf.zeros([batch, 1, 2]), z[:, :-1, :]], axis=1),
        padded=tf.pad(z, [[0, 0], [1, 0], [0, 2]]),
        tiled=tf.tile(tf.expand_dims(z[:, 0], 1), [1, 2, 1]),
        row=z[0, ..., tf.newaxis],
        mean=tf.reduce_mean(z, axis=[0, 1], keepdims=True),
        low=tf.reduce_min(z, 2),
        product=tf.reduce_prod(z[:, :2], axis=1),
        log_sum=tf.reduce_logsumexp(z, axis=2),
        log_softmax=tf.nn.log_softmax(z),
        norm=tf.norm(z, axis=2),
        root=tf.sqrt(tf.abs(z) + 1.0) / tf.rsqrt(z**2 + 1.0),
        between=tf.maximum(tf.minimum(z, 0.5), -0.5),
        leaky=tf.nn.leaky_relu(z, alpha=0.1),
        capped=tf.nn.relu6(4.0 * z),
        selu=tf.nn.selu(z - 1.0),  # next to 0, TensorFlow's has few right digits
        soft=tf.nn.softsign(z),
        whole=tf.floor(z),
        half=tf.div(tf.to_float(lengths), 2.0),
        floor_half=lengths // 2,
        odd=tf.mod(lengths, 2),
        true_half=lengths / 2,
        longest=tf.reduce_max(lengths),
        all_long=tf.reduce_all(lengths > 0),
        either=tf.logical_or(lengths < 2, tf.logical_not(tf.less_equal(lengths, 3))),
        where=tf.where(tf.greater_equal(lengths, 3)),
        numbers=tf.range(2, 8, delta=3),
        line=tf.linspace(0.0, 1.0, 5),
        eye=tf.eye(2),
        constant=tf.constant([[1, 2], [3, 4]], dtype=tf.float32, name="constant"),
        size=tf.size(z),
        rank=tf.rank(z),
        batched=tf.matmul(z, z, transpose_b=True),
        negative=-z + 1 - 2 * z,
    )
    squared = [fetches[name] for name in ("reversed", "padded", "tiled", "log_sum", "selu", "root")]
    waves = tf.cos(tf.cast(lengths, tf.float32)) * tf.sin(z[:, 0, 0])
    loss = tf.add_n([tf.reduce_mean(tf.square(each)) for each in squared]) + tf.reduce_mean(waves)
    train = tf.train.GradientDescentOptimizer(0.02).minimize(loss)
    return Program(
        placeholders=dict(x=x, lengths=lengths),
        feeds=lambda rng: dict(x=normal(rng, 3, n_steps, n_inputs), lengths=np.array([3, 1, 4], np.int32)),
        fetches=dict(fetches, loss=loss),
        train=train,
        by_hand=by_hand,
    )


def by_hand(variables: Arrays, feeds: Arrays) -> dict[str, Any]:
    lengths = feeds["lengths"]
    z = feeds["x"] @ variables["w"] * variables["scale"]
    reversed_z = np_rnn.reverse(z, lengths)
    padded = np.pad(z, [[0, 0], [1, 0], [0, 2]])
    tiled = np.repeat(z[:, :1], 2, 1)
    log_sum = np.log(np.exp(z).sum(2))
    low = z - 1
    selu = 1.0507009873554805 * np.where(low > 0, low, 1.6732632423543772 * np.expm1(low))
    root = np.sqrt(np.abs(z) + 1) * np.sqrt(z**2 + 1)
    squares = sum(np.mean(each**2) for each in (reversed_z, padded, tiled, log_sum, selu, root))
    return dict(
        z=z,
        reversed=reversed_z,
        backwards=z[:, ::-1],
        flipped=z[:, ::-1],
        sliced=z[:, 1:3],
        shifted=np.concatenate([np.zeros((3, 1, 2)), z[:, :-1]], 1),
        padded=padded,
        tiled=tiled,
        row=z[0, ..., None],
        mean=z.mean((0, 1), keepdims=True),
        low=z.min(2),
        product=z[:, :2].prod(1),
        log_sum=log_sum,
        log_softmax=z - log_sum[:, :, None],
        norm=np.linalg.norm(z, axis=2),
        root=root,
        between=np.clip(z, -0.5, 0.5),
        leaky=np.where(z > 0, z, 0.1 * z),
        capped=np.clip(4 * z, 0, 6),
        selu=selu,
        soft=z / (1 + np.abs(z)),
        whole=np.floor(z),
        half=lengths / 2,
        floor_half=lengths // 2,
        odd=lengths % 2,
        true_half=lengths / 2,
        longest=lengths.max(),
        all_long=(lengths > 0).all(),
        either=(lengths < 2) | ~(lengths <= 3),
        where=np.argwhere(lengths >= 3),
        numbers=np.arange(2, 8, 3),
        line=np.linspace(0, 1, 5),
        eye=np.eye(2),
        constant=np.array([[1, 2], [3, 4]]),
        size=z.size,
        rank=z.ndim,
        batched=z @ z.swapaxes(1, 2),
        negative=1 - 3 * z,
        loss=squares + np.mean(np.cos(lengths) * np.sin(z[:, 0, 0])),
    )
