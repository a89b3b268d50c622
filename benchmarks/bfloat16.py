"""Training an LSTM in bfloat16: `dynamic_rnn` against `nn.LSTM` in bfloat16 and float16, Python loops and JAX."""

from collections.abc import Iterator
from dataclasses import replace

import torch

from benchmarks.harness import Case, Options, main
from benchmarks.peers import case, vendor
from benchmarks.problem import QUICK, Problem, Shape

SHAPES = [Shape(64, 256, 512, 512), Shape(16, 1024, 128, 128), Shape(64, 256, 1024, 1024)]


def cases(options: Options) -> Iterator[Case]:
    """One for every shape."""
    for shape in [QUICK] if options.quick else SHAPES:
        problem = Problem.of("LSTM", shape, options, dtype=torch.bfloat16)
        made = case(problem)
        yield replace(made, contenders=[*made.contenders, vendor.half(problem)])


if __name__ == "__main__":
    main(__doc__, cases)
