"""Training the basic cell: `dynamic_rnn` against `nn.RNN`, Python loops, JAX and TensorFlow."""

from collections.abc import Iterator

from benchmarks.harness import Case, Options, main
from benchmarks.peers import case
from benchmarks.problem import Problem, shapes


def cases(options: Options) -> Iterator[Case]:
    """One for every shape."""
    for shape in shapes(options):
        yield case(Problem.of("RNN", shape, options))


if __name__ == "__main__":
    main(__doc__, cases)
