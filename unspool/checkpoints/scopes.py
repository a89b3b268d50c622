"""Where in a checkpoint the weights of a module are, and what is wrong with them there."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Any

from unspool.checkpoints.errors import WeightsMismatchError
from unspool.checkpoints.layout import Layout, Shape, full_name
from unspool.checkpoints.source import Source


def find_place(module: Any, layouts: Sequence[Layout], source: Source, scope: str | None) -> tuple[Layout, str]:
    """The layout and the scope in which a checkpoint holds the weights of a module.

    Raises:
        ValueError: if there are several.
        WeightsMismatchError: if there is none, by what is wrong with the one that comes nearest.
    """
    places = {
        tuple(full_name(each, name) for name in layout.names): (layout, each)
        for layout in layouts
        for each in (_scopes(layout, source) if scope is None else [scope])
    }
    named = [(layout, each) for names, (layout, each) in places.items() if all(name in source for name in names)]
    fitting = [(layout, each) for layout, each in named if not _misshaped(layout, source, each)]
    for found in (fitting, named):
        if len(found) == 1:
            return found[0]
        if found:
            scopes = ", ".join(sorted({repr(each) for _, each in found}))
            raise ValueError(f"{module} may have its weights in any of the scopes {scopes}: give one of them as scope")
    nearest = max(places.items(), key=lambda place: sum(name in source for name in place[0]), default=None)
    if nearest is None:
        layout = layouts[0]
        raise _none_of(module, layout, source)
    return nearest[1]


def mismatch(module: Any, layout: Layout, source: Source, scope: str) -> WeightsMismatchError | None:
    """What is wrong with the weights of a module in a scope; None if nothing is."""
    wanted = [full_name(scope, name) for name in layout.names]
    missing = [name for name in wanted if name not in source]
    misshaped = _misshaped(layout, source, scope)
    own = {name.partition("/")[0] for name in wanted}
    slots = tuple(f"{name}/" for name in missing)
    unexpected = [
        name
        for name in sorted(source.below(scope))
        if name not in wanted
        and not name.startswith(slots)
        and (scope or name.partition("/")[0] in own)  # without a scope, all of the checkpoint would be the module's
        and not re.search(r"/cudnn_compatible_\w+/bias_cudnn[_ ]\d$", name)  # two biases that are one elsewhere
    ]
    if not (missing or unexpected or misshaped):
        return None
    where = f"in the scope {scope!r}" if scope else "outside of any scope"
    return WeightsMismatchError(
        f"the weights do not fit {module}, {where}",
        {name: _near(name, source, wanted) for name in missing},
        unexpected,
        misshaped,
        layout.hint if missing or unexpected else "",
    )


def _scopes(layout: Layout, source: Source) -> list[str]:
    """All scopes in which a variable has one of the names of a layout."""
    scopes: dict[str, None] = {}
    for name in source.names:
        for wanted in layout.names:
            if name == wanted or name.endswith(f"/{wanted}"):
                scopes[name[: -len(wanted)].rstrip("/")] = None
    return list(scopes)


def _misshaped(layout: Layout, source: Source, scope: str) -> dict[str, tuple[Shape, Shape]]:
    """The variables of another shape than expected, with both."""
    there = {name: full for name in layout.names if (full := full_name(scope, name)) in source}
    found = {name: source.shape(full) for name, full in there.items()}
    expected = layout.shapes(found)
    return {there[name]: (shape, expected[name]) for name, shape in found.items() if shape != expected[name]}


def _near(name: str, source: Source, wanted: Sequence[str]) -> str:
    """A variable that may have been meant."""
    others = [each for each in source.names if each not in wanted and not source.is_slot(each)]
    return next(iter(difflib.get_close_matches(name, others, 1, 0.5)), "")


def _none_of(module: Any, layout: Layout, source: Source) -> WeightsMismatchError:
    missing = {name: _near(name, source, []) for name in layout.names}
    return WeightsMismatchError(f"no scope has weights of {module}", missing, [], {}, layout.hint)
