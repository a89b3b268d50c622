"""Pipelines of `tf.data`, and mistakes with them."""

from __future__ import annotations

import gzip
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .noting import elements

Pair = namedtuple("Pair", "left right")
ROWS = [[1], [2, 2], [3, 3, 3], [4], [5, 5], [6, 6, 6, 6], [7]]


def ragged(tf: Any, count: int = 7) -> Any:
    """Vectors of several lengths."""
    return tf.data.Dataset.from_generator(lambda: iter(ROWS[:count]), tf.int32, tf.TensorShape([None]))


def numbers(tf: Any, *bounds: int) -> Any:
    return tf.data.Dataset.range(*bounds)


def captured(tf: Any) -> Any:
    offset = tf.constant(10, tf.int64)
    return numbers(tf, 3).map(lambda x: x + offset)


PIPELINES: dict[str, Callable[[Any], Any]] = {
    "slices": lambda tf: tf.data.Dataset.from_tensor_slices(np.arange(6, dtype=np.float32).reshape(3, 2)),
    "slices of lists": lambda tf: tf.data.Dataset.from_tensor_slices([[1, 2], [3, 4]]),
    "slices of a tuple": lambda tf: tf.data.Dataset.from_tensor_slices(([1, 2, 3], ["a", "b", "c"])),
    "slices of a dict": lambda tf: tf.data.Dataset.from_tensor_slices({"b": [1.0, 2.0], "a": ([1, 2], [[3], [4]])}),
    "slices of a namedtuple": lambda tf: tf.data.Dataset.from_tensor_slices(Pair([1, 2], [0.5, 1.5])),
    "tensors": lambda tf: tf.data.Dataset.from_tensors((np.ones([2, 2]), "word")),
    "range": lambda tf: numbers(tf, 3),
    "range of two": lambda tf: numbers(tf, 2, 5),
    "range down": lambda tf: numbers(tf, 5, 1, -2),
    "generator": lambda tf: ragged(tf),
    "generator without shapes": lambda tf: tf.data.Dataset.from_generator(lambda: iter([1.5, 2.5]), tf.float32),
    "generator of tuples": lambda tf: tf.data.Dataset.from_generator(
        lambda: ((n, f"w{n}", [n] * n) for n in range(3)), (tf.int64, tf.string, tf.float32), ([], [], [None])
    ),
    "generator of dicts": lambda tf: tf.data.Dataset.from_generator(
        lambda: iter([{"x": 1, "y": [2.0]}]), {"x": tf.int32, "y": tf.float32}, {"x": [], "y": [None]}
    ),
    "generator with arguments": lambda tf: tf.data.Dataset.from_generator(
        lambda n, word: iter([n, n + len(word)]), tf.int32, [], args=(3, "ab")
    ),
    "zip": lambda tf: tf.data.Dataset.zip((numbers(tf, 3), {"d": numbers(tf, 5, 9)})),
    "concatenate": lambda tf: ragged(tf, 2).concatenate(tf.data.Dataset.from_tensor_slices([[8, 9]])),
    "concatenate of known shapes": lambda tf: tf.data.Dataset.from_tensors([1, 2]).concatenate(
        tf.data.Dataset.from_tensors([3, 4, 5])
    ),
    "map": lambda tf: numbers(tf, 3).map(lambda x: x * x),
    "map to a tuple": lambda tf: numbers(tf, 3).map(lambda x: (x, tf.fill([x], 2.0))),
    "map to a dict": lambda tf: numbers(tf, 2).map(lambda x: {"x": x, "y": tf.cast(x, tf.float32) / 2}),
    "map to a list": lambda tf: numbers(tf, 2).map(lambda x: [x, x + 1]),
    "map to a number": lambda tf: numbers(tf, 2).map(lambda x: 7),
    "map of a tuple": lambda tf: tf.data.Dataset.zip((numbers(tf, 3), numbers(tf, 3))).map(lambda x, y: x + 2 * y),
    "map of a nested tuple": lambda tf: tf.data.Dataset.zip(((numbers(tf, 3), numbers(tf, 3)), numbers(tf, 4, 7))).map(
        lambda pair, z: pair[0] + z
    ),
    "map of a dict": lambda tf: tf.data.Dataset.from_tensor_slices({"x": [1, 2]}).map(lambda d: d["x"] * 3),
    "map of a namedtuple": lambda tf: tf.data.Dataset.from_tensor_slices(Pair([1, 2], [3, 4])).map(
        lambda pair: pair.left * pair.right
    ),
    "map of a captured tensor": lambda tf: captured(tf),
    "map with py_func": lambda tf: numbers(tf, 3).map(lambda x: tf.py_func(lambda v: v * 3, [x], tf.int64)),
    "map in parallel": lambda tf: numbers(tf, 4).map(lambda x: -x, num_parallel_calls=4),
    "filter": lambda tf: numbers(tf, 7).filter(lambda x: tf.equal(x % 3, 0)),
    "filter of a tuple": lambda tf: tf.data.Dataset.zip((numbers(tf, 4), numbers(tf, 3, 7))).filter(
        lambda x, y: tf.logical_and(x > 0, y < 6)
    ),
    "filter by size": lambda tf: ragged(tf).filter(lambda x: tf.size(x) > 1),
    "flat map": lambda tf: numbers(tf, 4).flat_map(lambda x: tf.data.Dataset.range(x)),
    "flat map of slices": lambda tf: tf.data.Dataset.from_tensor_slices([[1, 2], [3, 4]]).flat_map(
        lambda row: tf.data.Dataset.from_tensor_slices(row).map(lambda x: (x, tf.reduce_sum(row)))
    ),
    "interleave": lambda tf: numbers(tf, 1, 6).interleave(
        lambda x: tf.data.Dataset.from_tensors(x).repeat(6), cycle_length=2, block_length=4
    ),
    "interleave of several lengths": lambda tf: numbers(tf, 7).interleave(
        lambda x: tf.data.Dataset.from_tensors(x).repeat(x % 4), cycle_length=3
    ),
    "batch": lambda tf: numbers(tf, 7).batch(3),
    "whole batches": lambda tf: numbers(tf, 7).batch(3, drop_remainder=True),
    "batch of structures": lambda tf: tf.data.Dataset.from_tensor_slices(
        ([[1.0], [2.0], [3.0]], ["a", "b", "c"])
    ).batch(2),
    "batch of batches": lambda tf: numbers(tf, 6).batch(2).batch(2),
    "padded batch": lambda tf: ragged(tf).padded_batch(3, [None]),
    "padded batch of a shape": lambda tf: ragged(tf).padded_batch(3, [5], padding_values=-1),
    "padded batch of structures": lambda tf: (
        ragged(tf).map(lambda x: (x, tf.size(x), tf.as_string(x))).padded_batch(2, ([None], [], [None]), (9, 0, "-"))
    ),
    "padded batch of a dict": lambda tf: (
        ragged(tf, 3)
        .map(lambda x: {"x": tf.expand_dims(x, 0), "n": tf.size(x)})
        .padded_batch(2, {"x": [2, None], "n": []})
    ),
    "padded batch of tensor shapes": lambda tf: ragged(tf, 3).padded_batch(2, tf.TensorShape([None])),
    "padded batch with the remainder dropped": lambda tf: ragged(tf).padded_batch(3, [None], drop_remainder=True),
    "shuffle of one": lambda tf: numbers(tf, 5).shuffle(1),
    "repeat": lambda tf: numbers(tf, 2).repeat(3),
    "repeat nothing": lambda tf: numbers(tf, 2).repeat(0),
    "repeat for ever": lambda tf: numbers(tf, 3).repeat(),
    "repeat an empty one for ever": lambda tf: numbers(tf, 0).repeat(),
    "take": lambda tf: numbers(tf, 5).take(2),
    "take all": lambda tf: numbers(tf, 3).take(-1),
    "take more": lambda tf: numbers(tf, 3).take(9),
    "skip": lambda tf: numbers(tf, 5).skip(3),
    "skip all": lambda tf: numbers(tf, 5).skip(-1),
    "shard": lambda tf: numbers(tf, 8).shard(3, 1),
    "cache": lambda tf: numbers(tf, 3).map(lambda x: x + 1).cache().repeat(2),
    "prefetch": lambda tf: numbers(tf, 3).prefetch(2),
    "enumerate": lambda tf: tf.data.Dataset.from_tensor_slices(["a", "b"]).enumerate(5),
    "window": lambda tf: numbers(tf, 7).window(3).flat_map(lambda w: w.batch(3)),
    "window with a shift": lambda tf: numbers(tf, 7).window(3, 2).flat_map(lambda w: w.batch(3)),
    "window with a stride": lambda tf: (
        numbers(tf, 9).window(3, 1, 2, drop_remainder=True).flat_map(lambda w: w.batch(3))
    ),
    "window with a longer shift": lambda tf: numbers(tf, 9).window(2, 4).flat_map(lambda w: w.batch(2)),
    "window of pairs": lambda tf: (
        tf.data.Dataset.zip((numbers(tf, 4), numbers(tf, 4, 8)))
        .window(2)
        .flat_map(lambda a, b: tf.data.Dataset.zip((a.batch(2), b.batch(2))))
    ),
    "apply": lambda tf: numbers(tf, 4).apply(lambda d: d.batch(2)),
    "unbatch": lambda tf: numbers(tf, 4).batch(3).apply(tf.data.experimental.unbatch()),
    "map and batch": lambda tf: numbers(tf, 5).apply(tf.data.experimental.map_and_batch(lambda x: x * 2, 2)),
    "enumerate dataset": lambda tf: numbers(tf, 2).apply(tf.data.experimental.enumerate_dataset()),
    "group by window": lambda tf: numbers(tf, 11).apply(
        tf.data.experimental.group_by_window(lambda x: x % 3, lambda key, rows: rows.batch(4), 4)
    ),
    "group by window of a size each": lambda tf: numbers(tf, 11).apply(
        tf.data.experimental.group_by_window(
            lambda x: x % 2, lambda key, rows: rows.batch(10).map(lambda x: (key, x)), window_size_func=lambda k: k + 2
        )
    ),
    "buckets": lambda tf: ragged(tf).apply(tf.data.experimental.bucket_by_sequence_length(tf.size, [2, 4], [3, 2, 1])),
    "buckets of pairs": lambda tf: (
        tf.data.Dataset.zip((ragged(tf), ragged(tf)))
        .map(lambda x, y: (x, y, tf.size(x)))
        .apply(
            tf.data.experimental.bucket_by_sequence_length(
                lambda x, y, n: n, [3], [2, 2], padded_shapes=([None], [None], []), padding_values=(-1, -2, 0)
            )
        )
    ),
    "buckets to their boundary": lambda tf: ragged(tf).apply(
        tf.data.experimental.bucket_by_sequence_length(tf.size, [3, 6], [2, 2, 2], pad_to_bucket_boundary=True)
    ),
    "buckets without remainders": lambda tf: ragged(tf).apply(
        tf.data.experimental.bucket_by_sequence_length(tf.size, [3], [3, 2], drop_remainder=True)
    ),
    "buckets without padding": lambda tf: (
        ragged(tf)
        .filter(lambda x: tf.size(x) < 3)
        .apply(tf.data.experimental.bucket_by_sequence_length(tf.size, [2], [3, 2], no_padding=True))
    ),
}


def of_placeholder(tf: Any, folder: Path) -> Any:
    data = tf.placeholder(tf.float32, [None, 2])
    size = tf.placeholder(tf.int64, [])
    dataset = tf.data.Dataset.from_tensor_slices(data).batch(size)
    return elements(tf, dataset, feeds={data: np.arange(6).reshape(3, 2), size: 2})


def text_lines(tf: Any, folder: Path) -> Any:
    first, second, packed = folder / "first.txt", folder / "second.txt", folder / "third.txt.gz"
    first.write_bytes(b"one line\r\nanother\n\nlast")
    second.write_bytes(b"more\n")
    packed.write_bytes(gzip.compress(b"packed\nlines\n"))
    lines = tf.data.TextLineDataset([str(first), str(second)])
    words = lines.map(lambda line: tf.string_split([line]).values).map(lambda x: (x, tf.size(x)))
    return [elements(tf, lines), elements(tf, words), elements(tf, tf.data.TextLineDataset(str(packed), "GZIP"))]


def one_element_a_run(tf: Any, folder: Path) -> Any:
    element = tf.data.make_one_shot_iterator(numbers(tf, 6)).get_next()
    double = element * 2
    with tf.Session() as session:
        return [session.run([element, element, double]), session.run(double), session.run([double, element])]


def two_get_next(tf: Any, folder: Path) -> Any:
    iterator = tf.data.make_one_shot_iterator(numbers(tf, 6))
    first, second = iterator.get_next(), iterator.get_next()
    with tf.Session() as session:
        return [sorted(session.run([first, second])) for _ in range(2)]


def two_sessions(tf: Any, folder: Path) -> Any:
    element = tf.data.make_one_shot_iterator(numbers(tf, 6)).get_next()
    with tf.Session() as one, tf.Session() as other:
        return [one.run(element), one.run(element), other.run(element), one.run(element)]


def reinitialized(tf: Any, folder: Path) -> Any:
    training, validation = numbers(tf, 3), numbers(tf, 10, 12)
    iterator = tf.data.Iterator.from_structure(tf.data.get_output_types(training), tf.data.get_output_shapes(training))
    element, found = iterator.get_next(), []
    begin = [iterator.make_initializer(training), iterator.make_initializer(validation)]
    with tf.Session() as session:
        for initializer in (*begin, begin[0]):
            session.run(initializer)
            try:
                while True:
                    found.append(session.run(element))
            except tf.errors.OutOfRangeError:
                found.append("end")
    return found


def handles(tf: Any, folder: Path) -> Any:
    handle = tf.placeholder(tf.string, shape=[])
    iterator = tf.data.Iterator.from_string_handle(handle, tf.int64, tf.TensorShape([]))
    element = iterator.get_next()
    one = tf.data.make_one_shot_iterator(numbers(tf, 5).repeat())
    other = tf.data.make_initializable_iterator(numbers(tf, 10, 12))
    found = []
    with tf.Session() as session:
        first, second = session.run([one.string_handle(), other.string_handle()])
        for _ in range(2):
            found += [session.run(element, {handle: first}) for _ in range(3)]
            session.run(other.initializer)
            found += [session.run(element, {handle: second}) for _ in range(2)]
    return found


def after_the_end(tf: Any, folder: Path) -> Any:
    element, found = tf.data.make_one_shot_iterator(numbers(tf, 1)).get_next(), []
    with tf.Session() as session:
        for _ in range(3):
            try:
                found.append(session.run(element))
            except tf.errors.OutOfRangeError:
                found.append("end")
    return found


def in_branches(tf: Any, folder: Path) -> Any:
    training = tf.placeholder(tf.bool, [])
    one, other = (tf.data.make_one_shot_iterator(numbers(tf, *bounds)) for bounds in ((0, 5), (10, 15)))
    element = tf.cond(training, one.get_next, other.get_next)
    with tf.Session() as session:
        return [session.run(element, {training: value}) for value in (True, True, False, True, False)]


def in_a_loop(tf: Any, folder: Path) -> Any:
    iterator = tf.data.make_one_shot_iterator(numbers(tf, 1, 9))
    total = tf.while_loop(
        lambda step, total: step < 3,
        lambda step, total: (step + 1, total + iterator.get_next()),
        (0, tf.constant(0, tf.int64)),
        parallel_iterations=1,
    )[1]
    with tf.Session() as session:
        return [session.run(total), session.run(total)]


def whole(tf: Any, number: int) -> Any:
    return tf.constant(number, tf.int64)


REDUCED: dict[str, Callable[[Any], Any]] = {
    "reduce to a sum": lambda tf: numbers(tf, 5).reduce(whole(tf, 0), lambda s, x: s + x),
    "reduce two at once": lambda tf: numbers(tf, 5).reduce(
        (whole(tf, 0), whole(tf, 1)), lambda s, x: (s[0] + x, s[1] * 2)
    ),
    "reduce to a dict": lambda tf: numbers(tf, 3).reduce({"a": whole(tf, 0)}, lambda s, x: {"a": s["a"] + x}),
    "reduce pairs": lambda tf: tf.data.Dataset.zip((numbers(tf, 3), numbers(tf, 3, 6))).reduce(
        whole(tf, 0), lambda s, x: s + x[0] * x[1]
    ),
    "reduce to all elements": lambda tf: numbers(tf, 3).reduce(
        tf.zeros([0], tf.int64), lambda s, x: tf.concat([s, [x]], 0)
    ),
    "reduce nothing": lambda tf: numbers(tf, 0).reduce(whole(tf, 7), lambda s, x: s + x),
    "reduce with a tensor from around": lambda tf: (
        lambda factor: numbers(tf, 4).reduce(whole(tf, 0), lambda s, x: s + factor * x)
    )(whole(tf, 2)),
}


def reduced(tf: Any, make: Callable[[Any], Any]) -> Any:
    made = make(tf)
    parts = list(made.values()) if isinstance(made, dict) else list(made) if isinstance(made, tuple) else [made]
    with tf.Session() as session:
        return [[each.shape.as_list(), session.run(each)] for each in parts]


def options_of(tf: Any, folder: Path) -> Any:
    options = tf.data.Options()
    options.experimental_deterministic = False
    with_options = numbers(tf, 3).with_options(options)
    found = [with_options.map(lambda x: x + 1), numbers(tf, 3), with_options]
    return [[each.options().experimental_deterministic, elements(tf, each)] for each in found]


CASES = {name: (lambda tf, folder, make=make: elements(tf, make(tf))) for name, make in PIPELINES.items()}
CASES |= {name: (lambda tf, folder, make=make: reduced(tf, make)) for name, make in REDUCED.items()}
CASES |= {
    each.__name__.replace("_", " "): each
    for each in (
        of_placeholder,
        text_lines,
        one_element_a_run,
        two_get_next,
        two_sessions,
        reinitialized,
        handles,
        after_the_end,
        in_branches,
        in_a_loop,
        options_of,
    )
}


def _uninitialized(tf: Any) -> Any:
    return tf.Session().run(tf.data.make_initializable_iterator(numbers(tf, 3)).get_next())


def _captured(tf: Any) -> Any:
    return tf.data.make_one_shot_iterator(tf.data.Dataset.from_tensors(tf.placeholder(tf.float32, [2])))


def _initializer_of(tf: Any, dataset: Any, kind: str = "int64", shape: Any = ()) -> Any:
    return tf.data.Iterator.from_structure(tf.as_dtype(kind), tf.TensorShape(shape)).make_initializer(dataset)


MISTAKES: dict[str, Callable[[Any], Any]] = {
    "reduce to another dtype": lambda tf: numbers(tf, 3).reduce(whole(tf, 0), lambda s, x: tf.cast(x, tf.float32)),
    "slices of several counts": lambda tf: tf.data.Dataset.from_tensor_slices(([1, 2], [1, 2, 3])),
    "slices of a scalar": lambda tf: tf.data.Dataset.from_tensor_slices(3),
    "zip of lists": lambda tf: tf.data.Dataset.zip([numbers(tf, 2), numbers(tf, 2)]).batch(2),
    "zip of numbers": lambda tf: tf.data.Dataset.zip((1, 2)),
    "concatenate other dtypes": lambda tf: numbers(tf, 2).concatenate(tf.data.Dataset.from_tensors(1.0)),
    "filter by numbers": lambda tf: numbers(tf, 2).filter(lambda x: x),
    "apply something else": lambda tf: numbers(tf, 2).apply(lambda d: 3),
    "shard too far": lambda tf: elements(tf, numbers(tf, 8).shard(3, 3)),
    "batch of several shapes": lambda tf: elements(tf, ragged(tf).batch(2)),
    "padded batch that is too small": lambda tf: elements(tf, ragged(tf).padded_batch(3, [2])),
    "padded batch of another rank": lambda tf: ragged(tf).padded_batch(3, [None, None]),
    "padded batch of another dtype": lambda tf: ragged(tf).padded_batch(3, [None], padding_values=0.5),
    "generator of other shapes": lambda tf: elements(
        tf, tf.data.Dataset.from_generator(lambda: iter([[1, 2]]), tf.int32, [3])
    ),
    "generator of words": lambda tf: elements(tf, tf.data.Dataset.from_generator(lambda: iter(["a"]), tf.int32)),
    "no generator": lambda tf: tf.data.Dataset.from_generator([1, 2], tf.int32),
    "no file": lambda tf: elements(tf, tf.data.TextLineDataset("/no/such/file")),
    "not initialized": _uninitialized,
    "a placeholder in a one-shot iterator": _captured,
    "another dtype for an iterator": lambda tf: _initializer_of(tf, tf.data.Dataset.from_tensors(1.0)),
    "another shape for an iterator": lambda tf: _initializer_of(tf, numbers(tf, 3), shape=[2]),
    "an iterator without a dataset": lambda tf: tf.data.Iterator.from_structure(tf.int64).initializer,
    "iterating without a session": lambda tf: list(numbers(tf, 3)),
    "group by window without a size": lambda tf: numbers(tf, 2).apply(
        tf.data.experimental.group_by_window(lambda x: x, lambda k, d: d)
    ),
    "buckets without sizes": lambda tf: ragged(tf).apply(
        tf.data.experimental.bucket_by_sequence_length(tf.size, [3], [2])
    ),
    "an element of a map that fails": lambda tf: elements(
        tf, numbers(tf, 3).map(lambda x: tf.py_func(lambda v: np.int64(1 // int(v)), [x], tf.int64))
    ),
}
