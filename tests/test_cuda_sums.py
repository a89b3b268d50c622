"""Sums over rows and steps in the CUDA loop emitter: rows carry them, and nothing is read again after the loop."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from benchmarks.cells import LayerNormLSTM
from tests.comparison import assert_same, engine_loop, plain_loop, results, wanting_gradients
from tests.emulator import emulated
from tests.emulator.cells import problem
from unspool import RNNCell, dynamic_rnn
from unspool.engine.emit.cuda.loop.division import Units
from unspool.engine.emit.cuda.loop.rewrites.row_sums import RowSums
from unspool.engine.emit.cuda.loop.tiles import Tiling
from unspool.engine.emit.stages.lowering import is_row_sum
from unspool.engine.ir.core import Core

TILINGS = [Tiling(rows=2, warps=2), Tiling(Units(32, 8), 8, 2)]
LENGTHS = [4, 0, 3]


def adjoint(name: str, dtype: torch.dtype = torch.float32) -> Core:
    own, inputs, state = problem(name, dtype)
    with emulated(tiling=TILINGS[0]) as emitter:
        results(engine_loop, own, dtype, None, inputs, state)
    return emitter.cores[-1]


def sums_of(core: Core) -> list[str]:
    return [each.arguments[0].name for each in core.instructions if is_row_sum(each)]


@pytest.mark.parametrize("tiling", TILINGS)
@pytest.mark.parametrize("lengths", [None, LENGTHS])
@pytest.mark.parametrize("name", ["lstm", "gru", "layer norms", "peepholes and projection"])
def test_gradients_of_biases_and_scales_equal_the_plain_loops(name: str, lengths: Any, tiling: Tiling) -> None:
    dtype = torch.float64
    own, inputs, state = problem(name, dtype)
    if tiling.units is not None and "projection" in name:
        tiling = Tiling(Units(16, 8), 8, 2)
    with emulated(tiling=tiling) as emitter:
        found = results(engine_loop, own, dtype, lengths, inputs, state)
    assert sums_of(emitter.cores[-1])
    assert_same(found, results(plain_loop, own, dtype, lengths, inputs, state))


def test_a_bias_is_summed_where_its_gradient_is_computed() -> None:
    core = adjoint("lstm")
    assert len(sums_of(core)) == 1
    carrying = RowSums(core).core
    assert len(carrying.carried) == len(core.carried) + 1
    assert not any(is_row_sum(each) for each in carrying.instructions)


def test_what_is_computed_for_a_sum_alone_is_never_written() -> None:
    """A norm's scale has the sum of products as its gradient, and its shift that of what they are made of."""
    own: Any = LayerNormLSTM(4, 8).double()
    given = torch.randn(3, 4, 4).double(), own.zero_state(3, torch.float64)
    inputs, state = wanting_gradients(given)
    with emulated(tiling=TILINGS[0]) as emitter:
        found = results(engine_loop, own, torch.float64, LENGTHS, inputs, state)
    core = emitter.cores[-1]
    terms = sums_of(core)
    assert len(terms) == 2  # those of the norm of the product
    assert len([each for each in core.emitted if each.name in terms]) == 1  # what goes into the norm of the inputs
    assert_same(found, results(plain_loop, own, torch.float64, LENGTHS, inputs, state))


class SumsOfOthers(RNNCell):
    """The gradient of the scale needs what neither the loop reads nor computes: the inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.state_size = self.output_size = 8
        self.scale = nn.Parameter(torch.linspace(0.5, 1.5, 8))
        self.from_state = nn.Linear(8, 8)

    def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.tanh(torch.exp(x) * self.scale + self.from_state(h))
        return h, h


def test_sums_that_would_have_a_step_read_more_stay_beside_it() -> None:
    own, given = SumsOfOthers().double(), (torch.randn(3, 4, 8).double(), torch.randn(3, 8).double())
    inputs, state = wanting_gradients(given)
    with emulated(tiling=TILINGS[0]) as emitter:
        found = results(engine_loop, own, torch.float64, LENGTHS, inputs, state)
    assert len(sums_of(emitter.cores[-1])) == 1  # of the bias
    assert_same(found, results(plain_loop, own, torch.float64, LENGTHS, inputs, state))


def test_halves_are_added_up_as_wider_numbers() -> None:
    """Of 600 steps in bfloat16, a sum that were a half would stop growing: 256 + 1 is 256 there."""

    class Counts(RNNCell):
        def __init__(self) -> None:
            super().__init__()
            self.state_size = self.output_size = 8
            self.bias = nn.Parameter(torch.zeros(8))

        def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
            h = 0.5 * h + x + self.bias
            return h, h

    own, inputs = Counts().bfloat16(), torch.zeros(1, 600, 8, dtype=torch.bfloat16)
    with emulated(tiling=TILINGS[0]) as emitter:
        outputs, _ = dynamic_rnn(own, inputs, dtype=torch.bfloat16)
        outputs.backward(torch.ones_like(outputs))
    assert sums_of(emitter.cores[-1])
    assert own.bias.grad is not None
    torch.testing.assert_close(own.bias.grad, torch.full((8,), 1198.0).bfloat16(), rtol=2**-7, atol=0)


def test_sums_of_several_chunks_are_added() -> None:
    own, inputs, state = problem("lstm", torch.float64)

    def chunked(cell: Any, inputs: Any, lengths: Any, state: Any, dtype: torch.dtype) -> Any:
        return dynamic_rnn(cell, inputs, lengths, state, dtype, parallel_iterations=2)

    with emulated(tiling=TILINGS[0]) as emitter:
        found = results(chunked, own, torch.float64, LENGTHS, inputs, state)
    assert emitter.emulated.launches == 4
    assert_same(found, results(plain_loop, own, torch.float64, LENGTHS, inputs, state))
