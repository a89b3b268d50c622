"""What all tests share."""

from __future__ import annotations

import gc
import logging
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests import profiles

if TYPE_CHECKING:  # a process that only hands tests to others need not import torch
    from unspool.engine.plans.plan import Plan


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        profiles.register()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `--dist loadfile`, files that run the same cells go to the same worker."""
    from tests.lanes import Lanes

    return Lanes(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        from tests.lanes import rank

        items.sort(key=lambda item: rank(item.nodeid))


@pytest.fixture(scope="session", autouse=True)
def plans() -> Iterator[list[Plan]]:
    """Every plan of the session. Cells of the same making share a plan while one of them lives: this keeps them."""
    from unspool.engine.plans.plan import Plan

    gc.freeze()  # nothing that was imported needs to be looked at again whenever there are many more plans
    made: list[Plan] = []
    make = Plan.__init__

    def remember(plan: Plan, *args: Any, **kwargs: Any) -> None:
        make(plan, *args, **kwargs)
        made.append(plan)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Plan, "__init__", remember)
        yield made


@pytest.fixture(scope="session", autouse=True)
def loggers() -> None:
    """Lets the loggers of torch pass on what they log, as others do.

    pytest would put a handler on each of those that do not, six times a test, and has put some on them for the session.
    With one on the logger for structured traces, torch describes every tensor that it traces.
    """
    import torch._dynamo

    for name, logger in logging.root.manager.loggerDict.items():
        if name.partition(".")[0] == torch.__name__ and isinstance(logger, logging.Logger):
            logger.propagate = True
    logging.getLogger("torch.__trace").handlers.clear()


@pytest.fixture(scope="session", autouse=True)
def seeds() -> Iterator[None]:
    """Seeds for devices that are not there are forgotten: torch would keep each, with a stack trace, until they are."""
    import torch

    with pytest.MonkeyPatch.context() as patch:
        for device in (torch.cuda, torch.xpu, torch.mtia):
            if not device.is_available():
                patch.setattr(device, "manual_seed_all", lambda seed: None)
        yield


@pytest.fixture(autouse=True)
def emitter(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets cores be interpreted, but in tests marked `compiled`: a compiler takes longer than most tests."""
    if request.node.get_closest_marker("compiled"):
        if not shutil.which("g++") and not shutil.which("clang++"):
            pytest.skip("there is no C++ compiler")
        monkeypatch.delenv("UNSPOOL_EMIT", raising=False)
    else:
        monkeypatch.setenv("UNSPOOL_EMIT", "interpreted")
