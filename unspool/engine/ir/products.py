"""Costs of the matrix products of a program: shapes, how often each runs, FLOPs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch.utils.flop_counter import flop_registry

from unspool.engine.ir.program import Instruction, Program, RowCount, Value
from unspool.engine.trace.graph import aten

RUNS = {
    "invariant": "once a call",
    "before": "once a chunk",
    "core": "every step",
    "after": "once a chunk",
    "total": "once a call",
}
"""How often each part of a plan runs."""


@dataclass(frozen=True)
class ProductCost:
    """A matrix product or a convolution.

    Args:
        direction: "forward", "backward", or "forward again" where backward runs the loop between checkpoints again.
        part: the part of the plan that it is in.
        shapes: what is multiplied, such as "rows x 64 @ 64 x 512".
        runs: how often it runs.
        row_flops: its floating-point operations for a row and step; None if it has no rows.
        flops: those of the whole call.
        source: the line of the cell's code that it came from; empty in the adjoint.
    """

    direction: str
    part: str
    shapes: str
    runs: str
    row_flops: int | None
    flops: int
    source: str


def products_of(program: Program, direction: str, part: str, rows: int) -> Iterator[ProductCost]:
    """The products of one part of a plan that runs over so many rows."""
    for each in program.instructions:
        cost = flops(each)
        if cost:
            has_rows = any(not value.shared for value in each.uses())
            row_flops, total = (cost, cost * rows) if has_rows else (None, cost)
            yield ProductCost(direction, part, _shapes(each), RUNS[part], row_flops, total, each.source)


def flops(instruction: Instruction) -> int:
    """The floating-point operations of a product for one row; 0 for what is none.

    >>> import torch
    >>> from unspool.engine.ir.program import Kind
    >>> x, y = Value("x", (64,), torch.float32), Value("y", (512,), torch.float32)
    >>> w = Value("w", (64, 512), torch.float32, shared=True)
    >>> flops(Instruction(Kind.PRODUCT, aten.mm.default, (x, w), {}, (y,))) == 2 * 64 * 512
    True
    """
    if instruction.operation is aten.mv.default:
        return 2 * math.prod(_one_step(instruction.arguments[0]))
    formula: Any = flop_registry.get(getattr(instruction.operation, "overloadpacket", None))
    if formula is None:
        return 0
    results = [_one_step(each) for each in instruction.results]
    return formula(*map(_one_step, instruction.arguments), out_val=results[0] if len(results) == 1 else results)


def _one_step(argument: Any) -> Any:
    """A tensor's shape for one row; anything else as it is."""
    if not isinstance(argument, Value):
        return argument
    return [size.times if isinstance(size, RowCount) else size for size in argument.sizes]


def _shapes(instruction: Instruction) -> str:
    """The two factors."""
    convolution = "convolution" in instruction.name
    left, right, *others = instruction.uses()
    if instruction.operation is aten.convolution_backward.default and instruction.arguments[-1][0]:
        right = others[0]  # the gradient of the input: that of the output, with the weight
    return f"{_shape(left)} {'conv' if convolution else '@'} {_shape(right)}"


def _shape(value: Value) -> str:
    return " x ".join(map(str, value.sizes))
