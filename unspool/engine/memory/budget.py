"""A budget of memory: what is kept for later calls, as long as there is room for it."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections import OrderedDict

from unspool.forking import ForkSafeLock


class Item(ABC):
    """What takes memory, and can do without.

    Args:
        size: how many bytes.
    """

    def __init__(self, size: int) -> None:
        self.size = size

    @abstractmethod
    def release(self) -> None:
        """Gives the memory back; it may be taken again at the next use."""


class Budget:
    """So many bytes for all items; those that were used longest ago make room for others.

    Args:
        total: bytes.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._lock = ForkSafeLock()
        self._used: OrderedDict[weakref.ref[Item], int] = OrderedDict()
        """The latest one last. Items live as long as whoever made them wants."""

    def use(self, item: Item) -> None:
        """Tells that an item has its memory, and is used."""
        key, released = weakref.ref(item), list[Item]()
        with self._lock.own:
            if key in self._used:
                self._used.move_to_end(key)
                return
            self._used[key] = item.size
            for old in [each for each in self._used if each() is None]:
                del self._used[old]
            while sum(self._used.values()) > self._total and len(self._used) > 1:
                old, _ = self._used.popitem(last=False)
                found = old()
                if found is not None:
                    released.append(found)
        for each in released:  # outside of the lock, since each has one of its own
            each.release()

    def empty(self) -> bool:
        """Has all items give their memory back; whether there was one."""
        with self._lock.own:
            found = [item for each in self._used if (item := each()) is not None]
            self._used.clear()
        for each in found:
            each.release()
        return bool(found)
