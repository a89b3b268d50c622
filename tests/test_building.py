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
from tests.cells import TenLines
from tests.zoo import ZOO, inputs_for
from unspool import GRUCell, LSTMCell, MultiRNNCell, RNNCell, dynamic_rnn
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


def test_inputs_must_have_the_depth_of_loaded_weights() -> None:
    cell = GRUCell(4)
    cell.load_state_dict(GRUCell(4, input_size=3).state_dict())
    assert cell.input_size == 3
    with pytest.raises(ValueError, match="gru_cell: inputs have depth 5, but the cell was built for 3"):
        dynamic_rnn(cell, torch.zeros(2, 1, 5), dtype=torch.float32)


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


def test_a_lazy_module_inside_a_cell_may_stay_unbuilt() -> None:
    class Lazy(TenLines):
        def build(self, input_size: int) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            self.mix = nn.LazyLinear(4)  # pyright: ignore[reportIncompatibleVariableOverride]

    cell = Lazy(4)
    outputs, _ = dynamic_rnn(cell, torch.zeros(2, 3, 3), [0, 0], dtype=torch.float32)
    assert outputs.shape == (2, 3, 4)
    assert dynamic_rnn(cell, torch.zeros(2, 3, 3), [3, 1], dtype=torch.float32)[0].shape == (2, 3, 4)


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


def test_every_public_name_is_exported_once_and_documented() -> None:
    assert len(set(unspool.__all__)) == len(unspool.__all__)
    for name in unspool.__all__:
        documentation = getattr(unspool, name).__doc__
        assert documentation, name
        assert ">>>" in documentation or name == "RNNCellWrapper", name
