"""Training a LayerNorm LSTM and a stack of three LSTMs: `dynamic_rnn` against the Python loop over the same step."""

from collections.abc import Iterator

from benchmarks.harness import Case, Options, main
from benchmarks.peers import case
from benchmarks.problem import Problem, shapes


def cases(options: Options) -> Iterator[Case]:
    """Two for every cell and shape, at full length and at lengths in 1..T; of these, `nn.LSTM` has only the stack."""
    for kind in ("LayerNorm LSTM", "three LSTMs"):
        for shape in shapes(options):
            for lengths in (False, True):
                yield case(Problem.of(kind, shape, options, lengths=lengths))


if __name__ == "__main__":
    main(__doc__, cases)
