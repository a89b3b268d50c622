"""Sites: what the graphs of Dynamo's do not say about the calls of loops in them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn.utils import stateless

from unspool.dynamo.capture import CELL, STEP_INDEX, TENSOR
from unspool.dynamo.structures import encode
from unspool.engine.memory.policies import Checkpoint, Keep, default_memory
from unspool.loops.step_index import StepIndex
from unspool.structure import Structure, map_structure

swapped: Any = stateless  # whose private function is what functional_call does, without the call
_sites: dict[str, Site] = {}


@dataclass
class Site:
    """A call of a loop in a graph: everything but its tensors.

    Args:
        loop: the loop, which returns its outputs, and then states.
        arguments: its arguments, with slots in the places of tensors and cells.
        names: the names of the weights of each cell, which are the first operands.
        options: its other arguments.
        autocast: the device, whether autocast is on, and its dtype.
        asked: which operands require gradients.
        wanted: which of these a gradient can reach.
        cells: the cells, as long as they live.
        program: how its results are made of tensors, once that is known.
        outputs: how many of these are outputs, which come before states.
        checked: whether it is known that all gradients reach operands.
        remembered: calls of the engine for others like them.
        ran: the plan that ran last.
    """

    loop: Callable[..., Any]
    arguments: dict[str, Any]
    names: tuple[tuple[str, ...], ...]
    options: dict[str, Any]
    autocast: tuple[str, bool, torch.dtype]
    asked: Sequence[bool]
    wanted: Sequence[bool] = ()
    cells: list[weakref.ref[Any]] = field(default_factory=list)
    program: str = ""
    outputs: int = 0
    checked: bool = False
    remembered: dict[Hashable, Any] = field(default_factory=dict)
    ran: Any = None

    def open(self, key: str, cells: Sequence[Any]) -> None:
        """Lets the site be found by a key, as long as its cells live."""
        self.cells = [weakref.ref(cell, lambda _: _sites.pop(key, None)) for cell in cells]
        _sites[key] = self

    def close(self, key: str) -> None:
        """Lets it be found no more."""
        del _sites[key]

    @staticmethod
    def at(key: str) -> Site:
        """The site with this key.

        Raises:
            RuntimeError: if its cells are gone, or were in another process.
        """
        if key not in _sites:
            raise RuntimeError(f"the cell of {key.split()[0]} in this compiled graph does not live any more")
        return _sites[key]

    @property
    def time_axis(self) -> int:
        """The axis of time in inputs and outputs."""
        return 0 if self.options["time_major"] else 1

    @property
    def turned(self) -> int:
        """How many results, the first ones, have time as their second axis."""
        return self.outputs if self.time_axis else 0

    @cached_property
    def weights(self) -> int:
        """How many operands, the first ones, are weights."""
        return sum(map(len, self.names))

    @cached_property
    def inputs(self) -> list[int]:
        """The operands that are inputs, by number."""
        return _numbers_of_tensors(self.arguments["inputs"])

    @cached_property
    def lengths(self) -> int | None:
        """The operand that is all lengths, by number, if one is."""
        slot = _slot(self.arguments["sequence_length"])
        return None if slot is None else slot[1]

    @cached_property
    def lends_results(self) -> bool:
        """Whether a backward pass gets the results again, since a policy may not keep states that outputs have."""
        policy = self.options["memory"] or default_memory(torch.device(self.autocast[0]))
        return not isinstance(policy, Keep | Checkpoint)

    def run(self, operands: Sequence[Tensor], *, no_steps: bool = False) -> Structure:
        """The loop on these operands, or on none of the steps."""
        cells = [reference() for reference in self.cells]
        arguments = {name: fill(each, operands, cells) for name, each in self.arguments.items()}
        if no_steps:
            arguments["inputs"] = map_structure(self._without_steps, arguments["inputs"])
        others = self._others(cells, operands)
        if not others and self._is_cast():  # as it nearly always is, and what is entered costs time
            return self.loop(**arguments, **self.options)
        device, enabled, dtype = self.autocast
        with ExitStack() as stack:
            stack.enter_context(torch.autocast(device, dtype, enabled=enabled))
            for cell, given in others:
                stack.enter_context(swapped._reparametrize_module(cell, given, tie_weights=True))
            return self.loop(**arguments, **self.options)

    def is_as_recorded(self, operands: Sequence[Tensor]) -> bool:
        """Whether its cells have the operands as their weights, and autocast is as it was at the call."""
        return self._is_cast() and not self._others([reference() for reference in self.cells], operands)

    def steps(self, operands: Sequence[Tensor]) -> Any:
        """The number of steps."""
        inputs = [operands[number] for number in self.inputs]
        return next((each.shape[self.time_axis] for each in inputs if each.dim() > self.time_axis), 0)

    def results(self, found: Structure) -> list[Tensor]:
        """The tensors of the loop's results, outputs first.

        Raises:
            RuntimeError: if they come in other containers than when the graph was recorded.
        """
        leaves, program = encode(found)
        if not self.program:
            self.program, self.outputs = program, len(encode(found[0])[0])
        if program != self.program:
            raise RuntimeError(
                f"{self.loop.__name__} returns other containers than when torch.compile recorded it: call "
                "torch.compiler.reset() after changing what a cell returns"
            )
        return leaves

    def own_weights(self) -> list[Tensor | None]:
        """The weights that the cells have now, in the order of their operands."""
        cells = zip(self.cells, self._paths, strict=True)
        return [_weight_at(reference(), path) for reference, paths in cells for path in paths]

    def _without_steps(self, leaf: Any) -> Any:
        return leaf.narrow(self.time_axis, 0, 0) if isinstance(leaf, Tensor) and leaf.dim() > self.time_axis else leaf

    @cached_property
    def _paths(self) -> list[list[list[str]]]:
        return [[name.split(".") for name in names] for names in self.names]

    def _others(self, cells: Sequence[Any], operands: Sequence[Tensor]) -> list[tuple[Any, dict[str, Tensor]]]:
        """The operands that cells have to read as their weights, by name, where they are not their own."""
        remaining, found = iter(operands), list[tuple[Any, dict[str, Tensor]]]()
        for cell, names, paths in zip(cells, self.names, self._paths, strict=True):
            given = zip(names, paths, remaining, strict=False)
            others = {name: each for name, path, each in given if each is not _weight_at(cell, path)}
            if others:
                found.append((cell, others))
        return found

    def _is_cast(self) -> bool:
        """Whether autocast is as it was at the call."""
        device, enabled, dtype = self.autocast
        if torch.is_autocast_enabled(device) != enabled:
            return False
        return not enabled or torch.get_autocast_dtype(device) == dtype


def _weight_at(cell: Any, path: Sequence[str]) -> Tensor | None:
    """The parameter or buffer of a module under a name, given in parts; None if there is none by now."""
    for name in path[:-1]:
        cell = cell._modules.get(name)
        if cell is None:
            return None
    found = cell._parameters.get(path[-1])
    return cell._buffers.get(path[-1]) if found is None else found


def fill(part: Structure, operands: Sequence[Tensor], cells: Sequence[Any]) -> Structure:
    """The arguments with tensors and cells in their slots."""
    inner: Any = part
    if (slot := _slot(part)) is not None:
        kind, number = slot
        return StepIndex() if kind == STEP_INDEX else (operands if kind == TENSOR else cells)[number]
    make: Any = inner.__class__
    if isinstance(part, dict):
        return make((key, fill(each, operands, cells)) for key, each in inner.items())
    if isinstance(part, tuple | list):
        filled = [fill(each, operands, cells) for each in inner]
        return make(*filled) if hasattr(make, "_fields") else make(filled)
    return inner


def _slot(part: Structure) -> tuple[str, int] | None:
    """What stands for something, if it does."""
    if type(part) is not tuple:
        return None
    pair = cast(Any, part)
    return pair if len(pair) == 2 and pair[0] in (TENSOR, CELL, STEP_INDEX) else None


def _numbers_of_tensors(part: Structure) -> list[int]:
    if (slot := _slot(part)) is not None:
        return [slot[1]] if slot[0] == TENSOR else []
    inner: Any = part
    children: Any = inner.values() if isinstance(part, dict) else inner if isinstance(part, tuple | list) else ()
    return [number for each in children for number in _numbers_of_tensors(each)]
