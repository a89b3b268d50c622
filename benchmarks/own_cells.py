"""Training cells that users write, and a stack: `dynamic_rnn` against the Python loop over the same step.

Beside them, for its time alone, `nn.LSTM` of the same size, and `dynamic_rnn` with the built-in LSTM.
"""

from collections.abc import Iterator
from dataclasses import replace

from benchmarks.harness import Case, Options, main
from benchmarks.peers import case, dynamic_rnn
from benchmarks.peers.loops import plain
from benchmarks.peers.vendor import padded
from benchmarks.problem import Kind, Problem, shapes

KINDS: tuple[Kind, ...] = ("LSTM by a user", "LayerNorm LSTM", "searched cell", "three LSTMs")


def cases(options: Options) -> Iterator[Case]:
    """One for every cell and shape, at full length."""
    for kind in KINDS:
        for shape in shapes(options):
            problem = Problem.of(kind, shape, options)
            ours, peers = [dynamic_rnn(problem)], [plain]
            if kind == "three LSTMs":
                peers.append(padded)
            else:
                built_in = Problem.of("LSTM", shape, options)
                ours.append(replace(dynamic_rnn(built_in, "dynamic_rnn, LSTMCell"), same=False))
                vendor = padded(built_in)
                assert vendor is not None
                ours.append(replace(vendor, same=False))
            yield case(problem, ours, peers)


if __name__ == "__main__":
    main(__doc__, cases)
