"""Files of records, and examples in them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from .noting import elements, run
from .queues import started, until_the_end


def feature(tf: Any, values: list[Any]) -> Any:
    """A feature of whatever values are."""
    if values and isinstance(values[0], bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    if values and isinstance(values[0], float):
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def example(tf: Any, **features: list[Any]) -> bytes:
    made = tf.train.Features(feature={name: feature(tf, values) for name, values in features.items()})
    return tf.train.Example(features=made).SerializeToString()


def sequence(tf: Any, length: int) -> bytes:
    made = tf.train.SequenceExample()
    made.context.feature["length"].int64_list.value.append(length)
    for number in range(length):
        made.feature_lists.feature_list["tokens"].feature.add().int64_list.value.append(number * 7)
        pair = made.feature_lists.feature_list["pairs"].feature.add()
        pair.float_list.value.extend([0.5 * number, 1.5])
        made.feature_lists.feature_list["words"].feature.add().bytes_list.value.extend([b"w"] * number)
    return made.SerializeToString()


def serialized(tf: Any, folder: Path) -> Any:
    made = tf.train.Example.FromString(example(tf, n=[3, -1, 2**40], x=[0.5], w=[b"a", b"\xff"]))
    found = made.features.feature
    return [
        list(found["n"].int64_list.value),
        list(found["x"].float_list.value),
        list(found["w"].bytes_list.value),
        [found[name].WhichOneof("kind") for name in "nxw"],
        example(tf, n=[3, -1, 2**40]),
        example(tf, x=[0.5, -2.0]),
        example(tf, w=[b"a", b""]),
        tf.train.SequenceExample.FromString(sequence(tf, 2)).context.feature["length"].int64_list.value[0],
    ]


def written(tf: Any, folder: Path) -> Any:
    found = []
    options = tf.python_io.TFRecordOptions
    kinds = tf.python_io.TFRecordCompressionType
    for name, kind in (("plain", kinds.NONE), ("zlib", kinds.ZLIB), ("gzip", kinds.GZIP)):
        path = str(folder / name)
        with tf.python_io.TFRecordWriter(path, options(kind)) as writer:
            for record in (b"first", b"", b"x" * 300):
                writer.write(record)
        found.append(list(tf.python_io.tf_record_iterator(path, options(kind))))
        found.append(elements(tf, tf.data.TFRecordDataset([path, path], {"plain": None}.get(name, name.upper()))))
    return [found, (folder / "plain").read_bytes()]


def parsed(tf: Any, folder: Path) -> Any:
    texts = [example(tf, n=[3, 4], x=[0.5, 1.5], w=[b"a"]), example(tf, n=[5, 6], w=[b"b", b"c"], more=[1])]
    features = {
        "n": tf.FixedLenFeature([2], tf.int64),
        "x": tf.FixedLenFeature([1, 2], tf.float32, default_value=[[7.0, 8.0]]),
        "d": tf.FixedLenFeature([], tf.string, default_value="none"),
        "w": tf.VarLenFeature(tf.string),
        "more": tf.FixedLenSequenceFeature([], tf.int64, allow_missing=True),
    }
    one, several = tf.parse_single_example(texts[0], features), tf.parse_example(texts, features)
    return [
        [{name: _parts(each) for name, each in run(tf, found).items()} for found in (one, several)],
        [{name: found[name].shape for name in ("n", "x", "d", "more")} for found in (one, several)],
    ]


def _parts(value: Any) -> Any:
    return [value.indices, value.values, value.dense_shape] if hasattr(value, "dense_shape") else value


def parsed_sequences(tf: Any, folder: Path) -> Any:
    context = {"length": tf.FixedLenFeature([], tf.int64)}
    steps = {
        "tokens": tf.FixedLenSequenceFeature([], tf.int64),
        "pairs": tf.FixedLenSequenceFeature([2], tf.float32),
        "words": tf.VarLenFeature(tf.string),
        "missing": tf.FixedLenSequenceFeature([], tf.int64, allow_missing=True),
    }
    whole, each = tf.parse_single_sequence_example(sequence(tf, 3), context, steps)
    found = run(tf, [whole, each])
    return [found[0], {name: _parts(value) for name, value in found[1].items()}, each["pairs"].shape]


def a_pipeline(tf: Any, folder: Path) -> Any:
    path = str(folder / "train.tfrecords")
    with tf.python_io.TFRecordWriter(path) as writer:
        for length in (3, 1, 2):
            writer.write(sequence(tf, length))

    def parse(text: Any) -> Any:
        whole, steps = tf.parse_single_sequence_example(
            text,
            {"length": tf.FixedLenFeature([], tf.int64)},
            {"tokens": tf.FixedLenSequenceFeature([], tf.int64)},
        )
        return steps["tokens"], whole["length"]

    return elements(tf, tf.data.TFRecordDataset(path).map(parse).padded_batch(2, ([None], [])))


def by_queues(tf: Any, folder: Path) -> Any:
    path = str(folder / "train.tfrecords")
    with tf.python_io.TFRecordWriter(path) as writer:
        for number in range(3):
            writer.write(example(tf, n=[number]))
    names = tf.train.string_input_producer([path], num_epochs=1, shuffle=False)
    _, text = tf.TFRecordReader().read(names)
    number = tf.parse_single_example(text, {"n": tf.FixedLenFeature([], tf.int64)})["n"]
    with started(tf) as session:
        return until_the_end(tf, session, number)


CASES = {
    each.__name__.replace("_", " "): each
    for each in (serialized, written, parsed, parsed_sequences, a_pipeline, by_queues)
}


def _parsed(tf: Any, wanted: Any, **features: list[Any]) -> Any:
    return run(tf, tf.parse_single_example(example(tf, **features), {"x": wanted}))


MISTAKES: dict[str, Callable[[Any], Any]] = {
    "a missing feature": lambda tf: _parsed(tf, tf.FixedLenFeature([], tf.int64), y=[1]),
    "a feature of another length": lambda tf: _parsed(tf, tf.FixedLenFeature([2], tf.int64), x=[1]),
    "a feature of another dtype": lambda tf: _parsed(tf, tf.FixedLenFeature([], tf.float32), x=[1]),
    "no example": lambda tf: run(tf, tf.parse_single_example("\xff\xff", {"x": tf.FixedLenFeature([], tf.int64)})),
    "something else as a feature": lambda tf: _parsed(tf, 3, x=[1]),
    "no features": lambda tf: tf.parse_single_example("", {}),
    "text as bytes": lambda tf: tf.train.BytesList(value=["a"]),
    "fractions as whole numbers": lambda tf: tf.train.Int64List(value=[1.5]),
    "no file of records": lambda tf: elements(tf, tf.data.TFRecordDataset("/no/such/file")),
}


def broken(tf: Any, folder: Path) -> Any:
    """Files that end too early, or were changed."""
    path = folder / "records"
    with tf.python_io.TFRecordWriter(str(path)) as writer:
        writer.write(b"a record")
    data, found = path.read_bytes(), []
    for changed in (data[:-2], data[:14] + b"X" + data[15:], data[:5]):
        path.write_bytes(changed)
        try:
            found.append(elements(tf, tf.data.TFRecordDataset(str(path)))["elements"])
        except tf.errors.DataLossError:
            found.append("broken")
    return found


CASES["broken files"] = broken
