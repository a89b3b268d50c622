"""Weights by TensorFlow's names, and cells from their configurations."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.cells import Nested
from tests.zoo import ZOO, inputs_for
from unspool import (
    BasicLSTMCell,
    DropoutWrapper,
    EmbeddingWrapper,
    GRUCell,
    HighwayWrapper,
    InputProjectionWrapper,
    LSTMCell,
    MultiRNNCell,
    OutputProjectionWrapper,
    ResidualWrapper,
    dynamic_rnn,
    tf_variables,
)

GRU = ["gru_cell/gates/kernel", "gru_cell/gates/bias", "gru_cell/candidate/kernel", "gru_cell/candidate/bias"]


def names(cell: Any, scope: str = "rnn", depth: int = 3) -> list[str]:
    if not cell.built:
        cell.build(depth)
    return list(tf_variables(cell, scope))


def below(prefix: str, *paths: str) -> list[str]:
    return [f"{prefix}/{path}" for path in paths]


def test_every_option_of_the_lstm_has_its_variables_in_order() -> None:
    assert names(LSTMCell(4, use_peepholes=True, num_proj=2)) == below(
        "rnn/lstm_cell", "kernel", "bias", "w_f_diag", "w_i_diag", "w_o_diag", "projection/kernel"
    )


def test_shards_are_views_into_the_weights() -> None:
    cell = LSTMCell(4, num_unit_shards=2, num_proj=3, num_proj_shards=3, input_size=2)
    found = tf_variables(cell)
    assert list(found) == below(
        "rnn/lstm_cell",
        *["kernel/part_0", "kernel/part_1", "bias"],
        *["projection/kernel/part_0", "projection/kernel/part_1", "projection/kernel/part_2"],
    )
    assert [len(found[f"rnn/lstm_cell/kernel/part_{k}"]) for k in range(2)] == [3, 2]  # the first takes the odd row
    assert [len(found[f"rnn/lstm_cell/projection/kernel/part_{k}"]) for k in range(3)] == [2, 1, 1]
    with torch.no_grad():
        found["rnn/lstm_cell/kernel/part_1"].fill_(7.0)
    assert (cell.kernel[3:] == 7).all()
    assert not (cell.kernel[:3] == 7).any()


def test_names_and_scopes() -> None:
    assert names(GRUCell(4)) == below("rnn", *GRU)
    assert names(GRUCell(4), "bidirectional_rnn/fw") == below("bidirectional_rnn/fw", *GRU)
    assert names(GRUCell(4), "") == GRU
    assert names(LSTMCell(4, name="foo")) == below("rnn/foo", "kernel", "bias")
    assert names(LSTMCell(4, name="basic_lstm_cell")) == names(BasicLSTMCell(4))


def test_wrappers_add_no_level_and_stacks_do() -> None:
    cell = ResidualWrapper(MultiRNNCell([DropoutWrapper(GRUCell(3)), ResidualWrapper(LSTMCell(3))]))
    assert names(cell) == [
        *below("rnn/multi_rnn_cell/cell_0", *GRU),
        *below("rnn/multi_rnn_cell/cell_1/lstm_cell", "kernel", "bias"),
    ]


def test_contributed_wrappers() -> None:
    assert names(InputProjectionWrapper(GRUCell(4), 2)) == below("rnn/input_projection_wrapper", "kernel", "bias", *GRU)
    assert names(OutputProjectionWrapper(GRUCell(4), 2)) == below(
        "rnn/output_projection_wrapper", *GRU, "kernel", "bias"
    )
    assert names(EmbeddingWrapper(GRUCell(4), 5, 2)) == below("rnn/embedding_wrapper", "embedding", *GRU)
    assert names(HighwayWrapper(GRUCell(3))) == below("rnn", *GRU, "carry_w", "carry_b")
    assert names(HighwayWrapper(GRUCell(3), couple_carry_transform_gates=False))[-2:] == below(
        "rnn", "transform_w", "transform_b"
    )


def test_a_cell_used_twice_is_named_once() -> None:
    cell = GRUCell(3)
    with pytest.warns(UserWarning, match="same cell object"):
        stack = MultiRNNCell([cell, cell])
    assert names(stack) == below("rnn/multi_rnn_cell/cell_0", *GRU)


def test_a_sharded_cell_used_twice_is_named_once() -> None:
    cell = LSTMCell(3, num_unit_shards=2)
    with pytest.warns(UserWarning, match="same cell object"):
        stack = MultiRNNCell([cell, cell])
    assert names(stack) == below("rnn/multi_rnn_cell/cell_0/lstm_cell", "kernel/part_0", "kernel/part_1", "bias")


def test_there_are_never_more_shards_than_rows() -> None:
    cell = LSTMCell(2, num_proj=1, num_proj_shards=3)
    assert names(cell)[-2:] == below("rnn/lstm_cell/projection/kernel", "part_0", "part_1")


def test_two_weights_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two different weights are both named rnn/carry_w"):
        names(HighwayWrapper(HighwayWrapper(GRUCell(3))))


def test_a_users_cell_has_its_own_names() -> None:
    assert names(Nested(3)) == ["rnn/nested/mix/weight", "rnn/nested/mix/bias"]


@pytest.mark.parametrize("name", ZOO)
def test_weights_move_either_way_by_copying(name: str) -> None:
    torch.manual_seed(0)
    one, other, inputs = ZOO[name](), ZOO[name](), inputs_for(name, 2, 3, torch.float32)
    expected = dynamic_rnn(one, inputs, dtype=torch.float32)
    dynamic_rnn(other, inputs, dtype=torch.float32)
    arrays = {path: weight.detach().numpy().copy() for path, weight in tf_variables(one).items()}
    with torch.no_grad():
        for path, weight in tf_variables(other).items():
            weight.copy_(torch.from_numpy(arrays[path]))
    torch.testing.assert_close(dynamic_rnn(other, inputs, dtype=torch.float32), expected, rtol=0, atol=0)


def test_a_stack_of_wrapped_cells_comes_back_from_its_configuration() -> None:
    stack = MultiRNNCell([DropoutWrapper(ResidualWrapper(GRUCell(3)), 0.5), LSTMCell(2)])
    again = MultiRNNCell.from_config(stack.get_config())
    assert repr(again) == repr(stack)


CONFIGURABLE = [name for name in ZOO if name not in ("nested", "wrapped-stack", "residual", "residual-fn")]


@pytest.mark.parametrize("name", CONFIGURABLE)
def test_a_cell_from_its_configuration_computes_the_same(name: str) -> None:
    torch.manual_seed(0)
    cell, inputs = ZOO[name](), inputs_for(name, 2, 3, torch.float32)
    config = cell.get_config()
    if "cell" in config:
        assert config["cell"]["class_name"] == type(cell.cell).__name__
        config["cell"] = type(cell.cell).from_config(config["cell"]["config"])
    again = type(cell).from_config(config)
    assert type(again) is type(cell)
    expected = dynamic_rnn(cell, inputs, [3, 1], dtype=torch.float32)
    dynamic_rnn(again, inputs, dtype=torch.float32)
    again.load_state_dict(cell.state_dict())
    torch.testing.assert_close(dynamic_rnn(again, inputs, [3, 1], dtype=torch.float32), expected, rtol=0, atol=0)


def test_the_configuration_holds_the_arguments_of_the_constructor() -> None:
    config = LSTMCell(4, num_proj=2, forget_bias=0.5, name="top", input_size=3).get_config()
    given = dict(num_units=4, num_proj=2, forget_bias=0.5, name="top", input_size=3, use_peepholes=False)
    assert given.items() <= config.items()
    assert LSTMCell.from_config(config).kernel.shape == (5, 16)  # pyright: ignore[reportAttributeAccessIssue]
