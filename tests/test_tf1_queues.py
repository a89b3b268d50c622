"""Queues and threads beyond what `tests/tf1_inputs` compares with TensorFlow: waiting, stopping, buckets."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import unspool.tf1 as tf

LIMIT = 30
"""How many seconds a thread may take that should stop at once."""


@contextmanager
def started(session: tf.Session) -> Iterator[tf.train.Coordinator]:
    coord = tf.train.Coordinator()
    threads = tf.train.start_queue_runners(session, coord)
    try:
        yield coord
    finally:
        coord.request_stop()
        coord.join(threads, stop_grace_period_secs=LIMIT)


def until_the_end(session: tf.Session, fetches: Any) -> Iterator[Any]:
    try:
        while True:
            yield session.run(fetches)
    except tf.errors.OutOfRangeError:
        return


def stops(thread: threading.Thread) -> bool:
    thread.join(LIMIT)
    return not thread.is_alive()


def test_a_full_queue_lets_a_thread_wait_until_there_is_room():
    queue = tf.FIFOQueue(1, tf.int32, shapes=[[]])
    value = tf.placeholder(tf.int32, [])
    put, take = queue.enqueue(value), queue.dequeue()
    with tf.Session() as session:
        session.run(put, {value: 1})
        thread = threading.Thread(target=lambda: session.run(put, {value: 2}), daemon=True)
        thread.start()
        time.sleep(0.05)
        assert thread.is_alive()
        assert session.run(take) == 1
        assert stops(thread)
        assert session.run(take) == 2


def test_closing_a_queue_lets_those_go_who_wait_for_elements():
    queue = tf.FIFOQueue(1, tf.int32, shapes=[[]])
    take, close, raised = queue.dequeue(), queue.close(), []
    with tf.Session() as session:

        def wait() -> None:
            try:
                session.run(take)
            except tf.errors.OutOfRangeError as error:
                raised.append(error)

        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        session.run(close)
        assert stops(thread)
    assert len(raised) == 1


def test_closing_a_session_lets_all_threads_go():
    number = tf.train.range_input_producer(3, shuffle=False, capacity=2).dequeue()
    with tf.Session() as session:
        threads = tf.train.start_queue_runners(session)
        assert session.run(number) == 0
        assert any(each.is_alive() for each in threads)
    assert all(map(stops, threads))


def test_a_queue_that_nobody_fills_says_so(monkeypatch: pytest.MonkeyPatch):
    number = tf.train.range_input_producer(3).dequeue()
    monkeypatch.setattr(threading, "active_count", lambda: 1)  # other tests may have left threads
    with tf.Session() as session, pytest.raises(tf.errors.FailedPreconditionError, match="start_queue_runners"):
        session.run(number)


def test_what_could_not_be_taken_stays():
    queue = tf.FIFOQueue(5, tf.int32, shapes=[[]])
    put, three, rest = queue.enqueue_many([[1, 2]]), queue.dequeue_many(3), queue.dequeue_up_to(3)
    close = queue.close()
    with tf.Session() as session:
        session.run(put)
        session.run(close)
        with pytest.raises(tf.errors.OutOfRangeError, match=r"requested 3, current size 2"):
            session.run(three)
        assert session.run(rest).tolist() == [1, 2]


def test_runners_are_started_once_for_a_session():
    tf.train.range_input_producer(3)
    with tf.Session() as session, started(session):
        assert tf.train.start_queue_runners(session) == []


def test_a_seeded_queue_is_drawn_from_in_one_order():
    def drawn() -> list[int]:
        with tf.Graph().as_default(), tf.Session() as session:
            queue = tf.RandomShuffleQueue(20, 0, tf.int32, shapes=[[]], seed=4)
            put, take = queue.enqueue_many([list(range(12))]), queue.dequeue_many(12)
            session.run(put)
            return session.run(take).tolist()

    assert sorted(drawn()) == list(range(12))
    assert drawn() == drawn() != sorted(drawn())


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: tf.FIFOQueue(3, [tf.int32, tf.int32]).enqueue([1]), ValueError, "expected 2 tensors .* got 1"),
        (lambda: tf.FIFOQueue(3, tf.int32).dequeue_many(2), ValueError, "must be known"),
        (lambda: tf.RandomShuffleQueue(3, 3, tf.int32), ValueError, "capacity must be larger than min_after_dequeue"),
        (lambda: tf.PaddingFIFOQueue(3, [tf.int32], [None]), ValueError, "known ranks"),
        (lambda: tf.contrib.training.bucket([tf.constant(1)], 0, 2, 1), ValueError, "num_buckets must be >= 2"),
        (
            lambda: tf.contrib.training.bucket_by_sequence_length(3, [tf.constant(1)], 2, [4, 2]),
            ValueError,
            "increasing lengths",
        ),
        (lambda: tf.contrib.training.bucket_by_sequence_length(3, [tf.constant(1)], 2, []), ValueError, "not be empty"),
        (lambda: tf.contrib.training.bucket([tf.constant(1)], 0, [2], 2), ValueError, "batch_size must have 2 numbers"),
    ],
)
def test_a_mistake_names_what_came(make: Any, error: type[Exception], message: str):
    with pytest.raises(error, match=message):
        make()


# -- buckets ---------------------------------------------------------------------------------------------------------

LENGTHS = [1, 5, 2, 6, 3, 7, 1, 4, 2]


def bucketed(**options: Any) -> Any:
    (length,) = tf.train.slice_input_producer([LENGTHS], num_epochs=1, shuffle=False)
    row = tf.fill([length], length)
    return tf.contrib.training.bucket_by_sequence_length(length, [row], 2, [4], dynamic_pad=True, **options)


def test_batches_are_of_elements_of_similar_length():
    lengths, rows = bucketed()
    assert rows.shape.as_list() == [2, None]
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        with started(session):
            found = list(until_the_end(session, [lengths, rows]))
    # Each bucket in the order of its elements; which bucket is first depends on the threads.
    pairs = sorted(each.tolist() for each, _ in found)
    assert pairs == [[1, 2], [3, 1], [5, 6], [7, 4]]
    for each, padded in found:
        assert padded.shape == (2, each.max())
        np.testing.assert_array_equal(padded, np.where(np.arange(each.max()) < each[:, None], each[:, None], 0))


def test_last_batches_may_be_smaller():
    lengths, _ = bucketed(allow_smaller_final_batch=True)
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        with started(session):
            found = [each for batch in until_the_end(session, lengths) for each in batch]
    assert sorted(found) == sorted(LENGTHS)


def test_elements_that_are_not_kept_are_left_out():
    number = tf.train.range_input_producer(10, num_epochs=1, shuffle=False).dequeue()
    which, rows = tf.contrib.training.bucket(
        {"n": number}, number % 2, 2, 2, keep_input=number < 8, allow_smaller_final_batch=True
    )
    found: dict[int, list[int]] = {0: [], 1: []}
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        with started(session):
            for place, batch in until_the_end(session, [which, rows]):
                found[int(place)] += batch["n"].tolist()
    assert found == {0: [0, 2, 4, 6], 1: [1, 3, 5, 7]}


# -- coordinators ----------------------------------------------------------------------------------------------------


def test_a_looper_calls_its_function_until_all_stop():
    coord, calls = tf.train.Coordinator(), []

    def called() -> None:
        calls.append(len(calls))
        if len(calls) == 3:
            coord.request_stop()

    looper = tf.train.LooperThread.loop(coord, 0.001, called)
    coord.join([looper], stop_grace_period_secs=LIMIT)
    assert calls == [0, 1, 2]


def test_a_thread_that_does_not_stop_is_named():
    coord, over = tf.train.Coordinator(), threading.Event()
    thread = threading.Thread(target=over.wait, args=(LIMIT,), name="slow", daemon=True)
    thread.start()
    coord.request_stop()
    with pytest.raises(RuntimeError, match="still running: slow"):
        coord.join([thread], stop_grace_period_secs=0.01)
    over.set()
    assert stops(thread)
    coord.clear_stop()
    assert not coord.should_stop()


def test_the_first_error_is_what_join_raises():
    coord = tf.train.Coordinator()
    coord.request_stop(KeyError("first"))
    coord.request_stop(ValueError("second"))
    with pytest.raises(KeyError, match="first"):
        coord.join([])


# -- sessions --------------------------------------------------------------------------------------------------------


def test_threads_may_train_one_model_in_one_session():
    x = tf.placeholder(tf.float32, [4, 6, 3])
    outputs, _ = tf.nn.dynamic_rnn(tf.nn.rnn_cell.LSTMCell(8), x, dtype=tf.float32)
    loss = tf.losses.mean_squared_error(tf.reduce_sum(x, 2), tf.squeeze(tf.layers.dense(outputs, 1), 2))
    train = tf.train.AdamOptimizer(0.02).minimize(loss, global_step=tf.train.get_or_create_global_step())
    found: list[list[float]] = [[] for _ in range(3)]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())

        def work(own: list[float], seed: int) -> None:
            rng = np.random.default_rng(seed)
            while len(own) < 40:
                own.append(float(session.run([train, loss], {x: rng.normal(size=(4, 6, 3))})[1]))

        threads = [threading.Thread(target=work, args=each, daemon=True) for each in zip(found, range(3), strict=True)]
        for each in threads:
            each.start()
        assert all(map(stops, threads))
    assert [len(each) for each in found] == [40] * 3  # a thread that fails has fewer
    assert all(np.mean(each[-5:]) < 0.5 * np.mean(each[:5]) for each in found)
