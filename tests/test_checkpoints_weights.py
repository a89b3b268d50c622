"""Weights from checkpoints: cells and torch's modules then compute what TensorFlow computed, or nothing has changed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.cells import Duck, Nested, Plus1, TenLines
from tests.checkpoint_files import FOLDER, expected, expected_variables
from tests.zoo import ZOO, inputs_for
from unspool import (
    BasicLSTMCell,
    BasicRNNCell,
    DropoutWrapper,
    GRUCell,
    HighwayWrapper,
    LSTMCell,
    MultiRNNCell,
    WeightsMismatchError,
    bidirectional_dynamic_rnn,
    dynamic_rnn,
    load_tf1_weights,
    stack_bidirectional_dynamic_rnn,
    tf_variables,
)
from unspool.structure import flatten


def assert_close(found: Any, model: str, dtype: str = "float32") -> None:
    wanted = expected(model)
    outputs = [wanted[key] for key in sorted(wanted) if key.startswith("out_")]
    tolerance = {"float32": 1e-5, "float64": 1e-10}[dtype]
    leaves = flatten(found)
    assert len(leaves) == len(outputs)
    for leaf, output in zip(leaves, outputs, strict=True):
        np.testing.assert_allclose(leaf.detach().numpy(), output, rtol=0, atol=tolerance)


def data(model: str) -> tuple[torch.Tensor, list[int]]:
    wanted = expected(model)
    return torch.from_numpy(wanted["x"]), wanted["lengths"].tolist()


# -- cells -----------------------------------------------------------------------------------------------------------

CELLS: dict[str, Callable[[Any], Any]] = {
    "lstm_stack": lambda size: MultiRNNCell([LSTMCell(5, input_size=size), LSTMCell(3)]),
    "lstm_stack_float64": lambda size: MultiRNNCell([LSTMCell(5, input_size=size), LSTMCell(3)]),
    "lstm_options": lambda size: LSTMCell(5, use_peepholes=True, num_proj=3, input_size=size),
    "lstm_projection": lambda size: LSTMCell(5, num_proj=3, forget_bias=0.5, input_size=size),
    "basic_lstm": lambda size: BasicLSTMCell(4, input_size=size),
    "basic_rnn": lambda size: BasicRNNCell(4, input_size=size),
    "gru": lambda size: GRUCell(4, input_size=size),
    "partitioned": lambda size: LSTMCell(6, num_unit_shards=3, num_proj=4, num_proj_shards=2, input_size=size),
}
WITH_LENGTHS = {"lstm_stack", "lstm_stack_float64", "lstm_options", "gru"}


@pytest.mark.parametrize("size", [None, 4], ids=["unbuilt", "built"])
@pytest.mark.parametrize("model", CELLS)
def test_a_cell_computes_what_tensorflow_computed(model: str, size: int | None) -> None:
    cell = CELLS[model](size)
    x, lengths = data(model)
    cell = cell.to(x.dtype) if size else cell
    load_tf1_weights(cell, FOLDER / model)
    dtype = "float64" if x.dtype == torch.float64 else "float32"
    assert {weight.dtype for weight in cell.parameters()} == {x.dtype}
    assert_close(dynamic_rnn(cell, x, lengths if model in WITH_LENGTHS else None, dtype=x.dtype), model, dtype)


def test_a_partitioned_kernel_goes_into_a_cell_without_shards() -> None:
    cell = LSTMCell(6, num_proj=4)
    load_tf1_weights(cell, FOLDER / "partitioned", "rnn")
    assert_close(dynamic_rnn(cell, data("partitioned")[0], dtype=torch.float32), "partitioned")


def test_parts_of_a_list_of_variables_are_put_together() -> None:
    made = LSTMCell(4, num_unit_shards=12, input_size=9)
    arrays = {f"{name}:0": weight.detach().numpy() for name, weight in tf_variables(made).items()}
    assert "rnn/lstm_cell/kernel/part_11:0" in arrays
    for cell in (LSTMCell(4), LSTMCell(4, num_unit_shards=3)):
        load_tf1_weights(cell, arrays)
        assert torch.equal(cell.kernel, made.kernel)


def test_both_directions() -> None:
    cells = LSTMCell(3), LSTMCell(3)
    for cell, direction in zip(cells, ("fw", "bw"), strict=True):
        load_tf1_weights(cell, FOLDER / "bidirectional", f"bidirectional_rnn/{direction}")
    x, _ = data("bidirectional")
    assert_close(bidirectional_dynamic_rnn(*cells, x, dtype=torch.float32), "bidirectional")


def test_layers_of_both_directions() -> None:
    cells = {direction: [LSTMCell(3), LSTMCell(3)] for direction in ("fw", "bw")}
    for direction, layers in cells.items():
        for k, cell in enumerate(layers):
            scope = f"stack_bidirectional_rnn/cell_{k}/bidirectional_rnn/{direction}"
            load_tf1_weights(cell, FOLDER / "bidirectional_layers", scope)
    x, _ = data("bidirectional_layers")
    outputs = stack_bidirectional_dynamic_rnn(cells["fw"], cells["bw"], x, dtype=torch.float32)[0]
    assert_close(outputs, "bidirectional_layers")


def test_two_data_files() -> None:
    lower, upper = LSTMCell(4), GRUCell(3)
    load_tf1_weights(lower, FOLDER / "two_shards")
    load_tf1_weights(upper, FOLDER / "two_shards")
    outputs, _ = dynamic_rnn(lower, data("two_shards")[0], dtype=torch.float32)
    assert_close(dynamic_rnn(upper, outputs, dtype=torch.float32), "two_shards")


@pytest.mark.parametrize("name", ZOO)
def test_every_cell_takes_the_weights_of_another_like_it(name: str) -> None:
    torch.manual_seed(0)
    one, other, inputs = ZOO[name](), ZOO[name](), inputs_for(name, 2, 3, torch.float32)
    expected = dynamic_rnn(one, inputs, dtype=torch.float32)
    arrays = {path: weight.detach().numpy() for path, weight in tf_variables(one, "a/b").items()}
    load_tf1_weights(other, arrays)
    torch.testing.assert_close(dynamic_rnn(other, inputs, dtype=torch.float32), expected, rtol=0, atol=0)


def test_a_users_cell_is_built_for_the_shapes_of_the_checkpoint() -> None:
    made, cell = TenLines(3), MultiRNNCell([DropoutWrapper(TenLines(3)), GRUCell(2)])
    made.build(5)
    stack = MultiRNNCell([made, GRUCell(2, input_size=3)])
    load_tf1_weights(cell, tf_variables(stack, "x"))
    assert cell.cells[0].cell.mix.in_features == 8


def test_a_cell_that_has_its_weights_from_a_state_dict_is_loaded_again() -> None:
    cell, stack = GRUCell(4), MultiRNNCell([LSTMCell(5), LSTMCell(3)])
    cell.load_state_dict(GRUCell(4, input_size=4).state_dict())
    stack.load_state_dict(MultiRNNCell([LSTMCell(5, input_size=4), LSTMCell(3, input_size=5)]).state_dict())
    load_tf1_weights(cell, FOLDER / "gru")
    load_tf1_weights(stack, FOLDER / "lstm_stack")
    x, lengths = data("gru")
    assert_close(dynamic_rnn(cell, x, lengths, dtype=torch.float32), "gru")
    x, lengths = data("lstm_stack")
    assert_close(dynamic_rnn(stack, x, lengths, dtype=torch.float32), "lstm_stack")


def test_an_optimiser_goes_on_with_the_weights_it_has() -> None:
    cell = GRUCell(4)
    optimiser = torch.optim.SGD(cell.parameters(), 0.1)
    load_tf1_weights(cell, FOLDER / "gru")
    before = cell.gates_kernel.clone()
    dynamic_rnn(cell, data("gru")[0], dtype=torch.float32)[0].sum().backward()
    optimiser.step()
    assert not torch.equal(before, cell.gates_kernel)


def test_refusing_draws_no_random_numbers() -> None:
    torch.manual_seed(0)
    wanted = torch.rand(1)
    torch.manual_seed(0)
    with pytest.raises(WeightsMismatchError):
        load_tf1_weights(GRUCell(5), FOLDER / "gru")
    assert torch.equal(torch.rand(1), wanted)


# -- torch's modules -------------------------------------------------------------------------------------------------


def states(module: nn.LSTM, final: Any) -> Any:
    """The final states of an nn.LSTM in TensorFlow's order: by layer, the memory first."""
    h, c = final
    return [leaf for k in range(len(h)) for leaf in (c[k], h[k])]


@pytest.mark.parametrize("scope", [None, "rnn"])
def test_an_nn_lstm_computes_what_tensorflow_computed(scope: str | None) -> None:
    module = nn.LSTM(4, 4, batch_first=True)
    load_tf1_weights(module, FOLDER / "basic_lstm", scope)
    outputs, final = module(data("basic_lstm")[0])
    assert_close([outputs, *states(module, final)], "basic_lstm")
    assert not module.bias_hh_l0.any()


def test_layers_of_an_nn_lstm_compute_what_tensorflow_computed() -> None:
    module = nn.LSTM(4, 4, 2, batch_first=True)
    load_tf1_weights(module, FOLDER / "lstm_layers", "model/rnn")
    outputs, final = module(data("lstm_layers")[0])
    assert_close([outputs, *states(module, final)], "lstm_layers")


def lstm_of_one_width(layers: int, proj: int | None = None) -> tuple[Any, Any]:
    """Cells of unspool with random weights, and these by name."""
    torch.manual_seed(0)
    sizes = [5, *([proj or 4] * (layers - 1))]
    cells = [LSTMCell(4, num_proj=proj, input_size=size) for size in sizes]
    stack = MultiRNNCell(cells) if layers > 1 else cells[0]
    for weight in stack.parameters():
        nn.init.normal_(weight)
    return stack, {name: weight.detach().numpy() for name, weight in tf_variables(stack, "enc").items()}


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")  # torch's word on nn.LSTM
@pytest.mark.parametrize("proj", [None, 3])
@pytest.mark.parametrize("layers", [1, 3])
def test_layers_and_projections_of_an_nn_lstm(layers: int, proj: int | None) -> None:
    stack, arrays = lstm_of_one_width(layers, proj)
    module = nn.LSTM(5, 4, layers, proj_size=proj or 0, batch_first=True)
    load_tf1_weights(module, arrays)
    x = torch.randn(2, 6, 5)
    torch.testing.assert_close(module(x)[0], dynamic_rnn(stack, x, dtype=torch.float32)[0], rtol=0, atol=1e-5)


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
def test_an_nn_lstm_with_a_projection_and_another_forget_bias_computes_what_tensorflow_computed() -> None:
    module = nn.LSTM(4, 5, proj_size=3, batch_first=True)
    load_tf1_weights(module, FOLDER / "lstm_projection", forget_bias=0.5)
    outputs, final = module(data("lstm_projection")[0])
    assert_close([outputs, *states(module, final)], "lstm_projection")


def test_a_bidirectional_nn_lstm_computes_what_tensorflow_computed() -> None:
    module = nn.LSTM(4, 3, bidirectional=True, batch_first=True)
    load_tf1_weights(module, FOLDER / "bidirectional")
    outputs, final = module(data("bidirectional")[0])
    assert_close([*outputs.chunk(2, 2), *states(module, final)], "bidirectional")


def test_bidirectional_layers_of_an_nn_lstm_compute_what_tensorflow_computed() -> None:
    module = nn.LSTM(4, 3, 2, bidirectional=True, batch_first=True)
    load_tf1_weights(module, FOLDER / "bidirectional_layers")
    assert_close(module(data("bidirectional_layers")[0])[0], "bidirectional_layers")


def test_an_nn_rnn_computes_what_tensorflow_computed() -> None:
    module = nn.RNN(4, 4, batch_first=True, dtype=torch.float64)
    load_tf1_weights(module, FOLDER / "basic_rnn")
    outputs, final = module(data("basic_rnn")[0])
    assert_close([outputs, final[0]], "basic_rnn", "float64")


def cudnn_gru(x: torch.Tensor, w: dict[str, torch.Tensor]) -> torch.Tensor:
    """The equations of `CudnnCompatibleGRUCell`."""
    h, outputs = torch.zeros(x.shape[0], 4), []
    for step in x.unbind(1):
        r, u = torch.sigmoid(torch.cat([step, h], 1) @ w["gates/kernel"] + w["gates/bias"]).chunk(2, 1)
        inner = step @ w["candidate/input_projection/kernel"] + w["candidate/input_projection/bias"]
        hidden = h @ w["candidate/hidden_projection/kernel"] + w["candidate/hidden_projection/bias"]
        h = u * h + (1 - u) * torch.tanh(inner + r * hidden)
        outputs.append(h)
    return torch.stack(outputs, 1)


CUDNN_GRU = {
    "gates/kernel": (7, 8),
    "gates/bias": (8,),
    "candidate/input_projection/kernel": (3, 4),
    "candidate/input_projection/bias": (4,),
    "candidate/hidden_projection/kernel": (4, 4),
    "candidate/hidden_projection/bias": (4,),
}


def test_an_nn_gru_takes_the_cell_that_has_its_equations() -> None:
    torch.manual_seed(0)
    weights = {name: torch.randn(shape) for name, shape in CUDNN_GRU.items()}
    below = "cudnn_gru/rnn/multi_rnn_cell/cell_0/cudnn_compatible_gru_cell"
    saved = {f"{below}/{name}": value for name, value in weights.items()}
    module = nn.GRU(3, 4, batch_first=True)
    # CudnnGRU saves the biases of cuDNN beside those of the cell.
    load_tf1_weights(
        module, {**saved, f"{below}/bias_cudnn 0": torch.zeros(4), f"{below}/bias_cudnn 1": torch.zeros(4)}
    )
    x = torch.randn(2, 5, 3)
    torch.testing.assert_close(module(x)[0], cudnn_gru(x, weights), rtol=0, atol=1e-5)


def test_cudnns_lstm_has_no_forget_bias() -> None:
    arrays = {
        f"rnn/cudnn_compatible_lstm_cell/{name}": np.zeros(shape) for name, shape in (("kernel", (7, 16)), ("bias", 16))
    }
    module = nn.LSTM(3, 4)
    load_tf1_weights(module, arrays)
    assert not module.bias_ih_l0.any()
    load_tf1_weights(module, arrays, forget_bias=0.25)
    assert module.bias_ih_l0.tolist() == [0.0] * 4 + [0.25] * 4 + [0.0] * 8


def test_the_scope_of_a_cell_of_any_name() -> None:
    cell = LSTMCell(4, name="mine", input_size=3)
    arrays = tf_variables(cell, "rnn")
    module = nn.LSTM(3, 4)
    load_tf1_weights(module, arrays, "rnn/mine")
    torch.testing.assert_close(module.weight_hh_l0[:4], cell.kernel[3:, :4].T)


# -- dtypes ----------------------------------------------------------------------------------------------------------


def test_floating_point_values_are_converted_to_the_dtype_of_the_weights() -> None:
    cell, half = MultiRNNCell([LSTMCell(5, dtype="float32"), LSTMCell(3, dtype="float32")]), GRUCell(4, dtype="float16")
    load_tf1_weights(cell, FOLDER / "lstm_stack_float64")
    load_tf1_weights(half, FOLDER / "gru")
    assert {weight.dtype for weight in cell.parameters()} == {torch.float32}
    assert torch.equal(half.gates_bias, torch.from_numpy(expected_variables("gru")["rnn/gru_cell/gates/bias"]).half())


@pytest.mark.parametrize("build", [True, False])
@pytest.mark.parametrize(
    ("bias", "message"),
    [
        (np.zeros(8, np.int32), r"gru_cell/gates/bias holds torch\.int32, but expected torch\.float16"),
        (np.full(8, 1e30), r"gru_cell/gates/bias holds values that are too large for torch\.float16"),
    ],
)
def test_values_that_cannot_be_converted(bias: np.ndarray, message: str, build: bool) -> None:
    cell = GRUCell(4, dtype="float16", input_size=4 if build else None)
    before = snapshot(cell)
    arrays = {**expected_variables("gru"), "rnn/gru_cell/gates/bias": bias}
    with pytest.raises(ValueError, match=message):
        load_tf1_weights(cell, arrays)
    assert_unchanged(cell, before)


def test_nan_and_infinity_are_values_too() -> None:
    cell = GRUCell(4, dtype="float16")
    bias = np.array([np.inf, -np.inf, np.nan, 0, 0, 0, 0, 0])
    load_tf1_weights(cell, {**expected_variables("gru"), "rnn/gru_cell/gates/bias": bias})
    np.testing.assert_array_equal(cell.gates_bias.detach().numpy(), bias)


# -- what is refused -------------------------------------------------------------------------------------------------


def snapshot(module: nn.Module) -> Any:
    built = [getattr(each, "built", None) for each in module.modules()]
    return built, {k: type(v) if nn.parameter.is_lazy(v) else v.clone() for k, v in module.named_parameters()}


def assert_unchanged(module: nn.Module, before: Any) -> None:
    after = snapshot(module)
    assert after[0] == before[0]
    assert after[1].keys() == before[1].keys()
    for name, value in after[1].items():
        assert value is before[1][name] or torch.equal(value, before[1][name])


MODULES: dict[str, Callable[[], Any]] = {
    "built": lambda: MultiRNNCell([LSTMCell(5, input_size=4), LSTMCell(3, input_size=5)]),
    "unbuilt": lambda: MultiRNNCell([LSTMCell(5), LSTMCell(3)]),
}
STACK = "rnn/multi_rnn_cell/cell_1/lstm_cell"


@pytest.mark.parametrize("module", MODULES)
def test_missing_unexpected_and_misshaped_names_are_listed_and_nothing_changes(module: str) -> None:
    cell = MODULES[module]()
    before = snapshot(cell)
    arrays = expected_variables("lstm_stack")
    arrays[f"{STACK}/kernel"] = arrays[f"{STACK}/kernel"].T
    arrays[f"{STACK}/biases"] = arrays.pop(f"{STACK}/bias")
    with pytest.raises(WeightsMismatchError) as caught:
        load_tf1_weights(cell, arrays, "rnn")
    error = caught.value
    assert (error.missing, error.unexpected, error.misshaped) == (
        [f"{STACK}/bias"],
        [f"{STACK}/biases"],
        [f"{STACK}/kernel"],
    )
    for line in (
        "in the scope 'rnn'",
        f"{STACK}/bias is missing; there is {STACK}/biases",
        f"{STACK}/biases is unexpected",
        f"{STACK}/kernel has shape [12, 8], but expected [8, 12]",
    ):
        assert line in str(error)
    assert_unchanged(cell, before)


@pytest.mark.parametrize("make", [BasicLSTMCell, partial(BasicLSTMCell, input_size=4), partial(nn.LSTM, 4)])
def test_a_damaged_checkpoint_changes_nothing(make: Callable[[int], Any], tmp_path: Path) -> None:
    for path in (FOLDER / "basic_lstm").iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    data = tmp_path / "model.ckpt-1.data-00000-of-00001"
    data.write_bytes(bytes(len(data.read_bytes())))
    cell = make(4)
    before = snapshot(cell)
    with pytest.raises(ValueError, match="is damaged"):
        load_tf1_weights(cell, tmp_path)
    assert_unchanged(cell, before)


def test_a_layer_too_many_is_unexpected() -> None:
    cell = MultiRNNCell([LSTMCell(5)])
    with pytest.raises(WeightsMismatchError) as caught:
        load_tf1_weights(cell, FOLDER / "lstm_stack")
    assert caught.value.unexpected == [f"{STACK}/bias", f"{STACK}/kernel"]


def test_peepholes_do_not_go_into_an_nn_lstm() -> None:
    module = nn.LSTM(4, 5, proj_size=3)
    before = snapshot(module)
    with pytest.raises(WeightsMismatchError, match=r"w_f_diag is unexpected[\s\S]*nn.LSTM has no peepholes"):
        load_tf1_weights(module, FOLDER / "lstm_options")
    assert_unchanged(module, before)


def test_a_gru_cell_does_not_go_into_an_nn_gru() -> None:
    with pytest.raises(WeightsMismatchError, match=r"nn\.GRU resets after .* load that one into an unspool\.GRUCell"):
        load_tf1_weights(nn.GRU(4, 4), FOLDER / "gru")


def test_two_stacks_of_both_directions_are_not_bidirectional_layers() -> None:
    arrays = {
        f"bidirectional_rnn/{direction}/multi_rnn_cell/cell_{k}/lstm_cell/{name}": np.zeros(shape, np.float32)
        for direction in ("fw", "bw")
        for k in range(2)
        for name, shape in (("kernel", (6, 12)), ("bias", (12,)))
    }
    with pytest.raises(WeightsMismatchError, match="as in stack_bidirectional_dynamic_rnn"):
        load_tf1_weights(nn.LSTM(3, 3, 2, bidirectional=True), arrays)


def test_several_scopes_are_listed() -> None:
    with pytest.raises(ValueError, match=r"scopes 'bidirectional_rnn/bw', 'bidirectional_rnn/fw': give one of them"):
        load_tf1_weights(LSTMCell(3), FOLDER / "bidirectional")


def test_of_several_scopes_the_one_whose_shapes_fit_is_found() -> None:
    cell = LSTMCell(3)
    load_tf1_weights(cell, FOLDER / "lstm_stack")
    assert np.array_equal(cell.kernel.detach().numpy(), expected_variables("lstm_stack")[f"{STACK}/kernel"])


def test_without_a_scope_the_rest_of_the_checkpoint_is_not_the_cells() -> None:
    cell = GRUCell(4)
    arrays = {name.removeprefix("rnn/"): value for name, value in expected_variables("gru").items()}
    assert "global_step" in arrays
    load_tf1_weights(cell, arrays)
    load_tf1_weights(cell, arrays, "")
    with pytest.raises(WeightsMismatchError, match=r"outside of any scope\n  gru_cell/extra is unexpected"):
        load_tf1_weights(cell, {**arrays, "gru_cell/extra": np.zeros(1)}, "")


def test_names_of_another_cell_are_near() -> None:
    message = r"no scope has weights of LSTMCell[\s\S]*lstm_cell/kernel is missing; there is rnn/basic_lstm_cell/kernel"
    with pytest.raises(WeightsMismatchError, match=message):
        load_tf1_weights(LSTMCell(4), FOLDER / "basic_lstm")
    load_tf1_weights(LSTMCell(4, name="basic_lstm_cell"), FOLDER / "basic_lstm")


@pytest.mark.parametrize(
    ("module", "arguments", "error", "message"),
    [
        (
            nn.LSTM(4, 4, bias=False),
            {},
            ValueError,
            "has no biases, but TensorFlow's cells all have: make it with bias",
        ),
        (
            GRUCell(4),
            dict(forget_bias=1.0),
            ValueError,
            r"forget_bias is 1\.0, but only an nn\.LSTM takes one, not GRU",
        ),
        (GRUCell(4), dict(scope=3), TypeError, "scope must be a string or None, but is 3"),
        (nn.Linear(2, 3), {}, TypeError, r"'cell' \(Linear.*\) is not an RNNCell"),
        (Plus1(), {}, ValueError, "has no weights"),
        (Duck(), {}, ValueError, "has no weights"),
        (HighwayWrapper(Nested(3)), {}, ValueError, "is not built, and cannot be: .*; give it its input_size, call"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_arguments(module: Any, arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        load_tf1_weights(module, FOLDER / "gru", **arguments)
