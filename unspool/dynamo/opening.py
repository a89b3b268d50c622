"""How a site is opened when Dynamo records its loop: what its results look like, and which gradients there will be.

torch keeps compiled graphs on disk, and finds them by a hash of what Dynamo recorded. That has the key of the site in
it and no cell, so the key tells how the results look: if the same key meant other results in another process, a graph
of that process would be taken for this one's.
"""

from __future__ import annotations

import hashlib
import itertools
import uuid
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch._guards import tracing
from torch._subclasses.fake_tensor import FakeTensorMode

from unspool.dynamo import by_plan, operation
from unspool.dynamo.site import Site

ROWS, STEPS = 2, 3
"""How many rows and steps stand-ins for operands have."""

Row = tuple[torch.dtype, torch.device, tuple[int, ...]]

_numbers = itertools.count()


def opened(site: Site, cells: Sequence[Any], rows: Sequence[Row]) -> str:
    """The key of a new site.

    Args:
        site: the site.
        cells: its cells.
        rows: dtype, device and shape of one row of each operand that is no weight.
    """
    number = next(_numbers)  # of two equal calls in a graph, each draws its own random numbers
    name = site.loop.__name__
    draft = f"{name} {number}"
    site.open(draft, cells)
    site.wanted = site.asked
    try:
        with _as_if_nobody_traced():
            operands: list[Any] = [*site.own_weights(), *_stand_ins(site, rows)]
            site.wanted = by_plan.reached(site, operands)
            digest = _digest(draft, operands, site.wanted)
    finally:
        site.close(draft)
    key = f"{draft} {digest}"
    site.open(key, cells)
    return key


@contextmanager
def _as_if_nobody_traced() -> Generator[None, None, None]:
    """Hides that Dynamo is at work, which does not see what is done here."""
    compiler: Any = torch.compiler
    before = compiler._is_compiling_flag
    compiler._is_compiling_flag = False
    try:
        with tracing(None):
            yield
    finally:
        compiler._is_compiling_flag = before


def _stand_ins(site: Site, rows: Sequence[Row]) -> list[Tensor]:
    found = list[Tensor]()
    for number, (dtype, device, shape) in enumerate(rows, site.weights):
        axes = [ROWS] if number not in site.inputs else [ROWS, STEPS] if site.time_axis else [STEPS, ROWS]
        found.append(torch.zeros((), dtype=dtype, device=device).expand(*axes, *shape))  # which takes no memory
    return found


def _digest(key: str, operands: Sequence[Any], wanted: Sequence[bool]) -> str:
    """What the results look like, in a few letters; some that nobody else has if that cannot be told."""
    mode = FakeTensorMode()
    try:
        fakes: list[Any] = [mode.from_tensor(each) for each in operands]
        with mode:
            results = operation.fake_loop(fakes[-1], fakes, key, list(wanted))
    except Exception:  # what the caller gave is wrong, which he is told when the operation itself is recorded
        return uuid.uuid4().hex[:16]
    looks = [(tuple(each.shape), each.stride(), each.dtype, each.device) for each in results]
    return hashlib.sha256(repr((_form(), looks)).encode()).hexdigest()[:16]


@cache
def _form() -> str:
    """What graphs have of the operation itself: other code may have other arguments and layouts."""
    files = [Path(__file__).with_name(f"{name}.py") for name in ("operation", "layouts", "site")]
    try:
        return hashlib.sha256(b"".join(each.read_bytes() for each in files)).hexdigest()
    except OSError:  # the library is in an archive
        return uuid.uuid4().hex
