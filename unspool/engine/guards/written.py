"""What a step wrote: attributes, buffers and entries of dicts that are not as they were."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple, cast

from torch import nn

from unspool.engine.guards.fingerprint import TENSOR, Fingerprint
from unspool.engine.guards.nodes import differing, joined


class Written(NamedTuple):
    """A place that a step wrote to.

    Args:
        owner: the object that has it.
        name: the attribute, or the key if the object is a dict.
        kept: the dict that holds it, under that name.
        path: how people refer to the object.
    """

    owner: Any
    name: Any
    kept: dict[Any, Any]
    path: str

    def is_among(self, others: Sequence[Written]) -> bool:
        """Whether it is one of these; objects are told by identity."""
        return any(each.owner is self.owner and each.name == self.name for each in others)

    def __str__(self) -> str:
        return joined(self.path, f"[{self.name!r}]" if self.kept is self.owner else self.name)


def written_places(now: Fingerprint, before: Fingerprint) -> list[Written] | None:
    """The places that are not as they were; None if anything else is not either."""
    places = [
        (now.nodes[number].value if number < len(now.nodes) else None, slot)
        for number, slot in differing(before.key, now.key)
    ]
    paths = {id(node.value): node.path for node in now.nodes}
    found = _known(places, paths)
    # A new object comes between those that were found before, and all that follow have other numbers: then places are
    # told by who has them.
    return _known(_changed(now, before), paths) if found is None else found


def _known(places: Sequence[tuple[Any, str]], paths: dict[int, str]) -> list[Written] | None:
    found: list[Written] = []
    for owner, slot in places:
        place = _written(owner, slot, paths.get(id(owner), ""))
        if place is None:
            return None
        if not place.is_among(found):
            found.append(place)
    return found


def _written(owner: Any, slot: str, path: str) -> Written | None:
    if isinstance(owner, type):
        return None
    if owner.__class__ is dict:
        keys = cast("dict[Any, Any]", owner)
        key = next((key for key in keys if slot in (f"[{key!r}]", f" key {key!r}")), None)
        return None if key is None else Written(owner, key, owner, path)
    own: dict[str, Any] = getattr(owner, "__dict__", {})
    kept = own["_buffers"] if isinstance(owner, nn.Module) and slot in own["_buffers"] else own
    return Written(owner, slot, kept, path) if slot in kept else None


def _changed(now: Fingerprint, before: Fingerprint) -> list[tuple[Any, str]]:
    """Objects that were and are there, with the slots that hold something else; a tensor only if it looks otherwise."""
    old, new = _marks(before), _marks(now)
    owners = {id(node.value): node.value for node in before.nodes}
    both = owners.keys() & {id(node.value) for node in now.nodes}
    places = [place for place in {**old, **new} if place[0] in both and old.get(place) != new.get(place)]
    return [(owners[owner], slot) for owner, slot in places]


def _marks(fingerprint: Fingerprint) -> dict[tuple[int, str], Hashable]:
    """What tells the value of each slot of each object, told by identity, from others."""
    nodes = fingerprint.nodes
    looks = {number: look for number, slot, look in fingerprint.key if slot == TENSOR}

    def mark(found: Any) -> Hashable:
        if found.__class__ is not tuple or found[:1] != ("node",):
            return found
        number: int = found[1]
        return ("looks", looks[number]) if number in looks else ("is", id(nodes[number].value))

    return {(id(nodes[number].value), slot): mark(found) for number, slot, found in fingerprint.key if slot != TENSOR}
