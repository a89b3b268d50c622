"""Weights from checkpoints: cells and torch's modules then compute what TensorFlow computed, or nothing has changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.cells import TenLines
from tests.checkpoint_files import FOLDER, expected, expected_variables
from tests.zoo import ZOO, inputs_for
from unspool import (
    BasicLSTMCell,
    BasicRNNCell,
    DropoutWrapper,
    GRUCell,
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


def test_nan_and_infinity_are_values_too() -> None:
    cell = GRUCell(4, dtype="float16")
    bias = np.array([np.inf, -np.inf, np.nan, 0, 0, 0, 0, 0])
    load_tf1_weights(cell, {**expected_variables("gru"), "rnn/gru_cell/gates/bias": bias})
    np.testing.assert_array_equal(cell.gates_bias.detach().numpy(), bias)
