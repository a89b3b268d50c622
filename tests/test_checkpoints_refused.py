"""Weights from checkpoints that do not fit: what is wrong is listed, and nothing has changed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.cells import Duck, Nested, Plus1
from tests.checkpoint_files import FOLDER, expected_variables
from unspool import (
    BasicLSTMCell,
    GRUCell,
    HighwayWrapper,
    LSTMCell,
    MultiRNNCell,
    WeightsMismatchError,
    load_tf1_weights,
)


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
