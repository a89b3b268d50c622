"""Building at first use: the life of a cell before and after its weights have shapes."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.parameter import UninitializedParameter

import unspool
from tests.zoo import ZOO, inputs_for
from unspool import GRUCell, LSTMCell, MultiRNNCell, dynamic_rnn
from unspool.structure import flatten

LAZY = [name for name in ZOO if name != "nested"]  # the one cell of the zoo that is built by its constructor


def run(cell: Any, name: str, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    torch.manual_seed(7)
    inputs = inputs_for(name, 2, 3, dtype)
    return flatten(dynamic_rnn(cell, inputs, [3, 1], dtype=dtype)[0])[0]


@pytest.mark.parametrize("name", LAZY)
def test_an_unbuilt_cell_builds_at_first_use(name: str) -> None:
    cell = ZOO[name]()
    assert any(isinstance(weight, UninitializedParameter) for weight in cell.parameters())
    before = [id(weight) for weight in cell.parameters()]
    run(cell, name)
    assert cell.built
    assert not any(isinstance(weight, UninitializedParameter) for weight in cell.parameters())
    assert [id(weight) for weight in cell.parameters()] == before


@pytest.mark.parametrize("name", LAZY)
def test_an_optimiser_made_before_building_trains_the_cell(name: str) -> None:
    cell = ZOO[name]()
    optimiser = torch.optim.Adam(cell.parameters(), lr=0.1)
    loss = run(cell, name).square().sum()
    before = [weight.detach().clone() for weight in cell.parameters()]
    loss.backward()
    optimiser.step()
    moved = [not torch.equal(old, new) for old, new in zip(before, cell.parameters(), strict=True)]
    assert all(moved) or name == "lstm-everything"  # all clipped outputs have gradients of zero there
    assert any(moved)


@pytest.mark.parametrize("built", [False, True], ids=["unbuilt", "built"])
@pytest.mark.parametrize("name", ZOO)
def test_copies_compute_the_same(name: str, built: bool) -> None:
    """deepcopy, and pickling where the cell holds no lambda: in both states of life, with the same results after."""
    cell = ZOO[name]()
    if built:
        run(cell, name)
    copies = [copy.deepcopy(cell)]
    if name != "residual-fn":
        copies.append(pickle.loads(pickle.dumps(cell)))
    kinds = [type(weight) for weight in cell.parameters()]
    for other in copies:
        assert other is not cell
        assert [type(weight) for weight in other.parameters()] == kinds
        run(other, name)
        run(cell, name)
        other.load_state_dict(cell.state_dict())
        assert torch.equal(run(other, name), run(cell, name))


@pytest.mark.parametrize("name", ZOO)
def test_state_dict_round_trips(name: str) -> None:
    cell = ZOO[name]()
    expected = run(cell, name)
    buffer = io.BytesIO()
    torch.save(cell.state_dict(), buffer)
    buffer.seek(0)
    fresh = ZOO[name]()
    fresh.load_state_dict(torch.load(buffer))  # gives an unbuilt cell its shapes
    assert torch.equal(run(fresh, name), expected)


@pytest.mark.parametrize("name", LAZY)
def test_the_state_dict_of_an_unbuilt_cell_round_trips(name: str) -> None:
    cell, other = ZOO[name](), ZOO[name]()
    assert cell.state_dict().keys() == dict(cell.named_parameters()).keys()
    other.load_state_dict(cell.state_dict())
    assert not other.built
    run(other, name)


def test_a_built_cell_refuses_a_state_dict_of_other_shapes() -> None:
    with pytest.raises(RuntimeError, match="size mismatch for kernel"):
        LSTMCell(4, input_size=3).load_state_dict(LSTMCell(4, input_size=2).state_dict())


def test_input_size_builds_at_once() -> None:
    cell = LSTMCell(4, input_size=3)
    assert cell.built
    assert cell.kernel.shape == (7, 16)
    assert cell.input_size == 3
    assert LSTMCell(4).input_size is None


@pytest.mark.parametrize("name", LAZY)
def test_weights_take_the_dtype_of_the_first_inputs(name: str) -> None:
    cell = ZOO[name]()
    run(cell, name, torch.float64)
    assert {weight.dtype for weight in cell.parameters()} == {torch.float64}


def test_weights_take_the_dtype_that_the_cell_was_given_or_moved_to() -> None:
    assert LSTMCell(4, dtype="float64", input_size=3).kernel.dtype == torch.float64
    assert LSTMCell(4, input_size=3).kernel.dtype == torch.float32
    moved = LSTMCell(4).to(torch.float64)
    moved.build(3)
    assert moved.kernel.dtype == torch.float64
    given = LSTMCell(4, dtype=torch.float64)
    given(torch.zeros(2, 3, dtype=torch.float64), given.zero_state(2, torch.float64))
    assert given.bias.dtype == torch.float64
    elsewhere = LSTMCell(4).to("meta")
    elsewhere.build(3, dtype=torch.float32, device="cpu")
    assert elsewhere.kernel.device.type == "meta"
    pickled = pickle.loads(pickle.dumps(LSTMCell(4).to(torch.float64)))
    pickled.build(3)
    assert pickled.kernel.dtype == torch.float64


def test_loading_gives_the_dtype_that_was_saved() -> None:
    cell = GRUCell(4)
    cell.load_state_dict(GRUCell(4, dtype="float64", input_size=3).state_dict())
    assert cell.gates_kernel.dtype == torch.float64


def test_an_unbuilt_cell_converts_to_every_dtype() -> None:
    for convert in ["half", "bfloat16", "double"]:
        cell = getattr(LSTMCell(4), convert)()
        cell.build(3)
        assert (
            cell.kernel.dtype == {"half": torch.float16, "bfloat16": torch.bfloat16, "double": torch.float64}[convert]
        )


def test_the_state_dict_of_an_unbuilt_cell_can_be_saved_to_a_file() -> None:
    buffer = io.BytesIO()
    torch.save(LSTMCell(4).state_dict(), buffer)
    buffer.seek(0)
    cell = LSTMCell(4)
    cell.load_state_dict(torch.load(buffer))
    assert not cell.built


def test_a_built_in_cell_may_be_untrainable() -> None:
    cell = LSTMCell(4, trainable=False, input_size=3)
    assert not any(weight.requires_grad for weight in cell.parameters())
    assert cell.get_config()["trainable"] is False


def test_an_initialiser_may_fill_or_return() -> None:
    filled = LSTMCell(2, initializer=lambda w: torch.nn.init.constant_(w, 0.5), input_size=2)
    returned = LSTMCell(2, initializer=lambda w: torch.full_like(w, 0.5), input_size=2)
    assert torch.equal(filled.kernel, returned.kernel)
    assert (filled.kernel == 0.5).all()


def test_a_build_that_fails_leaves_the_cell_as_it_was() -> None:
    def only_matrices(weight: torch.Tensor) -> None:
        if weight.dim() == 1:
            raise ValueError("a vector")
        nn.init.ones_(weight)

    cell = LSTMCell(2, use_peepholes=True, initializer=only_matrices)
    weights = list(cell.parameters())
    for depth in (3, 3, 7):
        with pytest.raises(ValueError, match="a vector"):
            cell.build(depth)
        assert not cell.built
        assert cell.has_uninitialized_params()
    cell.initializer = nn.init.ones_
    cell.build(4)
    assert cell.kernel.shape == (6, 8)
    assert all(one is other for one, other in zip(weights, cell.parameters(), strict=True))
    assert (cell.w_f_diag == 1).all()


def test_inputs_must_have_the_depth_of_loaded_weights() -> None:
    cell = GRUCell(4)
    cell.load_state_dict(GRUCell(4, input_size=3).state_dict())
    assert cell.input_size == 3
    with pytest.raises(ValueError, match="gru_cell: inputs have depth 5, but the cell was built for 3"):
        dynamic_rnn(cell, torch.zeros(2, 1, 5), dtype=torch.float32)


def test_what_was_not_loaded_is_made_at_first_use() -> None:
    cell = LSTMCell(3)
    kernel = torch.rand(5, 12)
    cell.load_state_dict({"kernel": kernel}, strict=False)
    cell(torch.zeros(2, 2), cell.zero_state(2, torch.float32))
    assert torch.equal(cell.kernel, kernel)
    assert not cell.bias.any()


def test_a_cell_first_used_in_inference_mode_can_be_trained() -> None:
    inputs = torch.randn(2, 5, 3)
    cell = unspool.DropoutWrapper(GRUCell(4), 0.5, variational_recurrent=True, input_size=3, dtype=torch.float32)
    with torch.inference_mode():
        dynamic_rnn(cell, inputs, [5, 2], dtype=torch.float32)
        cell(inputs[:, 0].clone(), cell.zero_state(2, torch.float32))
    output, _ = cell(inputs[:, 0], cell.zero_state(2, torch.float32))
    (dynamic_rnn(cell, inputs, [5, 2], dtype=torch.float32)[0].sum() + output.sum()).backward()
    assert all(weight.grad is not None for weight in cell.parameters())


@pytest.mark.parametrize("input_size", [3, None])
def test_a_cell_made_in_inference_mode_can_be_trained(input_size: int | None) -> None:
    with torch.inference_mode():
        cell = GRUCell(4, input_size=input_size)
    dynamic_rnn(cell, torch.randn(2, 5, 3), dtype=torch.float32)[0].sum().backward()
    assert all(weight.grad is not None for weight in cell.parameters())


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # torch's own tracing looks
def test_a_compiled_cell_is_built_first() -> None:
    """`torch.compile` wraps a module; "eager" compiles nothing, but traces and wraps as the others do."""
    inputs = torch.randn(2, 3, 3)
    cell = GRUCell(4)
    compiled = torch.compile(cell, backend="eager")
    outputs, _ = dynamic_rnn(MultiRNNCell([compiled]), inputs, [3, 1], dtype=torch.float32)
    torch.testing.assert_close(outputs, dynamic_rnn(cell, inputs, [3, 1], dtype=torch.float32)[0])


def test_a_cell_can_be_frozen_before_and_after_building() -> None:
    frozen = GRUCell(4).requires_grad_(False)
    frozen.build(3)
    assert not any(weight.requires_grad for weight in frozen.parameters())
    thawed = GRUCell(4).requires_grad_(False).requires_grad_(True)
    thawed.build(3)
    assert all(weight.requires_grad for weight in thawed.parameters())


def test_weights_that_are_made_under_autocast_are_not_halves() -> None:
    """As those of torch's lazy layers: what autocast made of the inputs is not their dtype."""
    layer = unspool.RNN(LSTMCell(5))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        outputs, _ = layer(nn.Linear(3, 3)(torch.randn(4, 7, 3)))
    assert {each.dtype for each in layer.parameters()} == {torch.float32}
    assert outputs.dtype == torch.bfloat16
