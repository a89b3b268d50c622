"""Minimum s-t cut by shortest augmenting paths (Edmonds and Karp).

docs/internals.md says what is cut, and why the smallest cut is the fewest bytes.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Mapping

_SOURCE, _SINK = object(), object()


class Network:
    """Things, each to be on the source's side or the sink's, and what it costs if they are apart.

    >>> network = Network()
    >>> network.pin_source("known")
    >>> network.pay(["known"], ["sum"], 4)
    >>> network.pay(["sum"], ["loop"], 8)
    >>> network.pin_sink("loop")
    >>> sorted(network.source_side(most=True) & {"known", "sum", "loop"})
    ['known']
    """

    def __init__(self) -> None:
        self._room: defaultdict[object, dict[object, float]] = defaultdict(dict)

    def pin_source(self, thing: Hashable) -> None:
        """`thing` is on the source's side."""
        self._edge(_SOURCE, thing, float("inf"))

    def pin_sink(self, thing: Hashable) -> None:
        """`thing` is on the sink's side."""
        self._edge(thing, _SINK, float("inf"))

    def implies(self, one: Hashable, other: Hashable) -> None:
        """If `one` is on the source's side, so is `other`."""
        self._edge(one, other, float("inf"))

    def pay(self, things: Iterable[Hashable], others: Iterable[Hashable] | None, cost: int | None) -> None:
        """If any of `things` is on the source's side and any of `others` on the sink's, that costs `cost`.

        Without others, it costs that wherever they are. Without a cost, it cannot be.
        """
        near, far = object(), object()
        self._edge(near, far, float("inf") if cost is None else cost)
        for thing in things:
            self._edge(thing, near, float("inf"))
        for other in [_SINK] if others is None else others:
            self._edge(far, other, float("inf"))

    def source_side(self, *, most: bool) -> set[object]:
        """The things on the source's side if the cost is the least.

        Args:
            most: of several such ways, whether to take the one with the most things there, or the fewest.
        """
        while (path := self._path()) is not None:
            amount = min(self._room[one][other] for one, other in path)
            for one, other in path:
                self._room[one][other] -= amount
                self._room[other][one] = self._room[other].get(one, 0) + amount
        if not most:
            return _reached(
                _SOURCE, {one: [each for each in room if room[each] > 0] for one, room in self._room.items()}
            )
        backwards: defaultdict[object, list[object]] = defaultdict(list)
        for one, room in self._room.items():
            for other in room:
                if room[other] > 0:
                    backwards[other].append(one)
        return set(self._room) - _reached(_SINK, backwards)

    def _edge(self, one: object, other: object, room: float) -> None:
        self._room[one][other] = self._room[one].get(other, 0) + room
        self._room[other].setdefault(one, 0)

    def _path(self) -> list[tuple[object, object]] | None:
        """A shortest way from source to sink with room left."""
        came: dict[object, object] = {_SOURCE: _SOURCE}
        waiting = deque([_SOURCE])
        while waiting:
            here = waiting.popleft()
            for other, left in self._room[here].items():
                if left > 0 and other not in came:
                    came[other] = here
                    if other is _SINK:
                        path = [(here, other)]
                        while path[-1][0] is not _SOURCE:
                            path.append((came[path[-1][0]], path[-1][0]))
                        return path
                    waiting.append(other)
        return None


def _reached(start: object, ways: Mapping[object, list[object]]) -> set[object]:
    found, waiting = {start}, [start]
    while waiting:
        for each in ways.get(waiting.pop(), ()):
            if each not in found:
                found.add(each)
                waiting.append(each)
    return found
