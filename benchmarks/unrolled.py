"""A training step of a character model whose LSTM is called step by step in Python: ours beside TensorFlow's session.

A session of ours runs the calls as one loop. Calls that read back also read the last output; those that feed back read
the most probable character of the last output, and nothing else; those that attend read what the last one has found in
a memory of 20 steps.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.harness import Case, Contender, Options, main
from benchmarks.peers.tensorflow_session import tensorflow_session
from benchmarks.tf1_models import Attending, Model, Unrolled
from unspool import tf1 as tf

SIZES = [(1, 128), (20, 256), (50, 128), (8, 32)]
"""Rows and units."""
STEPS = 50


def beside_tensorflow(title: str, steps: int, model: Model) -> Case:
    """A model of TensorFlow 1's kind, trained by a session of ours and by one of TensorFlow's."""
    trained = model.trained(tf)
    contenders, absent = [Contender("tf1, a session", lambda: (trained(),), "unspool")], dict[str, str]()
    try:
        contenders.append(tensorflow_session(model))
    except ImportError as error:
        absent["TensorFlow"] = str(error)
    return Case(title, steps, contenders, absent=absent)


def cases(options: Options) -> Iterator[Case]:
    """One LSTM at several sizes; then two of them, and calls that depend on the last output."""
    sizes, steps = ([(2, 8)], 6) if options.quick else (SIZES, STEPS)
    for rows, units in sizes:
        yield beside_tensorflow(f"B{rows} T{steps} H{units}", steps, Unrolled(rows, steps, units))
    if not options.quick:
        yield beside_tensorflow(f"B50 T{steps} H128, two layers", steps, Unrolled(50, steps, 128, layers=2))
    for rows, units in sizes[-2:]:
        title = f"B{rows} T{steps} H{units}"
        yield beside_tensorflow(f"{title}, reads back", steps, Unrolled(rows, steps, units, reads_back=True))
        yield beside_tensorflow(f"{title}, feeds back", steps, Unrolled(rows, steps, units, feeds_back=True))
        yield beside_tensorflow(f"{title}, attends", steps, Attending(rows, steps, units, 20))


if __name__ == "__main__":
    main(__doc__, cases)
