"""Candidate samplers, where they are not random, and the losses with given candidates."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tf1_ops.call import Calls, floats

CALLS = Calls()
add = CALLS.add

LABELS = np.array([[2], [0], [4]])
PAIRS = np.array([[2, 3], [0, 0], [4, 1]])
WEIGHTS, BIASES, INPUTS = floats(6, 4), floats(6), floats(3, 4, seed=1)
DRAWN = np.array([5, 1, 4, 1])
TRUE_COUNT, PAIR_COUNT = floats(3, 1, low=0.1, high=1.0), floats(3, 2, low=0.1, high=1.0)
DRAWN_COUNT = floats(4, low=0.1, high=1.0)


def _hits(tf: Any, true: Any, sampled: Any, num_true: int = 1) -> Any:
    return list(tf.nn.compute_accidental_hits(true, sampled, num_true))


add("compute_accidental_hits", _hits, LABELS, np.array([4, 5, 2]))
add("compute_accidental_hits of none", _hits, LABELS, np.array([5, 3]))
add("compute_accidental_hits of a repeat", _hits, LABELS, DRAWN)
add("compute_accidental_hits of pairs", lambda tf, t, s: _hits(tf, t, s, 2), PAIRS, np.array([4, 0, 2]))
add("compute_accidental_hits of another number", lambda tf, t, s: _hits(tf, t, s, 2), LABELS, np.array([4]))
add("all_candidate_sampler", lambda tf, t: list(tf.nn.all_candidate_sampler(t, 1, 6, True)), LABELS)
for _name in ["uniform", "log_uniform", "learned_unigram"]:
    # Candidates are random, but of as many as there are classes only the order is, and what is expected is not.
    add(f"{_name} of true classes", lambda tf, t, n=_name: getattr(tf.nn, f"{n}_candidate_sampler")(t, 1, 4, False, 6)[1], LABELS)  # fmt: skip  # noqa: E501
    add(f"{_name} of pairs", lambda tf, t, n=_name: getattr(tf.nn, f"{n}_candidate_sampler")(t, 2, 4, False, 6)[1], PAIRS)  # fmt: skip  # noqa: E501
    add(f"{_name} of all", lambda tf, t, n=_name: tf.nn.top_k(getattr(tf.nn, f"{n}_candidate_sampler")(t, 1, 6, True, 6)[0], 6)[0], LABELS)  # fmt: skip  # noqa: E501
    add(f"{_name} of one class", lambda tf, t, n=_name: list(getattr(tf.nn, f"{n}_candidate_sampler")(t, 1, 3, False, 1)), np.array([[0]]))  # fmt: skip  # noqa: E501
    add(f"{_name} of too many", lambda tf, t, n=_name: list(getattr(tf.nn, f"{n}_candidate_sampler")(t, 1, 7, True, 6)), LABELS)  # fmt: skip  # noqa: E501
    add(f"{_name} of a vector", lambda tf, t, n=_name: list(getattr(tf.nn, f"{n}_candidate_sampler")(t, 1, 4, True, 6)), LABELS[:, 0])  # fmt: skip  # noqa: E501
    add(f"{_name} of another number", lambda tf, t, n=_name: list(getattr(tf.nn, f"{n}_candidate_sampler")(t, 2, 4, True, 6)), LABELS)  # fmt: skip  # noqa: E501
COUNTS = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
add("fixed_unigram of true classes", lambda tf, t: tf.nn.fixed_unigram_candidate_sampler(t, 1, 4, False, 6, unigrams=COUNTS)[1], LABELS)  # fmt: skip  # noqa: E501
add("fixed_unigram distorted", lambda tf, t: tf.nn.fixed_unigram_candidate_sampler(t, 1, 4, False, 6, distortion=0.75, unigrams=COUNTS)[1], LABELS)  # fmt: skip  # noqa: E501
add("fixed_unigram with reserved ids", lambda tf, t: tf.nn.fixed_unigram_candidate_sampler(t, 1, 4, False, 8, num_reserved_ids=2, unigrams=COUNTS)[1], LABELS)  # fmt: skip  # noqa: E501
add("fixed_unigram of all", lambda tf, t: tf.nn.top_k(tf.nn.fixed_unigram_candidate_sampler(t, 1, 6, True, 6, unigrams=COUNTS)[0], 6)[0], LABELS)  # fmt: skip  # noqa: E501

for _loss in ["sampled_softmax_loss", "nce_loss"]:
    for _remove in [False, True]:

        def _of(tf, w, b, y, x, s, t, c, loss=_loss, remove=_remove, true=1):
            found = getattr(tf.nn, loss)
            return found(w, b, y, x, 4, 6, true, sampled_values=(s, t, c), remove_accidental_hits=remove)

        add(f"{_loss} remove={_remove}", _of, WEIGHTS, BIASES, LABELS, INPUTS, DRAWN, TRUE_COUNT, DRAWN_COUNT)
        add(f"{_loss} of pairs remove={_remove}", lambda tf, *given, of=_of: of(tf, *given, true=2), WEIGHTS, BIASES, PAIRS, INPUTS, DRAWN, PAIR_COUNT, DRAWN_COUNT)  # fmt: skip  # noqa: E501
        add(f"{_loss} of int32 remove={_remove}", _of, WEIGHTS, BIASES, LABELS.astype(np.int32), INPUTS, DRAWN, TRUE_COUNT, DRAWN_COUNT)  # fmt: skip  # noqa: E501
    add(f"{_loss} of one row of labels", lambda tf, w, b, y, x, s, t, c, loss=_loss: getattr(tf.nn, loss)(w, b, y, x, 4, 6, 1, (s, t, c)), WEIGHTS, BIASES, LABELS[2:], INPUTS, DRAWN, TRUE_COUNT[:1], DRAWN_COUNT)  # fmt: skip  # noqa: E501
    add(f"{_loss} of two rows of labels", lambda tf, w, b, y, x, s, t, c, loss=_loss: getattr(tf.nn, loss)(w, b, y, x, 4, 6, 1, (s, t, c)), WEIGHTS, BIASES, LABELS[:2], INPUTS, DRAWN, TRUE_COUNT[:2], DRAWN_COUNT)  # fmt: skip  # noqa: E501
    add(f"{_loss} of labels outside", lambda tf, w, b, y, x, loss=_loss: getattr(tf.nn, loss)(w, b, y, x, 3, 6), WEIGHTS, BIASES, LABELS + 3, INPUTS)  # fmt: skip  # noqa: E501
    add(f"{_loss} of a vector of labels", lambda tf, w, b, y, x, loss=_loss: getattr(tf.nn, loss)(w, b, y, x, 3, 6), WEIGHTS, BIASES, LABELS[:, 0], INPUTS)  # fmt: skip  # noqa: E501
    add(f"{_loss} of all classes", lambda tf, w, b, y, x, loss=_loss: getattr(tf.nn, loss)(w, b, y, x, 6, 6, sampled_values=tf.nn.all_candidate_sampler(y, 1, 6, True), remove_accidental_hits=True), WEIGHTS, BIASES, LABELS, INPUTS)  # fmt: skip  # noqa: E501
    add(f"{_loss} of weights in parts", lambda tf, w, v, b, y, x, s, t, c, loss=_loss: getattr(tf.nn, loss)([w, v], b, y, x, 4, 6, 1, (s, t, c), partition_strategy="div"), WEIGHTS[:3], WEIGHTS[3:], BIASES, LABELS, INPUTS, DRAWN, TRUE_COUNT, DRAWN_COUNT)  # fmt: skip  # noqa: E501
