"""How many loops share a device: what one may take of it."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager

_now = threading.local()


def loops_at_once() -> int:
    """How many loops run at the same time as far as this thread knows, those that it starts among them."""
    return getattr(_now, "loops", 1)


@contextmanager
def sharing(loops: int) -> Generator[None]:
    """Loops that are started in here share the device with others: so many in all.

    >>> with sharing(2):
    ...     loops_at_once()
    2
    """
    before = loops_at_once()
    _now.loops = loops
    try:
        yield
    finally:
        _now.loops = before
