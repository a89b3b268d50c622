"""Strings and lookup tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .noting import initialize, run

TEXT = ["to be or", "not  to", ""]


def sparse(split: Any) -> list[Any]:
    return [split.indices, split.values, split.dense_shape]


def shaped(tf: Any, fetches: Any, feeds: Any = None) -> Any:
    """Values, and what is known of their shapes before."""
    listed = fetches if isinstance(fetches, list) else [fetches]
    return {"shapes": [each.shape for each in listed], "values": run(tf, fetches, feeds)}


STRINGS: dict[str, Callable[[Any], Any]] = {
    "constants": lambda tf: [tf.constant("word"), tf.constant(["a", b"b"]), tf.constant([["ä"], ["b"]])],
    "split": lambda tf: sparse(tf.string_split(TEXT)),
    "split with empty parts": lambda tf: sparse(tf.string_split(TEXT, skip_empty=False)),
    "split by several": lambda tf: sparse(tf.string_split(["a,b;c", ";"], ",;")),
    "split into bytes": lambda tf: sparse(tf.string_split(["abc", "d"], "")),
    "split by white space": lambda tf: sparse(tf.strings.split(["a  b\tc", " d "], result_type="SparseTensor")),
    "split by a word": lambda tf: sparse(tf.strings.split(["a<>b<>", "<>"], "<>", result_type="SparseTensor")),
    "split at most": lambda tf: sparse(tf.strings.split(["a b c"], maxsplit=1, result_type="SparseTensor")),
    "dense": lambda tf: tf.sparse_tensor_to_dense(
        tf.string_split(tf.placeholder_with_default(TEXT, [None])), default_value="-"
    ),
    "numbers": lambda tf: [tf.string_to_number([" 1.5", "-2e3"]), tf.string_to_number("7", tf.int64)],
    "join": lambda tf: [tf.string_join(["a", tf.constant(["b", "c"])]), tf.string_join([["a"], ["b"]], "-")],
    "reduce join": lambda tf: [
        tf.reduce_join([["a", "b"], ["c", "d"]], 0),
        tf.reduce_join([["a", "b"], ["c", "d"]], 1, separator=" "),
        tf.reduce_join([["a", "b"], ["c", "d"]]),
        tf.reduce_join([["a", "b"], ["c", "d"]], [0, 1], keep_dims=True),
    ],
    "sum": lambda tf: [tf.constant("a") + "b", tf.add(["a", "b"], "c")],
    "strip": lambda tf: tf.string_strip(["  a ", "\tb\n"]),
    "letters": lambda tf: [tf.strings.lower(["AbÄ"]), tf.strings.upper(["abä"]), tf.strings.lower("Ä", "utf-8")],
    "length": lambda tf: [tf.strings.length(["abc", "ä"]), tf.strings.length(["ä"], unit="UTF8_CHAR")],
    "substr": lambda tf: [
        tf.substr(["abcd", "efgh"], 1, 2),
        tf.substr("abcd", -2, 9),
        tf.substr(["abc", "de"], [0, 1], [1, 1]),
    ],
    "regex": lambda tf: [
        tf.regex_replace(["a1b22"], r"\d+", "#"),
        tf.regex_replace("a1b2", r"(\d)", r"<\1\0>", replace_global=False),
        tf.strings.regex_full_match(["ab", "abc"], "a."),
    ],
    "as string": lambda tf: [
        tf.as_string([1, -2]),
        tf.as_string([0.5, 1e10]),
        tf.as_string(3.14159, precision=2),
        tf.as_string([True, False]),
        tf.as_string(5, width=3, fill="0"),
        tf.as_string(1234.5, scientific=True),
    ],
    "buckets": lambda tf: tf.string_to_hash_bucket_fast(["word", "", "x" * 40, "x" * 100], 1000),
    "csv": lambda tf: tf.decode_csv(["1,2.5,a b", '7,,"x,y"'], [[0], [0.5], ["-"]]),
    "csv of a scalar": lambda tf: tf.decode_csv("1;2", [[0], [0]], field_delim=";"),
    "csv of some columns": lambda tf: tf.decode_csv(["1,2,3"], [[0.0], [0]], select_cols=[0, 2]),
    "slices": lambda tf: [tf.constant(["a", "b", "c"])[1:], tf.constant(["a", "b", "c"])[-1]],
    "joins of tensors": lambda tf: [
        tf.concat([["<s>"], tf.constant(["a", "b"]), ["</s>"]], 0),
        tf.stack([tf.constant("a"), tf.constant("b")]),
        tf.expand_dims(["a"], 0),
        tf.tile(["a", "b"], [2]),
        tf.reverse(["a", "b"], [0]),
    ],
    "shapes": lambda tf: [tf.size(["a", "b"]), tf.shape([["a", "b"]]), tf.reshape(["a", "b"], [2, 1])],
    "gather": lambda tf: tf.gather(["a", "b", "c"], [2, 0]),
    "comparison": lambda tf: [tf.equal(["a", "b"], "b"), tf.not_equal(["a", "b"], ["a", "c"])],
    "where": lambda tf: tf.where([True, False], ["a", "b"], ["c", "d"]),
    "cond": lambda tf: tf.cond(tf.constant(True), lambda: tf.constant("yes"), lambda: tf.constant("no")),
    "fill": lambda tf: tf.fill([2], "pad"),
    "python functions": lambda tf: [
        tf.py_func(lambda x: x.upper(), [tf.constant("ab")], tf.string),
        *tf.py_func(
            lambda x: [np.array([len(w) for w in x], np.int32), x[::-1]], [["a", "bcd"]], [tf.int32, tf.string]
        ),
    ],
}


def fed(tf: Any, folder: Path) -> Any:
    x = tf.placeholder(tf.string, [None])
    found = [tf.identity(x), tf.size(x), tf.string_split(x).values]
    return [run(tf, found, {x: value}) for value in (["a b", "c"], np.array(["ä b"]), np.array([b"x"], object))]


def initializer(tf: Any, keys: Any = None, values: Any = None) -> Any:
    return tf.lookup.KeyValueTensorInitializer(keys or ["to", "be"], [1, 2] if values is None else values)


def table(tf: Any, folder: Path) -> Any:
    made = tf.lookup.StaticHashTable(initializer(tf), -1)
    back = tf.lookup.StaticHashTable(initializer(tf, [1, 2], ["to", "be"]), "unknown")
    words, numbers = tf.constant([["be", "or"], ["to", "be"]]), tf.constant([2, 7])
    found = run(tf, [made.lookup(words), made.size(), back.lookup(numbers), made.lookup(tf.constant("to"))])
    return [found, made.key_dtype, made.value_dtype, made.lookup(words).shape]


def of_files(tf: Any, folder: Path) -> Any:
    path = folder / "words.txt"
    path.write_text("to\nbe\nor\n")
    columns = folder / "columns.tsv"
    columns.write_text("5\tto\n7\tbe\n")
    index = tf.lookup.TextFileIndex
    forward = tf.lookup.TextFileInitializer(str(path), tf.string, index.WHOLE_LINE, tf.int64, index.LINE_NUMBER)
    back = tf.lookup.TextFileInitializer(str(path), tf.int64, index.LINE_NUMBER, tf.string, index.WHOLE_LINE, 2)
    mapped = tf.lookup.TextFileInitializer(str(columns), tf.string, 1, tf.int64, 0)
    words = tf.constant(["or", "to", "see"])
    return run(
        tf,
        [
            tf.lookup.StaticHashTable(forward, -1).lookup(words),
            tf.lookup.StaticHashTable(back, "UNK").lookup(tf.constant([0, 2], tf.int64)),
            tf.lookup.StaticHashTable(mapped, 0).lookup(words),
        ],
    )


def with_buckets(tf: Any, folder: Path) -> Any:
    values = tf.constant([0, 1], tf.int64)
    made = tf.lookup.StaticVocabularyTable(initializer(tf, values=values), 3)
    words = tf.constant(["be", "or", "not", "", "a longer word than all the others"])
    return run(tf, [made.lookup(words), made.size()])


def of_sparse(tf: Any, folder: Path) -> Any:
    made = tf.lookup.StaticHashTable(initializer(tf), -1).lookup(tf.string_split(TEXT))
    return run(tf, sparse(made))


def in_two_sessions(tf: Any, folder: Path) -> Any:
    made = tf.lookup.StaticHashTable(initializer(tf), -1)
    number = made.lookup(tf.constant("be"))
    with tf.Session() as one, tf.Session() as other:
        initialize(tf, one)
        try:
            other.run(number)
        except tf.errors.FailedPreconditionError:
            return [one.run(number), "not initialized"]
    return "initialized"


CASES = {name: (lambda tf, folder, make=make: shaped(tf, make(tf))) for name, make in STRINGS.items()}
CASES |= {f"tables {each.__name__}": each for each in (table, of_files, with_buckets, of_sparse, in_two_sessions)}
CASES["fed strings"] = fed


def _looked_up(tf: Any, keys: Any) -> Any:
    return tf.lookup.StaticHashTable(initializer(tf), -1).lookup(keys)


MISTAKES: dict[str, Callable[[Any], Any]] = {
    "no number": lambda tf: run(tf, tf.string_to_number(["a"])),
    "a number of another kind": lambda tf: run(tf, tf.string_to_number(["1.5"], tf.int32)),
    "split of a matrix": lambda tf: tf.string_split([["a"]]),
    "substr outside": lambda tf: run(tf, tf.substr("abc", 5, 1)),
    "csv with another number of fields": lambda tf: run(tf, tf.decode_csv(["1,2"], [[0]])),
    "csv with an empty field": lambda tf: run(tf, tf.decode_csv([","], [tf.constant([], tf.int32), [0]])),
    "csv with a word": lambda tf: run(tf, tf.decode_csv(["a"], [[0]])),
    "sum of strings": lambda tf: tf.reduce_sum(["a", "b"]),
    "strings and numbers": lambda tf: tf.concat([["a"], [1]], 0),
    "keys of another dtype": lambda tf: _looked_up(tf, tf.constant([1])),
    "a table that is not initialized": lambda tf: tf.Session().run(_looked_up(tf, tf.constant("a"))),
    "a table without its file": lambda tf: run(
        tf,
        tf.lookup.StaticHashTable(
            tf.lookup.TextFileInitializer("/no/such/file", tf.string, -2, tf.int64, -1), -1
        ).lookup(tf.constant("a")),
    ),
    "keys and values of several counts": lambda tf: run(
        tf, tf.lookup.StaticHashTable(initializer(tf, ["a"], [1, 2]), 0).lookup(tf.constant("a"))
    ),
    "line numbers as words": lambda tf: tf.lookup.TextFileInitializer("words", tf.string, -1, tf.int64, -1),
    "buckets without numbers": lambda tf: tf.lookup.StaticVocabularyTable(initializer(tf, values=[0.5, 1.5]), 1),
    "another dtype from python": lambda tf: run(tf, tf.py_func(lambda: np.float32(1), [], tf.string)),
}
