"""Pipelines drawn at random, the same for both libraries from one seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .noting import elements

Stage = tuple[str, Callable[[Any, Any, random.Random], Any]]
"""What the elements are afterwards, and what makes it of a dataset."""


def _batch(tf: Any, dataset: Any, draw: random.Random) -> Any:
    return dataset.batch(draw.randint(1, 4), drop_remainder=draw.random() < 0.3)


def _padded(tf: Any, dataset: Any, draw: random.Random) -> Any:
    fill = draw.randint(-3, 3)
    return dataset.padded_batch(draw.randint(1, 4), [None], tf.constant(fill, tf.int64), draw.random() < 0.3)


def _window(tf: Any, dataset: Any, draw: random.Random) -> Any:
    size, shift, stride = draw.randint(1, 4), draw.randint(1, 4), draw.randint(1, 3)
    whole = draw.random() < 0.5
    return dataset.window(size, shift, stride, whole).flat_map(lambda window: window.batch(size))


def _grouped(tf: Any, dataset: Any, draw: random.Random) -> Any:
    keys, size = draw.randint(1, 4), draw.randint(1, 4)
    return dataset.apply(
        tf.data.experimental.group_by_window(lambda x: x % keys, lambda key, rows: rows.batch(size), size)
    )


def _bucketed(tf: Any, dataset: Any, draw: random.Random) -> Any:
    limits = sorted(draw.sample(range(1, 7), draw.randint(1, 3)))
    sizes = [draw.randint(1, 3) for _ in range(len(limits) + 1)]
    whole = draw.random() < 0.3
    return dataset.apply(tf.data.experimental.bucket_by_sequence_length(tf.size, limits, sizes, drop_remainder=whole))


def _interleaved(tf: Any, dataset: Any, draw: random.Random) -> Any:
    cycle, block, most = draw.randint(1, 4), draw.randint(1, 3), draw.randint(1, 5)
    return dataset.interleave(lambda x: tf.data.Dataset.range(x, x + x % most), cycle_length=cycle, block_length=block)


def _mapped(tf: Any, dataset: Any, draw: random.Random) -> Any:
    factor, offset = draw.randint(-3, 3), draw.randint(-5, 5)
    return dataset.map(lambda x: x * factor + offset)


def _filtered(tf: Any, dataset: Any, draw: random.Random) -> Any:
    base = draw.randint(2, 4)
    rest = draw.randrange(base)
    return dataset.filter(lambda x: tf.not_equal(x % base, rest))


def _zipped(tf: Any, dataset: Any, draw: random.Random) -> Any:
    other = tf.data.Dataset.range(draw.randint(3, 15))
    return tf.data.Dataset.zip({"own": dataset, "other": other}).map(lambda each: each["own"] - 2 * each["other"])


def _enumerated(tf: Any, dataset: Any, draw: random.Random) -> Any:
    return dataset.enumerate(draw.randint(0, 3)).map(lambda number, x: number * 10 + x)


def _sharded(tf: Any, dataset: Any, draw: random.Random) -> Any:
    shards = draw.randint(1, 3)
    return dataset.shard(shards, draw.randrange(shards))


def _sliced(tf: Any, dataset: Any, draw: random.Random) -> Any:
    start, stop = draw.randint(0, 2), draw.randint(2, 5)
    return dataset.map(lambda x: x[start:stop])


def _ended(tf: Any, dataset: Any, draw: random.Random) -> Any:
    end = draw.randint(-9, -1)
    return dataset.map(lambda x: tf.concat([x, [tf.constant(end, tf.int64)]], 0))


def _filled(tf: Any, dataset: Any, draw: random.Random) -> Any:
    most = draw.randint(2, 7)
    return dataset.map(lambda x: tf.fill([tf.cast(x % most, tf.int32)], x))


def _flat(tf: Any, dataset: Any, draw: random.Random) -> Any:
    return dataset.flat_map(tf.data.Dataset.from_tensor_slices)


def _summed(tf: Any, dataset: Any, draw: random.Random) -> Any:
    return dataset.map(lambda x: tf.reduce_sum(x))


ANY: list[Callable[[Any, Any, random.Random], Any]] = [
    lambda tf, dataset, draw: dataset.take(draw.randint(0, 12)),
    lambda tf, dataset, draw: dataset.skip(draw.randint(0, 4)),
    lambda tf, dataset, draw: dataset.repeat(draw.randint(0, 2) or 2),
    lambda tf, dataset, draw: dataset.cache(),
    lambda tf, dataset, draw: dataset.prefetch(draw.randint(1, 3)),
    lambda tf, dataset, draw: dataset.concatenate(dataset.take(2)),
    _sharded,
]
"""Stages for any elements, which stay what they are."""

STAGES: dict[str, list[Stage]] = {
    "number": [
        *[("number", each) for each in (_mapped, _filtered, _zipped, _enumerated, _interleaved)],
        ("number", lambda tf, dataset, draw: dataset.flat_map(lambda x: tf.data.Dataset.range(x % 4))),
        *[("row", each) for each in (_batch, _window, _grouped, _filled)],
    ],
    "row": [
        *[("row", each) for each in (_sliced, _ended, _mapped)],
        *[("number", each) for each in (_flat, _summed)],
        *[("rows", each) for each in (_padded, _bucketed)],
        ("row", lambda tf, dataset, draw: dataset.filter(lambda x: tf.size(x) > 1)),
    ],
    "rows": [
        ("rows", _mapped),
        ("row", _flat),
        ("row", lambda tf, dataset, draw: dataset.map(lambda x: tf.reduce_sum(x, 0))),
        ("number", _summed),
    ],
}
"""Stages by what they take: whole numbers, vectors of any length, or matrices."""


def drawn(tf: Any, folder: Path, seed: int) -> Any:
    """The elements of a pipeline."""
    draw = random.Random(seed)
    dataset, kind = tf.data.Dataset.range(draw.randint(0, 3), draw.randint(8, 16)), "number"
    for _ in range(draw.randint(2, 7)):
        choices = [*STAGES[kind], *((kind, each) for each in ANY)]
        kind, stage = draw.choice(choices)
        dataset = stage(tf, dataset, draw)
    return elements(tf, dataset, most=40)
