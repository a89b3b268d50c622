"""Ctrl-C while a compiler works: it reaches the user, and the next call waits for that compiler or starts another."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.compiling import (
    FUNCTION,
    Counting,
    answer,
    as_a_new_process,
    is_running,
    own_cache,
    real_compiler,
    run_python,
    script,
    wait_for,
)
from unspool.engine.emit import compile_cache
from unspool.engine.emit.cpp.libraries.build import Build

INTERRUPTED = """
import os, signal, threading, time
from pathlib import Path
import torch
import unspool
from torch import nn

signal.signal(signal.SIGINT, signal.default_int_handler)  # which a program in the background does not have

class Mine(unspool.RNNCell):
    def __init__(self):
        super().__init__()
        self.state_size = self.output_size = 4
        self.mix = nn.Linear(7, 4, dtype=torch.float64)

    def forward(self, inputs, state):
        state = torch.tanh(self.mix(torch.cat([inputs, state], 1)))
        return state, state

torch.manual_seed(0)
cell, inputs = Mine(), torch.randn(3, 5, 3, dtype=torch.float64, requires_grad=True)

def results(loop):
    outputs, final = loop()
    return [outputs, final, *torch.autograd.grad((outputs * outputs).sum() + final.sum(), [inputs, *cell.parameters()])]

def engine():
    return unspool.dynamic_rnn(cell, inputs, dtype=torch.float64)

def plain():
    outputs, final = unspool.static_rnn(cell, list(inputs.unbind(1)), dtype=torch.float64)
    return torch.stack(outputs, 1), final

def press_ctrl_c_at_work():
    while not Path(STARTED).exists():
        time.sleep(0.01)
    time.sleep(0.3)  # the call waits for the compiler by now
    os.killpg(os.getpgrp(), signal.SIGINT)  # as a terminal does: to everybody in the foreground

def interrupted(call):
    threading.Thread(target=press_ctrl_c_at_work).start()
    try:
        call()
    except KeyboardInterrupt:
        return True
    return False
"""


@pytest.fixture
def slow(tmp_path: Path) -> str:
    """The real compiler, two seconds late; it notes its calls."""
    started = tmp_path / "started"
    return script(tmp_path / "slow", f'echo called >> {started}\nsleep 2\nexec {real_compiler()} "$@"\n')


@pytest.mark.parametrize("call", ["results(engine)", "unspool.explain(cell, inputs, dtype=torch.float64)"])
def test_the_next_call_is_compiled(call: str, slow: str, tmp_path: Path) -> None:
    program = f"""
STARTED = {str(tmp_path / "started")!r}
{INTERRUPTED}
for _ in range(2):  # once more while the same compiler works
    assert interrupted(lambda: {call}), "the interrupt did not reach the caller"
torch.testing.assert_close(results(engine), results(plain), rtol=1e-10, atol=1e-12)
explanation = unspool.explain(cell, inputs, dtype=torch.float64)
assert explanation.emitter == explanation.backward.emitter == "c++", dict(explanation.forward.passed_over)
"""
    run_python(program, tmp_path, CXX=slow, UNSPOOL_CACHE=str(tmp_path / "cache"))
    assert list((tmp_path / "tmp").glob("unspool-*")) == []


class TestAtTheWorstMoment:
    """Between two steps of starting a compiler or of loading what it has made."""

    @pytest.fixture(autouse=True)
    def cache(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
        as_a_new_process(monkeypatch)
        yield from own_cache(tmp_path, monkeypatch)

    @pytest.fixture
    def counting(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Counting:
        compiler = Counting(tmp_path)
        monkeypatch.setenv("CXX", compiler.command)
        return compiler

    @pytest.mark.parametrize("started", [False, True], ids=["before the thread is there", "after"])
    def test_while_a_thread_is_started(
        self, started: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counting: Counting
    ) -> None:
        """The compiler that nobody waits for is ended; the next call has one of its own."""
        notes, start = tmp_path / "process", threading.Thread.start
        slow = script(tmp_path / "hanging", f"echo $$ > {notes}.new\nmv {notes}.new {notes}\nsleep 600\n")

        def interrupt(thread: threading.Thread) -> None:
            if started:
                start(thread)
            wait_for(notes.exists)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setenv("CXX", slow)
            patch.setattr(threading.Thread, "start", interrupt)
            with pytest.raises(KeyboardInterrupt):
                Build.of(FUNCTION.format(30))
        wait_for(lambda: not is_running(int(notes.read_text())))
        assert answer(FUNCTION.format(30)) == 30
        assert counting.calls == 1

    @pytest.mark.parametrize("function", ["trusted_folder", "load"])
    def test_while_the_cache_is_looked_through(
        self, function: str, monkeypatch: pytest.MonkeyPatch, counting: Counting
    ) -> None:
        def interrupt(*arguments: Any) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(compile_cache, function, interrupt)
            with pytest.raises(KeyboardInterrupt):
                Build.of(FUNCTION.format(31))
        assert answer(FUNCTION.format(31)) == 31
        assert counting.calls == 1
