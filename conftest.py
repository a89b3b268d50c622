"""What all tests and the examples in docstrings share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def default_graph() -> Iterator[None]:
    """A TensorFlow 1 graph of its own for each: names are made unique within a graph."""
    from unspool import tf1

    tf1.reset_default_graph()
    yield
