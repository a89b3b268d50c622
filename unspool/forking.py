"""What a forked process makes anew: it has its parent's memory, but none of its threads."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable

_forked = False
_locks: weakref.WeakSet[ForkSafeLock] = weakref.WeakSet()
_callbacks: list[Callable[[], None]] = []


class ForkSafeLock:
    """A lock that is free in a forked process, whoever held it in the parent.

    `own` is this process's lock. A `with` that was entered before a fork leaves the lock that it entered, so that the
    thread which forked may have held it too.

    >>> lock = ForkSafeLock()
    >>> with lock.own:
    ...     lock.own.locked()
    True
    """

    __slots__ = ("__weakref__", "own")

    def __init__(self) -> None:
        self.own = threading.Lock()
        _locks.add(self)


def after_fork(callback: Callable[[], None]) -> Callable[[], None]:
    """Has `callback` called in every forked process, as soon as its locks are free: a decorator of functions."""
    _callbacks.append(callback)
    return callback


def is_forked() -> bool:
    """Whether this process was forked from one that had loaded the library.

    Its parent's threads are gone, and whoever waits for them, as OpenMP does, waits for ever.

    >>> is_forked()
    False
    """
    return _forked


def _in_child() -> None:
    global _forked
    _forked = True
    for lock in list(_locks):
        lock.own = threading.Lock()
    for callback in _callbacks:
        callback()


if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
    os.register_at_fork(after_in_child=_in_child)
