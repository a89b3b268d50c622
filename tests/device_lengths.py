"""Lengths as if they were on a GPU, where the host does not look at them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from unspool import dynamic_rnn
from unspool.engine import run
from unspool.loops import arguments, looks


def keep_on_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has loops take all lengths for a device's."""
    for module in (run, looks):
        monkeypatch.setattr(module, "stays_on_device", lambda lengths, device: True)
    monkeypatch.setattr(arguments, "check_lengths_fit", lambda lengths, steps: None)


def by_lengths(**options: Any) -> Callable[..., Any]:
    """A loop for `tests.comparison.results`, whose lengths are a tensor."""

    def loop(own: Any, inputs: Any, lengths: Any, state: Any, dtype: torch.dtype) -> Any:
        return dynamic_rnn(own, inputs, torch.tensor(lengths), state, dtype, **options)

    return loop
