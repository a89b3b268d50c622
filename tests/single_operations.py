"""Single operations as compiled loops: many are compiled together, each is run by itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pytest
from torch import Tensor

from unspool.engine.emit.cpp.loop import Compiled
from unspool.engine.emit.cpp.module import Module
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

    def by_torch(self) -> Tensor:
        """Its first result."""
        found = self.operation(*self.arguments, **self.options)
        return found[0] if isinstance(found, tuple) else found

    def emit(self, module: Module, name: str) -> Compiled:
        """Its first result as a function in `module`.

        Raises:
            CannotEmitError: if it has no form.
        """
        values = [
            Value(f"v{k}", tuple(each.shape[k not in self.shared :]), each.dtype, shared=k in self.shared)
            if isinstance(each, Tensor)
            else each
            for k, each in enumerate(self.arguments)
        ]
        made = self.operation(*self.arguments, **self.options)
        first, rest = (made[0], made[1:]) if isinstance(made, tuple) else (made, ())
        result = Value("result", tuple(first.shape[1:]), first.dtype)
        results = (result, *(Value("_", (), each.dtype) for each in rest))
        given = [each for each in values if isinstance(each, Value)]
        instruction = Instruction(self.kind, self.operation, tuple(values), dict(self.options), results)
        rows, common = (tuple(each for each in given if each.shared == wanted) for wanted in (False, True))
        return Compiled(Core((), rows, common, (instruction,), (), (result,)), module, name)

    def run(self, loop: Compiled) -> Tensor:
        """By what `emit` made."""
        tensors = [(k, each) for k, each in enumerate(self.arguments) if isinstance(each, Tensor)]
        rows, common = ([each for k, each in tensors if (k in self.shared) == wanted] for wanted in (False, True))
        _, (found,) = loop(loop.prepare(common), Chunk(Counts([len(rows[0])]), rows, ()))
        return found


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
