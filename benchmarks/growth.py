"""How the cost of training an LSTM grows with steps, rows and lengths, each over two decades. A step here is one row's.

Where cost is linear, the time a step stays the same. Rows below eight or so cost more each, since matrices are read for
fewer of them.
"""

from collections.abc import Iterator
from dataclasses import replace

import torch

from benchmarks.harness import Case, Options, main
from benchmarks.peers import case
from benchmarks.peers.vendor import padded
from benchmarks.problem import QUICK, Problem, Shape

DECADES = (1, 3, 10, 30, 100)
DEPTH, UNITS = 64, 128


def cases(options: Options) -> Iterator[Case]:
    """Steps with 16 rows, rows with 50 steps, and lengths of 16 rows in a batch padded to 1600 steps."""
    if options.quick:
        yield _case("quick", Problem.of("LSTM", QUICK, options))
        return
    for factor in DECADES:
        yield _case(f"steps: {16 * factor}", Problem.of("LSTM", Shape(16, 16 * factor, DEPTH, UNITS), options))
    for factor in DECADES:
        yield _case(f"rows: {8 * factor}", Problem.of("LSTM", Shape(8 * factor, 50, DEPTH, UNITS), options))
    for factor in DECADES:
        problem = Problem.of("LSTM", Shape(16, 1600, DEPTH, UNITS), options)
        lengths = torch.linspace(8 * factor, 16 * factor, 16).long()
        yield _case(f"lengths: {8 * factor} to {16 * factor}", replace(problem, lengths=lengths))


def _case(title: str, problem: Problem) -> Case:
    rows = problem.shape.batch * problem.shape.steps if problem.lengths is None else int(problem.lengths.sum())
    return replace(case(problem, peers=[padded]), title=title, steps=rows)


if __name__ == "__main__":
    main(__doc__, cases)
