"""Checks on values, which change nothing, and branches by values, which do."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Normal

from tests.idioms.table import REFUSED, UNITS, Idiom, Step, idiom


def _asserts(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    assert (h == h).all(), "a state that is no number"
    return torch.tanh(cell.mixed(x, h))


def _raises(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    new = torch.tanh(cell.mixed(x, h))
    if torch.isnan(new).any():
        raise ValueError("a new state that is no number")
    return new


def _asserts_sizes_and_values(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    assert h.shape[1] == UNITS
    assert torch.all(h.abs() <= 1e6)
    assert x.isfinite().all().item()
    return torch.tanh(cell.mixed(x, h))


def _asserts_numbers(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    chosen = torch.zeros_like(h).scatter(1, h.topk(2, 1)[1], 1.0)
    assert chosen.sum(1).mean().item() == 2
    assert 0 <= chosen.mean().item() * UNITS - 1 < 2
    return torch.tanh(cell.mixed(x, h)) * chosen


def _asserts_by_numpy(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    mask = (h > 0).to(h.dtype)
    zeros, ones = torch.sum(mask == 0.0).cpu().numpy(), torch.sum(mask == 1.0).numpy()
    assert (zeros + ones) == np.prod(list(mask.size()))
    assert np.int64(0) <= ones
    assert np.float64(0.5) < 1 + torch.sum(mask).item()
    return torch.tanh(cell.mixed(x, h)) * mask


def _asserts_of_a_selection(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    """How many elements are checked depends on their values."""
    mask = (x > 0).to(x.dtype)
    shown = x * mask
    assert torch.sum(shown[mask == 0.0] != 0.0) == 0
    assert not torch.isnan(shown[mask == 1]).any()
    assert torch.masked_select(shown, mask > 0).abs().min().item() > 0
    assert (mask.nonzero() >= 0).all()
    if shown[shown < 0].numel() > 0:
        print("values that nothing has shown")
        raise ValueError("a value that was not shown")
    return torch.tanh(cell.mixed(shown, h))


def _mean_of_a_distribution(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    around = Normal(cell.mixed(x, h), 0.1 + h.abs())
    return torch.tanh(around.mean + 0.1 * around.log_prob(h))


def _resets_where_any(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    first = x[:, :1] > 0.5
    if first.any():
        h = torch.where(first, torch.zeros_like(h), h)
    return torch.tanh(cell.mixed(x, h))


def _resets_by_another_comparison(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    first = x[:, 0]
    if (first > 0.5).any():
        h = torch.where(first[:, None] > 0.5, cell.start, h)  # the same, compared in another shape
    return torch.tanh(cell.mixed(x, h))


def _resets_by_another_number(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    first = x[:, 0]
    if (first > 0.5).any():
        h = torch.where(first[:, None] > 0.4, torch.zeros_like(h), h)
    return torch.tanh(cell.mixed(x, h))


def _multiplies_unless_all(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    first = x[:, :1] > 0.5
    if not torch.all(~first):
        h = h * (~first)
    return torch.tanh(cell.mixed(x, h))


def _starts_again(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    first = (x[:, 0] > 0.5).float()[:, None].to(h.dtype)
    if first.sum() > 0:  # is_first of a world model, in floating point
        h = h * (1 - first) + cell.start * first
    return torch.tanh(cell.mixed(x, h))


def _zeroes_by_a_mask(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    done = x[:, :1] > 0.5
    if done.any().item():
        h = h.masked_fill(done, 0.0)
        x = x.masked_fill(done, 1.0)
    return torch.tanh(cell.mixed(x, h))


def _resets_in_place(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    done = x[:, 0] > 0.5
    if done.any():
        h = h.clone()
        h[done] = 0
    return torch.tanh(cell.mixed(x, h))


def _sets_by_masks(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    h = h.clone()
    h[x[:, 0] > 0.5] = cell.start
    h[h > 0.9] = 0.9
    return torch.tanh(cell.mixed(x, h))


def _sums_a_selection(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    return torch.tanh(cell.mixed(x, h) + x[x > 0].sum())


def _counts_a_selection(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    return torch.tanh(cell.mixed(x, h)) / (1 + len(x[x > 0]))


def _picks_by_a_mask(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    done, h = x[:, 0] > 0.5, h.clone()
    h[done] = h[done] * 2
    return torch.tanh(cell.mixed(x, h))


def _nothing_to_do(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    idle = (x[:, :1] > 0).long()
    if torch.all(idle == 1):
        return h
    return torch.where(idle == 1, h, torch.tanh(cell.mixed(x, h)))


def _ponders(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    """Graves' adaptive computation time: rows halt one by one, and nothing more is done once all have."""
    halting, total = torch.zeros_like(h[:, :1]), torch.zeros_like(h)
    for _ in range(3):
        running = halting < 0.9
        if not running.any():
            break
        h = torch.where(running, torch.tanh(cell.mixed(x, h)), h)
        weight = torch.sigmoid(h[:, :1]) * running
        total = total + weight * h
        halting = halting + weight
    return total


def _two_reasons(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    ended, begun = x[:, :1] > 0.5, x[:, 1:2] > 0.5
    assert torch.isfinite(h).all()
    if (ended | begun).any():
        h = torch.where(ended, torch.zeros_like(h), h)
        if not torch.all(~begun):
            h = h + begun * cell.start
    return torch.tanh(cell.mixed(x, h))


def _moves_all(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    if (x > 0.5).any():
        h = h + 1
    return torch.tanh(cell.mixed(x, h))


def _resets_only_if_all(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    if (x[:, :1] > 0.5).all():
        h = torch.zeros_like(h)
    return torch.tanh(cell.mixed(x, h))


def _resets_and_moves(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    first = x[:, :1] > 0.5
    if first.any():
        h = torch.where(first, torch.zeros_like(h), h) + 0.1
    return torch.tanh(cell.mixed(x, h))


def _adds_unless_zero(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    """The values are those of h where x is zero, but the gradients are not."""
    if (x != 0).any():
        h = h + x[:, :1]
    return torch.tanh(h)


def _divides_for_some(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    """Where h is zero there is nothing to divide by, and with no large row nobody does."""
    size = h.abs().sum(1, keepdim=True)
    if (size > 1).any():
        h = torch.where(size > 1, h / size, h)
    return torch.tanh(cell.mixed(x, h))


def _draws_for_some(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    first = x[:, :1] > 0.5
    if first.any():
        h = torch.where(first, torch.randn_like(h), h)
    return torch.tanh(cell.mixed(x, h))


def _another_law_by_a_number(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    if h.mean().item() > 0:
        return torch.tanh(cell.mixed(x, h))
    return cell.mixed(x, h)


def _another_law_for_all(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    if h.mean() > 0:
        return torch.tanh(cell.mixed(x, h))
    return torch.sigmoid(cell.mixed(x, h))


def _until_small(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    while h.abs().max() > 1:
        h = h / 2
    return torch.tanh(cell.mixed(x, h))


idiom("an assertion on values", _asserts)
idiom("an error on values", _raises)
idiom("assertions on sizes and values", _asserts_sizes_and_values)
idiom("assertions on numbers", _asserts_numbers)
idiom("assertions by NumPy", _asserts_by_numpy)
idiom("assertions on selected elements", _asserts_of_a_selection)
idiom("a distribution that validates", _mean_of_a_distribution)
idiom("a reset where any row begins", _resets_where_any)
idiom(
    "a reset by a comparison in another shape",
    _resets_by_another_comparison,
    start=lambda: nn.Parameter(torch.randn(UNITS)),
)
idiom("a product unless all rows go on", _multiplies_unless_all)
idiom("a start again where a sum says so", _starts_again, start=lambda: nn.Parameter(torch.randn(UNITS)))
idiom("a mask that is asked for an item", _zeroes_by_a_mask)
idiom("a reset in place where any row ends", _resets_in_place)
idiom("elements set by masks", _sets_by_masks, start=lambda: nn.Parameter(torch.randn(UNITS)))
idiom("nothing to do for all rows", _nothing_to_do)
idiom("as long as a row goes on", _ponders)
idiom("a branch in a branch", _two_reasons, start=lambda: nn.Parameter(torch.randn(UNITS)))
REFUSED["a branch that moves all rows"] = Idiom(lambda: Step(_moves_all)), "if (x > 0.5).any():"
REFUSED["a reset if all rows begin"] = Idiom(lambda: Step(_resets_only_if_all)), "if (x[:, :1] > 0.5).all():"
REFUSED["a reset that moves the others"] = Idiom(lambda: Step(_resets_and_moves)), "if first.any():"
REFUSED["a sum unless all is zero"] = Idiom(lambda: Step(_adds_unless_zero)), "if (x != 0).any():"
REFUSED["a division for some rows"] = Idiom(lambda: Step(_divides_for_some)), "if (size > 1).any():"
REFUSED["a reset by another number"] = (
    Idiom(lambda: Step(_resets_by_another_number)),
    "if (first > 0.5).any():",
)
REFUSED["a branch that draws"] = Idiom(lambda: Step(_draws_for_some)), "if first.any():"
REFUSED["rows picked by a mask"] = Idiom(lambda: Step(_picks_by_a_mask)), "h[done] = h[done] * 2"
REFUSED["a sum over a selection"] = (
    Idiom(lambda: Step(_sums_a_selection)),
    "return torch.tanh(cell.mixed(x, h) + x[x > 0].sum())",
)
REFUSED["the size of a selection"] = (
    Idiom(lambda: Step(_counts_a_selection)),
    "return torch.tanh(cell.mixed(x, h)) / (1 + len(x[x > 0]))",
)
REFUSED["another law for all rows"] = Idiom(lambda: Step(_another_law_for_all)), "if h.mean() > 0:"
REFUSED["another law by a number"] = Idiom(lambda: Step(_another_law_by_a_number)), "if h.mean().item() > 0:"
REFUSED["as often as it takes"] = Idiom(lambda: Step(_until_small)), "while h.abs().max() > 1:"
