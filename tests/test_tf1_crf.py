"""`tf.contrib.crf` against all sequences of tags, one by one; rows of length 0 and 1 among them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests import tf1_crf as by_hand
from unspool import tf1 as tf

crf = tf.contrib.crf
CLOSE = dict(rtol=1e-12, atol=1e-12)
"""Float64, summed in another order."""

TAGS = 3
LENGTHS = {1: [1, 1, 0, 1], 4: [4, 1, 0, 3]}
"""Of the rows, by the number of steps."""


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


def problem(steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[int]]:
    """Potentials, transitions, tags and lengths."""
    rng = np.random.default_rng(steps)
    potentials = rng.normal(size=(4, steps, TAGS))
    return potentials, rng.normal(size=(TAGS, TAGS)), rng.integers(0, TAGS, (4, steps)), LENGTHS[steps]


def run(fetches: Any) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches)


@pytest.mark.parametrize("steps", LENGTHS)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_scores_and_norms_are_those_of_all_sequences(steps: int, dtype: Any):
    x, w, tags, lengths = problem(steps)
    found = run(
        [
            crf.crf_sequence_score(x, tags.astype(dtype), np.array(lengths, dtype), w),
            crf.crf_unary_score(tags.astype(dtype), np.array(lengths, dtype), x),
            crf.crf_binary_score(tags.astype(dtype), np.array(lengths, dtype), w),
            crf.crf_log_norm(x, np.array(lengths, dtype), w),
            crf.crf_log_likelihood(x, tags.astype(dtype), np.array(lengths, dtype), tf.constant(w))[0],
        ]
    )
    scores = np.array([by_hand.score(x[b], w, tuple(tags[b, :n])) for b, n in enumerate(lengths)])
    unary = np.array([by_hand.score(x[b], 0 * w, tuple(tags[b, :n])) for b, n in enumerate(lengths)])
    norms = np.array([by_hand.log_norm(x[b], w, n) for b, n in enumerate(lengths)])
    for ours, theirs in zip(found, [scores, unary, scores - unary, norms, scores - norms], strict=True):
        np.testing.assert_allclose(ours, theirs, **CLOSE)


def test_several_tags_may_be_right():
    x, w, _, lengths = problem(4)
    allowed = np.random.default_rng(3).integers(0, 2, x.shape).astype(bool)
    allowed[..., 1] = True
    score = crf.crf_multitag_sequence_score(x, allowed, lengths, w)
    expected = np.array([by_hand.log_norm(x[b], w, n, allowed[b]) for b, n in enumerate(lengths)])
    np.testing.assert_allclose(run(score), expected, **CLOSE)


def test_several_tags_of_a_single_step_are_summed_whatever_its_length():
    x, w, _, lengths = problem(1)
    allowed = np.array([True, False, True]) & np.ones(x.shape, bool)
    found = run(crf.crf_multitag_sequence_score(x, allowed, lengths, w))
    np.testing.assert_allclose(found, np.log(np.exp(x[:, 0, [0, 2]]).sum(1)), **CLOSE)


@pytest.mark.parametrize("steps", LENGTHS)
def test_gradients_are_the_slopes_of_the_likelihood(steps: int):
    x, w, tags, lengths = problem(steps)
    potentials, transitions = tf.placeholder(tf.float64, x.shape), tf.placeholder(tf.float64, w.shape)
    chance = tf.reduce_sum(crf.crf_log_likelihood(potentials, tags, lengths, transitions)[0])
    slopes = tf.gradients(chance, [potentials, transitions])
    rng = np.random.default_rng(0)
    ways = rng.normal(size=x.shape), rng.normal(size=w.shape)
    with tf.Session() as session:
        found = session.run(slopes, {potentials: x, transitions: w})
        at = [
            session.run(chance, {potentials: x + far * ways[0], transitions: w + far * ways[1]})
            for far in (1e-6, -1e-6)
        ]
    along = sum((slope * way).sum() for slope, way in zip(found, ways, strict=True))
    assert along == pytest.approx((at[0] - at[1]) / 2e-6, rel=1e-7)  # a difference of float64 numbers over 2e-6


@pytest.mark.parametrize("steps", LENGTHS)
def test_decoding_finds_the_best_sequence(steps: int):
    x, w, _, lengths = problem(steps)
    tags, scores = run(crf.crf_decode(x, w, lengths))
    assert tags.dtype == np.int32
    for b, n in enumerate(lengths):
        # As in TensorFlow, a row of length 0 is decoded as one of length 1.
        chosen, highest = by_hand.best(x[b], w, max(n, 1))
        assert tags[b].tolist() == [*chosen, *[0] * (steps - max(n, 1))]
        assert scores[b] == pytest.approx(highest, rel=1e-12)
        if n:
            own, its = crf.viterbi_decode(x[b, :n], w)
            assert [int(each) for each in own] == list(chosen)
            assert its == pytest.approx(highest, rel=1e-12)


def test_transitions_are_a_variable_unless_given():
    x, _, tags, lengths = problem(4)
    with tf.variable_scope("crf"):
        chance, transitions = crf.crf_log_likelihood(tf.constant(x, tf.float32), tags, lengths)
    assert [each.op.name for each in tf.trainable_variables()] == ["crf/transitions"]
    assert transitions.shape.as_list() == [TAGS, TAGS]
    (slope,) = tf.gradients(-chance, transitions)
    assert np.abs(run(slope)).max() > 0


def test_cells_do_in_loops_what_the_functions_do():
    x, w, _, _ = problem(4)
    rest = tf.constant(x[:, 1:], tf.float32)
    first, transitions = tf.constant(x[:, 0], tf.float32), tf.constant(w, tf.float32)
    _, alphas = tf.nn.dynamic_rnn(crf.CrfForwardRnnCell(transitions), rest, initial_state=first)
    pointers, last = [], first
    forward = crf.CrfDecodeForwardRnnCell(transitions)
    for t in range(3):
        pointer, last = forward(rest[:, t], last)
        pointers.append(pointer)
    tag = tf.expand_dims(tf.cast(tf.argmax(last, 1), tf.int32), 1)
    tags, backward = [tag], crf.CrfDecodeBackwardRnnCell(TAGS)
    for pointer in reversed(pointers):
        _, tag = backward(pointer, tag)
        tags.append(tag)
    found = run([tf.reduce_logsumexp(alphas, [1]), tf.concat(tags[::-1], 1), tf.reduce_max(last, 1)])
    expected = run([crf.crf_log_norm(x, [4] * 4, w), *crf.crf_decode(x, w, [4] * 4)])
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-6)  # float32 beside float64
    np.testing.assert_array_equal(found[1], expected[1])
    np.testing.assert_allclose(found[2], expected[2], rtol=1e-6)
    assert (forward.state_size, forward.output_size, backward.state_size) == (TAGS, TAGS, 1)


def test_shapes_are_known():
    x = tf.placeholder(tf.float32, [None, 7, TAGS])
    chance, _ = crf.crf_log_likelihood(x, tf.placeholder(tf.int32, [5, 7]), [7] * 5)
    tags, scores = crf.crf_decode(x, tf.zeros([TAGS, TAGS]), [7] * 5)
    assert [each.shape.as_list() for each in (chance, tags, scores)] == [[5], [None, 7], [None]]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: crf.crf_log_norm(x[0], [1], x[0]), "crf_log_norm: inputs must have rank 3"),
        (lambda x: crf.crf_unary_score([1], [1], x), "tag_indices must have rank 2"),
        (lambda x: crf.crf_binary_score([[1]], [1], x), "transition_params must have rank 2"),
        (lambda x: crf.crf_decode(x[0], x[0], [1]), "potentials must have shape"),
        (lambda x: crf.crf_log_likelihood(tf.placeholder(tf.float32, [1, 2, None]), [[1, 1]], [2]), "number of tags"),
        (lambda x: crf.CrfForwardRnnCell(tf.placeholder(tf.float32)), "transition_params must have a known size"),
    ],
)
def test_mistakes_are_named(call: Any, message: str):
    with pytest.raises(ValueError, match=message):
        call(tf.zeros([1, 2, 2]))
