"""Every error of `dynamic_rnn`, in the order of its checks, by type and by what it says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import unspool
from tests.cells import Plus1, Returns
from unspool import GRUCell, LSTMCell, LSTMStateTuple, MultiRNNCell, dynamic_rnn

X = torch.zeros(2, 4, 3)
STEPS = [torch.zeros(2, 3)] * 4


def gru(**kwargs: Any) -> GRUCell:
    return GRUCell(5, **kwargs)


# -- dynamic_rnn, in the order of the checks ---------------------------------------------------------------------------


@pytest.mark.parametrize("no_cell", [None, 3, "lstm", nn.Linear(3, 3), nn.LSTM(3, 3), object(), GRUCell])
def test_what_is_no_cell_is_a_type_error_naming_the_argument(no_cell: Any) -> None:
    with pytest.raises(TypeError, match=r"The argument 'cell' .*(is not an RNNCell|is a layer over whole sequences)"):
        dynamic_rnn(no_cell, X, dtype=torch.float32)


def test_the_message_lists_what_a_cell_is_missing() -> None:
    class Half:
        output_size = 3

    with pytest.raises(TypeError, match=r"'state_size' is missing, 'zero_state' or .* is required, it is not callable"):
        dynamic_rnn(Half(), X, dtype=torch.float32)


@pytest.mark.parametrize("step", [nn.Linear(3, 3), lambda x, h: (h, h)])
def test_what_could_be_a_step_is_told_what_makes_a_cell_of_it(step: Any) -> None:
    with pytest.raises(TypeError, match=r"is not an RNNCell.*; if it is one step, unspool\.cell makes a cell of it"):
        dynamic_rnn(step, X, dtype=torch.float32)


def test_no_inputs_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="inputs: None values not supported"):
        dynamic_rnn(gru(), None, dtype=torch.float32)


@pytest.mark.parametrize("empty", [[], (), {}])
def test_empty_inputs_are_a_value_error(empty: Any) -> None:
    with pytest.raises(ValueError, match="inputs is empty"):
        dynamic_rnn(gru(), empty, dtype=torch.float32)


def test_inputs_that_are_no_tensors_are_a_type_error() -> None:
    with pytest.raises(TypeError, match="inputs must be made of tensors or arrays, but has a str"):
        dynamic_rnn(gru(), {"x": "text"}, dtype=torch.float32)


@pytest.mark.parametrize("lengths", [4, [[4, 4]], torch.tensor(3)])
def test_lengths_that_are_no_vector_are_a_value_error(lengths: Any) -> None:
    with pytest.raises(ValueError, match="sequence_length must be a vector"):
        dynamic_rnn(gru(), X, lengths, dtype=torch.float32)


@pytest.mark.parametrize("lengths", [[2.0, 3.0], [True, False], np.array([1.5, 2.5]), torch.tensor([1.0, 2.0])])
def test_float_and_bool_lengths_are_a_type_error(lengths: Any) -> None:
    with pytest.raises(TypeError, match=r"sequence_length must hold ints, but (is torch\.float|has a bool)"):
        dynamic_rnn(gru(), X, lengths, dtype=torch.float32)


def test_lengths_that_are_no_numbers_are_a_type_error() -> None:
    with pytest.raises(TypeError, match="sequence_length must be a vector of ints, but got"):
        dynamic_rnn(gru(), X, ["a", "b"], dtype=torch.float32)


@pytest.mark.parametrize("inputs", [torch.zeros(3), torch.zeros(()), [1.0, 2.0], {"x": X, "y": torch.zeros(2)}])
def test_inputs_of_rank_below_two_are_a_value_error(inputs: Any) -> None:
    with pytest.raises(ValueError, match="Expected inputs to have rank at least 2, but got shape"):
        dynamic_rnn(gru(), inputs, dtype=torch.float32)


def test_no_dtype_where_neither_inputs_nor_weights_tell_it_is_a_value_error() -> None:
    expected = r"If there is no initial_state, you must give a dtype, such as .* the inputs are torch.int64, and"
    with pytest.raises(ValueError, match=expected):
        dynamic_rnn(Plus1(3), torch.zeros(2, 4, 3, dtype=torch.int64))


def test_the_missing_dtype_is_told_before_the_missing_depth() -> None:
    with pytest.raises(ValueError, match="you must give a dtype"):
        dynamic_rnn(Plus1(3), torch.zeros(2, 3, dtype=torch.int64))


def test_a_dtype_that_is_none_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="dtype must be a dtype or its name, but torch has no dtype 'float33'"):
        dynamic_rnn(gru(), X, dtype="float33")


@pytest.mark.parametrize("lengths", [[1], [1, 2, 3]])
def test_another_number_of_lengths_than_rows_is_a_value_error(lengths: list[int]) -> None:
    with pytest.raises(ValueError, match=rf"sequence_length has {len(lengths)} entries, but inputs have a batch of 2"):
        dynamic_rnn(gru(), X, lengths, dtype=torch.float32)


def test_float_parallel_iterations_are_an_assertion_error() -> None:
    with pytest.raises(AssertionError, match=r"parallel_iterations must be an int, but is 2\.5"):
        dynamic_rnn(gru(), X, dtype=torch.float32, parallel_iterations=2.5)  # pyright: ignore[reportArgumentType]


def test_negative_parallel_iterations_are_a_type_error() -> None:
    with pytest.raises(TypeError, match="parallel_iterations must be positive, but is -1"):
        dynamic_rnn(gru(), X, dtype=torch.float32, parallel_iterations=-1)


@pytest.mark.parametrize("cell", [gru(), gru(input_size=3)], ids=["new", "built"])
def test_inputs_without_a_depth_are_a_value_error_of_a_cell_that_needs_one(cell: GRUCell) -> None:
    with pytest.raises(
        ValueError,
        match=r"gru_cell: inputs have shape \[2\], but expected ndim=2: .* a loop are \[batch, time, depth\]",
    ):
        dynamic_rnn(cell, torch.zeros(2, 3), dtype=torch.float32)


def test_token_ids_need_no_depth() -> None:
    ids = torch.randint(9, (2, 3))
    cell = unspool.EmbeddingWrapper(gru(), 9, 4)
    outputs, _ = dynamic_rnn(cell, ids, [3, 1], dtype=torch.float32)
    expected, _ = dynamic_rnn(cell, ids[..., None], [3, 1], dtype=torch.float32)
    assert torch.equal(outputs, expected)


def test_a_list_of_steps_is_told_where_to_go() -> None:
    with pytest.raises(
        TypeError, match=r"gru_cell: inputs must be one tensor.*for a list of steps there is static_rnn"
    ):
        dynamic_rnn(gru(), [torch.zeros(2, 3)] * 4, dtype=torch.float32)


def test_a_nested_list_of_numbers_is_told_what_it_is() -> None:
    with pytest.raises(ValueError, match=r"rank at least 2.*a nested list is a structure"):
        dynamic_rnn(gru(), [[[1.0, 2.0, 3.0]]], dtype=torch.float32)


def test_a_dtype_in_the_place_of_a_state_is_a_type_error() -> None:
    with pytest.raises(TypeError, match=r"initial_state is torch\.float32: to give a dtype, write dtype="):
        dynamic_rnn(gru(), X, None, torch.float32)


def test_inputs_of_different_times_are_a_value_error() -> None:
    with pytest.raises(ValueError, match=r"Time steps is not the same .*\[4, 5\]"):
        dynamic_rnn(gru(), (torch.zeros(2, 4, 3), torch.zeros(2, 5, 3)), dtype=torch.float32)


def test_inputs_of_different_batches_are_a_value_error() -> None:
    with pytest.raises(ValueError, match=r"Batch_size is not the same .*\[2, 3\]"):
        dynamic_rnn(gru(), (torch.zeros(2, 4, 3), torch.zeros(3, 4, 3)), dtype=torch.float32)


@pytest.mark.parametrize("lengths", [None, [4, 2]])
def test_a_state_of_several_dtypes_without_dtype_is_a_value_error(lengths: Any) -> None:
    state = (torch.zeros(2, 1), torch.zeros(2, 1, dtype=torch.float64))
    cell = Returns((1, 1), 1, lambda x, s: (s[0], s))
    with pytest.raises(ValueError, match=r"has several: torch\.float32, torch\.float64; give dtype"):
        dynamic_rnn(cell, X, lengths, initial_state=state)


@pytest.mark.parametrize("lengths", [None, [4, 2]])
def test_a_counter_in_a_state_does_not_tell_the_dtype_of_outputs(lengths: Any) -> None:
    state = (torch.ones(2, 1), torch.zeros(2, 1, dtype=torch.int32))
    cell = Returns((1, 1), 1, lambda x, s: (s[0], (s[0], s[1] + 1)))
    outputs, (_, steps) = dynamic_rnn(cell, X, lengths, initial_state=state)
    assert outputs.dtype == torch.float32
    assert steps[:, 0].tolist() == (lengths or [4, 4])


def test_an_empty_state_without_dtype_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="the state, which is empty; give dtype"):
        dynamic_rnn(Returns((), 3, lambda x, s: (x, s)), X, initial_state=())


@pytest.mark.parametrize("size", [torch.Size([-1]), None, -2, "3", 2.5])
def test_an_output_size_that_is_not_fully_defined_is_a_value_error(size: Any) -> None:
    with pytest.raises(ValueError, match=r"cell\.output_size must be fully defined"):
        dynamic_rnn(Returns(3, size, lambda x, s: (x, s)), X, dtype=torch.float32)


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ([4, 5], r"sequence_length\[1\] is 5, but inputs have only 4 steps"),
        ([-1, 2], r"sequence_length\[0\] is -1, but a length cannot be negative"),
        ([2**33 + 2, 1], r"sequence_length\[0\] is 8589934594, but inputs have only 4 steps"),
    ],
)
def test_lengths_out_of_range_are_a_value_error_naming_the_row(lengths: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dynamic_rnn(gru(), X, lengths, dtype=torch.float32)


def test_no_check_runs_the_cell_or_builds_it() -> None:
    cell, built = Plus1(3), gru()
    for bad in [{"sequence_length": [9, 9]}, {"sequence_length": [1.5, 2.0]}, {"parallel_iterations": -1}]:
        with pytest.raises((TypeError, ValueError)):
            dynamic_rnn(cell, X, dtype=torch.float32, **bad)  # pyright: ignore[reportArgumentType]
        with pytest.raises((TypeError, ValueError)):
            dynamic_rnn(built, X, dtype=torch.float32, **bad)  # pyright: ignore[reportArgumentType]
    assert cell.calls == 0
    assert not built.built


def test_a_scope_that_is_no_name_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="scope must be a string, but is 3"):
        dynamic_rnn(gru(), X, dtype=torch.float32, scope=3)


# -- states ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lengths", [None, [4, 2]])
def test_a_plain_tuple_for_an_lstm_state_is_a_type_error_that_shows_the_order(lengths: Any) -> None:
    state = (torch.zeros(2, 5), torch.zeros(2, 5))
    with pytest.raises(TypeError, match=r"initial_state is a tuple.*write LSTMStateTuple\(c=\.\.\., h=\.\.\.\)"):
        dynamic_rnn(LSTMCell(5), X, lengths, initial_state=state)


def test_the_message_says_where_in_a_nested_state_the_tuple_is() -> None:
    cell = MultiRNNCell([GRUCell(5), LSTMCell(5)])
    state = (torch.zeros(2, 5), (torch.zeros(2, 5), torch.zeros(2, 5)))
    with pytest.raises(TypeError, match=r"initial_state\[1\] is a tuple, but cell.state_size\[1\] is an LSTM"):
        dynamic_rnn(cell, X, initial_state=state)


def test_a_tensor_for_a_nested_state_is_a_value_error() -> None:
    with pytest.raises(ValueError, match=r"initial_state is a Tensor, but cell.state_size is an LSTMStateTuple"):
        dynamic_rnn(LSTMCell(5), X, initial_state=torch.zeros(2, 10))


def test_with_lengths_a_state_must_have_a_row_for_each_row() -> None:
    cell = Returns(1, 1, lambda x, s: (s + 1, s + 1))
    with pytest.raises(ValueError, match=r"initial_state has shape \[1, 1\], but inputs have a batch of 2"):
        dynamic_rnn(cell, X, [3, 2], torch.zeros(1, 1))


def test_containers_of_a_state_are_compared_with_what_the_cell_returns() -> None:
    """TensorFlow does not look at `state_size` for this; only namedtuples are refused before the first step."""
    cell = Returns([1, 1], 3, lambda x, s: (x, s))
    _, state = dynamic_rnn(cell, X, [3, 2], (torch.zeros(2, 1), torch.zeros(2, 1)))
    assert isinstance(state, tuple)


def test_the_rank_of_the_inputs_is_told_before_the_containers_of_a_state() -> None:
    with pytest.raises(ValueError, match="to have rank at least 2"):
        dynamic_rnn(LSTMCell(5), torch.zeros(2), initial_state=(torch.zeros(2, 5), torch.zeros(2, 5)))


def test_none_inside_an_initial_state_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="initial_state: None values not supported"):
        dynamic_rnn(LSTMCell(5), X, initial_state=LSTMStateTuple(None, torch.zeros(2, 5)))


@pytest.mark.parametrize("shape", [(3, 5), (2, 4)])
def test_an_initial_state_of_the_wrong_shape_is_the_cells_value_error(shape: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=r"gru_cell: state has shape .*, expected \[2, 5\]"):
        dynamic_rnn(gru(), X, initial_state=torch.zeros(shape))


def test_an_initial_state_of_another_dtype_is_a_type_error() -> None:
    with pytest.raises(TypeError, match=r"inputs are torch\.float32, but the state is torch\.float64; convert"):
        dynamic_rnn(gru(), X, initial_state=torch.zeros(2, 5, dtype=torch.float64))


@pytest.mark.parametrize("lengths", [None, [4, 2]])
def test_outputs_of_another_dtype_than_dtype_are_a_type_error(lengths: Any) -> None:
    with pytest.raises(TypeError, match=r"the cell's output is torch\.float32, but .* torch\.float64"):
        dynamic_rnn(gru(), X, lengths, initial_state=torch.zeros(2, 5), dtype=torch.float64)


@pytest.mark.parametrize("lengths", [None, [4, 2]])
def test_a_state_that_changes_its_shape_is_a_value_error(lengths: Any) -> None:
    growing = Returns(3, 3, lambda x, s: (x, torch.cat([s, s], 1)))
    with pytest.raises(ValueError, match=r"new state has shape \[2, 6\], but its state may not change .* \[2, 3\]"):
        dynamic_rnn(growing, X, lengths, dtype=torch.float32)


@pytest.mark.parametrize("lengths", [None, [4, 2]])
def test_a_state_that_changes_its_containers_is_a_type_error(lengths: Any) -> None:
    with pytest.raises(TypeError, match="the cell's new state is a list, but its state is a tuple of 2"):
        dynamic_rnn(Returns((1, 1), 3, lambda x, s: (x, list(s))), X, lengths, dtype=torch.float32)


@pytest.mark.parametrize("lengths", [None, [4, 2]])
def test_a_state_that_loses_a_part_is_a_value_error(lengths: Any) -> None:
    with pytest.raises(ValueError, match="the cell's new state is a tuple of 1, but its state is a tuple of 2"):
        dynamic_rnn(Returns((1, 1), 3, lambda x, s: (x, s[:1])), X, lengths, dtype=torch.float32)


@pytest.mark.parametrize("lengths", [None, [4, 2]])
def test_an_output_of_another_shape_than_output_size_is_a_value_error(lengths: Any) -> None:
    with pytest.raises(ValueError, match=r"Inconsistent shapes: the cell's output has shape \[2, 3\], but .* \[2, 7\]"):
        dynamic_rnn(Returns(3, 7, lambda x, s: (x, s)), X, lengths, dtype=torch.float32)


@pytest.mark.parametrize("lengths", [None, [4, 2]])
def test_more_outputs_than_output_size_are_a_value_error(lengths: Any) -> None:
    with pytest.raises(ValueError, match=r"the cell's output (has 2 tensors|is a tuple of 2), but"):
        dynamic_rnn(Returns(3, 3, lambda x, s: ((x, x), s)), X, lengths, dtype=torch.float32)


def test_with_lengths_an_output_in_other_containers_is_a_type_error() -> None:
    cell = Returns(3, [3, 3], lambda x, s: ((x, x), s))
    with pytest.raises(TypeError, match=r"the cell's output is a tuple, but cell.output_size is a list of 2"):
        dynamic_rnn(cell, X, [4, 2], dtype=torch.float32)


def test_without_lengths_an_output_is_put_into_the_containers_of_output_size() -> None:
    outputs, _ = dynamic_rnn(Returns(3, [3, 3], lambda x, s: ((x, x), s)), X, dtype=torch.float32)
    assert isinstance(outputs, list)
    assert len(outputs) == 2


def test_a_cell_that_returns_numbers_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="the cell's new state must be made of tensors, but has a float"):
        dynamic_rnn(Returns(3, 3, lambda x, s: (x, 1.0)), X, dtype=torch.float32)


@pytest.mark.parametrize("batch_size", [1, 2, 3])
def test_a_cell_that_returns_only_a_state_is_a_type_error(batch_size: int) -> None:
    cell = Returns(3, 3, lambda x, s: s)
    with pytest.raises(TypeError, match=r"a cell must return \(output, new_state\), but this one returned a Tensor"):
        dynamic_rnn(cell, X[:1].expand(batch_size, 4, 3), dtype=torch.float32)


IN_PLACE: dict[str, Any] = {
    "state": lambda x, s: (s.add_(x), s),
    "inputs": lambda x, s: (x.mul_(2), s),
    "a view of the inputs": lambda x, s: (x[:, None].squeeze_(1).mul_(2), s),
    "the axes of the state": lambda x, s: (x, s.unsqueeze_(0)[0]),
}


@pytest.mark.parametrize("step", IN_PLACE.values(), ids=IN_PLACE)
def test_a_cell_that_works_in_place_is_a_runtime_error(step: Any) -> None:
    with pytest.raises(RuntimeError, match="the cell changed its inputs or its state in place"):
        dynamic_rnn(Returns(3, 3, step), X.clone(), dtype=torch.float32)


@pytest.mark.filterwarnings("ignore::unspool.PerformanceWarning")
def test_a_view_that_loses_an_axis_in_place_is_no_change_and_its_step_runs_once() -> None:
    seen: list[int] = []

    def step(x: Any, s: Any) -> Any:
        seen.append(len(seen))  # so that it runs in the plain loop
        return torch.tanh(x[:, None].squeeze_(1) + s + 0.1 * torch.rand_like(s)), s

    cell = Returns(3, 3, step)
    torch.manual_seed(0)
    outputs, _ = dynamic_rnn(cell, X, dtype=torch.float32)
    assert seen == list(range(X.shape[1]))
    torch.manual_seed(0)
    expected = [torch.tanh(x + 0.1 * torch.rand_like(x)) for x in X.unbind(1)]
    torch.testing.assert_close(outputs, torch.stack(expected, 1), rtol=0, atol=0)


def test_a_packed_sequence_is_a_type_error_that_says_what_to_give() -> None:
    packed = nn.utils.rnn.pack_padded_sequence(X, torch.tensor([4, 2]), batch_first=True)
    with pytest.raises(TypeError, match=r"PackedSequence, .* give a loop the padded tensor, and its lengths"):
        dynamic_rnn(gru(), packed, dtype=torch.float32)


def test_a_one_element_list_is_a_structure_and_no_tensor() -> None:
    with pytest.raises(TypeError, match=r"gru_cell: inputs must be one tensor, but are a list of 1"):
        dynamic_rnn(gru(), [X], dtype=torch.float32)
