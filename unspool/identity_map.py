"""What is known of objects by their identity, as long as they live: they need not be hashable."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from unspool.forking import ForkSafeLock

Kept = TypeVar("Kept")


class IdentityMap(Generic[Kept]):
    """Something for each of many objects, none of which it keeps alive.

    Args:
        make: makes what is kept for another object.

    >>> class Thing:
    ...     pass
    >>> thing, kept = Thing(), IdentityMap(list)
    >>> kept.find(thing) is None, kept.of(thing) is kept.of(thing)
    (True, True)
    """

    def __init__(self, make: Callable[[], Kept]) -> None:
        self._make = make
        self._kept: dict[int, tuple[weakref.ref[Any], Kept]] = {}
        self._lock = ForkSafeLock()

    def find(self, own: Any) -> Kept | None:
        """What is kept for an object, if there is something."""
        found = self._kept.get(id(own))
        return found[1] if found is not None and found[0]() is own else None

    def of(self, own: Any) -> Kept:
        """What is kept for an object.

        Raises:
            TypeError: if the object cannot be referred to weakly.
        """
        found = self.find(own)
        if found is not None:
            return found
        key = id(own)
        reference = weakref.ref(own, lambda dead: self._forget(key, dead))
        with self._lock.own:
            found = self.find(own)
            if found is None:
                found = self._make()
                self._kept[key] = reference, found
            return found

    def _forget(self, key: int, dead: weakref.ref[Any]) -> None:
        """Drops what was kept for an object that is gone, unless another one has its identity by now."""
        found = self._kept.get(key)
        if found is not None and found[0] is dead:
            self._kept.pop(key, None)
