"""What all tests and the examples in docstrings share."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Tests run cells without a plan on purpose; the warning has its own.

    Not in pyproject.toml: the process that only hands tests to others would look the class up too, and import torch.
    """
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        config.addinivalue_line("filterwarnings", "ignore::unspool.PerformanceWarning")


@pytest.fixture(autouse=True)
def default_graph() -> None:
    """A TensorFlow 1 graph of its own for each: names are made unique within a graph."""
    from unspool import tf1

    tf1.reset_default_graph()
