"""What it is to be a cell: sizes, states, and what a loop may ask of it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from tests.cells import TenLines
from tests.zoo import ZOO, inputs_for
from unspool import GRUCell, LSTMCell, MultiRNNCell, ResidualWrapper, RNNCell, dynamic_rnn
from unspool.cells.like import initial_state_of
from unspool.structure import flatten, map_structure

LAZY = [name for name in ZOO if name != "nested"]  # the one cell of the zoo that is built by its constructor


def run(cell: Any, name: str, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    torch.manual_seed(7)
    inputs = inputs_for(name, 2, 3, dtype)
    return flatten(dynamic_rnn(cell, inputs, [3, 1], dtype=dtype)[0])[0]


# -- the contract ------------------------------------------------------------------------------------------------------


def test_a_user_written_cell_runs_and_trains() -> None:
    cell, inputs = TenLines(4), torch.randn(2, 5, 3)
    outputs, _ = dynamic_rnn(cell, inputs, [5, 2], dtype=torch.float32)
    outputs.sum().backward()
    assert cell.mix.weight.grad is not None
    assert cell.mix.weight.shape == (4, 7)


def test_build_gets_the_dtype_and_device_of_the_first_inputs() -> None:
    cell = TenLines(4)
    dynamic_rnn(cell, torch.zeros(2, 5, 3, dtype=torch.float64), dtype=torch.float64)
    assert cell.mix.weight.dtype == torch.float64
    cell = TenLines(4)
    dynamic_rnn(cell, torch.zeros(2, 5, 3, device="meta"), dtype=torch.float32)
    assert cell.mix.weight.device.type == "meta"


def test_what_a_build_that_is_not_told_where_makes_is_moved_there() -> None:
    class NotTold(TenLines):
        def build(self, input_size: int) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            super().build(input_size)
            self.norm = nn.BatchNorm1d(4)
            self.scale = nn.Parameter(torch.ones(4))

    cell = NotTold(4)
    dynamic_rnn(cell, torch.zeros(2, 5, 3, dtype=torch.float64), dtype=torch.float64)
    assert {weight.dtype for weight in cell.parameters()} == {torch.float64}
    assert cell.norm.running_mean is not None
    assert cell.norm.running_mean.dtype == torch.float64


def test_build_is_called_once_and_only_once() -> None:
    cell = TenLines(4)
    cell.build(3)
    mix = cell.mix
    dynamic_rnn(cell, torch.zeros(2, 5, 3), dtype=torch.float32)
    assert cell.mix is mix
    with pytest.raises(RuntimeError, match="TenLines is built already"):
        cell.build(3)


def test_build_gets_nested_sizes_for_nested_inputs() -> None:
    sizes: list[Any] = []

    class Sees(TenLines):
        def build(self, input_size: Any, **where: Any) -> None:
            sizes.append(input_size)

        def forward(self, inputs: Any, state: Any) -> Any:
            return state, state

    inputs = {"ids": torch.zeros(2, 5, dtype=torch.int64)[..., None], "image": torch.zeros(2, 5, 4, 3)}
    dynamic_rnn(Sees(4), inputs, dtype=torch.float32)
    assert sizes == [{"ids": 1, "image": torch.Size([4, 3])}]


def test_a_cell_without_sizes_or_step_says_what_to_define() -> None:
    cell = RNNCell()
    with pytest.raises(NotImplementedError, match="RNNCell must define state_size: set it in __init__"):
        _ = cell.state_size
    with pytest.raises(NotImplementedError, match="RNNCell must define output_size"):
        _ = cell.output_size
    with pytest.raises(NotImplementedError, match="must define forward"):
        cell(torch.zeros(2, 3), ())
    with pytest.raises(NotImplementedError, match="must define output_size"):
        dynamic_rnn(cell, torch.zeros(2, 3, 4), dtype=torch.float32)
    with pytest.raises(AttributeError, match="something_else"):
        _ = cell.something_else


def test_sizes_may_be_properties() -> None:
    class Sized(TenLines):
        state_size = property(lambda self: 4)  # pyright: ignore[reportAssignmentType]
        output_size = property(lambda self: 4)  # pyright: ignore[reportAssignmentType]

        def __init__(self) -> None:
            RNNCell.__init__(self)

    assert dynamic_rnn(Sized(), torch.zeros(2, 5, 3), dtype=torch.float32)[0].shape == (2, 5, 4)


def test_zero_state_has_the_structure_of_state_size() -> None:
    cell = ZOO["nested"]()
    state = cell.zero_state(torch.tensor(2), "float64")
    assert map_structure(lambda leaf: list(leaf.shape), state) == ([2, 3], {"map": [2, 2, 3], "level": [2]})
    assert all(leaf.dtype == torch.float64 for leaf in flatten(state))
    assert LSTMCell(3).zero_state(2, torch.float32, device="meta").c.device.type == "meta"
    with pytest.raises(ValueError, match=r"batch_size must be a scalar, but has shape \[2\]"):
        cell.zero_state(torch.tensor([2, 2]), torch.float32)
    with pytest.raises(ValueError, match="batch_size must not be negative, but is -1"):
        cell.zero_state(-1, torch.float32)


def test_a_zero_state_of_ones_own_is_used_by_the_loops() -> None:
    class Learned(GRUCell):
        def zero_state(self, batch_size: Any, dtype: Any) -> Any:  # TensorFlow's signature, without a device
            return torch.full((batch_size, 4), 0.5, dtype=dtype)

    inputs = torch.zeros(2, 0, 3, device="meta")
    _, state = dynamic_rnn(Learned(4).to("meta"), inputs, dtype=torch.float32)
    assert state.device.type == "meta"
    _, state = dynamic_rnn(MultiRNNCell([Learned(4)]), torch.zeros(2, 0, 3), dtype=torch.float32)
    assert torch.equal(state[0], torch.full((2, 4), 0.5))


def test_a_call_may_name_a_profiler_range() -> None:
    cell = GRUCell(4)
    with torch.profiler.profile(acc_events=True) as profile:
        cell(torch.zeros(2, 3), torch.zeros(2, 4), scope="my_step")
    assert "my_step" in {event.name for event in profile.events() or []}


def test_a_printed_cell_shows_its_arguments() -> None:
    text = repr(MultiRNNCell([LSTMCell(4, num_proj=2, input_size=3), GRUCell(3, name="top")]))
    assert "LSTMCell(num_units=4, num_proj=2, input_size=3)" in text
    assert "GRUCell(num_units=3, name='top')" in text


# -- weights ---------------------------------------------------------------------------------------------------------


def test_weights_are_read_at_every_call() -> None:
    """Tying, parametrisations and functional_call all just work."""
    torch.manual_seed(0)
    inputs = torch.randn(2, 5, 3)
    one, other = GRUCell(4, input_size=3), GRUCell(4, input_size=3)
    one.candidate_kernel = other.candidate_kernel
    dynamic_rnn(one, inputs, dtype=torch.float32)[0].sum().backward()
    assert other.candidate_kernel.grad is not None

    normed = nn.utils.parametrizations.weight_norm(LSTMCell(4, input_size=3), "kernel")
    outputs, _ = dynamic_rnn(normed, inputs, [5, 2], dtype=torch.float32)
    outputs.sum().backward()
    assert all(weight.grad is not None for weight in normed.parameters())

    doubled = {name: 2 * weight for name, weight in one.named_parameters()}
    _, twice = torch.func.functional_call(one, doubled, (inputs[:, 0], torch.zeros(2, 4)))
    _, once = one(inputs[:, 0], torch.zeros(2, 4))
    assert not torch.equal(once, twice)


def test_a_cell_used_in_two_loops_has_one_set_of_weights() -> None:
    cell, inputs = GRUCell(4), torch.randn(2, 5, 3)
    first, _ = dynamic_rnn(cell, inputs, dtype=torch.float32, scope="one")
    second, _ = dynamic_rnn(cell, inputs, dtype=torch.float32, scope="two")
    assert torch.equal(first, second)
    with pytest.raises(ValueError, match="gru_cell: inputs have depth 4, but the cell was built for 3"):
        dynamic_rnn(cell, torch.zeros(2, 5, 4), dtype=torch.float32)


@pytest.mark.parametrize("name", ZOO)
def test_functional_transforms(name: str) -> None:
    """`torch.func.grad` through a loop gives what backward gives."""
    torch.manual_seed(0)
    cell = ZOO[name]().double()
    inputs = inputs_for(name, 2, 3)
    expected = flatten(dynamic_rnn(cell, inputs, [3, 1], dtype=torch.float64)[0])[0]
    weights = dict(cell.named_parameters())
    gradients = torch.autograd.grad(expected.sum(), list(weights.values()), allow_unused=True)

    def loss(weights: dict[str, torch.Tensor]) -> torch.Tensor:
        def loop(*_: Any) -> Any:
            return dynamic_rnn(cell, inputs, [3, 1], dtype=torch.float64)

        with torch.nn.utils.stateless._reparametrize_module(cell, weights):
            return flatten(loop()[0])[0].sum()

    functional = torch.func.grad(loss)(weights)
    for gradient, other in zip(gradients, functional.values(), strict=True):
        torch.testing.assert_close(other, torch.zeros_like(other) if gradient is None else gradient, rtol=0, atol=1e-12)


def test_zero_states_are_made_on_a_device_which_is_set_only_for_those_that_are_not_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Untold(TenLines):
        def zero_state(self, batch_size: Any, dtype: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
            return torch.ones(batch_size, 2, dtype=dtype)

    made = torch.device("meta")
    assert initial_state_of(Untold(2), 3, torch.float32, made).device == made
    monkeypatch.setattr(torch, "device", None)  # which would be made the current one
    state = initial_state_of(MultiRNNCell([LSTMCell(3), ResidualWrapper(GRUCell(3))]), 3, torch.float32, made)
    assert {leaf.device.type for leaf in flatten(state)} == {"meta"}
