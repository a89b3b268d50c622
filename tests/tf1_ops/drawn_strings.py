"""Calls of operations on strings and of tables of them, drawn at random."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.tf1_ops.call import Call
from tests.tf1_ops.drawing import Draw, Generator, another, axis_of, flag, numbers, one_of, seldom, sizes
from tests.tf1_ops.sparse import parts

LETTERS = [*"aabbcAB  ,,;\t", "é", "ß", "12"]
NUMBERS = ["1", "-2", " 3 ", "4.5", "1e3", "-.5", "007"]
NO_NUMBERS = ["", "x", "1_0", "1,5", "0x10", "nan", "inf", "99999999999", "1 2"]


def _word(rng: Generator) -> str:
    return "".join(one_of(rng, LETTERS) for _ in range(rng.integers(0, 9)))


def _texts(rng: Generator, shape: tuple[int, ...], word: Callable[[Generator], str] = _word) -> np.ndarray:
    made = np.empty(shape, object)
    made.reshape(-1)[:] = [word(rng).encode() for _ in range(made.size)]
    return made


def _each(function: Callable[[Any, Any], Any]) -> Draw:
    return lambda rng: Call(function, (_texts(rng, sizes(rng, 0, 2)),))


def _string_split(rng: Generator) -> Call:
    how = dict(sep=one_of(rng, [None, "", ",", ", ", ",;", "é"]), skip_empty=flag(rng))
    return Call(lambda tf, x: parts(tf.string_split(x, **how)), (_texts(rng, sizes(rng, 1, 1)),))


def _split(rng: Generator) -> Call:
    how = dict(sep=one_of(rng, [None, "", ",", "ab", " "]), maxsplit=one_of(rng, [-1, -1, 0, 1, 2]))
    return Call(lambda tf, x: parts(tf.strings.split(x, **how)), (_texts(rng, sizes(rng, 1, 1)),))


def _number(rng: Generator) -> Call:
    words = [*NUMBERS, one_of(rng, NO_NUMBERS)] if seldom(rng) else NUMBERS
    kind = one_of(rng, ["float32", "float64", "int32", "int64"])
    words = words if "float" in kind else [*NUMBERS[:3], *words[5:]]
    return Call(
        lambda tf, x: tf.string_to_number(x, kind), (_texts(rng, sizes(rng, 0, 2), lambda rng: one_of(rng, words)),)
    )


def _join(rng: Generator) -> Call:
    shape, between = sizes(rng, 0, 2), one_of(rng, ["", "-", ", "])
    given = [_texts(rng, () if seldom(rng) else another(rng, shape)) for _ in range(rng.integers(1, 4))]
    return Call(lambda tf, *x: tf.string_join([*x], between), tuple(given))


def _reduce_join(rng: Generator) -> Call:
    x = _texts(rng, tuple(int(each) for each in rng.integers(1, 4, rng.integers(1, 4))))
    axis: Any = one_of(rng, [None, axis_of(rng, x.ndim), [int(each) for each in rng.permutation(x.ndim)]])
    how = dict(axis=axis, keep_dims=flag(rng), separator=one_of(rng, ["", "-"]))
    return Call(lambda tf, x: tf.reduce_join(x, **how), (x,))


def _case(name: str) -> Draw:
    def draw(rng: Generator) -> Call:
        encoding = one_of(rng, ["", "utf-8"])
        word = (lambda rng: _word(rng).replace("ß", "")) if encoding else _word  # Python writes that as SS
        return Call(lambda tf, x: getattr(tf.strings, name)(x, encoding), (_texts(rng, sizes(rng, 0, 2), word),))

    return draw


def _replace(rng: Generator) -> Call:
    pattern, rewrite = one_of(rng, [("a+", "x"), ("(a|b)(c?)", r"<\2\1>"), (r"\s", ""), ("^.", r"\0\0"), ("", "-")])
    everywhere = flag(rng)
    return Call(
        lambda tf, x: tf.regex_replace(x, pattern, rewrite, everywhere), (_texts(rng, sizes(rng, 0, 2), _ascii),)
    )


def _ascii(rng: Generator) -> str:
    return _word(rng).encode("ascii", "ignore").decode()


def _match(rng: Generator) -> Call:
    pattern = one_of(rng, ["[ab]*", "a.*", r"\w+", ".*b", ""])
    return Call(lambda tf, x: tf.strings.regex_full_match(x, pattern), (_texts(rng, sizes(rng, 0, 2), _ascii),))


def _length(rng: Generator) -> Call:
    unit = one_of(rng, ["BYTE", "UTF8_CHAR"])
    return Call(lambda tf, x: tf.strings.length(x, unit=unit), (_texts(rng, sizes(rng, 0, 2)),))


def _substr(rng: Generator) -> Call:
    shape, unit = sizes(rng, 0, 2), one_of(rng, ["BYTE", "BYTE", "UTF8_CHAR"])
    long = lambda rng: "abé" + _word(rng)  # noqa: E731
    place = np.asarray(rng.integers(-4 - seldom(rng), 4 + 3 * seldom(rng), one_of(rng, [(), shape]))).astype(np.int32)
    count = np.asarray(rng.integers(-1 if seldom(rng) else 0, 6, place.shape)).astype(np.int32)
    return Call(lambda tf, x, p, n: tf.substr(x, p, n, unit=unit), (_texts(rng, shape, long), place, count))


def _as_string(rng: Generator) -> Call:
    x = numbers(rng, sizes(rng, 0, 2), "ffdil") if not seldom(rng) else np.asarray(rng.integers(0, 2, 3)).astype(bool)
    how: dict[str, Any] = dict(width=one_of(rng, [-1, -1, 3, 8]), fill=one_of(rng, ["", "", "0", " "]))
    if x.dtype.kind == "f" or seldom(rng):
        how.update(precision=one_of(rng, [-1, 0, 3]), scientific=flag(rng), shortest=flag(rng))
    return Call(lambda tf, x: tf.as_string(x, **how), (x,))


def _bucket(rng: Generator) -> Call:
    count = int(rng.integers(1, 1000))
    return Call(lambda tf, x: tf.strings.to_hash_bucket_fast(x, count), (_texts(rng, sizes(rng, 0, 2)),))


def _csv(rng: Generator) -> Call:
    field = lambda: one_of(rng, ["1", "23", "", "-4", '"5"'] + ["x"] * seldom(rng))  # noqa: E731
    columns = int(rng.integers(1, 4))
    rows = [",".join([*(field() for _ in range(columns + seldom(rng)))]) for _ in range(rng.integers(1, 4))]
    defaults = [one_of(rng, [[0], [0.5], ["-"]]) for _ in range(columns)]
    fed = np.array([row.encode() for row in rows], object)
    return Call(lambda tf, x: tf.decode_csv(x, defaults), (fed,))


def _table(rng: Generator) -> Call:
    keys, size = [f"w{k}" for k in range(6)], int(rng.integers(1, 6))
    kind = one_of(rng, ["float32", "int32", "int64"])
    values, default = np.asarray(rng.integers(0, 9, size)).astype(kind), -1

    def call(tf: Any, x: Any) -> Any:
        table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys[:size], values), default)
        return [table.lookup(x), table.size()]

    return Call(call, (_texts(rng, sizes(rng, 0, 2), lambda rng: one_of(rng, keys)),))


def _back(rng: Generator) -> Call:
    size = int(rng.integers(1, 6))
    words = [f"w{k}" for k in range(size)]

    def call(tf: Any, x: Any) -> Any:
        keys = np.arange(size, dtype=np.int64)
        return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, words), "?").lookup(x)

    kind = np.int32 if seldom(rng) else np.int64
    return Call(call, (np.asarray(rng.integers(-1, 7, sizes(rng, 0, 2))).astype(kind),))


def _vocabulary(rng: Generator) -> Call:
    size, spare = int(rng.integers(1, 6)), int(rng.integers(0 if seldom(rng) else 1, 4))
    words = [f"w{k}" for k in range(size)]

    def call(tf: Any, x: Any) -> Any:
        filler = tf.lookup.KeyValueTensorInitializer(words, np.arange(size, dtype=np.int64))
        table = tf.lookup.StaticVocabularyTable(filler, spare)
        return [table.lookup(x), table.size()]

    return Call(call, (_texts(rng, sizes(rng, 0, 2), lambda rng: f"w{rng.integers(9)}"),))


DRAWN: dict[str, Draw] = {
    "string_split": _string_split,
    "strings.split": _split,
    "string_to_number": _number,
    "string_join": _join,
    "reduce_join": _reduce_join,
    "strings.lower": _case("lower"),
    "strings.upper": _case("upper"),
    "string_strip": _each(lambda tf, x: tf.string_strip(x)),
    "regex_replace": _replace,
    "strings.regex_full_match": _match,
    "strings.length": _length,
    "substr": _substr,
    "as_string": _as_string,
    "strings.to_hash_bucket_fast": _bucket,
    "decode_csv": _csv,
    "lookup.StaticHashTable": _table,
    "lookup.StaticHashTable.back": _back,
    "lookup.StaticVocabularyTable": _vocabulary,
}
"""By the operation's name: what draws a call of it."""
