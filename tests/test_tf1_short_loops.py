"""Short sequences in both directions are one loop, which computes what two compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import unspool
from unspool import tf1 as tf
from unspool.engine import entry
from unspool.structure import flatten
from unspool.tf1.rnn import running

cells = tf.nn.rnn_cell


class Choosing(torch.nn.Module):
    """An activation that looks at values: there is no plan for its cell."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x) if float(x.detach().sum()) > 0 else torch.sigmoid(x)


CELLS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "lstms": (lambda: cells.LSTMCell(4), lambda: cells.LSTMCell(4)),
    "others": (lambda: cells.GRUCell(4), lambda: cells.MultiRNNCell([cells.BasicRNNCell(3), cells.LSTMCell(2)])),
    "unplanned": (lambda: cells.GRUCell(4), lambda: cells.BasicRNNCell(4, activation=Choosing())),
}


def ran(kind: str, short: int, monkeypatch: pytest.MonkeyPatch, **options: Any) -> tuple[list[Any], int]:
    """What two training steps fetch, and how many loops each takes."""
    monkeypatch.setattr(running, "SHORT", short)
    calls: list[Any] = []
    run = entry.run
    with monkeypatch.context() as patch, tf.Graph().as_default():
        patch.setattr(entry, "run", lambda *given: calls.append(given) or run(*given))
        forwards, backwards = (make() for make in CELLS[kind])
        x = tf.placeholder(tf.float64, [None, None, 3])
        found = tf.nn.bidirectional_dynamic_rnn(forwards, backwards, x, dtype=tf.float64, **options)
        loss = tf.add_n([tf.reduce_sum(each * each) for each in flatten(found)])
        weights = tf.trainable_variables()
        train = tf.train.AdamOptimizer(0.1).minimize(loss)
        fetches = found, tf.gradients(loss, [x, *weights]), train
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for number, variable in enumerate(weights):
                value = np.random.default_rng(number).uniform(-1, 1, variable.shape.as_list())
                variable.load(value, session)
            given = np.random.default_rng(99).uniform(-1, 1, (2, 5, 3))
            values = [session.run(fetches, {x: given})[:2] for _ in range(2)]
            calls.clear()
            values.append(session.run(fetches, {x: given})[:2])
    return flatten(values), len(calls)


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("options", [{}, {"time_major": True}], ids=["rows_first", "time_major"])
def test_one_loop_or_two_compute_the_same(kind: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch):
    one, loops = ran(kind, 10**9, monkeypatch, **options)
    two, apart = ran(kind, 0, monkeypatch, **options)
    assert (loops, apart) == ((2, 2) if kind == "unplanned" else (1, 2))
    for first, second in zip(one, two, strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-9, atol=1e-11)  # float64: another order of sums at most


def test_lengths_and_dropout_have_loops_of_their_own(monkeypatch: pytest.MonkeyPatch):
    calls: list[Any] = []
    monkeypatch.setattr(running.BothWays, "_together", lambda *given: calls.append(given))
    keep = tf.placeholder_with_default(1.0, [])
    dropped = cells.DropoutWrapper(cells.GRUCell(4), output_keep_prob=keep)
    x = tf.ones([2, 3, 3])
    for name, cell, lengths in (("a", cells.GRUCell(4), [3, 1]), ("b", dropped, None)):
        outputs = tf.nn.bidirectional_dynamic_rnn(cell, cells.GRUCell(4), x, lengths, dtype=tf.float32, scope=name)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            session.run(outputs)
    assert calls == []


def test_a_strict_program_may_have_short_loops():
    outputs = tf.nn.bidirectional_dynamic_rnn(
        cells.LSTMCell(4), cells.LSTMCell(4), tf.ones([2, 3, 3]), dtype=tf.float32
    )
    with tf.Session() as session, unspool.strict():
        session.run(tf.global_variables_initializer())
        assert flatten(session.run(outputs))[0].shape == (2, 3, 4)
