"""What all tests share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from unspool.engine.plan import Plan


@pytest.fixture(scope="session", autouse=True)
def plans() -> Iterator[list[Plan]]:
    """Every plan of the session. Cells of the same making share a plan while one of them lives: this keeps them."""
    made: list[Plan] = []
    make = Plan.of

    def remember(*args: Any, **kwargs: Any) -> Plan:
        made.append(make(*args, **kwargs))
        return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Plan, "of", remember)
        yield made
