"""Argmax of each row with its pointwise epilogue as one kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from unspool.engine.emit.cuda.forms import TYPES, computes, inputs_of, named, pointers, reads, strides, writes
from unspool.engine.emit.cuda.kernel import Kernel
from unspool.engine.emit.cuda.launch import WAIT, launch
from unspool.engine.ir.program import Instruction, Value

BEFORE = """
__device__ __forceinline__ bool before({type} a, int i, {type} b, int j) {{  // whether a, at i, comes before b, at j
  if (a != a || b != b) return a != a && (b == b || i < j);
  return a > b || (a == b && i < j);
}}
"""


class Largest(Kernel):
    """The place of the largest element of each row, the first one if there are several; NaN is larger than anything.

    Args:
        row: the rows to search, vectors.
        found: the place.
        tail: what is computed from it, one number for each row.
        outputs: what others need of these.
        otherwise, name: as in `Kernel`.
        places: where the places of the elements are, if they are not simply counted.
    """

    def __init__(
        self,
        row: Value,
        found: Value,
        tail: Sequence[Instruction],
        outputs: Sequence[Value],
        otherwise: Callable[..., Any],
        name: str,
        places: Value | None = None,
    ) -> None:
        (width,) = row.shape
        self._threads = min(1024, max(32, 1 << (width - 1).bit_length()))
        self._searched = [row] if places is None else [row, places]
        others = [each for each in inputs_of(tail) if each != found]
        self.inputs, self.outputs = (*self._searched, *others), tuple(outputs)
        given = [*pointers(self.inputs, outputs), *strides(others, [0])]
        lines = [*reads(others, [0]), *computes(tail), *writes(outputs, "i0")]
        text = _TEXT.format(
            name=name,
            type=TYPES[row.dtype],
            width=width,
            warps=self._threads // 32,
            given=", ".join(given),
            row=f"{row.name}_at",
            place="k" if places is None else f"(int){places.name}_at[i0 * {width} + k]",
            found=named(found),
            tail="\n  ".join(lines),
        )
        super().__init__(name, WAIT + BEFORE.format(type=TYPES[row.dtype]) + text, otherwise)

    def launch(self, rows: int, inputs: Sequence[Tensor]) -> Any:
        """As in `Kernel`."""
        function = self._compiled(self.source) if rows else None
        if function is None:
            return None
        cut = len(self._searched)
        searched = [each.contiguous() for each in inputs[:cut]]
        made = [torch.empty(rows, dtype=each.dtype, device=inputs[0].device) for each in self.outputs]
        apart = [each.expand(rows).stride(0) for each in inputs[cut:]]
        arguments = [*searched, *inputs[cut:], *made, *apart]
        launch(function, (rows, 1, 1), self._threads, arguments)
        return made[0] if len(made) == 1 else made


_TEXT = """
extern "C" __global__ void {name}({given}) {{
  wait_for_earlier();
  const long long i0 = blockIdx.x;
  const {type}* row = {row} + i0 * {width};
  int k = threadIdx.x < {width} ? threadIdx.x : 0;
  {type} best = row[k];
  int place = {place};
  for (k += blockDim.x; k < {width}; k += blockDim.x) {{
    const {type} next = row[k];
    const int there = {place};
    if (before(next, there, best, place)) best = next, place = there;
  }}
  __shared__ {type} bests[32];
  __shared__ int places[32];
  for (int round = 0; round < 2; round++) {{  // in each warp, then among the warps
    for (int apart = 16; apart > 0; apart /= 2) {{
      const {type} other = __shfl_down_sync(0xffffffffu, best, apart);
      const int there = __shfl_down_sync(0xffffffffu, place, apart);
      if (before(other, there, best, place)) best = other, place = there;
    }}
    if (round || {warps} == 1) break;
    if (threadIdx.x % 32 == 0) bests[threadIdx.x / 32] = best, places[threadIdx.x / 32] = place;
    __syncthreads();
    if (threadIdx.x >= 32) return;
    const int warp = threadIdx.x < {warps} ? threadIdx.x : 0;
    best = bests[warp], place = places[warp];
  }}
  if (threadIdx.x > 0) return;
  const long long {found} = place;
  {tail}
}}
"""
