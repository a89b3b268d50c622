"""Connectionist temporal classification: loss, decoders, distances."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tf1_ops.call import Calls, floats, ints
from tests.tf1_ops.drawn import drawn
from tests.tf1_ops.sparse import parts

CALLS = Calls()
add = CALLS.add

SCORES = floats(6, 3, 4)
LENGTHS = np.array([6, 4, 5], np.int32)
PLACES = np.array([[0, 0], [0, 1], [1, 0], [2, 0], [2, 1], [2, 2]])
LABELS = np.array([2, 0, 1, 1, 1, 0], np.int32)


def _loss(tf: Any, x: Any, i: Any, v: Any, n: Any, **how: Any) -> Any:
    return tf.nn.ctc_loss(tf.SparseTensor(i, v, [3, 3]), x, n, **how)


def _add(name: str, lengths: Any = LENGTHS, labels: Any = LABELS, places: Any = PLACES, scores: Any = SCORES, **how: Any) -> None:  # fmt: skip  # noqa: E501
    def call(tf, x, i, v, n):
        return _loss(tf, x, i, v, n, **how)

    add(name, call, scores, np.array(places), np.array(labels, np.int32), np.array(lengths, np.int32))


_add("ctc_loss")
_add("ctc_loss of large logits", scores=SCORES * 20)
_add("ctc_loss of float64", scores=SCORES.astype(np.float64))
_add("ctc_loss of padding that is no number", scores=np.where(np.arange(6)[:, None, None] < LENGTHS[:, None], SCORES, np.float32(np.nan)))  # fmt: skip  # noqa: E501
_add("ctc_loss of no rows", np.zeros(0), np.zeros(0), np.zeros([0, 2], np.int64), floats(6, 0, 4))
_add("ctc_loss by rows", scores=np.ascontiguousarray(SCORES.transpose(1, 0, 2)), time_major=False)
for _merge in [True, False]:
    for _collapse in [True, False]:
        _add(f"ctc_loss merge={_merge} collapse={_collapse}", ctc_merge_repeated=_merge, preprocess_collapse_repeated=_collapse)  # fmt: skip  # noqa: E501
_add("ctc_loss of too long labels", [1, 4, 5])
_add("ctc_loss of too long labels ignored", [1, 4, 5], ignore_longer_outputs_than_inputs=True)
_add("ctc_loss of too long labels ignored, not merged", [1, 4, 5], ignore_longer_outputs_than_inputs=True, ctc_merge_repeated=False)  # fmt: skip  # noqa: E501
_add("ctc_loss of repeats without time", [6, 4, 3])
_add("ctc_loss of repeats without time, not merged", [6, 4, 3], ctc_merge_repeated=False)
_add("ctc_loss of repeats without time, collapsed", [6, 4, 3], preprocess_collapse_repeated=True)
_add("ctc_loss of no time", [6, 0, 5])
_add("ctc_loss of no time ignored", [6, 0, 5], ignore_longer_outputs_than_inputs=True)
_add("ctc_loss that ends with a blank", labels=[2, 3, 1, 1, 1, 0])
_add("ctc_loss of a label after a blank", labels=[3, 0, 1, 1, 1, 0])
_add("ctc_loss of a label past the classes", labels=[2, 9, 1, 1, 1, 0])
_add("ctc_loss of blanks alone", labels=[2, 0, 3, 1, 1, 0])
_add("ctc_loss of blanks alone, not merged", labels=[2, 0, 3, 1, 1, 0], ctc_merge_repeated=False)
_add("ctc_loss of a negative label", labels=[2, -1, 1, 1, 1, 0])
_add("ctc_loss of no labels", places=[[0, 0], [0, 1], [0, 2], [2, 0], [2, 1], [2, 2]])
_add("ctc_loss of a row too many", places=[[0, 0], [0, 1], [1, 0], [3, 0], [3, 1], [3, 2]])
_add("ctc_loss of disorder", places=[[0, 1], [0, 0], [1, 0], [2, 0], [2, 1], [2, 2]])
_add("ctc_loss past the end", [7, 4, 5])
_add("ctc_loss of two lengths", [6, 4])
_add("ctc_loss of matrices", scores=floats(6, 4))
add("ctc_loss of dense labels", lambda tf, x, y, n: tf.nn.ctc_loss(y, x, n), SCORES, ints(3, 2, low=0, high=3), LENGTHS)
add("ctc_loss by logits", lambda tf, x, i, v, n: tf.nn.ctc_loss(tf.SparseTensor(i, v, [3, 3]), sequence_length=n, logits=x), SCORES, PLACES, LABELS, LENGTHS)  # fmt: skip  # noqa: E501
add("ctc_loss of labels by name", lambda tf, x, i, v, n: tf.nn.ctc_loss(labels=tf.SparseTensor(i, v, [3, 3]), inputs=x, sequence_length=n), SCORES, PLACES, LABELS, LENGTHS)  # fmt: skip  # noqa: E501

ROWS, COUNTS = np.array([[2, 0, 0], [1, 0, 0], [1, 2, 1]], np.int32), np.array([2, 1, 3], np.int32)
for _blank in [None, 0, 2, -1]:
    _wanted = (ROWS + 1) % 4 if _blank in (None, 0) else np.where(ROWS == 2, 3, ROWS) if _blank == 2 else ROWS
    add(f"ctc_loss_v2 blank={_blank}", lambda tf, x, y, c, n, b=_blank: tf.nn.ctc_loss_v2(y, x, c, n, blank_index=b), SCORES, _wanted, COUNTS, LENGTHS)  # fmt: skip  # noqa: E501
    add(f"ctc_loss_v2 of sparse labels blank={_blank}", lambda tf, x, i, v, n, b=_blank: tf.nn.ctc_loss_v2(tf.SparseTensor(i, v, [3, 3]), x, None, n, blank_index=b), SCORES, PLACES, LABELS, LENGTHS)  # fmt: skip  # noqa: E501
add("ctc_loss_v2 by rows", lambda tf, x, y, c, n: tf.nn.ctc_loss_v2(y, x, c, n, logits_time_major=False), np.ascontiguousarray(SCORES.transpose(1, 0, 2)), ROWS + 1, COUNTS, LENGTHS)  # fmt: skip  # noqa: E501
add("ctc_loss_v2 of no labels", lambda tf, x, y, c, n: tf.nn.ctc_loss_v2(y, x, c, n), SCORES, ROWS + 1, [2, 0, 3], LENGTHS)  # fmt: skip  # noqa: E501
add("collapse_repeated", lambda tf, y, n: list(tf.nn.collapse_repeated(y, n)), [[1, 1, 2, 2], [3, 3, 3, 3], [1, 2, 1, 1]], [4, 2, 3])  # fmt: skip  # noqa: E501
add("collapse_repeated of nothing", lambda tf, y, n: list(tf.nn.collapse_repeated(y, n)), [[1, 1, 2, 2], [3, 3, 3, 3]], [0, 1])  # fmt: skip  # noqa: E501


def _decoded(found: Any) -> list[Any]:
    labels, scores = found
    return [*(part for each in labels for part in parts(each)), scores]


SPEECH = floats(8, 3, 5, low=-6.0, high=6.0, seed=3)
SPOKEN = np.array([8, 5, 0], np.int32)
REPEATS = np.eye(4, dtype=np.float32)[[[0], [0], [3], [0], [1], [1], [3]]] * 4
for _merge in [True, False]:
    add(f"ctc_greedy_decoder merge={_merge}", lambda tf, x, n, m=_merge: _decoded(tf.nn.ctc_greedy_decoder(x, n, m)), SPEECH, SPOKEN)  # fmt: skip  # noqa: E501
    add(f"ctc_greedy_decoder of repeats merge={_merge}", lambda tf, x, n, m=_merge: _decoded(tf.nn.ctc_greedy_decoder(x, n, m)), REPEATS, [7])  # fmt: skip  # noqa: E501
    for _width, _paths in [(100, 1), (100, 3), (5, 2), (1, 1)]:

        def _call(tf, x, n, m=_merge, w=_width, p=_paths):
            return _decoded(tf.nn.ctc_beam_search_decoder(x, n, w, p, m))

        add(f"ctc_beam_search_decoder {_width}, {_paths}, merge={_merge}", _call, SPEECH, np.array([8, 5, 7], np.int32))
        add(f"ctc_beam_search_decoder of unclear speech {_width}, {_paths}, merge={_merge}", _call, SPEECH / 6, np.array([8, 5, 7], np.int32))  # fmt: skip  # noqa: E501
    add(f"ctc_beam_search_decoder of repeats merge={_merge}", lambda tf, x, n, m=_merge: _decoded(tf.nn.ctc_beam_search_decoder(x, n, merge_repeated=m)), REPEATS, [7])  # fmt: skip  # noqa: E501
add("ctc_greedy_decoder of blanks", lambda tf, x, n: _decoded(tf.nn.ctc_greedy_decoder(x, n)), np.eye(3, dtype=np.float32)[[[2], [2]]], [2])  # fmt: skip  # noqa: E501
add("ctc_greedy_decoder past the end", lambda tf, x, n: _decoded(tf.nn.ctc_greedy_decoder(x, n)), SPEECH, [8, 9, 1])
add("ctc_greedy_decoder of two lengths", lambda tf, x, n: _decoded(tf.nn.ctc_greedy_decoder(x, n)), SPEECH, [8, 5])
add(
    "ctc_beam_search_decoder of no time", lambda tf, x, n: _decoded(tf.nn.ctc_beam_search_decoder(x, n)), SPEECH, SPOKEN
)
add("ctc_beam_search_decoder of too many paths", lambda tf, x, n: _decoded(tf.nn.ctc_beam_search_decoder(x, n, 2, 3)), SPEECH, SPOKEN)  # fmt: skip  # noqa: E501
add("ctc_beam_search_decoder of too few prefixes", lambda tf, x, n: _decoded(tf.nn.ctc_beam_search_decoder(x, n, 9, 9)), SPEECH[:, :1], [1])  # fmt: skip  # noqa: E501
add("ctc_beam_search_decoder past the end", lambda tf, x, n: _decoded(tf.nn.ctc_beam_search_decoder(x, n)), SPEECH, [8, 9, 1])  # fmt: skip  # noqa: E501

add("ctc_beam_search_decoder_v2", lambda tf, x, n: _decoded(tf.nn.ctc_beam_search_decoder_v2(x, n, 9, 2)), REPEATS, [7])  # fmt: skip  # noqa: E501
for _seed in [16, 54, 58]:  # where TensorFlow forgets a prefix that leaves the beam before its turn
    CALLS[f"ctc_beam_search_decoder that forgets {_seed}"] = drawn("ctc_beam_search_decoder", _seed)


def _distance(tf: Any, i: Any, v: Any, j: Any, w: Any, **how: Any) -> Any:
    return tf.edit_distance(tf.SparseTensor(i, v, [4, 3]), tf.SparseTensor(j, w, [4, 4]), **how)


GUESS = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [3, 0]]), np.array([1, 2, 3, 4, 5])
TRUTH = np.array([[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [2, 0]]), np.array([1, 3, 2, 3, 4, 7])
for _normalize in [True, False]:
    add(f"edit_distance normalize={_normalize}", lambda tf, *given, n=_normalize: _distance(tf, *given, normalize=n), *GUESS, *TRUTH)  # fmt: skip  # noqa: E501
add("edit_distance of floats", _distance, GUESS[0], GUESS[1].astype(np.float32), TRUTH[0], TRUTH[1].astype(np.float32))
add("edit_distance of two dtypes", _distance, GUESS[0], GUESS[1].astype(np.int32), *TRUTH)
add("edit_distance of fed shapes", lambda tf, i, v, s, j, w, r: tf.edit_distance(tf.SparseTensor(i, v, s), tf.SparseTensor(j, w, r)), *GUESS, np.array([4, 3]), *TRUTH, np.array([4, 4]))  # fmt: skip  # noqa: E501
add("edit_distance of two batches", lambda tf, i, v, j, w: tf.edit_distance(tf.SparseTensor(i, v, [4, 3]), tf.SparseTensor(j, w, [3, 4])), *GUESS, *TRUTH)  # fmt: skip  # noqa: E501
add("edit_distance of two ranks", lambda tf, i, v, j, w: tf.edit_distance(tf.SparseTensor(i, v, [4, 3]), tf.SparseTensor(j, w, [4])), *GUESS, np.array([[0]]), np.array([1]))  # fmt: skip  # noqa: E501
add("edit_distance of a tensor", lambda tf, i, v: tf.edit_distance(v, tf.SparseTensor(i, v, [4, 3])), *GUESS)
add("edit_distance of three axes", lambda tf, i, v, j, w: tf.edit_distance(tf.SparseTensor(i, v, [2, 1, 2]), tf.SparseTensor(j, w, [2, 2, 1])), np.array([[0, 0, 0], [0, 0, 1]]), np.array([3, 4]), np.array([[0, 0, 0], [1, 1, 0]]), np.array([3, 4]))  # fmt: skip  # noqa: E501
