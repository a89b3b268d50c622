"""Calls with shapes, options and values drawn at random, for `make conformance`: here those of sequences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.tf1_ops import (
    drawn_distributions,
    drawn_effects,
    drawn_images,
    drawn_losses,
    drawn_matrices,
    drawn_metrics,
    drawn_names,
    drawn_orders,
    drawn_places,
    drawn_state,
    drawn_strings,
)
from tests.tf1_ops.call import Call
from tests.tf1_ops.sparse import parts

SUBJECTS = [drawn_images, drawn_places, drawn_matrices, drawn_orders, drawn_distributions, drawn_metrics]
SUBJECTS += [drawn_strings, drawn_names, drawn_losses, drawn_state, drawn_effects]
Generator = np.random.Generator
DRAWN: dict[str, Callable[[Generator], Call]] = {name: draw for each in SUBJECTS for name, draw in each.DRAWN.items()}
"""By the operation's name: what draws a call of it."""


def drawn(name: str, seed: int) -> Call:
    """The call of an operation that a seed decides."""
    return DRAWN[name](np.random.default_rng([seed, *name.encode()]))


def _draws(name: str) -> Callable[[Callable[[Generator], Call]], None]:
    return lambda function: DRAWN.update({name: function})


def _flag(rng: Generator) -> bool:
    return bool(rng.integers(2))


def _scores(rng: Generator) -> tuple[np.ndarray, np.ndarray]:
    """Logits `[time, batch, classes]` of any clarity, and lengths."""
    time, rows, classes = rng.integers(3, 12), rng.integers(1, 5), rng.integers(2, 7)
    scores = rng.uniform(0.3, 5.0) * rng.normal(size=(time, rows, classes))
    return scores.astype(np.float32), rng.integers(1, time + 1, rows).astype(np.int32)


def _labels(rng: Generator, lengths: Any, classes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sparse labels of rows, none longer than its row is."""
    counts = [int(rng.integers(1, each + 1)) for each in lengths]
    places = [[row, k] for row, count in enumerate(counts) for k in range(count)]
    values = rng.integers(0, classes - 1, len(places)).astype(np.int32)
    return np.array(places), values, np.array([len(counts), max(counts)])


@_draws("ctc_loss")
def _ctc_loss(rng: Generator) -> Call:
    scores, lengths = _scores(rng)
    places, values, shape = _labels(rng, lengths, scores.shape[2])
    how = dict(
        preprocess_collapse_repeated=_flag(rng),
        ctc_merge_repeated=_flag(rng),
        ignore_longer_outputs_than_inputs=_flag(rng),
        time_major=_flag(rng),
    )
    fed = scores if how["time_major"] else np.ascontiguousarray(scores.transpose(1, 0, 2))

    def call(tf: Any, x: Any, i: Any, v: Any, s: Any, n: Any) -> Any:
        return tf.nn.ctc_loss(tf.SparseTensor(i, v, s), x, n, **how)

    return Call(call, (fed, places, values, shape, lengths))


@_draws("ctc_greedy_decoder")
def _greedy(rng: Generator) -> Call:
    merge = _flag(rng)

    def call(tf: Any, x: Any, n: Any) -> Any:
        (labels,), scores = tf.nn.ctc_greedy_decoder(x, n, merge)
        return [*parts(labels), scores]

    return Call(call, _scores(rng))


@_draws("ctc_beam_search_decoder")
def _beam(rng: Generator) -> Call:
    width, merge = int(rng.integers(1, 30)), _flag(rng)
    paths = int(rng.integers(1, min(width, 2) + 1))

    def call(tf: Any, x: Any, n: Any) -> Any:
        labels, scores = tf.nn.ctc_beam_search_decoder(x, n, width, paths, merge)
        return [*(part for each in labels for part in parts(each)), scores]

    return Call(call, _scores(rng))


@_draws("edit_distance")
def _distance(rng: Generator) -> Call:
    normalize, rows = _flag(rng), rng.integers(1, 5)
    sides = [_labels(rng, rng.integers(1, 7, rows), 4) for _ in range(2)]

    def call(tf: Any, i: Any, v: Any, s: Any, j: Any, w: Any, r: Any) -> Any:
        return tf.edit_distance(tf.SparseTensor(i, v, s), tf.SparseTensor(j, w, r), normalize)

    return Call(call, (*sides[0], *sides[1]))


def _sampled(name: str) -> None:
    @_draws(name)
    def draw(rng: Generator) -> Call:
        classes, depth, rows, count = rng.integers(3, 12), rng.integers(1, 6), rng.integers(1, 6), rng.integers(1, 6)
        true, remove = int(rng.integers(1, 4)), _flag(rng)
        real = [rng.normal(size=shape) for shape in [(classes, depth), (classes,), (rows, depth)]]
        counts = [rng.uniform(0.05, 2.0, shape) for shape in [(rows, true), (count,)]]
        labels, candidates = rng.integers(0, classes, (rows, true)), rng.integers(0, classes, count)

        def call(tf: Any, w: Any, b: Any, x: Any, y: Any, s: Any, t: Any, c: Any) -> Any:
            loss = getattr(tf.nn, name)
            return loss(w, b, y, x, int(count), int(classes), true, (s, t, c), remove_accidental_hits=remove)

        fed = [each.astype(np.float32) for each in (*real, *counts)]
        return Call(call, (*fed[:3], labels, candidates, *fed[3:]))


_sampled("nce_loss")
_sampled("sampled_softmax_loss")


@_draws("compute_accidental_hits")
def _hits(rng: Generator) -> Call:
    true = int(rng.integers(1, 4))
    fed = rng.integers(0, 8, (rng.integers(1, 6), true)), rng.integers(0, 8, rng.integers(1, 8))
    return Call(lambda tf, y, s: list(tf.nn.compute_accidental_hits(y, s, true)), fed)


def _matrix(rng: Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A sparse matrix, in order."""
    rows, columns = rng.integers(1, 6), rng.integers(1, 6)
    places = np.argwhere(rng.random((rows, columns)) < 0.5)
    return places, rng.normal(size=len(places)).astype(np.float32), np.array([rows, columns])


_SPARSE: dict[str, Callable[[Any, Any], Any]] = {
    "sparse_tensor_to_dense": lambda tf, x: tf.sparse_tensor_to_dense(x, 0.5),
    "sparse_reorder": lambda tf, x: parts(tf.sparse_reorder(x)),
    "sparse_transpose": lambda tf, x: parts(tf.sparse_transpose(x)),
    "sparse_reshape": lambda tf, x: parts(tf.sparse_reshape(x, [1, -1])),
    "sparse_concat": lambda tf, x: parts(tf.sparse_concat(0, [x, tf.sparse_reorder(x)])),
    "sparse_slice": lambda tf, x: parts(tf.sparse_slice(x, [1, 1], [3, 3])),
    "sparse_reduce_sum": lambda tf, x: tf.sparse_reduce_sum(x, 1),
    "sparse_add": lambda tf, x: parts(tf.sparse_add(x, x)),
    "sparse_fill_empty_rows": lambda tf, x: parts(tf.sparse_fill_empty_rows(x, 7.0)[0]),
}


def _of_a_matrix(name: str, function: Callable[[Any, Any], Any]) -> None:
    @_draws(name)
    def draw(rng: Generator) -> Call:
        return Call(lambda tf, i, v, s: function(tf, tf.SparseTensor(i, v, s)), _matrix(rng))


for _name, _function in _SPARSE.items():
    _of_a_matrix(_name, _function)
