"""Every error of the other loops and of `tf_variables`, by type and by what it says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import unspool
from tests.cells import Plus1, Returns
from unspool import GRUCell, LSTMCell, raw_rnn, static_rnn

X = torch.zeros(2, 4, 3)
STEPS = [torch.zeros(2, 3)] * 4


def gru(**kwargs: Any) -> GRUCell:
    return GRUCell(5, **kwargs)


# -- static_rnn --------------------------------------------------------------------------------------------------------


def test_static_rnn_refuses_what_is_no_cell() -> None:
    with pytest.raises(TypeError, match=r"The argument 'cell' .*is not an RNNCell"):
        static_rnn(None, STEPS, dtype=torch.float32)


@pytest.mark.parametrize("inputs", [None, X, np.zeros((4, 2, 3))])
def test_static_rnn_refuses_inputs_that_are_no_list(inputs: Any) -> None:
    with pytest.raises(TypeError, match="inputs must be a list with one entry per step, but is a"):
        static_rnn(gru(), inputs, dtype=torch.float32)


def test_static_rnn_refuses_empty_inputs() -> None:
    with pytest.raises(ValueError, match="inputs must not be empty"):
        static_rnn(gru(), [], dtype=torch.float32)


def test_static_rnn_refuses_steps_without_rows() -> None:
    with pytest.raises(ValueError, match=r"must have rank at least 1, \[batch, ...\], but one has shape \[\]"):
        static_rnn(gru(), [torch.zeros(2, 3), torch.zeros(())], dtype=torch.float32)


def test_a_cell_that_needs_a_depth_refuses_steps_without_one() -> None:
    with pytest.raises(ValueError, match=r"gru_cell: inputs have shape \[2\], but expected ndim=2"):
        static_rnn(gru(), [torch.zeros(2, 3), torch.zeros(2)], dtype=torch.float32)


def test_static_rnn_refuses_steps_of_different_batches() -> None:
    with pytest.raises(ValueError, match="the batch sizes of inputs differ: 2 and 3 are not compatible"):
        static_rnn(gru(), [torch.zeros(2, 3), torch.zeros(3, 3)], dtype=torch.float32)


def test_static_rnn_needs_a_dtype_or_a_state() -> None:
    with pytest.raises(ValueError, match="If there is no initial_state, you must give a dtype"):
        static_rnn(Plus1(3), [step.long() for step in STEPS])


@pytest.mark.parametrize(
    ("lengths", "error", "message"),
    [
        (4, ValueError, "must be a vector"),
        ([1.0, 2.0], TypeError, "must hold ints"),
        ([1], ValueError, "has 1 entries, but inputs have a batch of 2"),
        ([5, 1], ValueError, r"sequence_length\[0\] is 5, but inputs have only 4 steps"),
        ([0, -3], ValueError, r"sequence_length\[1\] is -3"),
    ],
)
def test_static_rnn_checks_lengths(lengths: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        static_rnn(gru(), STEPS, dtype=torch.float32, sequence_length=lengths)


def test_static_rnn_leaves_a_depth_that_changes_to_the_cell() -> None:
    with pytest.raises(ValueError, match="gru_cell: inputs have depth 4, but the cell was built for 3"):
        static_rnn(gru(), [torch.zeros(2, 3), torch.zeros(2, 4)], dtype=torch.float32)


@pytest.mark.parametrize("lengths", [None, [4, 2]])
def test_static_rnn_refuses_a_plain_tuple_for_an_lstm_state(lengths: Any) -> None:
    """Without lengths, TensorFlow would take it; but torch's tuple is (h, c)."""
    state = (torch.zeros(2, 5), torch.zeros(2, 5))
    with pytest.raises(TypeError, match=r"initial_state is a tuple.*write LSTMStateTuple\(c=\.\.\., h=\.\.\.\)"):
        static_rnn(LSTMCell(5), STEPS, state, sequence_length=lengths)


# -- bidirectional loops -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loop", [unspool.bidirectional_dynamic_rnn, unspool.static_bidirectional_rnn])
def test_bidirectional_loops_name_the_cell_that_is_none(loop: Any) -> None:
    inputs = X if loop is unspool.bidirectional_dynamic_rnn else STEPS
    with pytest.raises(TypeError, match=r"The argument 'cell_fw' .*is not an RNNCell"):
        loop(None, gru(), inputs, dtype=torch.float32)
    with pytest.raises(TypeError, match=r"The argument 'cell_bw' .*is not an RNNCell"):
        loop(gru(), None, inputs, dtype=torch.float32)


@pytest.mark.parametrize("lengths", [[5, 1], [1, -1]])
def test_bidirectional_loops_refuse_lengths_out_of_range(lengths: list[int]) -> None:
    with pytest.raises(ValueError, match=r"sequence_length\[\d\] is"):
        unspool.bidirectional_dynamic_rnn(gru(), gru(), X, lengths, dtype=torch.float32)
    with pytest.raises(ValueError, match=r"sequence_length\[\d\] is"):
        unspool.static_bidirectional_rnn(gru(), gru(), STEPS, dtype=torch.float32, sequence_length=lengths)


def test_bidirectional_loops_refuse_float_lengths() -> None:
    with pytest.raises(TypeError, match="sequence_length must hold ints"):
        unspool.bidirectional_dynamic_rnn(gru(), gru(), X, [1.0, 2.0], dtype=torch.float32)


def test_bidirectional_loops_name_the_state_that_is_missing_before_running_either_cell() -> None:
    forwards, backwards, steps = Plus1(3), Plus1(3), [step.long() for step in STEPS]
    with pytest.raises(ValueError, match="If there is no initial_state_bw, you must give a dtype"):
        unspool.bidirectional_dynamic_rnn(forwards, backwards, X.long(), initial_state_fw=torch.zeros(2, 3))
    with pytest.raises(ValueError, match="If there is no initial_state_bw, you must give a dtype"):
        unspool.static_bidirectional_rnn(forwards, backwards, steps, initial_state_fw=torch.zeros(2, 3))
    assert forwards.calls == backwards.calls == 0


@pytest.mark.parametrize("inputs", [None, X])
def test_static_bidirectional_rnn_refuses_inputs_that_are_no_list(inputs: Any) -> None:
    with pytest.raises(TypeError, match="inputs must be a list"):
        unspool.static_bidirectional_rnn(gru(), gru(), inputs, dtype=torch.float32)


def test_static_bidirectional_rnn_refuses_empty_inputs() -> None:
    with pytest.raises(ValueError, match="inputs must not be empty"):
        unspool.static_bidirectional_rnn(gru(), gru(), [], dtype=torch.float32)


@pytest.mark.parametrize("loop", [unspool.stack_bidirectional_rnn, unspool.stack_bidirectional_dynamic_rnn])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(cells_fw=()), "cells_fw must be a list of cells, one per layer, but is a tuple"),
        (dict(cells_bw=gru()), "cells_bw must be a list of cells, one per layer, but is a GRUCell"),
        (dict(cells_fw=[]), "cells_fw is empty"),
        (dict(cells_bw=[]), "cells_bw is empty"),
        (dict(cells_fw=[gru(), gru()]), "cells_fw has 2 layers, but cells_bw has 1"),
        (dict(initial_states_fw=torch.zeros(2, 5)), "initial_states_fw must be a list of 1 states"),
        (dict(initial_states_bw=[]), "initial_states_bw must be a list of 1 states"),
    ],
)
def test_stacks_refuse_layers_that_do_not_match(loop: Any, arguments: dict[str, Any], message: str) -> None:
    inputs = X if loop is unspool.stack_bidirectional_dynamic_rnn else STEPS
    with pytest.raises(ValueError, match=message):
        loop(**{"cells_fw": [gru()], "cells_bw": [gru()], "inputs": inputs, "dtype": torch.float32, **arguments})


def test_directions_that_cannot_be_joined() -> None:
    scalar = Returns(torch.Size([]), torch.Size([]), lambda x, s: (s, s))
    with pytest.raises(ValueError, match="no axis along which two directions could be joined"):
        unspool.static_bidirectional_rnn(scalar, scalar, STEPS, dtype=torch.float32)
    pair = Returns(3, (3, 3), lambda x, s: ((x, x), s))
    for run in [
        lambda: unspool.static_bidirectional_rnn(gru(), pair, STEPS, dtype=torch.float32),
        lambda: unspool.stack_bidirectional_dynamic_rnn([gru()], [pair], X, dtype=torch.float32),
    ]:
        with pytest.raises(ValueError, match=r"cell_bw.output_size is a tuple of 2, but cell_fw.output_size is an int"):
            run()


def test_stacks_name_the_layer_that_is_no_cell() -> None:
    with pytest.raises(TypeError, match=r"The argument 'cells_bw\[1\]' .*is not an RNNCell"):
        unspool.stack_bidirectional_dynamic_rnn([gru(), gru()], [gru(), 3], X, dtype=torch.float32)


# -- raw_rnn -----------------------------------------------------------------------------------------------------------


def loop_fn_with(**changes: Any) -> Any:
    """A loop function for `gru()` on three steps, some of whose results at call 0 or later are replaced."""

    def loop_fn(time: int, output: Any, state: Any, loop_state: Any) -> Any:
        now = dict(
            finished=torch.tensor([time >= 3, time >= 3]),
            inputs=torch.zeros(2, 3),
            state=torch.zeros(2, 5) if output is None else state,
            emit=None if output is None else output,
            loop_state=None,
        )
        now.update(changes.get("first" if output is None else "later", {}))
        return tuple(now.values())

    return loop_fn


def test_raw_rnn_refuses_what_is_no_cell() -> None:
    with pytest.raises(TypeError, match=r"The argument 'cell' .*is not an RNNCell"):
        raw_rnn(None, loop_fn_with())


def test_raw_rnn_refuses_a_loop_fn_that_cannot_be_called() -> None:
    with pytest.raises(TypeError, match="loop_fn must be callable, but is 3"):
        raw_rnn(gru(), 3)  # pyright: ignore[reportArgumentType]


def test_raw_rnn_refuses_a_loop_fn_that_returns_something_else() -> None:
    with pytest.raises(ValueError, match="loop_fn must return"):
        raw_rnn(gru(), lambda *_: (1, 2))  # pyright: ignore[reportArgumentType, reportReturnType]


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (dict(first=dict(state=(torch.zeros(2, 5),) * 2)), ValueError, "the initial state is a tuple of 2, but"),
        (dict(first=dict(inputs=None)), ValueError, "next_input: None values not supported"),
        (dict(first=dict(inputs=torch.zeros(()))), ValueError, "next_input must be made of tensors"),
        (
            dict(first=dict(inputs=(torch.zeros(2, 3), torch.zeros(3, 3)))),
            ValueError,
            r"the batch sizes of next_input differ: \[2, 3\]",
        ),
        (dict(first=dict(emit=torch.zeros(2, 5))), ValueError, r"emit_output has shape \[2, 5\], but .* \[2, 2, 5\]"),
        (dict(first=dict(emit=torch.zeros(5).double())), TypeError, "emit_output is torch.float32, but expected"),
        (dict(later=dict(emit=(torch.zeros(2, 5),))), ValueError, "emit_output is a tuple of 1, but its template is"),
        (
            dict(later=dict(inputs=[torch.zeros(2, 3)])),
            ValueError,
            "next_input is a list of 1, but the input is a Tensor",
        ),
        (dict(later=dict(state=[torch.zeros(2, 5)])), ValueError, "next_cell_state is a list of 1, but the state"),
    ],
)
def test_raw_rnn_checks_what_loop_fn_returns(changes: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        raw_rnn(gru(), loop_fn_with(**changes))


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (dict(first=dict(state=None)), ValueError, "next_cell_state: None values not supported"),
        (dict(first=dict(state=torch.zeros(1, 5))), ValueError, r"the initial state has shape \[1, 5\], but .* of 2"),
        (
            dict(later=dict(state=torch.zeros(2, 1))),
            ValueError,
            r"next_cell_state has shape \[2, 1\], but the state may",
        ),
        (
            dict(later=dict(state=torch.zeros(2, 5).double())),
            TypeError,
            r"next_cell_state is torch\.float64, but expected",
        ),
        (
            dict(later=dict(inputs=torch.zeros(2, 4))),
            ValueError,
            r"next_input has shape \[2, 4\], but the input",
        ),
        (dict(first=dict(finished=[0, 1])), TypeError, r"finished must be bool, but is torch\.int64"),
        (
            dict(later=dict(finished=torch.tensor([[True], [True]]))),
            ValueError,
            r"one entry per row, \[2\], but has .* 1\]",
        ),
        (dict(later=dict(finished=torch.tensor([True]))), ValueError, r"per row, \[2\], but has shape \[1\]"),
    ],
)
def test_raw_rnn_does_not_broadcast(changes: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        raw_rnn(gru(), loop_fn_with(**changes))


def test_raw_rnn_refuses_a_plain_tuple_for_an_lstm_state() -> None:
    first = dict(state=(torch.zeros(2, 5), torch.zeros(2, 5)))
    with pytest.raises(TypeError, match=r"the initial state is a tuple.*write LSTMStateTuple\(c=\.\.\., h=\.\.\.\)"):
        raw_rnn(LSTMCell(5), loop_fn_with(first=first))


# -- static_state_saving_rnn -------------------------------------------------------------------------------------------


class Shelf(dict[str, torch.Tensor]):
    state, save_state = dict.__getitem__, dict.__setitem__


@pytest.mark.parametrize(
    ("cell", "names"),
    [(gru(), ["h"]), (LSTMCell(5), "c"), (LSTMCell(5), ("c",)), (LSTMCell(5), ("c", "h", "x")), (gru(), ())],
)
def test_state_names_must_match_the_state(cell: Any, names: Any) -> None:
    with pytest.raises(ValueError, match="state_name must name each of the"):
        unspool.static_state_saving_rnn(cell, STEPS, Shelf(), names)


def test_state_names_must_be_strings() -> None:
    with pytest.raises(TypeError, match="state_name must be made of strings, but is 3"):
        unspool.static_state_saving_rnn(gru(), STEPS, Shelf(), 3)


def test_a_state_saver_must_load_and_save() -> None:
    with pytest.raises(TypeError, match="state_saver must have a method 'state'"):
        unspool.static_state_saving_rnn(gru(), STEPS, {}, "h")  # pyright: ignore[reportArgumentType]


# -- tf_variables, TensorArray -----------------------------------------------------------------------------------------


def test_tf_variables_refuses_what_is_no_cell() -> None:
    with pytest.raises(TypeError, match="is not an RNNCell"):
        unspool.tf_variables(nn.Linear(2, 2))


def test_tf_variables_refuses_a_cell_without_shapes() -> None:
    with pytest.raises(ValueError, match="gru_cell/gates/kernel has no shape yet: give the cell its input_size"):
        unspool.tf_variables(gru())


def test_tf_variables_refuses_a_scope_that_is_no_string() -> None:
    with pytest.raises(TypeError, match="scope must be a string, but is None"):
        unspool.tf_variables(gru(input_size=3), scope=None)


def test_tensor_array_errors() -> None:
    array = unspool.TensorArray(torch.float32, size=2).write(0, torch.zeros(3))
    with pytest.raises(ValueError, match="element 0 of the TensorArray is written already"):
        array.write(0, torch.zeros(3))
    with pytest.raises(TypeError, match=r"holds torch\.float32, but the value is torch\.int64"):
        array.write(1, torch.tensor([1]))
    with pytest.raises(TypeError, match=r"holds torch\.float32, but the value is torch\.int64"):
        array.unstack(torch.tensor([1]))
    with pytest.raises(ValueError, match="element 1 of the TensorArray was never written"):
        array.stack()
    with pytest.raises(IndexError, match="cannot read element 2 of a TensorArray of 2"):
        array.read(2)
    with pytest.raises(IndexError, match="cannot write at index -1"):
        array.write(-1, torch.zeros(3))
    with pytest.raises(ValueError, match=r"the elements have shape \[2\], but the value has \[3\]"):
        unspool.TensorArray(element_shape=[2]).write(0, torch.zeros(3))
    with pytest.raises(ValueError, match="needs an element_shape"):
        unspool.TensorArray().stack()
