"""Finds the line of a step that changes its inputs or its state in place, for an error that names it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from unspool.structure import Structure, flatten, map_structure


def changed_in_place(cell: Any, inputs: Structure, state: Structure) -> RuntimeError:
    """The error for a step that has changed what it was given; the step is run again, on copies, to see where."""
    given = map_structure(lambda leaf: leaf.detach().clone() if isinstance(leaf, Tensor) else leaf, (inputs, state))
    found = _Found([leaf for leaf in flatten(given) if isinstance(leaf, Tensor)])
    with suppress(Exception), torch.no_grad(), found:  # it has failed once already
        cell(*given)
    where = "" if found.line is None else f", {found.line}"
    return RuntimeError(
        f"the cell changed its inputs or its state in place{where}: earlier steps and the caller need them. Compute a "
        "new tensor (h = h * 2 for h *= 2 or h.mul_(2)), or change a clone()"
    )


class _Found(TorchDispatchMode):
    """Notes the line of the first operation that writes to memory of the tensors given."""

    def __init__(self, given: list[Tensor]) -> None:
        super().__init__()
        self.line: Any = None
        self._given = {leaf.untyped_storage().data_ptr() for leaf in given}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self.line is None and func._schema.is_mutable and self._is_ours(args[0]):
            from unspool.engine.trace.user_lines import line_now

            self.line = line_now()
        return func(*args, **(kwargs or {}))

    def _is_ours(self, written: Any) -> bool:
        return isinstance(written, Tensor) and written.untyped_storage().data_ptr() in self._given
