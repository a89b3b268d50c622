"""Training an LSTM on different lengths: `dynamic_rnn` against its own full length and `nn.LSTM`, packed and padded."""

from collections.abc import Iterator
from dataclasses import replace

from benchmarks.harness import Case, Options, main
from benchmarks.peers import case, dynamic_rnn
from benchmarks.problem import Problem, shapes


def cases(options: Options) -> Iterator[Case]:
    """One for every shape, lengths uniform in 1..T; if cost follows them, full length takes 1 / fill times as long."""
    for shape in (each for each in shapes(options) if each.batch > 1):  # a row alone has no padding
        problem = Problem.of("LSTM", shape, options, lengths=True)
        assert problem.lengths is not None
        ours = [
            dynamic_rnn(problem),
            replace(dynamic_rnn(problem.with_full_length(), "dynamic_rnn, full length"), same=False),
        ]
        if options.device == "cuda":  # where they may also be on the GPU, and nobody should wait for them
            ours.append(dynamic_rnn(problem, "dynamic_rnn, lengths on the GPU", problem.lengths.cuda()))
        yield case(problem, ours)


if __name__ == "__main__":
    main(__doc__, cases)
