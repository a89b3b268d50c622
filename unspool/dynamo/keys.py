"""Keys of sites: the constant by which a graph knows its loop.

torch keeps compiled graphs on disk, and finds them by a hash of what Dynamo recorded. That has the key in it and no
cell, so the key says what the operation's results look like: where the same key meant other results in another process,
the graph of that process would be taken for this one's.
"""

from __future__ import annotations

import hashlib
import itertools
import uuid
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from unspool.cells.cell import RNNCell
from unspool.sizes import UNKNOWN

_numbers = itertools.count()


def new_key(loop: str, starts: bool, cells: Sequence[Any], *described: Any) -> str:
    """A key that this process has not used: of two equal calls in a graph, each draws its own random numbers.

    Args:
        loop: the name of the loop.
        starts: whether cells make the initial state.
        cells: the cells.
        described: what else the results depend on, each with a text that says all of it.
    """
    sizes = [_sizes(cell, starts) for cell in cells]
    told = None not in sizes
    digest = hashlib.sha256(repr((_form(), sizes, described)).encode()).hexdigest() if told else uuid.uuid4().hex
    return f"{loop} {next(_numbers)} {digest[:16]}"


def _sizes(cell: Any, starts: bool) -> Any:
    """What loops over a cell return, if its sizes tell; None if only its code does."""
    kind: Any = cell.__class__
    if not isinstance(cell, RNNCell) or cell.output_size is UNKNOWN:
        return None
    own = [getattr(kind, name).__module__ for name in ("zero_state", "get_initial_state")]
    if starts and not all(module.startswith("unspool.") for module in own):
        return None
    return kind.__module__, kind.__qualname__, cell.state_size, cell.output_size


@cache
def _form() -> str:
    """What graphs have of the operation itself: other code may have other arguments and layouts."""
    files = [Path(__file__).with_name(f"{name}.py") for name in ("operation", "layouts", "site")]
    try:
        return hashlib.sha256(b"".join(each.read_bytes() for each in files)).hexdigest()
    except OSError:  # the library is in an archive
        return uuid.uuid4().hex
