"""Every error of the cells and wrappers, by type and by what it says."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.cells import Nested, Plus1
from unspool import (
    BasicLSTMCell,
    BasicRNNCell,
    DeviceWrapper,
    DropoutWrapper,
    EmbeddingWrapper,
    GRUCell,
    HighwayWrapper,
    InputProjectionWrapper,
    LSTMCell,
    LSTMStateTuple,
    MultiRNNCell,
    OutputProjectionWrapper,
    ResidualWrapper,
    dynamic_rnn,
)

CELLS = [BasicRNNCell, GRUCell, BasicLSTMCell, LSTMCell]
X = torch.zeros(2, 3)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (dict(num_units=0), ValueError, "num_units must be positive, but is 0"),
        (dict(num_units=2.5), TypeError, r"num_units must be an int, but got 2\.5"),
        (dict(num_units=4, activation="wavy"), ValueError, "activation 'wavy' is unknown; known are elu"),
        (dict(num_units=4, activation=3), TypeError, "activation must be a function or its name, but got 3"),
        (
            dict(num_units=4, reuse=True),
            ValueError,
            "reuse=True: a cell owns its weights here; .* same cell object",
        ),
        (dict(num_units=4, dtype="float33"), TypeError, "torch has no dtype 'float33'"),
        (dict(num_units=4, input_size=torch.Size([3, 3])), ValueError, "expected ndim=2"),
    ],
)
def test_constructors(cell: Any, arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        cell(**arguments)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize(
    ("inputs", "error", "message"),
    [
        (torch.zeros(2, 3, dtype=torch.int32), ValueError, r"RNN cell only supports floating point inputs, but got"),
        (torch.zeros(2, 3, 4), ValueError, r"inputs have shape \[2, 3, 4\], but expected ndim=2"),
        ([X], TypeError, r"inputs must be one tensor, but are a list of 1"),
    ],
)
def test_inputs_are_checked_before_building(cell: Any, inputs: Any, error: type[Exception], message: str) -> None:
    made = cell(4)
    with pytest.raises(error, match=message):
        made(inputs, made.zero_state(2, torch.float32))
    assert not made.built


@pytest.mark.parametrize("cell", CELLS)
def test_steps_are_checked(cell: Any) -> None:
    made = cell(4, input_size=3)
    state = made.zero_state(2, torch.float32)
    with pytest.raises(ValueError, match="inputs have depth 5, but the cell was built for 3"):
        made(torch.zeros(2, 5), state)
    with pytest.raises(ValueError, match=r"has shape \[2, 4\], expected \[1, 4\]"):
        made(torch.zeros(1, 3), state)
    with pytest.raises(TypeError, match=r"inputs are torch\.float64, but the weights are torch\.float32"):
        made(X.double(), state)
    with pytest.raises(TypeError, match=r"is torch\.float64, but the weights are torch\.float32"):
        made(X, made.zero_state(2, torch.float64))


@pytest.mark.parametrize("cell", [BasicLSTMCell, LSTMCell])
def test_lstm_states(cell: Any) -> None:
    made = cell(4)
    for state in [torch.zeros(2, 8), (torch.zeros(2, 4),), (torch.zeros(2, 4),) * 3]:
        with pytest.raises(ValueError, match=r"state must be an LSTMStateTuple\(c=\.\.\., h=\.\.\.\), but is a"):
            made(X, state)
    with pytest.raises(ValueError, match=r"c has shape \[2, 5\], expected \[2, 4\]"):
        made(X, LSTMStateTuple(torch.zeros(2, 5), torch.zeros(2, 4)))
    concatenated = cell(4, state_is_tuple=False)
    with pytest.raises(ValueError, match=r"has shape \[2, 3\], expected \[2, 4\]|h has shape \[2, 2\]"):
        concatenated(X, torch.zeros(2, 6))
    with pytest.raises(ValueError, match="with state_is_tuple=False, state must be one tensor"):
        concatenated(X, (torch.zeros(2, 4), torch.zeros(2, 4)))


def test_an_lstm_state_of_two_dtypes_has_no_dtype() -> None:
    with pytest.raises(TypeError, match=r"must agree, but c is torch\.float32 and h is torch\.float64"):
        _ = LSTMStateTuple(torch.zeros(1), torch.zeros(1).double()).dtype


def test_lstm_options() -> None:
    with pytest.raises(ValueError, match="num_proj must be positive, but is 0"):
        LSTMCell(4, num_proj=0)
    with pytest.raises(TypeError, match="initializer must be a function that fills a tensor in place"):
        LSTMCell(4, initializer=0.5)
    with pytest.raises(ValueError, match="num_unit_shards must be positive, but is 0"):
        LSTMCell(4, num_unit_shards=0)


@pytest.mark.parametrize("argument", ["kernel_initializer", "bias_initializer"])
def test_gru_initializers(argument: str) -> None:
    with pytest.raises(TypeError, match=f"{argument} must be a function that fills a tensor in place"):
        GRUCell(4, **{argument: "zeros"})


def test_stacks() -> None:
    with pytest.raises(TypeError, match="cells must be a list or tuple of cells, but is a GRUCell"):
        MultiRNNCell(GRUCell(4))  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="cells is empty: MultiRNNCell needs at least one cell"):
        MultiRNNCell([])
    with pytest.raises(TypeError, match=r"The argument 'cells\[1\]' .*is not an RNNCell"):
        MultiRNNCell([GRUCell(4), torch.nn.Linear(3, 3)])
    with pytest.raises(ValueError, match="state_is_tuple=False needs cells whose states are single tensors"):
        MultiRNNCell([LSTMCell(4)], state_is_tuple=False)
    stack = MultiRNNCell([GRUCell(4), GRUCell(4)])
    with pytest.raises(ValueError, match=r"Expected state to be a tuple of length 2, but it is a Tensor"):
        stack(X, torch.zeros(2, 8))
    with pytest.raises(IndexError, match="Expected state to be a tuple of length 2, but it has 1"):
        stack(X, (torch.zeros(2, 4),))
    with pytest.raises(ValueError, match=r"Expected state to be one tensor of width 8, but it is \[2, 7\]"):
        MultiRNNCell([GRUCell(4), GRUCell(4)], state_is_tuple=False)(X, torch.zeros(2, 7))
    with pytest.raises(ValueError, match="unknown cell class 'Duck': name it in custom_objects"):
        MultiRNNCell.from_config({"cells": [{"class_name": "Duck", "config": {}}], "state_is_tuple": True})


def test_a_built_cell_is_loaded_only_with_weights_that_fit_each_other() -> None:
    fitting = LSTMCell(3, input_size=2).state_dict()
    for wrong in [
        {"kernel": torch.zeros(5, 9)},
        {"kernel": torch.zeros(2, 12)},
        {"kernel": torch.tensor(1.0)},
        {"bias": torch.zeros(9)},
    ]:
        cell = LSTMCell(3)
        with pytest.raises(RuntimeError, match=r"has shape \[.*\], which no LSTMCell\(num_units=3\) can have"):
            cell.load_state_dict({**fitting, **wrong})
        assert not cell.built


def test_a_step_given_something_else_than_tensors() -> None:
    with pytest.raises(TypeError, match="gru_cell: state must be a tensor, but is a NoneType"):
        GRUCell(4)(X, None)
    with pytest.raises(TypeError, match="lstm_cell: c must be a tensor, but is a list"):
        LSTMCell(4)(X, LSTMStateTuple([1.0], [2.0]))  # pyright: ignore[reportArgumentType]


def test_weights_of_wrappers_have_a_dtype_too() -> None:
    for cell in [InputProjectionWrapper(GRUCell(3), 3, input_size=3), HighwayWrapper(GRUCell(3))]:
        cell(X, cell.zero_state(2, torch.float32))
        with pytest.raises(TypeError, match=r"inputs are torch\.float64, but the weights are torch\.float32"):
            cell(X.double(), cell.zero_state(2, torch.float32))


def test_ids() -> None:
    cell = EmbeddingWrapper(GRUCell(4), 3, 3)
    with pytest.raises(ValueError, match=r"inputs must be one id per row, but have shape \[2, 3\]"):
        cell(torch.zeros(2, 3, dtype=torch.int16), cell.zero_state(2, torch.float32))
    with pytest.raises(IndexError, match=r"embedding_wrapper: an id is not in \[0, 3\): there are 3 classes"):
        cell(torch.tensor([[1], [3]]), cell.zero_state(2, torch.float32))


def test_a_class_is_no_activation() -> None:
    with pytest.raises(TypeError, match="activation is the class ReLU: give a function, or an object made from it"):
        GRUCell(4, activation=torch.nn.ReLU)
    assert (BasicRNNCell(4, activation=torch.nn.ReLU())(X, torch.zeros(2, 4))[0] >= 0).all()


def test_a_cell_that_forgot_its_base_class_is_told() -> None:
    class Forgetful(GRUCell):
        def __init__(self) -> None:
            self.state_size = self.output_size = 3

    with pytest.raises(AttributeError, match=r"Forgetful must call super\(\).__init__\(\) before anything else"):
        Forgetful()(X, X)


def test_a_mistaken_dtype_leaves_the_cell_unbuilt() -> None:
    for cell in [LSTMCell(4), MultiRNNCell([LSTMCell(4)]), InputProjectionWrapper(LSTMCell(4), 2)]:
        with pytest.raises(TypeError, match=r"inputs are torch\.float64, but the state is torch\.float32; convert one"):
            dynamic_rnn(cell, torch.zeros(2, 5, 3).double(), dtype=torch.float32)
        assert not cell.built
        dynamic_rnn(cell, torch.zeros(2, 5, 3), dtype=torch.float32)


def test_a_cell_that_does_not_keep_its_arguments_has_no_configuration() -> None:
    class Forgetful(GRUCell):
        def __init__(self, units: int) -> None:
            super().__init__(units)

    with pytest.raises(NotImplementedError, match="Forgetful does not keep its argument 'units'"):
        Forgetful(3).get_config()


def test_the_same_cell_twice_warns_and_shares() -> None:
    cell = GRUCell(3)
    with pytest.warns(UserWarning, match="same cell object more than once: those layers share their weights"):
        stack = MultiRNNCell([cell, cell])
    stack(X, stack.zero_state(2, torch.float32))
    assert len(list(stack.parameters())) == 4
    with pytest.warns(UserWarning, match="same cell object"):
        wide = MultiRNNCell([GRUCell(5)] * 2)
    with pytest.raises(ValueError, match="gru_cell: inputs have depth 5, but the cell was built for 3"):
        wide(X, wide.zero_state(2, torch.float32))


@pytest.mark.parametrize(
    "wrap",
    [
        DropoutWrapper,
        ResidualWrapper,
        HighwayWrapper,
        lambda cell: DeviceWrapper(cell, "cpu"),
        lambda cell: InputProjectionWrapper(cell, 3),
        lambda cell: OutputProjectionWrapper(cell, 3),
        lambda cell: EmbeddingWrapper(cell, 3, 3),
    ],
)
def test_wrappers_refuse_what_is_no_cell(wrap: Any) -> None:
    with pytest.raises(TypeError, match=r"The argument 'cell' .*is not an RNNCell"):
        wrap(torch.nn.Linear(3, 3))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (dict(input_keep_prob=1.5), ValueError, r"input_keep_prob must be between 0 and 1, but is 1\.5"),
        (dict(output_keep_prob=-0.1), ValueError, r"output_keep_prob must be between 0 and 1, but is -0\.1"),
        (dict(state_keep_prob=float("nan")), ValueError, "state_keep_prob must be between 0 and 1, but is nan"),
        (
            dict(input_keep_prob="half"),
            TypeError,
            "input_keep_prob must be a number or a scalar tensor, but got",
        ),
        (dict(variational_recurrent=True), ValueError, "dtype is required with variational_recurrent=True"),
        (
            dict(variational_recurrent=True, dtype="float32", input_keep_prob=0.5),
            ValueError,
            "input_size is required with variational_recurrent=True and input_keep_prob below 1",
        ),
        (dict(dropout_state_filter_visitor=True), TypeError, "dropout_state_filter_visitor must be callable"),
    ],
)
def test_dropout_arguments(arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        DropoutWrapper(GRUCell(4), **arguments)


def test_dropout_steps() -> None:
    told = DropoutWrapper(GRUCell(4), 0.5, variational_recurrent=True, input_size=1, dtype=torch.float32)
    with pytest.raises(ValueError, match=r"input_0 has rows of shape \[3\], but the wrapper was told \[1\]"):
        told(X, told.zero_state(2, torch.float32))
    none_kept = DropoutWrapper(GRUCell(4), output_keep_prob=0.0)
    with pytest.raises(ValueError, match="output_0: a keep probability of 0 would drop everything"):
        none_kept(X, none_kept.zero_state(2, torch.float32))
    for verdict in [(True, False, True), "yes", (1, 0)]:
        confused = DropoutWrapper(LSTMCell(4), state_keep_prob=0.5, dropout_state_filter_visitor=lambda s, v=verdict: v)
        with pytest.raises(TypeError, match="dropout_state_filter_visitor must return a bool or a bool for each part"):
            confused(X, confused.zero_state(2, torch.float32))
    undecided = DropoutWrapper(GRUCell(4), state_keep_prob=0.5, dropout_state_filter_visitor=lambda s: None)
    with pytest.raises(TypeError, match="must return a bool for a tensor, but returned None"):
        undecided(X, undecided.zero_state(2, torch.float32))


def test_residuals_that_do_not_fit() -> None:
    with pytest.raises(TypeError, match="residual_fn must be callable, but got 3"):
        ResidualWrapper(GRUCell(4), 3)  # pyright: ignore[reportArgumentType]
    wide = ResidualWrapper(GRUCell(4))
    with pytest.raises(ValueError, match=r"inputs have shape \[2, 3\], but the cell's output \[2, 4\]; .* residual_fn"):
        wide(X, wide.zero_state(2, torch.float32))
    nested = ResidualWrapper(Nested(3))
    with pytest.raises(TypeError, match="the cell's output is a Pair, but inputs is a dict"):
        nested({"x": X, "image": torch.zeros(2, 2, 3)}, nested.zero_state(2, torch.float32))


def test_highways_that_do_not_fit() -> None:
    wide = HighwayWrapper(GRUCell(4))
    with pytest.raises(ValueError, match=r"highway_wrapper: inputs have depth 3, but the cell's output has 4"):
        wide(X, wide.zero_state(2, torch.float32))
    assert not wide.built
    assert not wide.cell.built


def test_projections_and_embeddings() -> None:
    with pytest.raises(ValueError, match="num_proj must be positive, but is 0"):
        InputProjectionWrapper(GRUCell(4), 0)
    with pytest.raises(ValueError, match="output_size must be positive, but is 0"):
        OutputProjectionWrapper(GRUCell(4), 0)
    with pytest.raises(ValueError, match="embedding_classes must be positive, but is 0"):
        EmbeddingWrapper(GRUCell(4), 0, 4)
    with pytest.raises(ValueError, match="embedding_size must be positive, but is -1"):
        EmbeddingWrapper(GRUCell(4), 4, -1)
    for wrap in [
        lambda: InputProjectionWrapper(GRUCell(4), 3, reuse=True),
        lambda: OutputProjectionWrapper(GRUCell(4), 3, reuse=True),
        lambda: EmbeddingWrapper(GRUCell(4), 3, 3, reuse=True),
    ]:
        with pytest.raises(ValueError, match="reuse=True: a cell owns its weights here"):
            wrap()
    projected = InputProjectionWrapper(GRUCell(4), 3, input_size=5)
    with pytest.raises(ValueError, match="input_projection_wrapper: inputs have depth 3, but the cell was built for 5"):
        projected(X, projected.zero_state(2, torch.float32))
    embedded = EmbeddingWrapper(GRUCell(4), 3, 3)
    with pytest.raises(TypeError, match=r"embedding_wrapper: inputs must be integer ids, but are torch\.float32"):
        embedded(X, embedded.zero_state(2, torch.float32))
    nested = OutputProjectionWrapper(Nested(3), 2)
    with pytest.raises(ValueError, match=r"output_projection_wrapper: rows of size Pair.*expected ndim=2"):
        nested({"x": X, "image": torch.zeros(2, 2, 3)}, nested.zero_state(2, torch.float32))


def test_initial_states() -> None:
    cell = Plus1(3)
    with pytest.raises(ValueError, match="batch_size and dtype cannot be None"):
        cell.get_initial_state()
    with pytest.raises(ValueError, match="batch size from input tensor is different from the argument"):
        cell.get_initial_state(X, batch_size=5)
    with pytest.raises(ValueError, match="dtype from input tensor is different from the argument"):
        cell.get_initial_state(X, dtype=torch.float64)


def test_configurations() -> None:
    wrapper = ResidualWrapper(GRUCell(4))
    with pytest.raises(ValueError, match="ResidualWrapper cannot make its cell from a config: put an RNNCell"):
        ResidualWrapper.from_config(wrapper.get_config())
