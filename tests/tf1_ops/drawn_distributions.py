"""What distributions know of drawn values, with drawn parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.tf1_ops.call import Call
from tests.tf1_ops.distributions import OF_ITSELF, OF_VALUES
from tests.tf1_ops.drawing import Draw, Generator, flag, one_of, places, sizes

Made = tuple[Callable[..., Any], tuple[np.ndarray, ...]]


def _thinned(rng: Generator, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that can be stretched to this one."""
    kept = [1 if rng.random() < 0.3 else size for size in shape]
    return tuple(kept[int(rng.integers(0, len(kept) + 1)) :]) if flag(rng) else tuple(kept)


def _interval(kind: str, rng: Generator, shape: tuple[int, ...], dtype: str) -> Made:
    """A normal or a uniform distribution, whose two parameters need not have one shape."""
    first = np.asarray(rng.normal(size=shape)).astype(dtype)
    wide = np.asarray(rng.uniform(0.3, 2.0, _thinned(rng, shape))).astype(dtype)
    second = wide if kind == "Normal" else np.asarray(first.max(initial=0.0) + wide).astype(dtype)
    return (lambda tf, a, b: getattr(tf.distributions, kind)(a, b)), (first, second)


def _classes(kind: str, rng: Generator, shape: tuple[int, ...], dtype: str) -> Made:
    """A categorical or a Bernoulli distribution, of logits or of probabilities."""
    full = (*shape, int(rng.integers(1, 5))) if kind == "Categorical" else shape
    by = one_of(rng, ["logits", "probs"])
    given = np.asarray(rng.normal(size=full) if by == "logits" else rng.uniform(0.1, 0.9, full))
    if by == "probs" and kind == "Categorical":
        given = given / given.sum(-1, keepdims=True)
    return (lambda tf, x: getattr(tf.distributions, kind)(**{by: x})), (given.astype(dtype),)


def _made(kind: str, rng: Generator, shape: tuple[int, ...], dtype: str) -> Made:
    return (_interval if kind in ("Normal", "Uniform") else _classes)(kind, rng, shape, dtype)


def _of_values(kind: str, name: str) -> Draw:
    def draw(rng: Generator) -> Call:
        shape, dtype = sizes(rng, 0, 2), one_of(rng, "fffd")
        make, parameters = _made(kind, rng, shape, dtype)
        asked = (*sizes(rng, 0, 1), *shape) if flag(rng) else _thinned(rng, shape)
        values = np.asarray(rng.normal(size=asked)).astype(dtype)
        if kind == "Categorical":
            values = places(rng, asked, parameters[0].shape[-1]).astype(np.int32)
        elif kind == "Bernoulli":
            values = np.asarray(rng.integers(0, 2, asked)).astype(np.int32)
        return Call(lambda tf, x, *p: getattr(make(tf, *p), name)(x), (values, *parameters))

    return draw


def _of_itself(kind: str, name: str) -> Draw:
    def draw(rng: Generator) -> Call:
        make, parameters = _made(kind, rng, sizes(rng, 0, 2), one_of(rng, "fffd"))
        return Call(lambda tf, *p: getattr(make(tf, *p), name)(), parameters)

    return draw


def _divergence(kind: str) -> Draw:
    def draw(rng: Generator) -> Call:
        shape, state = sizes(rng, 0, 2), rng.bit_generator.state
        make, one = _made(kind, rng, shape, "f")
        rng.bit_generator.state = state  # of the same shapes
        _, other = _made(kind, rng, shape, "f")
        other = tuple((each * np.float32(0.8)).astype(np.float32) for each in other)

        def call(tf: Any, *given: Any) -> Any:
            half = len(given) // 2
            return tf.distributions.kl_divergence(make(tf, *given[:half]), make(tf, *given[half:]))

        return Call(call, (*one, *other))

    return draw


KNOWN = {
    "Normal": [*OF_VALUES, *OF_ITSELF, "batch_shape_tensor", "event_shape_tensor"],
    "Uniform": [*OF_VALUES, *(each for each in OF_ITSELF if each != "mode"), "range"],
    "Categorical": ["prob", "log_prob", "mode", "entropy", "batch_shape_tensor"],
    "Bernoulli": ["prob", "log_prob", *OF_ITSELF],
}
"""What each kind is asked for."""

DRAWN: dict[str, Draw] = {
    **{
        f"distributions.{kind}.{name}": (_of_values if name in OF_VALUES else _of_itself)(kind, name)
        for kind, names in KNOWN.items()
        for name in names
    },
    **{f"distributions.kl_divergence.{kind}": _divergence(kind) for kind in ("Normal", "Categorical", "Bernoulli")},
}
"""By the operation's name: what draws a call of it."""
