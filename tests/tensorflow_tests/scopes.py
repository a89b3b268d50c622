"""What is left of TensorFlow's variable scopes: the name of a loop, for its profiler range and its cell's weights."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch


def scopes(default):
    """Runs a test with each way to name a loop as `scope`, and what the name must come to as `prefix`."""
    return pytest.mark.parametrize(
        ("scope", "prefix"),
        [("mine", "mine"), (SimpleNamespace(name="outer/inner"), "outer/inner"), (None, default), ("", default)],
        ids=["string", "object", "default", "empty"],
    )


def profiler_ranges(run):
    """The names that `run()` leaves in a profile."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], acc_events=True) as profile:
        run()
    return {event.name for event in profile.events()}
