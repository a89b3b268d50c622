"""Candidate samplers draw what they say, and losses over candidates change only the rows of these."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unspool import tf1 as tf

CLASSES = 6
TRUE = np.array([[2], [0], [2], [2]])
ZIPF = np.log((np.arange(CLASSES) + 2) / (np.arange(CLASSES) + 1)) / np.log(CLASSES + 1)
COUNTS = np.array([3.0, 0.0, 1.0, 4.0, 2.0, 2.0])


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


def log_uniform(count: int, unique: bool, **how: Any) -> Any:
    return tf.nn.log_uniform_candidate_sampler(TRUE, 1, count, unique, CLASSES, **how)


def uniform(count: int, unique: bool, **how: Any) -> Any:
    return tf.nn.uniform_candidate_sampler(TRUE, 1, count, unique, CLASSES, **how)


def learned(count: int, unique: bool, **how: Any) -> Any:
    return tf.nn.learned_unigram_candidate_sampler(TRUE, 1, count, unique, CLASSES, **how)


def fixed(count: int, unique: bool, **how: Any) -> Any:
    return tf.nn.fixed_unigram_candidate_sampler(TRUE, 1, count, unique, CLASSES, unigrams=COUNTS.tolist(), **how)


SAMPLERS = {
    "log_uniform": (log_uniform, ZIPF),
    "uniform": (uniform, np.full(CLASSES, 1 / CLASSES)),
    "learned_unigram": (learned, np.full(CLASSES, 1 / CLASSES)),
    "fixed_unigram": (fixed, COUNTS / COUNTS.sum()),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_candidates_are_as_frequent_as_expected(name: str):
    sampler, chances = SAMPLERS[name]
    candidates = sampler(20_000, False, seed=1)
    with tf.Session() as session:
        drawn, true_count, drawn_count = session.run(candidates)
    found = np.bincount(drawn, minlength=CLASSES) / len(drawn)
    np.testing.assert_allclose(found, chances, atol=0.015)  # four standard deviations
    np.testing.assert_allclose(true_count, 20_000 * chances[TRUE], rtol=1e-6)
    np.testing.assert_allclose(drawn_count, 20_000 * chances[drawn], rtol=1e-6)


@pytest.mark.parametrize("name", [each for each in SAMPLERS if each != "learned_unigram"])  # which changes
def test_unique_candidates_are_different_and_expected_as_often_as_they_were_tried(name: str):
    sampler, chances = SAMPLERS[name]
    candidates = sampler(4, True, seed=2)
    # Drawn until 4 were different; if the first 4 were, TensorFlow takes the simpler formula.
    by_tries = [4 * chances, *(1 - (1 - chances) ** tries for tries in range(5, 200))]
    with tf.Session() as session:
        for _ in range(5):
            drawn, true_count, drawn_count = session.run(candidates)
            assert len(set(drawn.tolist())) == 4
            assert any(
                np.allclose(drawn_count, each[drawn], rtol=1e-5) and np.allclose(true_count, each[TRUE], rtol=1e-5)
                for each in by_tries
            )


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_seed_repeats_candidates(name: str):
    candidates = SAMPLERS[name][0](5, False, seed=3)
    first, again = tf.Session(), tf.Session()
    runs = [[session.run(candidates)[0].tolist() for _ in range(3)] for session in (first, again)]
    assert runs[0] == runs[1]
    assert len({tuple(each) for each in runs[0]}) > 1


def test_learned_chances_grow_with_true_classes_and_belong_to_the_session():
    candidates = learned(4, False)
    expected = np.ones(CLASSES)
    with tf.Session() as session:
        for _ in range(3):
            _, true_count, _ = session.run(candidates)
            np.testing.assert_allclose(true_count, 4 * (expected / expected.sum())[TRUE], rtol=1e-6)
            expected += np.bincount(TRUE[:, 0], minlength=CLASSES)
    np.testing.assert_allclose(tf.Session().run(candidates)[1], np.full(TRUE.shape, 4 / CLASSES), rtol=1e-6)


def test_fixed_chances_come_from_a_file(tmp_path: Path):
    file = tmp_path / "vocabulary.csv"
    file.write_text("".join(f"word{k},{count}\n" for k, count in enumerate(COUNTS)))
    given = dict(vocab_file=str(file), distortion=0.5)
    candidates = tf.nn.fixed_unigram_candidate_sampler(TRUE, 1, 4, False, CLASSES, **given)
    chances = np.sqrt(COUNTS) / np.sqrt(COUNTS).sum()
    np.testing.assert_allclose(tf.Session().run(candidates)[1], 4 * chances[TRUE], rtol=1e-6)


def test_fixed_chances_leave_out_reserved_ids_and_other_shards():
    candidates = tf.nn.fixed_unigram_candidate_sampler(
        [[1]], 1, 50, False, 4, num_reserved_ids=2, num_shards=2, shard=1, unigrams=COUNTS.tolist()
    )
    drawn, true_count, _ = tf.Session().run(candidates)
    chances = np.array([0.0, 0.0, 4.0, 2.0]) / 6  # every second of two reserved ids and six counts, from the second on
    assert set(drawn.tolist()) == {2, 3}
    np.testing.assert_allclose(true_count, [[50 * chances[1]]], rtol=1e-6)


@pytest.mark.parametrize("loss", ["nce_loss", "sampled_softmax_loss"])
@pytest.mark.parametrize("sampler", [None, uniform])
def test_gradients_are_the_rows_of_true_and_sampled_classes(loss: str, sampler: Any):
    weights, biases = tf.get_variable("weights", [CLASSES, 3]), tf.get_variable("biases", [CLASSES])
    inputs = tf.constant(np.random.default_rng(0).normal(size=(4, 3)), tf.float32)
    values = sampler(3, True, seed=1) if sampler else log_uniform(3, True, seed=1)
    found = getattr(tf.nn, loss)(weights, biases, TRUE, inputs, 3, CLASSES, sampled_values=values)
    slopes = tf.gradients(found, [weights, biases])
    assert all(isinstance(each, tf.IndexedSlices) for each in slopes)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        drawn, first, second = session.run([values[0], *slopes])
    for each in (first, second):
        assert each.indices.dtype == np.int64
        assert each.indices.tolist() == [*TRUE[:, 0], *drawn]


@pytest.mark.parametrize("loss", ["nce_loss", "sampled_softmax_loss"])
def test_a_loss_draws_its_own_candidates_in_every_run(loss: str):
    rng = np.random.default_rng(0)
    given = [tf.constant(rng.normal(size=shape), tf.float32) for shape in ([CLASSES, 3], [CLASSES], [4, 3])]
    found = getattr(tf.nn, loss)(given[0], given[1], TRUE, given[2], 2, CLASSES)
    assert found.shape.as_list() == [4]
    with tf.Session() as session:
        assert len({tuple(session.run(found).tolist()) for _ in range(10)}) > 1


def test_sampled_softmax_of_all_classes_is_the_softmax():
    rng = np.random.default_rng(1)
    w, b, x = (tf.constant(rng.normal(size=shape), tf.float32) for shape in ([CLASSES, 3], [CLASSES], [4, 3]))
    every = tf.nn.all_candidate_sampler(TRUE, 1, CLASSES, True)
    loss = tf.nn.sampled_softmax_loss(w, b, TRUE, x, CLASSES, CLASSES, sampled_values=every)
    logits = tf.matmul(x, w, transpose_b=True) + b
    whole = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=TRUE[:, 0], logits=logits)
    found = tf.Session().run([loss, whole])
    np.testing.assert_allclose(*found, rtol=1e-5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: uniform(0, False), "num_sampled must be at least 1, but is 0"),
        (
            lambda: tf.nn.uniform_candidate_sampler(TRUE, 2, 3, True, 6),
            r"true_classes must have shape \[batch, num_true",
        ),
        (lambda: tf.nn.fixed_unigram_candidate_sampler(TRUE, 1, 3, True, 6), "either vocab_file or unigrams"),
        (lambda: tf.nn.fixed_unigram_candidate_sampler(TRUE, 1, 3, True, 6, unigrams=[1.0]), "there are 1 classes"),
        (lambda: fixed(3, True, shard=2), r"shard must be in \[0, num_shards = 1\), but is 2"),
        (
            lambda: tf.nn.nce_loss(tf.zeros([6, 3]), tf.zeros([6]), TRUE, tf.zeros([3]), 2, 6),
            r"inputs must have shape \[batch, depth\]",
        ),
    ],
)
def test_mistakes_are_named(call: Any, message: str):
    with pytest.raises(ValueError, match=message):
        call()


def test_mistakes_in_a_run_are_named():
    with tf.Session() as session:
        with pytest.raises(tf.errors.InvalidArgumentError, match="7 different of 6 classes"):
            session.run(uniform(7, True))
        outside = tf.nn.uniform_candidate_sampler([[9]], 1, 2, True, CLASSES)
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"must be in \[0, 6\)"):
            session.run(outside)
        loss = tf.nn.nce_loss(tf.zeros([6, 3]), tf.zeros([6]), TRUE, tf.placeholder(tf.float32, [None, 3]), 2, 6)
        with pytest.raises(tf.errors.InvalidArgumentError, match="labels have 4 rows of 1 classes, but inputs 2 rows"):
            session.run(loss, {loss.op.inputs[0]: np.zeros([2, 3])})
