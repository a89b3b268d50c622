"""What all tests share."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from unspool.engine.plan import Plan


@pytest.fixture(scope="session", autouse=True)
def plans() -> Iterator[list[Plan]]:
    """Every plan of the session. Cells of the same making share a plan while one of them lives: this keeps them."""
    made: list[Plan] = []
    make = Plan.__init__

    def remember(plan: Plan, *args: Any, **kwargs: Any) -> None:
        make(plan, *args, **kwargs)
        made.append(plan)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Plan, "__init__", remember)
        yield made


@pytest.fixture(autouse=True)
def emitter(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets cores be interpreted, but in tests marked `compiled`: a compiler takes longer than most tests."""
    if request.node.get_closest_marker("compiled"):
        if not shutil.which("g++") and not shutil.which("clang++"):
            pytest.skip("there is no C++ compiler")
        monkeypatch.delenv("UNSPOOL_EMIT", raising=False)
    else:
        monkeypatch.setenv("UNSPOOL_EMIT", "interpreted")


@pytest.fixture(autouse=True)
def failed_plans() -> Iterator[list[str]]:
    """What the engine logs of plans that failed. It then runs the plain loop, which would hide a bug of a plan.

    A test that makes a plan fail clears the list.
    """
    messages: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "its plan failed" in record.getMessage():
                messages.append(record.getMessage())

    log, listener = logging.getLogger("unspool"), Listener()
    level = log.level
    log.setLevel(logging.INFO)
    log.addHandler(listener)
    yield messages
    log.removeHandler(listener)
    log.setLevel(level)
    assert not messages
