"""A training step of a character model whose LSTM is called step by step in Python: ours beside TensorFlow's session.

Where nothing hangs between the calls, a session of ours runs them as one loop; "reads back" are calls that cannot be
joined, each of which also reads the last output.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.harness import Case, Contender, Options, main
from benchmarks.peers.tensorflow_session import tensorflow_session
from benchmarks.tf1_models import Model, Unrolled
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
    """One LSTM at several sizes; then two of them, and calls that cannot be joined."""
    sizes, steps = ([(2, 8)], 6) if options.quick else (SIZES, STEPS)
    for rows, units in sizes:
        yield beside_tensorflow(f"B{rows} T{steps} H{units}", steps, Unrolled(rows, steps, units))
    rows, units = sizes[-1]
    if not options.quick:
        yield beside_tensorflow(f"B50 T{steps} H128, two layers", steps, Unrolled(50, steps, 128, layers=2))
        yield beside_tensorflow(f"B50 T{steps} H128, reads back", steps, Unrolled(50, steps, 128, reads_back=True))
    yield beside_tensorflow(
        f"B{rows} T{steps} H{units}, reads back", steps, Unrolled(rows, steps, units, reads_back=True)
    )


if __name__ == "__main__":
    main(__doc__, cases)
