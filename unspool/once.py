"""What is said once: to the log, or as a warning."""

from __future__ import annotations

import warnings
from collections.abc import Hashable


def repeats_warnings() -> bool:
    """Whether some warnings are shown as often as they are given, not once for each line.

    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("always")
    ...     repeats_warnings()
    True
    """
    for action, message, category, module, line in warnings.filters:
        if action == "always":
            return True
        if category is Warning and not (message or module or line):  # those behind it decide nothing
            return False
    return False


class Said:
    """What has been said already.

    Args:
        most: how much is remembered; beyond that, things may be said again.

    >>> said = Said()
    >>> said.first("no compiler"), said.first("no compiler"), said.first("no space")
    (True, False, True)
    """

    def __init__(self, most: int = 10_000) -> None:
        self._most = most
        self._said: set[Hashable] = set()

    def first(self, *what: Hashable) -> bool:
        """Whether this is said for the first time; from now on it is not."""
        if what in self._said:
            return False
        if len(self._said) < self._most:
            self._said.add(what)
        return True

    def clear(self) -> None:
        """Forgets everything, so that it is said again."""
        self._said.clear()
