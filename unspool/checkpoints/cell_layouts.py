"""How the weights of cells are laid out: as `tf_variables` names them."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from unspool.cells.building import Buildable
from unspool.cells.like import buildable_part
from unspool.cells.unbuilt import UnbuiltWeight
from unspool.checkpoints.layout import Layout, Shape, converted
from unspool.interop import tf_variables

_HOW_TO_BUILD = "give it its input_size, call its build(input_size), or run it once"


def layout_of_cell(cell: Any) -> Layout:
    """The layout in which a checkpoint holds the weights of a cell."""
    buildable = buildable_part(cell)
    if buildable is None or all(part.built for part in buildable.modules() if isinstance(part, Buildable)):
        return BuiltCell(cell)
    loaded = not any(isinstance(weight, UnbuiltWeight) for weight in buildable.parameters())
    try:
        return UnbuiltCell(buildable)
    except ValueError:
        if not loaded:
            raise
        return BuiltCell(cell)  # from a state_dict: it has its weights, and takes no other size than theirs


class BuiltCell(Layout):
    """A cell that has its weights."""

    def __init__(self, cell: Any) -> None:
        self._weights = _weights_of(cell)
        self.names = tuple(self._weights)

    def shapes(self, found: Mapping[str, Shape]) -> Mapping[str, Shape]:
        """Those of the weights."""
        return {name: _shape_of(parts) for name, parts in self._weights.items()}

    def prepare(self, values: Mapping[str, Tensor]) -> Callable[[], None]:
        """Copies the values."""
        ready = {name: converted(name, values[name], parts[0].dtype) for name, parts in self._weights.items()}

        def write() -> None:
            with torch.no_grad():
                for name, parts in self._weights.items():
                    rest = ready[name]
                    for part in parts[:-1]:
                        part.copy_(rest[: len(part)])
                        rest = rest[len(part) :]
                    parts[-1].copy_(rest)

        return write


def _weights_of(cell: Any) -> dict[str, list[Tensor]]:
    """A cell's weights by name; the parts of one in shards together, as a `Saver` puts them together."""
    weights: dict[str, list[Tensor]] = {}
    for name, weight in tf_variables(cell, "").items():
        weights.setdefault(re.sub(r"/part_\d+$", "", name), []).append(weight)
    return weights


def _shape_of(parts: list[Tensor]) -> Shape:
    """The shape of parts that follow one another along the first axis."""
    return (sum(part.shape[0] for part in parts), *parts[0].shape[1:]) if len(parts) > 1 else tuple(parts[0].shape)


class UnbuiltCell(Layout):
    """A cell whose weights have no shapes yet: the checkpoint has them.

    How they depend on the size of the inputs is found by building copies of the cell for two sizes.
    """

    def __init__(self, cell: Buildable) -> None:
        self._cell = cell
        self._smallest: Any = 1
        try:
            self._small, self._large = (self._trial(size) for size in (1, 2))
        except Exception:  # whatever a cell has against a size; some have an output that must be as wide as the inputs
            self._smallest = getattr(cell, "output_size", None)
            try:
                self._small = self._large = self._trial(self._smallest)
            except Exception as error:
                raise ValueError(f"{cell!r} is not built, and cannot be: {error}; {_HOW_TO_BUILD}") from error
        self.names = tuple(self._small)

    def _trial(self, size: Any) -> Mapping[str, Shape]:
        return BuiltCell(_built_copy(self._cell, size)).shapes({})

    def shapes(self, found: Mapping[str, Shape]) -> Mapping[str, Shape]:
        """Those of the cell, if it is built for the size of inputs that it seems to have had."""
        more = self._input_size(found) - self._smallest if self._small != self._large else 0
        return {
            name: tuple(a + (b - a) * more for a, b in zip(small, self._large[name], strict=True))
            for name, small in self._small.items()
        }

    def _input_size(self, found: Mapping[str, Shape]) -> Any:
        for name, small in self._small.items():
            for axis, (a, b) in enumerate(zip(small, self._large[name], strict=True)):
                if a != b and name in found and len(found[name]) == len(small):
                    return max(self._smallest + (found[name][axis] - a) // (b - a), 0)
        return self._smallest

    def prepare(self, values: Mapping[str, Tensor]) -> Callable[[], None]:
        """Builds the cell, then copies; a copy of the cell is built first, to see whether it can be."""
        size = self._input_size({name: tuple(value.shape) for name, value in values.items()})
        dtype = next((value.dtype for value in values.values() if value.dtype.is_floating_point), None)
        BuiltCell(_built_copy(self._cell, size, dtype)).prepare(values)

        def write() -> None:
            self._cell.build(size, dtype=dtype)
            BuiltCell(self._cell).prepare(values)()

        return write


def _built_copy(cell: Buildable, size: Any, dtype: torch.dtype | None = None) -> Buildable:
    trial = copy.deepcopy(cell)
    with torch.random.fork_rng(devices=[]):
        trial.build(size, dtype=dtype)
    return trial
