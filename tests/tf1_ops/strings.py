"""Operations on strings."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.tf1_ops.call import Calls, ints
from tests.tf1_ops.sparse import parts

CALLS = Calls()
add = CALLS.add


def texts(*given: Any) -> np.ndarray:
    """Strings to feed."""
    return np.array([np.char.encode(each, "utf-8").tolist() for each in given], object)


_WORDS = texts("a b  c", "b", "", " éa ")
_SQUARE = texts(["a", "b", "c"], ["d", "e", "f"])

for _most in [-1, 0, 1, 2]:
    add(f"split at most {_most}", lambda tf, x, n=_most: parts(tf.strings.split(x, maxsplit=n)), _WORDS)
    add(f"split at most {_most} at blanks", lambda tf, x, n=_most: parts(tf.strings.split(x, " ", n)), _WORDS)
for _axis in [None, 0, -1, [0, 1], [1, 0], 2]:
    add(f"reduce_join along {_axis}", lambda tf, x, a=_axis: tf.reduce_join(x, a, separator="-"), _SQUARE)
add("reduce_join keeping axes", lambda tf, x: tf.reduce_join(x, 1, keep_dims=True), _SQUARE)
add("string_join", lambda tf, x, y: tf.string_join([x, y, "z"], "-"), _SQUARE, _SQUARE)
add("string_join of two shapes", lambda tf, x, y: tf.string_join([x, y]), _SQUARE, _SQUARE[:, :1])
add("substr of characters", lambda tf, x: tf.substr(x, 1, 2, unit="UTF8_CHAR"), texts("aéb", "ßß"))
add("substr of all that follows", lambda tf, x: tf.substr(x, 1, -1), texts("aéb", "bcd"))
add("substr of no characters", lambda tf, x: tf.substr(x, 1, -1, unit="UTF8_CHAR"), texts("aéb", "bcd"))
add("substr past the end", lambda tf, x: tf.substr(x, 4, 1), texts("aé", "b"))
add("substr in another unit", lambda tf, x: tf.substr(x, 0, 1, unit="WORD"), _WORDS)
for _how in [{"fill": " "}, {"fill": "0", "width": 9}, {"scientific": True}, {"precision": 2, "shortest": True}]:
    _words = " ".join(f"{key}={value}" for key, value in _how.items())
    add(f"as_string {_words}", lambda tf, x, how=_how: tf.as_string(x, **how), [1.5, -2.25])
    add(f"as_string of integers {_words}", lambda tf, x, how=_how: tf.as_string(x, **how), ints(3))
add("decode_csv", lambda tf, x: tf.decode_csv(x, [[0], [0.5]]), texts("1,2", ",", "3,"))
add("decode_csv of nothing", lambda tf, x: tf.decode_csv(x, [[0]]), texts(""))
