"""What all tests share."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from unspool.engine.plans.plan import Plan


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
