"""Every attention mechanism with every option, memories and wrappers: what the tests of attention share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from unspool import LSTMCell
from unspool.decode import (
    AttentionWrapper,
    BahdanauAttention,
    BahdanauMonotonicAttention,
    LuongAttention,
    LuongMonotonicAttention,
)
from unspool.structure import flatten

ROWS, PLACES, DEPTH, UNITS, INPUTS = 3, 5, 4, 3, 2
"""Of the memory and the inputs; UNITS is the width of the cells, of keys and queries."""
MEMORY_LENGTHS, LENGTHS = [5, 2, 1], [4, 3, 0]

ROUNDING = 1e-10
"""Of float64, where sums of a few dozen numbers of size one are made in another order; divisions in "parallel" mode by
products down to about 1e-3 add three digits to the usual 1e-14."""

MECHANISMS: dict[str, Callable[..., Any]] = {
    "bahdanau": BahdanauAttention,
    "bahdanau-normalize": lambda *args: BahdanauAttention(*args, normalize=True),
    "luong": LuongAttention,
    "luong-scale": lambda *args: LuongAttention(*args, scale=True),
    "bahdanau-monotonic-recursive": lambda *args: BahdanauMonotonicAttention(*args, mode="recursive"),
    "bahdanau-monotonic-parallel": lambda *args: BahdanauMonotonicAttention(*args, normalize=True, mode="parallel"),
    "bahdanau-monotonic-hard": lambda *args: BahdanauMonotonicAttention(*args, mode="hard"),
    "luong-monotonic-recursive": lambda *args: LuongMonotonicAttention(*args, scale=True, mode="recursive"),
    "luong-monotonic-parallel": lambda *args: LuongMonotonicAttention(*args, mode="parallel"),
    "luong-monotonic-hard": lambda *args: LuongMonotonicAttention(*args, mode="hard"),
}

every_mechanism = pytest.mark.parametrize("name", MECHANISMS)


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def fill(module: nn.Module) -> None:
    """Random weights: those that start at 0 or 1 would hide what they do."""
    with torch.no_grad():
        for weight in module.parameters():
            weight.normal_()


def memory_of(rows: int = ROWS, places: int = PLACES) -> Tensor:
    return draw(rows, places, DEPTH)


def looked(mechanism: Any, rows: int = ROWS) -> tuple[Tensor, Tensor]:
    """A query, and where the attention was: a distribution, or for hard choices a place."""
    places = mechanism.alignments_size
    previous = torch.softmax(draw(rows, places), 1)
    if getattr(mechanism, "mode", "") == "hard":
        previous = torch.eye(places, dtype=torch.float64)[torch.randint(places, (rows,))]
    return draw(rows, UNITS), previous.detach().requires_grad_()


def wrapped(name: str, **options: Any) -> AttentionWrapper:
    """A wrapper around an LSTM, built, with random weights and a random memory."""
    wrapper, memory = AttentionWrapper(LSTMCell(UNITS), MECHANISMS[name](UNITS), **options), memory_of()
    set_memory(wrapper, memory, MEMORY_LENGTHS)
    wrapper.build(INPUTS, dtype=torch.float64)
    fill(wrapper)
    set_memory(wrapper, memory, MEMORY_LENGTHS)
    return wrapper


def set_memory(wrapper: AttentionWrapper, memory: Tensor, lengths: Any = None) -> None:
    for mechanism in wrapper.mechanisms:
        mechanism.setup_memory(memory, lengths)


def gradients(results: Any, sources: list[Tensor]) -> list[Tensor]:
    """Of a sum with uneven weights, so that alignments, which sum to 1, have gradients too."""
    leaves = [leaf for leaf in flatten(results) if leaf.requires_grad]
    total = sum((leaf * torch.linspace(0.5, 2, leaf.numel(), dtype=leaf.dtype).view_as(leaf)).sum() for leaf in leaves)
    return list(torch.autograd.grad(total, sources, allow_unused=True, materialize_grads=True))


def assert_close(actual: Any, expected: Any) -> None:
    torch.testing.assert_close(actual, expected, rtol=ROUNDING, atol=ROUNDING)
