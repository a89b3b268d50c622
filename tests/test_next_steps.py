"""Mistakes that newcomers make: each error says what to do next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import unspool
from unspool import RNN, GRUCell, LSTMCell, MultiRNNCell, dynamic_rnn

X = torch.zeros(4, 7, 3)


class InPlace(unspool.RNNCell):
    state_size = output_size = 3

    def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        seen = h[:, :2]
        seen += 1.0  # this line
        h = h + x
        return h, h


MISTAKES: dict[str, tuple[type[Exception], str, Callable[[], Any]]] = {
    "a cell without its state": (
        TypeError,
        r"a GRUCell is one step, .* the state is missing: cell.zero_state.* unspool.RNN\(cell\)\(inputs\) .* dynamic",
        lambda: GRUCell(5)(X[:, 0]),
    ),
    "a cell over sequences": (
        ValueError,
        r"have shape \[4, 7, 3\].* a cell is one step: unspool.RNN\(cell\)\(inputs\) and dynamic_rnn\(cell, inputs\)",
        lambda: GRUCell(5)(X, torch.zeros(4, 5)),
    ),
    "a layer of torch's in the place of a cell": (
        TypeError,
        r"LSTM\(3, 5\)\) is a layer over .* not one step: unspool.nn.LSTM .* unspool.replace_ .* nn.LSTMCell",
        lambda: dynamic_rnn(nn.LSTM(3, 5), X),
    ),
    "token ids": (
        ValueError,
        r"got torch.int64; convert them, or look token ids up first: embedding\(ids\) of an nn.Embedding",
        lambda: RNN(GRUCell(5))(torch.zeros(4, 7, dtype=torch.int64)),
    ),
    "a state with an axis of layers": (
        ValueError,
        r"state has shape \[1, 4, 5\], expected \[4, 5\]; the axis of layers in front.* dropped: state\[0\]",
        lambda: dynamic_rnn(GRUCell(5), X, None, torch.zeros(1, 4, 5)),
    ),
    "a state with an axis of layers, and lengths": (
        ValueError,
        r"initial_state has shape \[1, 4, 5\], .* dropped: state\[0\]",
        lambda: dynamic_rnn(GRUCell(5), X, [7, 1, 2, 3], torch.zeros(1, 4, 5)),
    ),
    "lengths, with time first": (
        ValueError,
        "sequence_length has 4 entries, but inputs have a batch of 7 and 4 steps: .* exchanged, and time_major says",
        lambda: dynamic_rnn(GRUCell(5), X.transpose(0, 1), [7, 1, 2, 3]),
    ),
    "a state, with time first": (
        ValueError,
        r"initial_state has shape \[4, 5\], but inputs have a batch of 7 and 4 steps: .* time_major says",
        lambda: dynamic_rnn(GRUCell(5), X.transpose(0, 1), [4] * 7, torch.zeros(4, 5)),
    ),
    "inputs before the cell": (
        TypeError,
        r"^The argument 'cell' \(a Tensor of shape \[4, 7, 3\]\) .* a loop is given the cell first, then its inputs$",
        lambda: dynamic_rnn(X, GRUCell(5)),
    ),
    "a state in the place of the dtype": (
        TypeError,
        r"^dtype must be a dtype or its name, but got a Tensor of shape \[4, 5\]$",
        lambda: dynamic_rnn(GRUCell(5), X, None, None, torch.zeros(4, 5)),
    ),
    "a state changed in place": (
        RuntimeError,
        r"in place, in `seen \+= 1.0  # this line` \(test_next_steps.py:\d+\): .* Compute a new tensor",
        lambda: dynamic_rnn(InPlace(), X),
    ),
    "a packed sequence for a loop": (
        TypeError,
        "PackedSequence, which unspool.RNN takes",
        lambda: dynamic_rnn(GRUCell(5), nn.utils.rnn.pack_sequence([X[0]])),
    ),
    "weights counted too early": (
        ValueError,
        r"numel of a weight that has no shape yet: .* input_size, .*RNN\(cell\).materialize\(x\), or run it once",
        lambda: sum(each.numel() for each in LSTMCell(5).parameters()),
    ),
    "a shape asked for too early": (
        RuntimeError,
        r"the shape of a weight that has none yet: .* call cell.build\(input_size\)",
        lambda: LSTMCell(5).kernel.shape,
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_error_says_what_to_do(mistake: str) -> None:
    kind, message, make = MISTAKES[mistake]
    with pytest.raises(kind, match=message):
        make()


def test_a_module_list_is_a_list_of_cells() -> None:
    cells = nn.ModuleList([GRUCell(5), LSTMCell(2)])
    assert MultiRNNCell(cells).output_size == 2
    outputs, _, _ = unspool.stack_bidirectional_dynamic_rnn(nn.ModuleList([GRUCell(5)]), nn.ModuleList([GRUCell(5)]), X)
    assert outputs.shape == (4, 7, 10)
