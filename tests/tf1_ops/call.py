"""One call of an operation, and what a library makes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

KNOWN, SIZES_UNKNOWN, NOTHING_KNOWN = "known", "sizes unknown", "nothing known"
HOW = [KNOWN, SIZES_UNKNOWN, NOTHING_KNOWN]
"""What the graph is told about the shapes of the placeholders."""


@dataclass(frozen=True)
class Call:
    """An operation on placeholders: `function(tf, *placeholders)`, fed with `values`.

    With `later`, its outputs are run one by one, and again for what is fed later: it keeps something between runs.
    """

    function: Callable[..., Any]
    values: tuple[np.ndarray, ...]
    later: tuple[tuple[np.ndarray, ...], ...] = ()


class Calls(dict[str, Call]):
    """Calls by name."""

    def add(self, name: str, function: Callable[..., Any], *values: Any) -> None:
        """Notes a call; Python's floats are fed as float32 and its ints as int32."""
        assert name not in self, name
        self[name] = Call(function, tuple(map(_array, values)))


def _array(value: Any) -> np.ndarray:
    array = np.asarray(value)
    if isinstance(value, np.ndarray | np.generic):
        return array
    return array.astype({"f": np.float32, "i": np.int32}.get(array.dtype.kind, array.dtype))


def floats(*shape: int, low: float = -2.0, high: float = 2.0, seed: int = 0) -> np.ndarray:
    """Float32 numbers that no two operations round differently for being special."""
    return np.random.default_rng([seed, *shape]).uniform(low, high, shape).astype(np.float32)


def ints(*shape: int, low: int = -5, high: int = 6, seed: int = 0, dtype: Any = np.int32) -> np.ndarray:
    """Whole numbers."""
    return np.random.default_rng([seed, *shape]).integers(low, high, shape).astype(dtype)


def truths(*shape: int, seed: int = 0) -> np.ndarray:
    """Bools."""
    return np.random.default_rng([seed, *shape]).integers(0, 2, shape).astype(bool)


def outcome(tf: Any, call: Call, how: str) -> dict[str, Any]:
    """What a library makes of a call.

    Returns:
        "raises" and "when" if it fails; else for each output its "dtypes", its "shapes" as the graph knows them and its
        "values"; and the "gradients" by each float that is fed of `sum(cos(k) * output[k])`, None where there is none;
        "gradients" is missing where TensorFlow knows none.
    """
    with tf.Graph().as_default():
        fed = [tf.placeholder(kind_of(each), _told(each.shape, how)) for each in call.values]
        try:
            outputs = _flat(call.function(tf, *fed))
        except Exception as error:
            return {"raises": type(error).__name__, "when": "building"}
        found = {"dtypes": [each.dtype.base_dtype.name for each in outputs], "shapes": [*map(_static, outputs)]}
        sources = [each for each in fed if each.dtype.is_floating]
        slopes = None if call.later else _slopes(tf, outputs, sources) if sources else []
        feed = dict(zip(fed, call.values, strict=True))
        start = [tf.local_variables_initializer(), tf.tables_initializer()] if _keeps(tf) else []
        with tf.Session() as session:
            try:
                session.run(start)
                turns = [session.run(outputs, feed)] if not call.later else _turns(session, outputs, fed, call)
                found["values"] = [_plain(each) for turn in turns for each in turn]
            except Exception as error:
                return {"raises": type(error).__name__, "when": "running"}
            if slopes is not None:
                wanted = [each for each in slopes if each is not None]
                try:
                    made = iter(session.run(wanted, feed))
                except tf.errors.OpError:
                    return found
                found["gradients"] = [None if each is None else _plain(_dense(next(made))) for each in slopes]
    return found


def kind_of(value: np.ndarray) -> str:
    """The name of the dtype of what is fed."""
    return "string" if value.dtype == object else str(value.dtype)


def _keeps(tf: Any) -> bool:
    """Whether a graph has something that begins before it runs."""
    return bool(tf.local_variables() or tf.get_collection(tf.GraphKeys.TABLE_INITIALIZERS))


def _turns(session: Any, outputs: list[Any], fed: list[Any], call: Call) -> list[list[Any]]:
    feeds = [dict(zip(fed, values, strict=True)) for values in (call.values, *call.later)]
    return [[session.run(each, feed) for each in outputs] for feed in feeds]


def _told(shape: tuple[int, ...], how: str) -> list[int | None] | None:
    return {KNOWN: list(shape), SIZES_UNKNOWN: [None] * len(shape), NOTHING_KNOWN: None}[how]


def _flat(made: Any) -> list[Any]:
    return [leaf for each in made for leaf in _flat(each)] if isinstance(made, list | tuple) else [made]


def _static(tensor: Any) -> list[int | None] | None:
    return None if tensor.shape.ndims is None else tensor.shape.as_list()


def _slopes(tf: Any, outputs: list[Any], sources: list[Any]) -> list[Any] | None:
    weighted = []
    for each in outputs:
        if each.dtype.is_floating:
            factors = tf.cos(tf.cast(tf.range(tf.size(each)), each.dtype))
            weighted.append(tf.reduce_sum(tf.reshape(each, [-1]) * factors))
    if not weighted:
        return [None] * len(sources)
    try:
        return tf.gradients(weighted, sources)
    except (LookupError, TypeError, ValueError):  # TensorFlow does not know that of every operation
        return None


def _dense(gradient: Any) -> Any:
    if not hasattr(gradient, "indices"):
        return gradient
    full = np.zeros(tuple(gradient.dense_shape), gradient.values.dtype)
    np.add.at(full, gradient.indices, gradient.values)
    return full


def _plain(value: Any) -> Any:
    """Nested lists, in which floats have no more digits than their dtype, and the shape where a list cannot say it."""
    array = np.asarray(value)
    if array.dtype.kind in "OS":
        texts = [each.decode("latin-1") for each in array.astype(object).reshape(-1)]
        return {"shape": list(array.shape), "flat": texts}
    digits = (lambda each: float(str(each))) if array.dtype.kind == "f" else lambda each: each.item()
    return {"shape": list(array.shape), "flat": [digits(each) for each in array.reshape(-1)]}
