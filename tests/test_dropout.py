"""What `DropoutWrapper` drops, when, and with which masks."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.cells import Duck, Plus1, Returns
from unspool import DropoutWrapper, GRUCell, LSTMStateTuple, MultiRNNCell, TensorArray, dynamic_rnn
from unspool.cells.wrappers.dropout import derive_seed

ONES = torch.ones(50, 4)


def lstm_like() -> Returns:
    """Puts out its inputs; its LSTM state is all ones."""
    return Returns(LSTMStateTuple(4, 4), 4, lambda x, s: (x, LSTMStateTuple(torch.ones_like(x), torch.ones_like(x))))


def step(cell: Any, inputs: Tensor = ONES) -> tuple[Any, Any]:
    return cell(inputs, cell.zero_state(len(inputs), torch.float32))


def test_kept_elements_are_scaled_and_the_others_zero() -> None:
    torch.manual_seed(0)
    cell = DropoutWrapper(Plus1(4), input_keep_prob=0.5)
    output, _ = step(cell)
    assert set(output.unique().tolist()) == {1.0, 3.0}  # 0 + 1 and 2 + 1
    assert 0.35 < (output == 3.0).float().mean() < 0.65  # 200 draws: four standard deviations


def test_dropout_of_the_output_spares_the_state() -> None:
    torch.manual_seed(0)
    output, state = step(DropoutWrapper(GRUCell(4), output_keep_prob=0.5))
    assert (output == 0).any()
    kept = output != 0
    torch.testing.assert_close(output[kept], 2 * state[kept], rtol=0, atol=0)


def test_every_step_draws_anew() -> None:
    torch.manual_seed(0)
    outputs, _ = dynamic_rnn(DropoutWrapper(Plus1(4), input_keep_prob=0.5), torch.ones(5, 3, 4), dtype=torch.float32)
    assert not torch.equal(outputs[:, 0], outputs[:, 1])


def test_eval_mode_drops_nothing() -> None:
    cell = DropoutWrapper(GRUCell(4), 0.1, 0.1, 0.1).eval()
    plain, _ = step(cell.cell)
    assert torch.equal(step(cell)[0], plain)


def test_backward_sees_the_same_mask() -> None:
    torch.manual_seed(0)
    inputs = torch.ones(5, 4, requires_grad=True)
    output, _ = step(DropoutWrapper(Plus1(4), input_keep_prob=0.5), inputs)
    output.sum().backward()
    assert inputs.grad is not None
    assert torch.equal(inputs.grad, output.detach() - 1)


# -- which parts of a state --------------------------------------------------------------------------------------------


def test_the_memory_of_an_lstm_is_spared() -> None:
    torch.manual_seed(0)
    _, state = step(DropoutWrapper(lstm_like(), state_keep_prob=0.5))
    assert torch.equal(state.c, torch.ones(50, 4))
    assert set(state.h.unique().tolist()) == {0.0, 2.0}


def test_also_inside_a_stack() -> None:
    torch.manual_seed(0)
    _, states = step(DropoutWrapper(MultiRNNCell([lstm_like(), lstm_like()]), state_keep_prob=0.5))
    for state in states:
        assert torch.equal(state.c, torch.ones(50, 4))
        assert (state.h == 0).any()


def test_a_plain_tuple_loses_both() -> None:
    torch.manual_seed(0)
    pair = Returns((4, 4), 4, lambda x, s: (x, (torch.ones_like(x), torch.ones_like(x))))
    _, (first, second) = step(DropoutWrapper(pair, state_keep_prob=0.5))
    assert (first == 0).any()
    assert (second == 0).any()


@pytest.mark.parametrize(
    ("visitor", "drops_c", "drops_h"),
    [
        (lambda s: True, True, True),
        (lambda s: False, False, False),
        (lambda s: LSTMStateTuple(True, False) if isinstance(s, LSTMStateTuple) else True, True, False),
        (lambda s: (True, True) if isinstance(s, LSTMStateTuple) else False, False, False),
    ],
    ids=["all", "none", "c-only", "asked-again-below"],
)
def test_a_visitor_decides(visitor: Any, drops_c: bool, drops_h: bool) -> None:
    torch.manual_seed(0)
    _, state = step(DropoutWrapper(lstm_like(), state_keep_prob=0.5, dropout_state_filter_visitor=visitor))
    assert bool((state.c == 0).any()) == drops_c
    assert bool((state.h == 0).any()) == drops_h


# -- probabilities that are tensors ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("keep", "value"), [(1.0, 1.0), (2.0, 0.5), (0.0, 0.0)])
def test_a_tensor_is_not_checked(keep: float, value: float) -> None:
    output, _ = step(DropoutWrapper(Returns(4, 4, lambda x, s: (x, s)), output_keep_prob=torch.tensor(keep)))
    assert torch.equal(output, torch.full((50, 4), value))


def test_a_tensor_may_change_between_steps() -> None:
    keep = torch.tensor(1.0)
    cell = DropoutWrapper(Returns(4, 4, lambda x, s: (x, s)), output_keep_prob=keep)
    assert torch.equal(step(cell)[0], ONES)
    keep.fill_(1e-10)
    assert not step(cell)[0].any()


# -- variational masks -------------------------------------------------------------------------------------------------


def variational(**keeps: float) -> DropoutWrapper:
    return DropoutWrapper(
        Returns(4, 4, lambda x, s: (x, torch.ones_like(s))),
        variational_recurrent=True,
        dtype=torch.float32,
        input_size=4,
        **keeps,  # pyright: ignore[reportArgumentType]
    )


@pytest.mark.parametrize("place", ["input_keep_prob", "output_keep_prob"])
def test_one_mask_for_all_rows_and_steps_and_a_new_one_for_each_loop(place: str) -> None:
    torch.manual_seed(0)
    cell, inputs = variational(**{place: 0.5}), torch.ones(3, 20, 4)
    masks = []
    for _ in range(10):
        outputs, _ = dynamic_rnn(cell, inputs, dtype=torch.float32)
        assert torch.equal(outputs, outputs[:1, :1].expand_as(outputs))
        masks.append(tuple(outputs[0, 0].tolist()))
    assert len(set(masks)) > 1
    assert {value for mask in masks for value in mask} == {0.0, 2.0}


def test_masks_stay_between_direct_calls_until_a_sequence_starts() -> None:
    torch.manual_seed(0)
    cell = variational(state_keep_prob=0.5)
    first = step(cell)[1]
    assert all(torch.equal(step(cell)[1], first) for _ in range(10))
    others = []
    for _ in range(10):
        cell.start_sequence()
        others.append(step(cell)[1])
    assert any(not torch.equal(other, first) for other in others)


def test_a_variational_probability_of_zero_gives_nan() -> None:
    assert step(variational(output_keep_prob=0.0))[0].isnan().all()


def test_variational_state_masks_spare_an_lstm_memory() -> None:
    torch.manual_seed(0)
    cell = DropoutWrapper(lstm_like(), state_keep_prob=0.5, variational_recurrent=True, dtype=torch.float32)
    _, state = step(cell)
    assert torch.equal(state.c, torch.ones(50, 4))
    assert torch.equal(state.h, state.h[:1].expand_as(state.h))


def test_variational_masks_pass_over_what_has_no_size() -> None:
    cell = Returns(((), 4), 4, lambda x, s: (x, (s[0], torch.ones_like(s[1]))))
    wrapper = DropoutWrapper(cell, state_keep_prob=0.5, variational_recurrent=True, dtype="float32")
    array = TensorArray(torch.float32)
    _, (kept, state) = wrapper(ONES, (array, torch.zeros(50, 4)))
    assert kept is array
    assert set(state.unique().tolist()) <= {0.0, 2.0}


def test_a_sequence_starts_for_cells_that_are_no_modules_too() -> None:
    class Counting(Duck):
        started = 0

        def start_sequence(self) -> None:
            self.started += 1

    inner, wrapped = Counting(), Counting()
    stack = MultiRNNCell([inner, DropoutWrapper(wrapped, 0.5)])
    dynamic_rnn(stack, torch.zeros(2, 4, 3), dtype=torch.float32)
    assert (inner.started, wrapped.started) == (1, 1)


# -- seeds -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("place", "seed"), [("input_0", 1768698351), ("state_1", 619719539), ("output_0", 1288189386)])
def test_seeds_are_derived_as_in_tensorflow(place: str, seed: int) -> None:
    assert derive_seed(10, place) == seed


@pytest.mark.parametrize("options", [{}, dict(variational_recurrent=True, dtype=torch.float32, input_size=4)])
def test_equal_seeds_draw_equal_masks_whatever_else_is_drawn(options: dict[str, Any]) -> None:
    def outputs(seed: int | None) -> Tensor:
        cell = DropoutWrapper(Plus1(4), 0.5, 0.5, 0.5, seed=seed, **options)
        torch.rand(1)
        return dynamic_rnn(cell, torch.ones(5, 6, 4), [6, 2, 0, 3, 1], dtype=torch.float32)[0]

    assert torch.equal(outputs(10), outputs(10))
    assert not torch.equal(outputs(10), outputs(11))
    assert not torch.equal(outputs(None), outputs(None))


def test_places_draw_different_masks() -> None:
    output, state = step(DropoutWrapper(Returns(4, 4, lambda x, s: (x, x)), 1.0, 0.5, 0.5, seed=3))
    assert not torch.equal(output, state)


def test_a_copy_goes_on_where_the_original_was() -> None:
    cell = DropoutWrapper(Plus1(4), 0.5, seed=10)
    step(cell)
    for other in (copy.deepcopy(cell), pickle.loads(pickle.dumps(cell))):
        original = copy.deepcopy(cell)
        assert torch.equal(step(other)[0], step(original)[0])


def test_half_precision_is_dropped_at_the_right_rate() -> None:
    torch.manual_seed(0)
    cell = DropoutWrapper(Returns(4, 4, lambda x, s: (x, s)), output_keep_prob=0.999)
    output, _ = cell(torch.ones(5000, 4, dtype=torch.bfloat16), torch.zeros(5000, 4, dtype=torch.bfloat16))
    assert output.dtype == torch.bfloat16
    assert 0 < (output == 0).sum() < 50  # 20 expected of 20,000; bfloat16 draws could not tell 0.999 from 1
