"""What is drawn at random when a graph runs, and what a run does besides computing: it checks, prints, calls Python."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.tf1_ops.call import Call
from tests.tf1_ops.drawing import Draw, Generator, flag, floats, numbers, one_of, seldom, sizes
from tests.tf1_ops.drawn_state import checked

SCALED = {"glorot": (1.0, "fan_avg"), "he": (2.0, "fan_in"), "lecun": (1.0, "fan_in")}
TRUNCATED = 0.87962566
"""The deviation of a normal distribution that is cut at two deviations."""
ERRORS = [ValueError, TypeError, StopIteration, RuntimeError, MemoryError, NotImplementedError, KeyError]


def _moments(tf: Any, x: Any, mean: float, deviation: float, most: float | None) -> list[Any]:
    """How far numbers are from what they should be, in steps that 20,000 of them do not reach by chance."""
    off = x - mean
    found = [
        tf.reduce_mean(off) / deviation * 10.0,
        tf.log(tf.sqrt(tf.reduce_mean(off * off)) / deviation) / math.log(1.1),
        tf.reduce_max(tf.abs(off)) / (most or 1.0) * (20.0 if most else 0.0),
    ]
    return [tf.shape(x), *(tf.round(each) for each in found)]


def _as_scaled(scale: float, mode: str, shape: tuple[int, int], distribution: str) -> tuple[float, float, float | None]:
    """The mean, the deviation and the bound of weights whose variance goes with their shape."""
    size = {"fan_in": shape[0], "fan_out": shape[1], "fan_avg": sum(shape) / 2}[mode]
    deviation = math.sqrt(scale / size)
    bounds = {"uniform": math.sqrt(3) * deviation, "truncated_normal": 2 * deviation / TRUNCATED}
    return 0.0, deviation, bounds.get(distribution)


def _start(name: str) -> Draw:
    def draw(rng: Generator) -> Call:
        shape = tuple(int(each) for each in rng.integers(140, 260, 2))
        first, second = float(rng.uniform(-2, 2)), float(rng.uniform(0.5, 2))
        options: dict[str, Any] = {}
        if name == "random_normal":
            options, expected = dict(mean=first, stddev=second), (first, second, None)
        elif name == "truncated_normal":
            options, expected = dict(mean=first, stddev=second), (first, TRUNCATED * second, 2 * second)
        elif name == "random_uniform":
            options = dict(minval=first, maxval=first + second)
            expected = first + second / 2, second / math.sqrt(12), second / 2
        elif name == "variance_scaling":
            mode, kind = one_of(rng, ["fan_in", "fan_out", "fan_avg"]), one_of(rng, ["uniform", "truncated_normal"])
            kind = "untruncated_normal" if flag(rng) else kind
            options = dict(scale=second, mode=mode, distribution=kind)
            expected = _as_scaled(second, mode, shape, kind)
        else:
            family, _, kind = name.partition("_")
            expected = _as_scaled(*SCALED[family], shape, "uniform" if kind == "uniform" else "truncated_normal")
        dtype = one_of(rng, ["float32", "float64"])

        def call(tf: Any) -> Any:
            made = getattr(tf.initializers, name)(**options)(shape, dtype=dtype)
            return _moments(tf, tf.cast(made, tf.float32), *expected)

        return Call(call, ())

    return draw


def _orthogonal(rng: Generator) -> Call:
    shape, gain = tuple(int(each) for each in rng.integers(2, 6, 2)), float(rng.uniform(0.5, 2))

    def call(tf: Any) -> Any:
        made = tf.initializers.orthogonal(gain)(shape, dtype="float32")
        square = tf.matmul(made, made, transpose_a=shape[0] >= shape[1], transpose_b=shape[0] < shape[1])
        return [made * 0.0, tf.round(square / gain**2 * 100.0)]

    return Call(call, ())


def _asserted(rng: Generator) -> Call:
    x, shown = floats(rng, sizes(rng, 1, 2)), one_of(rng, [None, 1])
    whole = not seldom(rng)

    def call(tf: Any, x: Any) -> Any:
        fine = tf.reduce_all(x < 2) if whole else x < 2
        return checked(tf, tf.Assert(fine, [x, "are they"], summarize=shown), x)

    return Call(call, (x,))


def _printed(rng: Generator) -> Call:
    how = dict(message=one_of(rng, [None, "x: "]), summarize=one_of(rng, [None, 2, -1]), first_n=0)
    return Call(lambda tf, x: tf.Print(x, [x, tf.shape(x)], **how), (numbers(rng, sizes(rng, 0, 2)),))


def _raising(error: type[Exception]) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        raise error("no")

    return function


def _python(rng: Generator) -> Call:
    """One result, or several, or words; errors; other dtypes and counts than were said."""
    x = floats(rng, sizes(rng, 0, 2))
    functions: list[tuple[Callable[[Any], Any], Any]] = [
        (lambda each: each + 1, "float32"),
        (lambda each: each + 1, "float64"),
        (lambda each: (each * 2, np.int32(each.ndim)), ["float32", "int32"]),
        (lambda each: [each.sum()], ["float32"]),
        (lambda each: each, ["float32", "float32"]),
        (lambda each: str(each.ndim), "string"),
        (_raising(one_of(rng, ERRORS)), "float32"),
    ]
    function, kinds = one_of(rng, functions)
    return Call(lambda tf, x: tf.py_func(function, [x], kinds), (x,))


def _counted(rng: Generator) -> Call:
    """A function with an effect: how often a run calls it whose result is read twice, and is not fetched."""
    x = floats(rng, sizes(rng, 0, 2))

    def call(tf: Any, x: Any) -> Any:
        calls: list[float] = []

        def noted(each: Any) -> Any:
            calls.append(1.0)
            return each

        made = tf.py_func(noted, [x], "float32")
        made.set_shape(x.shape)
        with tf.control_dependencies([made + made]):
            return [tf.py_func(lambda: np.float32(len(calls)), [], "float32")]

    return Call(call, (x,), ((x,), (x,)))


RANDOM = ["random_normal", "random_uniform", "truncated_normal", "variance_scaling"]
RANDOM += [f"{family}_{kind}" for family in SCALED for kind in ("normal", "uniform")]
DRAWN: dict[str, Draw] = {
    **{f"initializers.{name}": _start(name) for name in RANDOM},
    "initializers.orthogonal": _orthogonal,
    "Assert": _asserted,
    "Print": _printed,
    "py_func": _python,
    "py_func with an effect": _counted,
}
"""By the operation's name: what draws a call of it."""
