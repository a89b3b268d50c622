"""A step on a GPU in fewer launches: products of the same rows are joined, and pointwise work between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from unspool.engine.emit.cuda.join import join_pointwise, join_products
from unspool.engine.emit.cuda.kernel import Kernel
from unspool.engine.emit.interpreted import Interpreted, Step
from unspool.engine.emit.python import as_python, fuse
from unspool.engine.ir.program import Program


class Joined(Interpreted):
    """Runs a core over a chunk of steps by kernels made for it, and by operations of torch where there is none."""

    def _compile(self, program: Program, device: torch.device) -> Step:
        run = partial(as_function, device=device)
        program, across = join_products(Program(program.inputs, tuple(fuse(program)), program.outputs), run)
        program = join_pointwise(program, run)
        self._across = [self.core.shared.index(matrix) for matrix in across]
        step, source = as_python(program, "step", device)
        kernels = [each.operation for each in program.instructions if isinstance(each.operation, Kernel)]
        return step, source + "".join(f"\n{kernel.source}\n" for kernel in kernels)

    def prepare(self, shared: Sequence[Tensor]) -> list[Tensor]:
        """With the matrices that kernels read across."""
        return super().prepare(shared) + [shared[k].t().contiguous() for k in self._across]


def as_function(part: Program, name: str, device: torch.device) -> Callable[..., Any]:
    """Runs a part of a step by operations of torch; a single result as it is."""
    function, _ = as_python(part, name, device)

    def run(rows: int, *inputs: Tensor) -> Any:
        results = function(rows, *inputs)
        return results[0] if len(results) == 1 else results

    return run
