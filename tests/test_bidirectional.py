"""The bidirectional loops and their stacks: which inputs each output and state has seen."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.cells import Returns
from unspool import (
    GRUCell,
    bidirectional_dynamic_rnn,
    dynamic_rnn,
    stack_bidirectional_dynamic_rnn,
    stack_bidirectional_rnn,
    static_bidirectional_rnn,
    static_rnn,
    tf_variables,
)

LENGTHS = [5, 0, 2, 4]


def summing() -> Returns:
    """Puts out the sum of all it has seen."""
    return Returns(3, 3, lambda x, s: (s + x, s + x))


def batch() -> Tensor:
    torch.manual_seed(0)
    return torch.randn(4, 5, 3)


@pytest.mark.parametrize("time_major", [False, True])
def test_the_backward_output_has_seen_the_row_from_its_end(time_major: bool) -> None:
    inputs = batch()
    fed = inputs.transpose(0, 1) if time_major else inputs
    (fw, bw), (state_fw, state_bw) = bidirectional_dynamic_rnn(
        summing(), summing(), fed, LENGTHS, dtype=torch.float32, time_major=time_major
    )
    if time_major:
        fw, bw = fw.transpose(0, 1), bw.transpose(0, 1)
    for row, length in enumerate(LENGTHS):
        for t in range(length):
            torch.testing.assert_close(fw[row, t], inputs[row, : t + 1].sum(0))
            torch.testing.assert_close(bw[row, t], inputs[row, t:length].sum(0))
        assert not fw[row, length:].any()
        assert not bw[row, length:].any()
        torch.testing.assert_close(state_fw[row], inputs[row, :length].sum(0))
        torch.testing.assert_close(state_bw[row], inputs[row, :length].sum(0))


def test_without_lengths_whole_rows_are_reversed() -> None:
    inputs = batch()
    (_, bw), _ = bidirectional_dynamic_rnn(summing(), summing(), inputs, dtype=torch.float32)
    torch.testing.assert_close(bw, inputs.flip(1).cumsum(1).flip(1))
    outputs, _, _ = static_bidirectional_rnn(summing(), summing(), list(inputs.unbind(1)), dtype=torch.float32)
    torch.testing.assert_close(torch.stack(outputs, 1)[..., 3:], bw)


def test_the_padding_of_reversed_inputs_may_be_nan() -> None:
    inputs = batch()
    inputs[torch.arange(5) >= torch.tensor(LENGTHS)[:, None]] = torch.nan
    outputs, states = bidirectional_dynamic_rnn(summing(), summing(), inputs, LENGTHS, dtype=torch.float32)
    assert all(leaf.isfinite().all() for leaf in (*outputs, *states))
    steps = list(inputs.unbind(1))
    listed, *_ = static_bidirectional_rnn(summing(), summing(), steps, dtype=torch.float32, sequence_length=LENGTHS)
    assert torch.stack(listed).isfinite().all()


def test_one_cell_for_both_directions_shares_its_weights() -> None:
    cell = GRUCell(4)
    (fw, bw), _ = bidirectional_dynamic_rnn(cell, cell, batch(), LENGTHS, dtype=torch.float32)
    (fw + bw).sum().backward()
    assert len(list(cell.parameters())) == 4
    assert next(iter(tf_variables(cell, "bidirectional_rnn/fw"))) == "bidirectional_rnn/fw/gru_cell/gates/kernel"


@pytest.mark.parametrize("lengths", [None, LENGTHS])
def test_initial_states_go_to_their_directions(lengths: Any) -> None:
    start_fw, start_bw = torch.full((4, 3), 10.0), torch.full((4, 3), -10.0)
    _, (state_fw, state_bw) = bidirectional_dynamic_rnn(summing(), summing(), batch(), lengths, start_fw, start_bw)
    torch.testing.assert_close(state_fw - state_bw, torch.full((4, 3), 20.0))
    _, static_fw, static_bw = static_bidirectional_rnn(
        summing(), summing(), list(batch().unbind(1)), start_fw, start_bw, sequence_length=lengths
    )
    torch.testing.assert_close((static_fw, static_bw), (state_fw, state_bw))


def test_static_outputs_of_higher_rank_are_concatenated_along_axis_1() -> None:
    image = Returns(torch.Size([2, 3]), torch.Size([2, 3]), lambda x, s: (s + x, s + x))
    outputs, *_ = static_bidirectional_rnn(image, image, [torch.zeros(4, 2, 3)] * 3, dtype=torch.float32)
    assert outputs[0].shape == (4, 4, 3)


# -- stacks ------------------------------------------------------------------------------------------------------------


def layers(units: list[int]) -> list[GRUCell]:
    return [GRUCell(n) for n in units]


@pytest.mark.parametrize("lengths", [None, LENGTHS])
@pytest.mark.parametrize("time_major", [False, True])
def test_a_dynamic_stack_is_its_layers_one_by_one(lengths: Any, time_major: bool) -> None:
    fw, bw = layers([4, 2]), layers([3, 5])
    x = batch().transpose(0, 1) if time_major else batch()
    outputs, states_fw, states_bw = stack_bidirectional_dynamic_rnn(
        fw, bw, x, dtype=torch.float32, sequence_length=lengths, time_major=time_major
    )
    below, (state_fw, state_bw) = bidirectional_dynamic_rnn(
        fw[0], bw[0], x, lengths, dtype=torch.float32, time_major=time_major
    )
    above, (top_fw, top_bw) = bidirectional_dynamic_rnn(
        fw[1], bw[1], torch.cat(below, 2), lengths, dtype=torch.float32, time_major=time_major
    )
    torch.testing.assert_close(outputs, torch.cat(above, 2), rtol=0, atol=0)
    torch.testing.assert_close((states_fw, states_bw), ((state_fw, top_fw), (state_bw, top_bw)), rtol=0, atol=0)


@pytest.mark.parametrize("lengths", [None, LENGTHS])
def test_a_static_stack_equals_a_dynamic_one(lengths: Any) -> None:
    fw, bw = layers([4, 2]), layers([3, 5])
    dynamic = stack_bidirectional_dynamic_rnn(fw, bw, batch(), dtype=torch.float32, sequence_length=lengths)
    listed, *states = stack_bidirectional_rnn(
        fw, bw, list(batch().unbind(1)), dtype=torch.float32, sequence_length=lengths
    )
    torch.testing.assert_close((torch.stack(listed, 1), *states), dynamic, rtol=0, atol=1e-6)


def test_a_stack_takes_an_initial_state_for_each_layer() -> None:
    fw, bw = layers([4, 2]), layers([3, 5])
    starts = [torch.randn(4, n) for n in (4, 2)], [torch.randn(4, n) for n in (3, 5)]
    x = batch()
    _, states_fw, _ = stack_bidirectional_dynamic_rnn(fw, bw, x[:, :0], *starts)
    torch.testing.assert_close(list(states_fw), starts[0], rtol=0, atol=0)
    _, states_fw, _ = stack_bidirectional_rnn(fw, bw, list(x.unbind(1)), *starts, sequence_length=[0, 5, 5, 5])
    torch.testing.assert_close([state[0] for state in states_fw], [start[0] for start in starts[0]], rtol=0, atol=0)


# -- continuing --------------------------------------------------------------------------------------------------------


def test_two_halves_with_the_state_between_are_one_whole() -> None:
    cell, x = GRUCell(4), batch()
    whole, final = dynamic_rnn(cell, x, dtype=torch.float32)
    first, between = dynamic_rnn(cell, x[:, :3], dtype=torch.float32)
    second, last = dynamic_rnn(cell, x[:, 3:], initial_state=between)
    # Matrix products of other sizes may round their sums differently.
    torch.testing.assert_close(torch.cat([first, second], 1), whole, rtol=0, atol=1e-6)
    torch.testing.assert_close(last, final, rtol=0, atol=1e-6)
    _, static = static_rnn(cell, tuple(x[:, 3:].unbind(1)), between)
    torch.testing.assert_close(static, final, rtol=0, atol=1e-6)
