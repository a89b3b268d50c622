"""A chain of pointwise instructions as one kernel."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from unspool.engine.emit.cuda.forms import computes, inputs_of, pointers, reads, strides, writes
from unspool.engine.emit.cuda.kernel import Kernel
from unspool.engine.ir.program import Instruction, Value

THREADS = 256
"""In a block."""


class Pointwise(Kernel):
    """Pointwise instructions, all with results of the same shape.

    Args:
        instructions: these, in order.
        outputs: which of the results others need.
        otherwise, name: as in `Kernel`.
    """

    def __init__(
        self, instructions: Sequence[Instruction], outputs: Sequence[Value], otherwise: Callable[..., Any], name: str
    ) -> None:
        self.inputs, self.outputs = inputs_of(instructions), tuple(outputs)
        self._shape, self._times = self.outputs[0].shape, self.outputs[0].times
        super().__init__(name, self._text(instructions, name), otherwise)

    def launch(self, rows: int, inputs: Sequence[Tensor]) -> Any:
        """As in `Kernel`."""
        shape = (rows * self._times, *self._shape)
        count = math.prod(shape)
        function = self._compiled(self.source) if 0 < count < 2**31 else None
        if function is None:
            return None
        made = [torch.empty(shape, dtype=each.dtype, device=inputs[0].device) for each in self.outputs]
        apart = [stride for each in inputs for stride in each.expand(shape).stride()]
        function(grid=(-(-count // THREADS), 1, 1), block=(THREADS, 1, 1), args=[*inputs, *made, *apart, count])
        return made[0] if len(made) == 1 else made

    def _text(self, instructions: Sequence[Instruction], name: str) -> str:
        axes = range(1 + len(self._shape))
        given = [*pointers(self.inputs, self.outputs), *strides(self.inputs, axes), "int count"]
        lines = [
            "const int place = blockIdx.x * blockDim.x + threadIdx.x;",
            "if (place >= count) return;",
            "int left = place;",
        ]
        for axis in reversed(axes[1:]):
            size = self._shape[axis - 1]
            lines += [f"const long long i{axis} = left % {size};", f"left /= {size};"]
        lines += ["const long long i0 = left;", *reads(self.inputs, axes), *computes(instructions)]
        lines += writes(self.outputs, "place")
        head = f'extern "C" __global__ void {name}({", ".join(given)}) {{'
        return "\n".join([head, *(f"  {line}" for line in lines), "}"])
