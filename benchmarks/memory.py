"""Peak memory and time of training an LSTM: `dynamic_rnn`'s memory policies against `nn.LSTM` and the Python loop."""

from collections.abc import Iterator

import unspool
from benchmarks.harness import Case, Options, main
from benchmarks.peers import case, dynamic_rnn, loops, vendor
from benchmarks.problem import QUICK, Problem, Shape

SHAPE = Shape(64, 1024, 1024, 1024)


def cases(options: Options) -> Iterator[Case]:
    """One, with a contender for every policy."""
    problem = Problem.of("LSTM", QUICK if options.quick else SHAPE, options)
    root = round(problem.shape.steps**0.5)  # as many checkpoints as steps between two: the least memory of one level
    policies = {
        "Keep()": unspool.Keep(),
        "Recompute()": unspool.Recompute(),
        f"Checkpoint(every={root})": unspool.Checkpoint(every=root),
        f"Checkpoint(every={4 * root})": unspool.Checkpoint(every=4 * root),
    }
    ours = [dynamic_rnn(problem, f"dynamic_rnn, {name}", memory=policy) for name, policy in policies.items()]
    yield case(problem, [dynamic_rnn(problem), *ours], [vendor.padded, loops.plain])


if __name__ == "__main__":
    main(__doc__, cases)
