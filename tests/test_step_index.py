"""`StepIndex`: the number of the step as an input."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import unspool
from tests.by_hand import BATCH, LENGTHS, TIME, check
from unspool import StepIndex

X = torch.randn(BATCH, TIME, 3, dtype=torch.float64)
NUMBERS = torch.arange(TIME).expand(BATCH, TIME)


def records(inputs: Any, h: Tensor) -> tuple[Tensor, Tensor]:
    return inputs["step"], h + inputs["x"].sum(1)


RECORDS, START = unspool.cell(records), torch.zeros(BATCH, dtype=torch.float64)


def test_it_counts_from_zero_and_is_an_input_like_others() -> None:
    position = nn.Embedding(TIME, 3, dtype=torch.float64)

    def step(inputs: Any, h: Tensor) -> Any:
        number = inputs["step"]
        h = torch.tanh(inputs["x"] + position(number) + h)
        h = torch.where((number % 2 == 0)[:, None], h, 0.5 * h)
        return {"h": h, "seen": number}, h

    def as_loops_take_it(inputs: Any) -> Any:
        return {**inputs, "step": StepIndex()}

    state = torch.randn(BATCH, 3, dtype=torch.float64)
    inputs = {"x": X, "step": NUMBERS}
    check(unspool.cell(step), step, inputs, state, list(position.parameters()), extra=as_loops_take_it)


@pytest.mark.parametrize("where", ["first", "last"])
def test_its_place_does_not_matter(where: str) -> None:
    cell = unspool.cell(lambda inputs, h: (inputs[0 if where == "first" else 1], h))
    inputs = (StepIndex(), X) if where == "first" else [X, StepIndex()]
    outputs, _ = unspool.dynamic_rnn(cell, inputs, None, START)
    assert outputs.dtype == torch.int64
    assert torch.equal(outputs, NUMBERS)


def test_past_the_lengths_it_is_zero_as_all_outputs_are() -> None:
    outputs, _ = unspool.dynamic_rnn(RECORDS, {"x": X, "step": StepIndex()}, LENGTHS, START)
    assert torch.equal(outputs, torch.where(torch.tensor(LENGTHS)[:, None] > NUMBERS, NUMBERS, 0))


@pytest.mark.parametrize("lengths", [None, LENGTHS])
def test_both_directions_count_in_the_order_of_reading(lengths: Any) -> None:
    inputs = {"x": X, "step": StepIndex()}
    ends = torch.tensor(lengths or [TIME] * BATCH)[:, None]
    (fw, bw), _ = unspool.bidirectional_dynamic_rnn(RECORDS, RECORDS, inputs, lengths, START, START)
    assert torch.equal(fw, torch.where(ends > NUMBERS, NUMBERS, 0))
    assert torch.equal(bw, torch.where(ends > NUMBERS, ends - 1 - NUMBERS, 0))
    column = unspool.cell(lambda inputs, h: (inputs["step"][:, None], h + inputs["x"].sum(1)))
    steps = [{"x": x, "step": StepIndex()} for x in X.unbind(1)]
    joined, _, _ = unspool.static_bidirectional_rnn(column, column, steps, START, START, sequence_length=lengths)
    assert torch.equal(torch.stack(joined, 1), torch.stack([fw, bw], 2))


def test_alone_it_is_a_value_error() -> None:
    message = r"inputs has nothing but StepIndex\(\): there must be a tensor beside it"
    with pytest.raises(ValueError, match=message):
        unspool.dynamic_rnn(RECORDS, StepIndex(), None, START)
    with pytest.raises(ValueError, match=message):
        unspool.dynamic_rnn(RECORDS, {"step": StepIndex()}, None, START)
    with pytest.raises(ValueError, match=message):
        unspool.static_rnn(RECORDS, [StepIndex()] * TIME, START)


def test_beside_inputs_without_rows_these_are_the_error() -> None:
    with pytest.raises(ValueError, match=r"to have rank at least 2, but got shape \[3\]"):
        unspool.dynamic_rnn(RECORDS, {"x": torch.zeros(3), "step": StepIndex()}, None, START)
    with pytest.raises(ValueError, match="must have rank at least 1"):
        unspool.static_rnn(RECORDS, [{"x": torch.zeros(()), "step": StepIndex()}], START)


def test_a_built_cell_of_one_tensor_says_what_it_takes() -> None:
    with pytest.raises(TypeError, match="gru_cell: inputs must be one tensor, but are a tuple of 2"):
        unspool.dynamic_rnn(unspool.GRUCell(4), (X, StepIndex()), dtype=torch.float64)


def test_an_empty_loop_has_no_number() -> None:
    outputs, _ = unspool.dynamic_rnn(RECORDS, {"x": X[:, :0], "step": StepIndex()}, None, START)
    assert (outputs.shape, outputs.dtype) == ((BATCH, 0), torch.int64)
