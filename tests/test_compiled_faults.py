"""What goes wrong around compiled loops: the results are right all the same, or there is a clear error."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.comparison import LENGTHS, assert_same, check, engine_loop, plain_loop, results, wanting_gradients
from tests.compiling import GARBAGE, KILLED, NOTHING, Counting, own_cache, real_compiler, script
from tests.emitting import assert_compiled
from unspool import RNNCell, dynamic_rnn, explain
from unspool.engine import fallbacks
from unspool.engine.emit.cpp.libraries import build
from unspool.engine.emit.cpp.libraries.runtime import Runtime

pytestmark = pytest.mark.compiled

numbers = count()
DTYPE = torch.float64


class Own(RNNCell):
    """A cell of a making of its own: it shares no plan with another."""

    def __init__(self, units: int = 4, depth: int = 3) -> None:
        super().__init__()
        self.state_size = self.output_size = units
        self.mix = nn.Linear(depth + units, units, dtype=DTYPE)
        self.level = 0.5 + 1e-4 * next(numbers)

    def forward(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        state = torch.tanh(self.mix(torch.cat([inputs, state], 1))) * self.level
        return state, state


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    yield from own_cache(tmp_path, monkeypatch)


@dataclass(frozen=True)
class Case:
    """A new cell, and what it runs on."""

    cell: Own
    inputs: Tensor
    state: Tensor

    @property
    def arguments(self) -> tuple[Any, ...]:
        return (self.cell, DTYPE, LENGTHS, self.inputs, self.state)

    def check(self) -> None:
        """Asserts that outputs, states and gradients are those of the plain loop."""
        check(*self.arguments)

    def is_compiled(self) -> None:
        assert_compiled(self.cell, self.inputs, LENGTHS, self.state, DTYPE)

    def reasons(self) -> set[str]:
        """Why its cores are not compiled."""
        explanation = explain(self.cell, self.inputs, LENGTHS, self.state, DTYPE)
        assert explanation.forward is not None
        assert explanation.backward is not None
        assert explanation.emitter == "interpreted"
        assert "interpreted" in str(explanation)
        for each in (explanation.forward, explanation.backward):
            assert each.emitter == "interpreted"
            assert each.source
        return {dict(each.passed_over)["c++"] for each in (explanation.forward, explanation.backward)}


@pytest.fixture
def case() -> Case:
    torch.manual_seed(0)
    cell = Own()
    return Case(cell, *(wanting_gradients(torch.randn(size, dtype=DTYPE)) for size in ((5, 7, 3), (5, 4))))


def said(caplog: Any) -> list[str]:
    """What the log has for people."""
    return [each.getMessage() for each in caplog.records if each.name == "unspool" and each.levelno >= logging.INFO]


class TestNoCompiler:
    """Cores are interpreted, with the same results and one line of the log."""

    FAILING = {
        "fails": ("exit 1\n", "failing failed: exit status 1, no message"),
        "says why": ("echo fatal error: no input >&2\nexit 1\n", "failing failed: fatal error: no input"),
        "is killed": (KILLED, "failing failed: it was ended by signal 9"),
        "makes nothing": (NOTHING, "failing failed: it has made nothing"),
        "makes garbage": (GARBAGE, "failing has made cannot be loaded: "),
        "hangs": ("sleep 600\n", "failing failed: it took more than 1 seconds"),
    }

    def interprets(self, case: Case, caplog: Any, *, first: str = "run") -> str:
        """Asserts that it is so, and returns the reason."""
        caplog.set_level(logging.INFO, "unspool")
        fallbacks._said.clear()  # pyright: ignore[reportPrivateUsage]
        if first == "explain":
            case.reasons()
        case.check()
        (reason,) = case.reasons()
        (message,) = said(caplog)
        assert message == f"Own is interpreted, not compiled: {reason}"
        case.check()
        assert len(said(caplog)) == 1
        return reason

    @pytest.mark.parametrize("first", ["run", "explain"])
    @pytest.mark.parametrize("failure", FAILING)
    def test_one_that(
        self, failure: str, first: str, case: Case, tmp_path: Path, cache: Path, monkeypatch: Any, caplog: Any
    ) -> None:
        body, expected = self.FAILING[failure]
        monkeypatch.setattr(build, "LONGEST", 1)
        monkeypatch.setenv("CXX", script(tmp_path / "failing", body))
        assert expected in self.interprets(case, caplog, first=first)
        assert list(cache.iterdir()) == []

    def test_that_there_is(self, case: Case, tmp_path: Path, monkeypatch: Any, caplog: Any) -> None:
        wanted = str(tmp_path / "c++")
        monkeypatch.setenv("CXX", wanted)
        assert self.interprets(case, caplog) == f"no C++ compiler: looked for $CXX, {wanted}"

    def test_on_the_path(self, case: Case, tmp_path: Path, monkeypatch: Any, caplog: Any) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        assert self.interprets(case, caplog) == "no C++ compiler: looked for g++ or clang++"

    def test_false(self, case: Case, monkeypatch: Any, caplog: Any) -> None:
        monkeypatch.setenv("CXX", "false")
        assert self.interprets(case, caplog) == "false failed: exit status 1, no message"

    def test_that_can_be_started(self, case: Case, tmp_path: Path, monkeypatch: Any, caplog: Any) -> None:
        file = tmp_path / "text"
        file.write_text("no program")
        file.chmod(0o755)
        monkeypatch.setenv("CXX", str(file))
        assert "cannot be started: " in self.interprets(case, caplog)

    def test_wanted(self, case: Case, tmp_path: Path, monkeypatch: Any) -> None:
        """The environment can turn it off; the compiler is not even called."""
        compiler = Counting(tmp_path)
        monkeypatch.setenv("CXX", compiler.command)
        monkeypatch.setenv("UNSPOOL_EMIT", "interpreted")
        case.check()
        assert case.reasons() == {"the environment says UNSPOOL_EMIT=interpreted"}
        assert compiler.calls == 0

    def test_once_there_is_one_again(self, case: Case, monkeypatch: Any, cache: Path) -> None:
        """Another cell is compiled; what was decided for one stays."""
        real_compiler()
        with monkeypatch.context() as patch:
            patch.setenv("CXX", "/nowhere/c++")
            case.check()
        other = Case(Own(), case.inputs, case.state)
        other.check()
        other.is_compiled()
        case.check()


def test_a_cache_that_cannot_be_trusted(case: Case, cache: Path) -> None:
    real_compiler()
    cache.mkdir()
    cache.chmod(0o777)
    case.check()
    case.is_compiled()
    assert list(cache.iterdir()) == []


class TestExceptions:
    """They reach the caller, and the next run knows nothing of them."""

    @pytest.fixture(autouse=True)
    def compiled(self, case: Case) -> Iterator[None]:
        real_compiler()
        case.is_compiled()
        yield
        case.check()
        case.is_compiled()

    @pytest.mark.parametrize("where", ["outputs", "final state", "inputs", "state", "weight"])
    def test_of_a_hook(self, where: str, case: Case) -> None:
        def fail(gradient: Tensor) -> None:
            raise LookupError(f"from a hook of {where}")

        outputs, final = dynamic_rnn(case.cell, case.inputs, LENGTHS, case.state, DTYPE)
        tensors = {"outputs": outputs, "final state": final, "inputs": case.inputs, "state": case.state}
        hooked = {**tensors, "weight": case.cell.mix.weight}[where]
        handle = hooked.register_hook(fail)
        with pytest.raises(LookupError, match=f"from a hook of {where}"):
            (outputs.sum() + final.sum()).backward()
        handle.remove()

    @pytest.mark.parametrize("direction", ["forwards", "backwards"])
    def test_of_no_memory(self, direction: str, case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
        def forwards() -> Tensor:
            return dynamic_rnn(case.cell, case.inputs, LENGTHS, case.state, DTYPE)[0]

        work = forwards if direction == "forwards" else forwards().sum().backward
        with monkeypatch.context() as patch:
            patch.setattr(Runtime.get(), "_run", lambda *arguments: 1)
            with pytest.raises(MemoryError, match="found no memory for its intermediate results"):
                work()

    def test_of_no_memory_for_sums(self, case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
        outputs, _ = dynamic_rnn(case.cell, case.inputs, LENGTHS, case.state, DTYPE)
        with monkeypatch.context() as patch:
            patch.setattr(Runtime.get(), "_share", lambda *arguments: 1)
            with pytest.raises(MemoryError, match="found no memory for its intermediate results"):
                outputs.sum().backward()

    def test_of_an_interrupt(self, case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupt(*arguments: Any) -> None:
            raise KeyboardInterrupt

        outputs, _ = dynamic_rnn(case.cell, case.inputs, LENGTHS, case.state, DTYPE)
        with monkeypatch.context() as patch:
            patch.setattr(Runtime, "run", interrupt)
            with pytest.raises(KeyboardInterrupt):
                outputs.sum().backward()


class TestThreads:
    """Python threads that run loops at once, from the first call on."""

    def at_once(self, works: list[Any]) -> list[Any]:
        found: dict[int, Any] = {}
        barrier = threading.Barrier(len(works))

        def work(number: int) -> None:
            barrier.wait()
            for _ in range(3):
                found[number] = works[number]()

        threads = [threading.Thread(target=work, args=(number,)) for number in range(len(works))]
        for each in threads:
            each.start()
        for each in threads:
            each.join(120)
        assert not any(each.is_alive() for each in threads)
        return [found[number] for number in range(len(works))]

    def cases(self, cells: list[Own], batch: int = 5, steps: int = 7) -> list[Case]:
        torch.manual_seed(0)
        found: list[Case] = []
        for cell in cells:
            inputs = torch.randn(batch, steps, cell.mix.in_features - cell.state_size, dtype=DTYPE)
            state = torch.randn(batch, cell.state_size, dtype=DTYPE)
            found.append(Case(cell, wanting_gradients(inputs), wanting_gradients(state)))
        return found

    @pytest.mark.parametrize(
        "same",
        [
            pytest.param(True, id="one cell"),
            pytest.param(
                False,
                id="a cell each",
            ),
        ],
    )
    @pytest.mark.parametrize("size", [4, 48], ids=["small", "large enough for several threads"])
    def test_are_right(self, same: bool, size: int) -> None:
        real_compiler()
        cells = [Own(size, size)] * 4 if same else [Own(size, size) for _ in range(4)]
        lengths = None
        cases = self.cases(cells, batch=size, steps=40)
        expected = [results(plain_loop, each.cell, DTYPE, lengths, each.inputs, each.state) for each in cases]
        found = self.at_once(
            [
                lambda each=each: results(engine_loop, each.cell, DTYPE, lengths, each.inputs, each.state)
                for each in cases
            ]
        )
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
        assert_compiled(cells[0], cases[0].inputs, lengths, cases[0].state, DTYPE)

    def test_without_a_compiler(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("CXX", script(tmp_path / "failing", "sleep 0.2\nexit 1\n"))
        cases = self.cases([Own()] * 4)
        expected = [results(plain_loop, *each.arguments) for each in cases]
        found = self.at_once([lambda each=each: results(engine_loop, *each.arguments) for each in cases])
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
        assert len(cases[0].reasons()) == 1


class Continued(Own):
    """Its lines end with a backslash, by which C++ would join a comment and the line after it."""

    def forward(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        mixed = self.mix(torch.cat([inputs, state], 1))  # see C:\notes\
        state = torch.tanh(mixed) * self.level  # and D:\more\
        return state, state


class TestLinesInComments:
    @pytest.fixture
    def continued(self, case: Case) -> Case:
        real_compiler()
        return Case(Continued(), case.inputs, case.state)

    def test_do_not_change_results(self, continued: Case) -> None:
        continued.check()

    def test_do_not_keep_from_compiling(self, continued: Case) -> None:
        continued.is_compiled()


@pytest.mark.parametrize("emit", ["fortran", "C++", "compiled"])
def test_an_emitter_that_there_is_not(emit: str, case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_EMIT", emit)
    expected = re.escape(f"UNSPOOL_EMIT is {emit!r}, but expected 'CUDA graph', 'cuda-loop', 'c++' or 'interpreted'")
    for function in (dynamic_rnn, explain):
        with pytest.raises(ValueError, match=expected):
            function(case.cell, case.inputs, LENGTHS, case.state, DTYPE)
