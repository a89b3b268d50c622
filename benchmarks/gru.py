"""Training a GRU, TensorFlow's and torch's: `dynamic_rnn` against `nn.GRU`, Python loops, JAX and TensorFlow."""

from collections.abc import Iterator

from benchmarks.harness import Case, Options, main
from benchmarks.peers import case
from benchmarks.problem import Problem, shapes


def cases(options: Options) -> Iterator[Case]:
    """One for every shape: TensorFlow's cell, which resets before the product, and then torch's, which resets after."""
    for shape in shapes(options):
        yield case(Problem.of("GRU", shape, options))
        yield case(Problem.of("GRU, reset after", shape, options))


if __name__ == "__main__":
    main(__doc__, cases)
