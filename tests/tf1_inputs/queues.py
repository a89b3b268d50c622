"""Queues, their runners, and what reads files with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .noting import initialize


@contextmanager
def started(tf: Any) -> Iterator[Any]:
    """A session whose queue runners run."""
    with tf.Session() as session:
        initialize(tf, session)
        coord = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coord)
        try:
            yield session
        finally:
            coord.request_stop()
            coord.join(threads, stop_grace_period_secs=20)


def until_the_end(tf: Any, session: Any, fetches: Any, most: int = 20) -> list[Any]:
    found: list[Any] = []
    try:
        while len(found) < most:
            found.append(session.run(fetches))
    except tf.errors.OutOfRangeError:
        found.append("end")
    return found


def fifo(tf: Any, folder: Path) -> Any:
    queue = tf.FIFOQueue(5, [tf.int32, tf.string], shapes=[[], []])
    one, many = queue.enqueue([7, "seven"]), queue.enqueue_many([[1, 2, 3], ["a", "b", "c"]])
    first, pair, rest, size = queue.dequeue(), queue.dequeue_many(2), queue.dequeue_up_to(9), queue.size()
    close = queue.close()
    with tf.Session() as session:
        session.run(many)
        session.run(one)
        found = [session.run(size), session.run(first), session.run(pair)]
        session.run(close)
        found += [session.run(rest), session.run(queue.is_closed())]
        for each in (first, pair):
            try:
                session.run(each)
            except tf.errors.OutOfRangeError:
                found.append("end")
        try:
            session.run(one)
        except tf.errors.CancelledError:
            found.append("closed")
    return [found, [each.shape for each in (*first, *pair, *rest)], [each.dtype for each in first]]


def padding(tf: Any, folder: Path) -> Any:
    queue = tf.PaddingFIFOQueue(9, [tf.float32, tf.string], [[None, 2], [None]])
    rows = [queue.enqueue([tf.ones([n, 2]), tf.fill([n + 1], "x")]) for n in (1, 3, 0)]
    taken = queue.dequeue_many(3)
    with tf.Session() as session:
        for each in rows:
            session.run(each)
        return [session.run(taken), [each.shape for each in taken]]


def named(tf: Any, folder: Path) -> Any:
    queue = tf.FIFOQueue(5, [tf.int32, tf.float32], shapes=[[], [2]], names=["n", "x"])
    put, taken = queue.enqueue({"n": 3, "x": [1.0, 2.0]}), queue.dequeue()
    with tf.Session() as session:
        session.run(put)
        return session.run(taken)


def shuffled(tf: Any, folder: Path) -> Any:
    queue = tf.RandomShuffleQueue(20, 3, tf.int32, shapes=[[]])
    put, taken, close = queue.enqueue_many([list(range(12))]), queue.dequeue(), queue.close()
    with tf.Session() as session:
        session.run(put)
        early = [int(session.run(taken)) for _ in range(9)]
        session.run(close)
        return sorted(early + [int(each) for each in until_the_end(tf, session, taken)[:-1]])


def produced(tf: Any, folder: Path) -> Any:
    number = tf.train.range_input_producer(3, shuffle=False).dequeue()
    limited = tf.train.range_input_producer(4, num_epochs=2, shuffle=False).dequeue()
    rows = tf.train.input_producer([[1, 2], [3, 4]], num_epochs=1, shuffle=False).dequeue()
    word = tf.train.string_input_producer(["a", "b"], num_epochs=2, shuffle=False).dequeue()
    pairs = tf.train.slice_input_producer([[1, 2, 3], ["x", "y", "z"]], num_epochs=1, shuffle=False)
    with started(tf) as session:
        found = [[session.run(number) for _ in range(7)]]
        found += [until_the_end(tf, session, each) for each in (limited, rows, word, pairs)]
    return [found, [each.shape for each in (number, rows, word, *pairs)]]


def shuffled_epochs(tf: Any, folder: Path) -> Any:
    number = tf.train.range_input_producer(5, num_epochs=2, shuffle=True, seed=3).dequeue()
    with started(tf) as session:
        found = [int(each) for each in until_the_end(tf, session, number)[:-1]]
    return [sorted(found[:5]), sorted(found[5:])]


def batches(tf: Any, folder: Path) -> Any:
    x, y = tf.train.slice_input_producer([[1, 2, 3, 4, 5], [0.5, 1.5, 2.5, 3.5, 4.5]], num_epochs=1, shuffle=False)
    pair = tf.train.batch([x, y], 2)
    with started(tf) as session:
        return [until_the_end(tf, session, pair), [each.shape for each in pair]]


def smaller_batches(tf: Any, folder: Path) -> Any:
    number = tf.train.range_input_producer(5, num_epochs=1, shuffle=False).dequeue()
    rows = tf.train.batch({"n": number, "w": tf.as_string(number)}, 3, allow_smaller_final_batch=True)
    with started(tf) as session:
        return [until_the_end(tf, session, rows), {name: each.shape for name, each in rows.items()}]


def padded_batches(tf: Any, folder: Path) -> Any:
    number = tf.train.range_input_producer(5, num_epochs=1, shuffle=False).dequeue()
    rows = tf.train.batch([tf.range(number + 1)], 2, dynamic_pad=True, allow_smaller_final_batch=True)
    with started(tf) as session:
        return [until_the_end(tf, session, rows), rows.shape]


def batches_of_rows(tf: Any, folder: Path) -> Any:
    rows = tf.train.input_producer([[1, 2, 3], [4, 5, 6]], num_epochs=1, shuffle=False).dequeue()
    several = tf.train.batch([rows], 2, enqueue_many=True)
    with started(tf) as session:
        return until_the_end(tf, session, several)


def shuffled_batches(tf: Any, folder: Path) -> Any:
    number = tf.train.range_input_producer(10, num_epochs=1, shuffle=False).dequeue()
    rows = tf.train.shuffle_batch([number], 4, capacity=20, min_after_dequeue=5, allow_smaller_final_batch=True)
    with started(tf) as session:
        found = until_the_end(tf, session, rows)[:-1]
    return [[len(each) for each in found], sorted(int(n) for each in found for n in each), rows.shape]


def lines(tf: Any, folder: Path) -> Any:
    path = folder / "data.csv"
    path.write_text("a,b\n1,0.5\n2,1.5\n3,2.5\n")
    names = tf.train.string_input_producer([str(path)], num_epochs=2, shuffle=False)
    reader = tf.TextLineReader(skip_header_lines=1)
    key, value = reader.read(names)
    rows = tf.train.batch(tf.decode_csv(value, [[0], [0.0]]), 4, allow_smaller_final_batch=True)
    with started(tf) as session:
        found = until_the_end(tf, session, rows)
        return [found, session.run(reader.num_records_produced()), key.shape, value.shape]


def whole_files(tf: Any, folder: Path) -> Any:
    for name in "ab":
        (folder / f"{name}.txt").write_text(f"text of {name}")
    names = tf.train.string_input_producer([str(folder / f"{name}.txt") for name in "ab"], 1, shuffle=False)
    _, value = tf.WholeFileReader().read(names)
    with started(tf) as session:
        return until_the_end(tf, session, value)


def count_up(tf: Any, folder: Path) -> Any:
    counter = tf.Variable(0)
    step = counter.count_up_to(2)
    with tf.Session() as session:
        initialize(tf, session)
        return [until_the_end(tf, session, step), session.run(counter)]


def a_reader_of_ptb(tf: Any, folder: Path) -> Any:
    raw_data, batch_size, num_steps = [4, 3, 2, 1, 0, 5, 6, 1, 1, 1, 1, 0, 3, 4, 1], 3, 2
    raw = tf.convert_to_tensor(raw_data, name="raw_data", dtype=tf.int32)
    data_len = tf.size(raw)
    batch_len = data_len // batch_size
    data = tf.reshape(raw[0 : batch_size * batch_len], [batch_size, batch_len])
    epoch_size = (batch_len - 1) // num_steps
    assertion = tf.assert_positive(epoch_size, message="epoch_size == 0, decrease batch_size or num_steps")
    with tf.control_dependencies([assertion]):
        epoch_size = tf.identity(epoch_size, name="epoch_size")
    i = tf.train.range_input_producer(epoch_size, shuffle=False).dequeue()
    x = tf.strided_slice(data, [0, i * num_steps], [batch_size, (i + 1) * num_steps])
    x.set_shape([batch_size, num_steps])
    y = tf.strided_slice(data, [0, i * num_steps + 1], [batch_size, (i + 1) * num_steps + 1])
    y.set_shape([batch_size, num_steps])
    with started(tf) as session:
        return [session.run([x, y]) for _ in range(3)]


def one_after_the_other(tf: Any, folder: Path) -> Any:
    queue = tf.FIFOQueue(9, tf.int32, shapes=[[]])
    counter = tf.Variable(0)
    with tf.control_dependencies([queue.enqueue(counter.assign_add(5))]):
        taken = queue.dequeue()
    with tf.Session() as session:
        initialize(tf, session)
        return [session.run(taken) for _ in range(3)]


def between_queues(tf: Any, folder: Path) -> Any:
    first, second = tf.FIFOQueue(9, tf.int32, shapes=[[]]), tf.FIFOQueue(9, tf.int32, shapes=[[]])
    put, move, taken = first.enqueue_many([[1, 2, 3]]), second.enqueue(first.dequeue() * 10), second.dequeue()
    with tf.Session() as session:
        session.run(put)
        for _ in range(2):
            session.run(move)
        return [session.run([taken, first.size()]), session.run(taken)]


CASES = {
    each.__name__.replace("_", " "): each
    for each in (
        *(fifo, padding, named, shuffled, produced, shuffled_epochs, batches, smaller_batches, padded_batches),
        *(batches_of_rows, shuffled_batches, lines, whole_files, count_up, a_reader_of_ptb),
        *(one_after_the_other, between_queues),
    )
}


def _failing_runner(tf: Any) -> None:
    queue = tf.FIFOQueue(3, tf.float32, shapes=[[]])
    wrong = tf.py_func(lambda: 1 / 0, [], tf.float64)
    tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(tf.cast(tf.reshape(wrong, []), tf.float32))]))
    with tf.Session() as session:
        coord = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coord)
        coord.join(threads, stop_grace_period_secs=20)


def _error_for_join(tf: Any) -> None:
    coord = tf.train.Coordinator()
    try:
        raise KeyError("lost")
    except KeyError as error:
        coord.request_stop(error)
    coord.join([])


def _clean_stop(tf: Any) -> None:
    coord = tf.train.Coordinator()
    with coord.stop_on_exception():
        raise tf.errors.OutOfRangeError(None, None, "end")
    coord.join([])
    if not coord.should_stop():
        raise AssertionError


MISTAKES: dict[str, Callable[[Any], Any]] = {
    "enqueue other shapes": lambda tf: tf.FIFOQueue(3, tf.int32, shapes=[[2]]).enqueue([[1, 2, 3]]),
    "shapes of another count": lambda tf: tf.FIFOQueue(3, [tf.int32], shapes=[[], []]),
    "a dict for a queue without names": lambda tf: tf.FIFOQueue(3, tf.int32, shapes=[[]]).enqueue({"x": 1}),
    "other names": lambda tf: tf.FIFOQueue(3, tf.int32, shapes=[[]], names=["x"]).enqueue({"y": 1}),
    "no epochs": lambda tf: tf.train.range_input_producer(3, num_epochs=0),
    "rows of a scalar": lambda tf: tf.train.input_producer(3),
    "no strings": lambda tf: tf.train.string_input_producer([]),
    "no tensors": lambda tf: tf.train.batch([], 2),
    "unknown shapes": lambda tf: tf.train.batch([tf.placeholder(tf.float32, [None])], 2),
    "no session for runners": lambda tf: tf.train.start_queue_runners(),
    "something else as a session": lambda tf: tf.train.start_queue_runners(sess=3),
    "epochs that are not initialized": lambda tf: tf.Session().run(tf.train.limit_epochs(tf.constant(1), num_epochs=2)),
    "a runner that fails": _failing_runner,
    "an error for join": _error_for_join,
    "a clean stop": _clean_stop,
    "no queue for a runner": lambda tf: tf.train.QueueRunner(),
}
