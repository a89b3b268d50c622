"""What all tests and the examples in docstrings share."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def default_graph() -> None:
    """A TensorFlow 1 graph of its own for each: names are made unique within a graph."""
    from unspool import tf1

    tf1.reset_default_graph()
