"""Halves in kernels of the CUDA loop emitter: tiles of rows at once, and functions that are about as exact as they."""

from __future__ import annotations

import pytest
import torch

from tests.comparison import engine_loop, results
from tests.emulator import Emulated, emulated
from tests.emulator.cells import UNITS, problem
from unspool.engine.emit.cuda.loop.division import Units
from unspool.engine.emit.cuda.loop.lowered import lower
from unspool.engine.emit.cuda.loop.printer.kernel import KernelText
from unspool.engine.emit.cuda.loop.running import CudaLoop
from unspool.engine.emit.cuda.loop.tiles import Tiling
from unspool.engine.emit.protocol import Chunk
from unspool.engine.execute.counts import Counts
from unspool.engine.ir.core import Core
from unspool.engine.ir.program import Instruction, Kind, Value

aten = torch.ops.aten


def test_tiles_of_rows_that_are_multiplied_at_once_have_the_same_bits() -> None:
    own, inputs, state = problem("lstm", torch.bfloat16, batch=18)
    found = []
    for rows, at_once in ((8, 1), (16, 2), (32, 4)):
        with emulated(tiling=Tiling(Units(UNITS, 16), rows, warps=2)) as emitter:
            found.append(results(engine_loop, own, torch.bfloat16, [4, 0, 2, *[3] * 15], inputs, state))
            text = KernelText(lower(emitter.cores[0]), Tiling(Units(UNITS, 16), rows, warps=2))
        assert f"unspool::Kept::registers, {at_once}, false, false, 1>" in text.body
    assert all(torch.equal(each[key], found[0][key]) for each in found for key in found[0])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_functions_of_halves_are_torchs(dtype: torch.dtype) -> None:
    sizes = torch.logspace(-6, 2, 200)
    given = torch.cat([sizes, -sizes, torch.tensor([0.0, torch.inf, -torch.inf, torch.nan])]).to(dtype)
    h, x, *made = (Value(name, (len(given),), dtype) for name in ("h", "x", "y0", "y1", "y2"))
    functions = (aten.tanh.default, aten.sigmoid.default, aten.exp.default)
    steps = [Instruction(Kind.POINTWISE, each, (x,), {}, (y,)) for each, y in zip(functions, made, strict=True)]
    loop = CudaLoop(Core((h,), (x,), (), tuple(steps), (made[0],), tuple(made)), Emulated(), Tiling(None, 1, 2))
    _, found = loop(loop.prepare([]), Chunk(Counts([1]), [given[None]], [given[None]]))
    for own, function in zip(found, (torch.tanh, torch.sigmoid, torch.exp), strict=True):
        torch.testing.assert_close(own[0], function(given), equal_nan=True, rtol=torch.finfo(dtype).eps, atol=0)
