"""What old programs build call by call is rerolled: decoders of `legacy_seq2seq`, and models written by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from benchmarks.tf1_models import Attending, Unrolled
from benchmarks.tf1_models import Model as Trained
from tests.tf1_unrolled import Model, check_same, loops_of, trained
from unspool import tf1 as tf

cells, legacy = tf.nn.rnn_cell, tf.contrib.legacy_seq2seq
ROWS, SYMBOLS, SIZE, UNITS = 2, 6, 3, 4


def fed(count: int, seed: int) -> dict[Any, Any]:
    rng = np.random.default_rng(seed)
    return {tf.placeholder(tf.int32, [None]): rng.integers(SYMBOLS, size=ROWS) for _ in range(count)}


def attention(said: Any, read: Any, cell: Any, **options: Any) -> Any:
    return legacy.embedding_attention_seq2seq(said, read, cell, SYMBOLS, SYMBOLS, SIZE, **options)


DECODERS: dict[str, Callable[..., Any]] = {
    "fed_its_own": lambda said, read, cell: legacy.embedding_rnn_seq2seq(
        said, read, cell, SYMBOLS, SYMBOLS, SIZE, feed_previous=True
    ),
    "tied": lambda said, read, cell: legacy.embedding_tied_rnn_seq2seq(
        said, read, cell, SYMBOLS, SIZE, feed_previous=True
    ),
    "attention": attention,
    "attention_twice_fed_its_own": lambda said, read, cell: attention(
        said, read, cell, feed_previous=True, num_heads=2, initial_state_attention=True
    ),
}


@pytest.mark.parametrize("kind", DECODERS)
def test_decoders_are_one_loop(kind: str):
    def build() -> Model:
        said, read = fed(3, 0), fed(5, 1)
        with tf.variable_scope("model", dtype=tf.float64):
            outputs, _ = DECODERS[kind](list(said), list(read), cells.GRUCell(UNITS))
        weights = [tf.ones([ROWS], tf.float64)] * len(outputs)
        return trained(legacy.sequence_loss(outputs, list(read), weights), {**said, **read}, outputs[2])

    check_same(build, 1)


@pytest.mark.parametrize(
    "model",
    [Unrolled(2, 5, 4), Unrolled(2, 5, 4, reads_back=True), Unrolled(2, 5, 4, feeds_back=True), Attending(2, 5, 4, 3)],
    ids=["joined", "reads_back", "feeds_back", "attends"],
)
def test_models_that_are_measured_are_one_loop(model: Trained):
    sessions: list[Any] = []

    def session(**options: Any) -> Any:
        sessions.append(tf.Session(**options))
        return sessions[-1]

    step = model.trained(tf, session)
    first = step()
    assert loops_of(sessions[0]) == 1
    assert [step() for _ in range(10)][-1] < first
