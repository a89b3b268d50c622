"""Training an LSTM in bfloat16: `dynamic_rnn` against itself and `nn.LSTM` in other dtypes, Python loops and JAX."""

from collections.abc import Iterator
from dataclasses import replace

import torch

from benchmarks.harness import Case, Contender, Options, main
from benchmarks.peers import case, dynamic_rnn, vendor
from benchmarks.problem import COMMON, QUICK, Problem, Shape

SHAPES = {
    "cpu": COMMON[:2],
    "cuda": [Shape(64, 256, 512, 512), Shape(16, 1024, 128, 128), Shape(64, 256, 1024, 1024)],
}


def cases(options: Options) -> Iterator[Case]:
    """One for every shape."""
    for shape in [QUICK] if options.quick else SHAPES[options.device]:
        problem = Problem.of("LSTM", shape, options, dtype=torch.bfloat16)
        if options.device == "cuda":
            made = case(problem)
            yield replace(made, contenders=[*made.contenders, vendor.half(problem)])
        else:
            made = case(problem, peers=[vendor.padded])
            yield replace(made, contenders=[*made.contenders, *others(shape, options)])


def others(shape: Shape, options: Options) -> Iterator[Contender]:
    """The same training in other dtypes, of which only the times are compared."""
    for dtype in (torch.float32, torch.float16):
        problem, name = Problem.of("LSTM", shape, options, dtype=dtype), str(dtype).removeprefix("torch.")
        yield replace(dynamic_rnn(problem, f"dynamic_rnn, {name}"), same=False)
        if dtype == torch.float32:  # in float16, torch's own takes some twenty times as long on a CPU
            module = vendor.padded(problem)
            assert module is not None
            yield replace(module, name=f"{module.name}, {name}", same=False)


if __name__ == "__main__":
    main(__doc__, cases)
