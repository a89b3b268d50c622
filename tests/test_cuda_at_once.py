"""Both directions of a loop at the same time: two streams, each with its part of the device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
import torch

from tests.emulator import Emulated, emulated
from tests.emulator.cells import problem
from unspool import dynamic_rnn
from unspool.engine import at_once
from unspool.engine.emit import registry
from unspool.engine.emit.cuda.loop.tiles import Limits
from unspool.engine.emit.sharing import loops_at_once, sharing


class FakeStream:
    """Writes down who waits for whom."""

    device, stream_id = torch.device("cuda", 0), 7

    def __init__(self, name: str, log: list[str]) -> None:
        self.name, self.log = name, log

    def wait_stream(self, other: FakeStream) -> None:
        self.log.append(f"{self.name} waits for {other.name}")


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What happens on streams, where there are none."""
    lines: list[str] = []
    here, there = FakeStream("here", lines), FakeStream("there", lines)

    @contextmanager
    def on(stream: FakeStream) -> Iterator[None]:
        lines.append(f"on {stream.name}:")
        yield
        lines.append("end")

    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: here)
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: there)
    monkeypatch.setattr(torch.cuda, "stream", on)
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda leaf, stream: lines.append(f"kept for {stream.name}"))
    monkeypatch.setattr(registry, "runs_at_once", lambda device: True)
    monkeypatch.setattr(at_once, "_others", {})
    return lines


def test_two_loops_meet_where_they_began(log: list[str]) -> None:
    def loop(name: str) -> Any:
        log.append(f"{name}, one of {loops_at_once()}")
        return torch.zeros(1), [torch.ones(1), None]

    one, other = at_once.both(lambda: loop("first"), lambda: loop("second"), torch.device("cuda"))
    assert (one[0].item(), other[1][0].item(), loops_at_once()) == (0, 1, 1)
    apart = ["there waits for here", "on there:", "second, one of 2", "end", "first, one of 2"]
    assert log == [*apart, "here waits for there", "kept for here", "kept for here"]


def test_they_run_one_after_another_where_no_emitter_can_do_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_EMIT", "CUDA graph")
    assert at_once.both(loops_at_once, loops_at_once, torch.device("cuda")) == (1, 1)
    monkeypatch.setenv("UNSPOOL_EMIT", "cuda-loop")
    assert registry.runs_at_once(torch.device("cuda"))
    assert not registry.runs_at_once(torch.device("cpu"))


def test_backward_has_the_part_that_forward_had() -> None:
    seen: list[int] = []

    class Watched(Emulated):
        def limits(self) -> Limits:
            seen.append(loops_at_once())
            return super().limits()

    own, inputs, state = problem("rnn", torch.float32)
    with emulated(Watched()):
        with sharing(2):
            outputs, _ = dynamic_rnn(own, inputs, None, state, torch.float32)
        first = len(seen)
        outputs.sum().backward()
    assert set(seen[first:]) == {2}
