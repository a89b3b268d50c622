"""Tables: variables that are read row by row, so that their gradients hold the rows that were read and no others.

`tf.gradients` says when the graph is built whether a gradient is a tensor or `IndexedSlices`. So what is read inside
branches, loops and cells has to be known by then, and what autograd brings has to be of that kind in every run.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch

from unspool.tf1.dtypes import DType
from unspool.tf1.tensor import Tensor

LOOKUP, VARIABLE, BRANCHES = "ResourceGather", "VariableV2", "If"
"""The operation that reads rows of a variable, the one that reads all of it, and the one that takes a branch."""

STOPS = frozenset(
    [
        "StopGradient",
        "Const",
        "Shape",
        "Size",
        "Rank",
        "ZerosLike",
        "OnesLike",
        "Range",
        "Floor",
        "Ceil",
        "Round",
        "FloorDiv",
        "zero_fraction",
        "PyFunc",
        "Assign",
        "AssignAdd",
        "AssignSub",
        "RandomShuffle",
        "ScatterUpdate",
        "ScatterAdd",
        "ScatterSub",
        "ScatterMul",
        "ScatterDiv",
        "ScatterMin",
        "ScatterMax",
        "ScatterNdUpdate",
        "ScatterNdAdd",
        "ScatterNdSub",
        "SparseConcat",
        "CTCGreedyDecoder",
        "CTCBeamSearchDecoder",
        "EditDistance",
    ]
)
"""Operations that no gradient goes through."""


@dataclass(frozen=True)
class Rows:
    """A variable is read by rows alone.

    Args:
        numbers: the dtype of the rows' numbers.
        looped: whether a loop does so: TensorFlow's loops begin the sum of such gradients with a zero for row 0, which
            an optimiser therefore takes for read.
    """

    numbers: DType
    looped: bool = False

    def __or__(self, other: Rows) -> Rows:
        return replace(self, looped=self.looped or other.looped)


Reads: TypeAlias = Mapping[Tensor, "Rows | None"]
"""How variables are read on the way to something: by rows, or, None, as a whole."""


def reads(targets: Iterable[Tensor], inside: Mapping[Tensor, Tensor] | None = None) -> dict[Tensor, Rows | None]:
    """How the variables are read that a gradient of the targets comes to.

    Args:
        targets: floating-point tensors.
        inside: the variables that some tensors stand for, in a body.
    """
    standing = inside or {}
    found: dict[Tensor, Rows | None] = {}
    seen: set[Tensor] = set()
    waiting = list(targets)
    while waiting:
        tensor = waiting.pop()
        operation = tensor.op
        if tensor in seen or not tensor.dtype.is_floating or operation.type in STOPS or operation.type == VARIABLE:
            continue
        seen.add(tensor)
        for place, each in enumerate(operation.inputs):
            variable = each if each.op.type == VARIABLE else standing.get(each)
            if variable is None:
                waiting.append(each)
            elif operation.type == BRANCHES and variable not in operation.reads:
                continue  # a branch reads it, but no gradient comes back from there
            elif operation.type == LOOKUP and place == 0:
                _note(found, variable, Rows(operation.inputs[1].dtype))
            else:
                _note(found, variable, operation.reads.get(variable))
        for each in operation.variables:
            _note(found, each.value(), operation.reads.get(each.value()))
    return found


def together(parts: Iterable[Reads], *, looped: bool = False) -> dict[Tensor, Rows | None]:
    """How variables are read by several, perhaps in a loop."""
    found: dict[Tensor, Rows | None] = {}
    for part in parts:
        for variable, how in part.items():
            _note(found, variable, how if how is None or not looped else replace(how, looped=True))
    return found


def whole(tensors: Iterable[Tensor]) -> dict[Tensor, Rows | None]:
    """Those of the tensors that are variables, read as a whole."""
    return {each: None for each in tensors if each.op.type == VARIABLE}


def _note(found: dict[Tensor, Rows | None], variable: Tensor, how: Rows | None) -> None:
    before = found.get(variable, how)
    found[variable] = None if before is None or how is None else before | how


# -- in a run --------------------------------------------------------------------------------------------------------


class Lookups:
    """The rows that a run has read of variables, each reading by itself.

    Gradients are taken by these, not by the table: torch would add up what is read twice, and norms count each reading.
    """

    def __init__(self) -> None:
        self._found: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []
        self._passed: list[torch.Tensor] = []

    def add(self, table: torch.Tensor, places: torch.Tensor, rows: torch.Tensor) -> None:
        """Notes down a reading."""
        self._found.append((table, places, rows))

    def pass_by(self, table: torch.Tensor) -> None:
        """Notes down that a branch was not taken which reads a table."""
        if not any(each is table for each in self._passed):
            self._passed.append(table)

    def of(self, table: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """The numbers and the rows of each reading of a table."""
        return [(places, rows) for each, places, rows in self._found if each is table]

    def was_passed(self, table: torch.Tensor) -> bool:
        """Whether a branch that reads the table was not taken: TensorFlow's gradient is then zero for every row."""
        return any(each is table for each in self._passed)


_lookups: ContextVar[Lookups | None] = ContextVar("lookups", default=None)


def current_lookups() -> Lookups:
    """What the run that is under way has read."""
    found = _lookups.get()
    return Lookups() if found is None else found


@contextmanager
def noting_lookups() -> Generator[None, None, None]:
    """A context that is one run."""
    token = _lookups.set(Lookups())
    try:
        yield
    finally:
        _lookups.reset(token)


def look_up(table: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Rows of a variable."""
    least, most = (0, 0) if not places.numel() else (each.item() for each in places.aminmax())
    if least < 0 or most >= len(table):
        outside = places[(places < 0) | (places >= len(table))].reshape(-1)[0].item()
        raise ValueError(f"indices = {outside} is not in [0, {len(table)})")
    flat = places.reshape(-1)
    rows = table.index_select(0, flat)
    if rows.requires_grad:
        current_lookups().add(table, flat, rows)
    return rows.reshape(*places.shape, *table.shape[1:])


class SlicedGradient:
    """The gradient of a table: rows, and their numbers.

    Args:
        table: the table.
        how: how the graph reads it.
        parts: the numbers and gradients of readings; all rows are zero if there are none.
        passed: whether it is zero for all rows besides.
    """

    def __init__(
        self, table: torch.Tensor, how: Rows, parts: list[tuple[torch.Tensor, torch.Tensor]], *, passed: bool
    ) -> None:
        zeros = len(table) if passed or not parts else int(how.looped)
        if not zeros and len(parts) == 1:
            (places, self.rows), kind = parts[0], how.numbers.torch
            self.places = places.to(kind)
            return
        numbers = torch.arange(zeros, device=table.device)
        places = [numbers, *(each for each, _ in parts)]
        self.places = torch.cat([each.to(how.numbers.torch) for each in places])
        self.rows = torch.cat([table.new_zeros(zeros, *table.shape[1:]), *(rows for _, rows in parts)])
