"""Cells that override `build`: what becomes of what they make there."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import unspool
from tests.cells import TenLines
from unspool import MultiRNNCell, RNNCell, dynamic_rnn


def test_a_users_cell_follows_its_arguments_and_moves() -> None:
    class Plain(TenLines):
        def __init__(self, **options: Any) -> None:
            RNNCell.__init__(self, **options)
            self.state_size = self.output_size = 4

        def build(self, input_size: int) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            super().build(input_size)
            self.register_buffer("offset", torch.zeros(4))

    for cell in [Plain(dtype="float64"), Plain().double()]:
        dynamic_rnn(cell, torch.zeros(2, 1, 3, dtype=torch.float64), dtype=torch.float64)
        assert cell.mix.weight.dtype == cell.offset.dtype == torch.float64
    frozen = Plain(trainable=False)
    frozen.build(3)
    assert not any(weight.requires_grad for weight in frozen.parameters())


def test_what_build_makes_has_the_mode_of_the_cell() -> None:
    class Noisy(TenLines):
        def build(self, input_size: int) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            self.mix = nn.Linear(input_size + 4, 4)
            self.noise = nn.Dropout(0.5)

    cell = Noisy(4).eval().requires_grad_(False)
    cell.build(3)
    assert not cell.noise.training
    assert not any(weight.requires_grad for weight in cell.parameters())


def test_a_build_may_call_the_builds_of_its_base_classes() -> None:
    class More(TenLines):
        def build(self, input_size: int, **where: Any) -> None:
            super().build(input_size, **where)
            if fails:
                raise ValueError("not yet")
            self.extra = nn.Linear(1, 1, **where)

    class Plain(RNNCell):
        def build(self, input_size: int, **where: Any) -> None:
            super().build(input_size, **where)
            raise ValueError("never")

    plain = Plain()
    with pytest.raises(ValueError, match="never"):
        plain.build(3)
    assert not plain.built

    fails = [True]
    cell = More(4)
    with pytest.raises(ValueError, match="not yet"):
        cell.build(3)
    assert not cell.built
    fails.clear()
    cell.build(3)
    assert cell.extra.weight.shape == (1, 1)


def test_loading_does_not_stand_in_for_build() -> None:
    class Scaled(RNNCell):
        def __init__(self) -> None:
            super().__init__()
            self.state_size = self.output_size = 2
            self.declare_weights("kernel")

        def build(self, input_size: int, **where: Any) -> None:
            self.scale = input_size**-0.5
            self.add_weight("kernel", (input_size, 2), nn.init.ones_, **where)

        def forward(self, inputs: Any, state: Any) -> Any:
            return inputs @ self.kernel * self.scale, state

    cell = Scaled()
    cell.load_state_dict({"kernel": torch.full((4, 2), 3.0)})
    output, _ = cell(torch.ones(1, 4), torch.zeros(1, 2))
    assert output.tolist() == [[6.0, 6.0]]


class Told(TenLines):
    """Makes its layer without being told where."""

    def build(self, input_size: int) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.mix = nn.Linear(input_size + 4, 4)


def test_a_cell_inside_another_keeps_its_own_place_and_dtype() -> None:
    inputs = torch.zeros(2, 5, 3)
    outputs, _ = dynamic_rnn(unspool.DeviceWrapper(Told(4), "meta"), inputs, dtype=torch.float32)
    assert outputs.device.type == "meta"
    inner = Told(4)
    inner.weight_dtype = torch.float64
    MultiRNNCell([inner]).build(3, dtype=torch.float32, device="cpu")
    assert inner.mix.weight.dtype == torch.float64


def test_what_cannot_be_real_is_not_made_real() -> None:
    class Rotating(TenLines):
        def build(self, input_size: int) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            self.phase = nn.Parameter(torch.ones(4, dtype=torch.complex64) * 1j)
            self.table = nn.Parameter(torch.arange(4), requires_grad=False)

    cell = Rotating(4)
    cell.build(3, torch.float32)
    assert torch.equal(cell.phase.detach(), torch.ones(4, dtype=torch.complex64) * 1j)
    assert cell.table.dtype == torch.int64


def test_modules_made_inside_modules_are_adopted_too() -> None:
    class Grows(TenLines):
        def __init__(self) -> None:
            super().__init__(4)
            self.layers = nn.ModuleList()

        def build(self, input_size: int) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            self.layers.append(nn.Sequential(nn.Linear(input_size, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)))

    cell = Grows().eval()
    cell.build(3, dtype=torch.float64)
    _, norm, dropout = cell.layers[0]  # pyright: ignore[reportGeneralTypeIssues]
    assert norm.running_mean.dtype == norm.weight.dtype == torch.float64
    assert not norm.training
    assert not dropout.training


def test_a_build_is_told_what_it_asks_for() -> None:
    class OnlyDtype(TenLines):
        def build(self, input_size: int, dtype: Any = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            self.mix = nn.Linear(input_size + 4, 4, dtype=dtype)

    cell = OnlyDtype(4)
    cell.build(3, torch.float64)
    assert cell.mix.weight.dtype == torch.float64


def test_a_lazy_module_inside_a_cell_may_stay_unbuilt() -> None:
    class Lazy(TenLines):
        def build(self, input_size: int) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            self.mix = nn.LazyLinear(4)  # pyright: ignore[reportIncompatibleVariableOverride]

    cell = Lazy(4)
    outputs, _ = dynamic_rnn(cell, torch.zeros(2, 3, 3), [0, 0], dtype=torch.float32)
    assert outputs.shape == (2, 3, 4)
    assert dynamic_rnn(cell, torch.zeros(2, 3, 3), [3, 1], dtype=torch.float32)[0].shape == (2, 3, 4)


def test_an_untrainable_cell_makes_weights_without_gradients() -> None:
    class Frozen(RNNCell):
        def __init__(self) -> None:
            super().__init__(trainable=False)
            self.state_size = self.output_size = 2
            self.declare_weights("scale")

        def build(self, input_size: Any, **where: Any) -> None:
            self.add_weight("scale", (2,), nn.init.ones_, **where)

        def forward(self, inputs: Any, state: Any) -> Any:
            return state * self.scale, state

    cell = Frozen()
    cell.build(3)
    assert not cell.scale.requires_grad
    with pytest.raises(ValueError, match=r"the weight 'scale' has shape \[2\], but expected \[3\]"):
        cell.add_weight("scale", (3,), nn.init.ones_)
