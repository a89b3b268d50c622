"""Single operations as compiled loops: many are compiled together, each is run by itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

import pytest
import torch
from optree import tree_leaves
from torch import Tensor

from unspool.engine.emit.cpp.libraries.module import Module
from unspool.engine.emit.cpp.loop import Compiled
from unspool.engine.emit.errors import CannotEmitError
from unspool.engine.emit.protocol import Chunk
from unspool.engine.execute.counts import Counts
from unspool.engine.ir.core import Core
from unspool.engine.ir.program import Instruction, Kind, Value


@dataclass(frozen=True, eq=False)
class Single:
    """`operation(*arguments, **options)`; tensors have a row in front, but for those in `shared`, by their numbers."""

    operation: Any
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    kind: Kind = Kind.POINTWISE
    shared: tuple[int, ...] = ()
    wanted: int = 0
    """Which of its results."""

    def by_torch(self) -> Tensor:
        """Its result."""
        found = self.operation(*self.arguments, **self.options)
        return found[self.wanted] if isinstance(found, tuple) else found

    def emit(self, module: Module, name: str) -> Compiled:
        """Its result as a function in `module`.

        Raises:
            CannotEmitError: if it has no form.
        """
        values = [_value(each, f"v{k}", k in self.shared) for k, each in enumerate(self.arguments)]
        made = self.operation(*self.arguments, **self.options)
        every = made if isinstance(made, tuple) else (made,)
        wanted = every[self.wanted]
        result = Value("result", tuple(wanted.shape[1:]), wanted.dtype)
        unused = Value("_", (), torch.float32)
        results = tuple(result if k == self.wanted else unused for k in range(len(every)))
        given = [each for each in tree_leaves(values) if isinstance(each, Value)]
        instruction = Instruction(self.kind, self.operation, tuple(values), dict(self.options), results)
        rows, common = (tuple(each for each in given if each.shared == wanted) for wanted in (False, True))
        return Compiled(Core((), rows, common, (instruction,), (), (result,)), module, name)

    def run(self, loop: Compiled) -> Tensor:
        """By what `emit` made."""
        tensors = [
            (k, each)
            for k, given in enumerate(self.arguments)
            for each in tree_leaves(given)
            if isinstance(each, Tensor)
        ]
        rows, common = ([each for k, each in tensors if (k in self.shared) == wanted] for wanted in (False, True))
        _, (found,) = loop(loop.prepare(common), Chunk(Counts([len(rows[0])]), rows, ()))
        return found


def _value(given: Any, name: str, shared: bool) -> Any:
    if isinstance(given, list):
        return [_value(each, f"{name}_{k}", shared) for k, each in enumerate(cast("list[Any]", given))]
    if not isinstance(given, Tensor):
        return given
    return Value(name, tuple(given.shape[not shared :]), given.dtype, shared=shared)


def by_compiled_loops(singles: Iterable[Single]) -> dict[Single, Tensor]:
    """What compiled loops make of each; those that have no form are left out."""
    module, loops = Module(), dict[Single, Compiled]()
    for number, each in enumerate(singles):
        try:
            loops[each] = each.emit(module, f"single_{number}")
        except CannotEmitError:
            continue
    try:
        module.start()
    except CannotEmitError as reason:
        pytest.skip(f"nothing can be compiled here: {reason}")
    return {each: each.run(loop) for each, loop in loops.items()}
