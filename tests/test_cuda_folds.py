"""Folds over a row in the CUDA loop emitter, and what goes on with them: who reads, writes and waits when."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from tests.comparison import assert_same, engine_loop, plain_loop, results, wanting_gradients
from tests.emulator import Emulated, emulated
from unspool import RNNCell
from unspool.engine.emit.cuda.loop.division import Units
from unspool.engine.emit.cuda.loop.lowered import lower
from unspool.engine.emit.cuda.loop.printer.kernel import KernelText
from unspool.engine.emit.cuda.loop.tiles import Tiling

Step = Callable[["Cell", Tensor, Tensor], tuple[Tensor, Tensor]]
UNITS = 32
DIVIDED = Tiling(Units(UNITS, 8), 8, 2)
LENGTHS = [5, 0, 3, 1, 4]


class Cell(RNNCell):
    """A step of an input and a state of so many units, with weights to choose from."""

    def __init__(self, step: Step, units: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.state_size = self.output_size = units
        self.step = step
        self.matrix = nn.Parameter(torch.randn(units, units).double() / units)
        self.scale = nn.Parameter(torch.rand(units).double() + 0.5)
        self.one, self.other = (nn.Parameter(torch.rand(1).double()) for _ in range(2))

    def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        return self.step(self, x, h)


def check(step: Step, units: int, tiling: Tiling, seed: int = 1) -> list[KernelText]:
    """Asserts that loops in the emulator equal the plain one; the kernels of forward and adjoint."""
    own = Cell(step, units)
    inputs, state = wanting_gradients((torch.randn(5, 5, units).double(), torch.randn(5, units).double()))
    expected = results(plain_loop, own, torch.float64, LENGTHS, inputs, state)
    with emulated(Emulated(seed=seed), tiling) as emitter:
        assert_same(results(engine_loop, own, torch.float64, LENGTHS, inputs, state), expected)
        assert emitter.emulated.launches == 2  # neither core was left to another emitter
    return [KernelText(lower(core), tiling) for core in emitter.cores]


def summed_with_a_matrix(cell: Cell, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
    found = (cell.matrix * h[:, None, :]).sum(-1)
    return found + x, h + found


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("tiling", [Tiling(rows=1, warps=1), Tiling(rows=2, warps=4)])
@pytest.mark.parametrize("units", [8, 16, 40])
def test_a_state_is_stored_when_all_folds_of_the_row_have_read_it(units: int, tiling: Tiling, seed: int) -> None:
    check(summed_with_a_matrix, units, tiling, seed)


def cut_and_joined(cell: Cell, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
    h = torch.tanh(x + h @ cell.matrix) + cell.one
    return h, torch.cat([h[:, :1] * cell.other, h[:, 1:]], 1)


def test_lanes_wait_together_for_what_only_one_block_stores() -> None:
    texts = check(cut_and_joined, UNITS, DIVIDED)
    waiting = [line for text in texts for line in text.body.splitlines() if "unspool::posted(" in line]
    assert waiting
    assert all(line.strip().startswith("const auto ") for line in waiting)


def by_its_size(cell: Cell, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
    h = torch.tanh(x + h @ cell.matrix)
    size = h.square().sum(-1, keepdim=True).sqrt() + 1
    return h, h / size


def by_its_root(cell: Cell, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
    h = x + h @ cell.matrix
    return h, h * torch.rsqrt(h.square().mean(-1, keepdim=True) + 1e-5) * cell.scale


@pytest.mark.parametrize("step", [by_its_size, by_its_root])
@pytest.mark.parametrize("tiling", [DIVIDED, Tiling(Units(UNITS, 16), 8, 8), Tiling(rows=2, warps=2)])
def test_what_is_kept_of_a_fold_is_stored_by_one_lane(step: Step, tiling: Tiling) -> None:
    check(step, UNITS, tiling)
