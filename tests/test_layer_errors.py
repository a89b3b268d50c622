"""Mistakes with `RNN` and `Stack`: each is named before any work is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import unspool
from unspool import RNN, GRUCell, Stack

ERRORS: dict[str, tuple[type[Exception], str, Callable[[], Any]]] = {
    "no cell": (TypeError, "The argument 'cell' .* is not an RNNCell", lambda: RNN(3)),
    "no second cell": (
        TypeError,
        "The argument 'bidirectional' .* is not an RNNCell",
        lambda: RNN(GRUCell(2), bidirectional=3),
    ),
    "nobody knows the weights": (
        TypeError,
        r"second Secret with weights of its own, but .* give the second cell as bidirectional=cell_bw",
        lambda: RNN(Secret(3), bidirectional=True),
    ),
    "return_states": (
        ValueError,
        'return_states must be False or "all", but is True',
        lambda: RNN(GRUCell(2), return_states=True),
    ),
    "initial_state": (
        ValueError,
        "initial_state must be .* but is 'zeros'",
        lambda: RNN(GRUCell(2), initial_state="zeros"),
    ),
    "learned but unknown": (
        ValueError,
        "needs a cell that knows its state_size",
        lambda: RNN(unspool.cell(lambda x, h: (h, h)), initial_state="learned"),
    ),
    "detach_every": (
        ValueError,
        "detach_every must be a positive number of steps, but is 0",
        lambda: RNN(GRUCell(2), detach_every=0),
    ),
    "memory": (TypeError, "memory", lambda: RNN(GRUCell(2), memory=3)),  # pyright: ignore[reportArgumentType]
    "lengths of one sequence": (
        ValueError,
        "lengths must be None where x is one sequence",
        lambda: gru()(torch.zeros(3, 2), lengths=[3]),
    ),
    "lengths of a pack": (
        ValueError,
        "lengths must be None where x is a PackedSequence",
        lambda: gru()(nn.utils.rnn.pack_sequence([torch.zeros(3, 2)]), lengths=[3]),
    ),
    "resets that are no bools": (
        TypeError,
        "resets must be bools, but is torch.float32",
        lambda: gru()(X, resets=torch.zeros(2, 4)),
    ),
    "resets of another shape": (
        ValueError,
        r"resets has shape \[4, 2\], but x has \[2, 4\] steps, \[batch, time\]",
        lambda: gru()(X, resets=torch.zeros(4, 2, dtype=torch.bool)),
    ),
    "one state for two directions": (
        ValueError,
        "state must be a tuple of 2 states, one for each direction",
        lambda: RNN(GRUCell(2), bidirectional=True)(X, torch.zeros(2, 2)),
    ),
    "a step of both directions": (
        ValueError,
        "a bidirectional layer has no step",
        lambda: RNN(GRUCell(2), bidirectional=True).step(X[:, 0]),
    ),
    "no layers": (ValueError, "layers is empty", lambda: Stack([])),
    "layers that are none": (TypeError, "layers must be a list of cells or layers", lambda: Stack(GRUCell(2))),  # pyright: ignore[reportArgumentType]
    "a cell for all layers": (
        TypeError,
        "bidirectional must be True or False",
        lambda: Stack([GRUCell(2)], bidirectional=GRUCell(2)),
    ),
    "dropout": (ValueError, "dropout must be a probability, but is 2", lambda: Stack([GRUCell(2)], dropout=2)),
    "mixed orders": (
        ValueError,
        r"layers\[0\] has batch_first=False, but the stack True",
        lambda: Stack([RNN(GRUCell(2), batch_first=False)]),
    ),
    "a state of other rows": (
        ValueError,
        r"state has shape \[3, 2\], but inputs have a batch of 2",
        lambda: RNN(GRUCell(2))(X, torch.zeros(3, 2)),
    ),
    "a state with an axis of layers": (
        ValueError,
        r"state has shape \[1, 2, 2\], but inputs have a batch of 2; .*state\[0\]",
        lambda: RNN(GRUCell(2))(X, torch.zeros(1, 2, 2)),
    ),
    "states of a stack": (ValueError, "one for each layer", lambda: Stack([GRUCell(2)])(X, (1, 2))),
}
X = torch.zeros(2, 4, 3)


class Secret(unspool.RNNCell):
    def __init__(self, arguments: int) -> None:
        super().__init__()
        self.state_size = self.output_size = 2
        self.weight = nn.Parameter(torch.zeros(2))


def gru() -> RNN:
    return RNN(GRUCell(2))


@pytest.mark.parametrize("case", ERRORS)
def test_mistakes_are_named(case: str) -> None:
    kind, message, mistake = ERRORS[case]
    with pytest.raises(kind, match=message):
        mistake()
