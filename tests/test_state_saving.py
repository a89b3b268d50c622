"""`static_state_saving_rnn`: what is kept between calls."""

from __future__ import annotations

import torch

from unspool import GRUCell, static_rnn, static_state_saving_rnn


class Shelf(dict[str, torch.Tensor]):
    state, save_state = dict.__getitem__, dict.__setitem__


def test_backpropagation_ends_where_a_call_began() -> None:
    cell, shelf = GRUCell(4), Shelf(h=torch.zeros(2, 4))
    for _ in range(3):
        outputs, _ = static_state_saving_rnn(cell, [torch.ones(2, 3)] * 2, shelf, "h")
        torch.stack(outputs).sum().backward()
    assert not shelf["h"].requires_grad


def test_the_returned_state_has_its_history() -> None:
    cell, shelf = GRUCell(4), Shelf(h=torch.zeros(2, 4, requires_grad=True))
    start = shelf["h"]
    _, state = static_state_saving_rnn(cell, [torch.ones(2, 3)] * 2, shelf, "h", sequence_length=[2, 1])
    (gradient,) = torch.autograd.grad(state.sum(), start)
    assert gradient.all()
    torch.testing.assert_close(state, static_rnn(cell, [torch.ones(2, 3)] * 2, start, sequence_length=[2, 1])[1])
