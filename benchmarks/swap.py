"""What swapping to host memory saves and costs: `dynamic_rnn`'s `swap_memory` against `nn.LSTM` in `save_on_cpu`."""

from collections.abc import Iterator

import unspool
from benchmarks.harness import Case, Options, main
from benchmarks.peers import case, dynamic_rnn, vendor
from benchmarks.problem import QUICK, Problem, Shape

SHAPES = [Shape(64, steps, 1024, 1024) for steps in (512, 1024, 4096)]


def cases(options: Options) -> Iterator[Case]:
    """One for every length."""
    for shape in [QUICK] if options.quick else SHAPES:
        problem = Problem.of("LSTM", shape, options)
        recompute = unspool.Recompute()
        ours = [
            dynamic_rnn(problem),
            dynamic_rnn(problem, "dynamic_rnn, swap_memory", swap_memory=True),
            dynamic_rnn(problem, "dynamic_rnn, Recompute()", memory=recompute),
            dynamic_rnn(problem, "dynamic_rnn, Recompute(), swap_memory", memory=recompute, swap_memory=True),
        ]
        yield case(problem, ours, [vendor.padded, vendor.saved_on_cpu])


if __name__ == "__main__":
    main(__doc__, cases)
