"""Steps that do more than compute, or that compute from more than they are given: none of them can be planned.

Each entry yields a cell once, and undoes what it did to anything global. The plain loop says what a run leaves behind.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor


@dataclass(frozen=True)
class Impure:
    """A cell with effects.

    Args:
        cell: the cell.
        effects: what its runs have left behind so far.
        fresh: whether each step computes from something that is never the same again, so that no two runs are equal.
    """

    cell: Any
    effects: Callable[[], Any] = lambda: None
    fresh: bool = False


Entry = Callable[[pytest.MonkeyPatch], Generator[Impure, None, None]]
IMPURE: dict[str, Entry] = {}


def impure(entry: Entry) -> Entry:
    name = entry.__name__.replace("_", " ").strip()
    assert name not in IMPURE, name
    IMPURE[name] = entry
    return entry


@contextmanager
def impure_cell(name: str) -> Generator[Impure, None, None]:
    torch.manual_seed(0)
    with pytest.MonkeyPatch.context() as patch, closing(IMPURE[name](patch)) as entry:
        yield next(entry)


Cells = Generator[Impure, None, None]


def shown(tensor: Any) -> Any:
    """Its numbers, or what it is if it has none: a tracer's tensor, say."""
    return tensor.detach().tolist() if type(tensor) is Tensor else type(tensor).__name__


def noted(notes: list[Any]) -> Any:
    return [shown(each) for each in notes]
