"""The programs of `tests/tf1_programs/scripts`, which say `import tensorflow`, and how two libraries run them alike.

A script takes `--steps N`, trains on data from a seeded generator of NumPy's, and prints `losses: [...]` last, with the
loss of every training step. With its own number of steps it checks by itself that it has learnt. One that TensorFlow 2
can run through `tensorflow.compat.v1` says so in a line, `MARK`.
"""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent / "tf1_programs" / "scripts"
RECORDED = Path(__file__).parent / "data" / "tf1_scripts"
MARK = "# tensorflow.compat.v1 runs this."
STEPS = 20
"""How many training steps are compared."""

SCRIPTS = {path.stem: path for path in sorted(FOLDER.glob("*.py"))}
COMPARED = {name: path for name, path in SCRIPTS.items() if MARK in path.read_text().splitlines()}


def losses(printed: str) -> list[float]:
    """What a script printed last."""
    last = printed.strip().splitlines()[-1]
    assert last.startswith("losses: "), last
    return json.loads(last.removeprefix("losses: "))


@contextmanager
def weights_by_name(tf: Any) -> Iterator[None]:
    """Lets `global_variables_initializer` give a trainable variable the values that belong to its name.

    The others begin as they say: slots of optimisers and counters with constants.
    """
    original = tf.global_variables_initializer

    def initializer() -> Any:
        trainable = tf.trainable_variables()
        others = [each for each in tf.global_variables() if not any(each is other for other in trainable)]
        assigned = [tf.assign(each, drawn(each).astype(each.dtype.base_dtype.as_numpy_dtype)) for each in trainable]
        return tf.group(*(each.op for each in assigned), tf.variables_initializer(others))

    places = list(_places(original))
    for module, name in places:
        setattr(module, name, initializer)
    try:
        yield
    finally:
        for module, name in places:
            setattr(module, name, original)


def drawn(variable: Any) -> np.ndarray:
    """Numbers that only the name and the shape decide."""
    rng = np.random.default_rng(zlib.crc32(variable.name.encode()))
    return 0.2 * rng.normal(size=variable.shape.as_list())


def _places(function: Callable[..., Any]) -> Iterator[tuple[Any, str]]:
    """Where the library's modules have a function."""
    for name, module in list(sys.modules.items()):
        if name.startswith(("tensorflow", "unspool.tf1")):
            names = getattr(module, "__dict__", {})
            yield from ((module, each) for each, value in list(names.items()) if value is function)
