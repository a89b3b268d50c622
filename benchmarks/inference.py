"""Running built-in cells without gradients: `dynamic_rnn` against `torch.nn`, Python loops, JAX and TensorFlow."""

from collections.abc import Iterator

from benchmarks.harness import Case, Options, main
from benchmarks.peers import case
from benchmarks.problem import Problem, shapes


def cases(options: Options) -> Iterator[Case]:
    """One for every kind and shape."""
    for kind in ("LSTM", "GRU", "RNN"):
        for shape in shapes(options):
            yield case(Problem.of(kind, shape, options, training=False))


if __name__ == "__main__":
    main(__doc__, cases)
