"""Finds out whether, and in which line, a step changes its inputs or its state in place."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from unspool.structure import Structure, flatten, map_structure


def changed_in_place(cell: Any, inputs: Structure, state: Structure) -> RuntimeError | None:
    """The error for a step after which what it was given has another version; the step is run again, on copies.

    None if it has written to no element: `x.squeeze_(1)` of a view of the inputs counts as a version, too.
    """
    from unspool.engine.guards.fingerprint import Fingerprint
    from unspool.engine.guards.one_step import unchanged

    given = map_structure(lambda leaf: leaf.detach().clone() if isinstance(leaf, Tensor) else leaf, (inputs, state))
    writes = Writes([leaf for leaf in flatten(given) if isinstance(leaf, Tensor) and not leaf.is_inference()])
    seen = False
    with suppress(Exception), torch.no_grad():
        with unchanged(Fingerprint(cell)), writes:
            cell(*given)
        seen = True
    if not seen and not writes.found:  # what cannot be followed cannot be put back
        with suppress(Exception), torch.no_grad(), writes:
            cell(*given)
    return None if seen and not writes.found else writes.error()


class Writes(TorchDispatchMode):
    """Sees whether operations write to tensors or views of them, and where the first is that does.

    That is told by versions, which autograd counts for a tensor and all views of it together.
    """

    def __init__(self, given: list[Tensor]) -> None:
        super().__init__()
        self._given, self._versions = given, [leaf._version for leaf in given]
        self._found = False
        self._line: Any = None
        self._last: Any = None
        """The last operation that writes to something, of which the version is counted once it has returned."""

    @property
    def found(self) -> bool:
        """Whether one did."""
        self._look()
        return self._found

    def error(self) -> RuntimeError:
        """What is wrong with it."""
        where = "" if self._line is None else f", {self._line}"
        return RuntimeError(
            f"the cell changed its inputs or its state in place{where}: earlier steps and the caller need them. "
            "Compute a new tensor (h = h * 2 for h *= 2 or h.mul_(2)), or change a clone()"
        )

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self._last is not None:
            self._look()
        if not self._found and func._schema.is_mutable:
            from unspool.engine.trace.user_lines import line_now

            self._last, self._line = func, line_now()
            self._found = func in VIEWS and any(args[0] is each for each in self._given)
        return func(*args, **(kwargs or {}))

    def _look(self) -> None:
        versions = [leaf._version for leaf in self._given]
        if not self._found and versions != self._versions:
            self._versions, self._found = versions, self._last not in VIEWS
        self._last = None


aten = torch.ops.aten
VIEWS = {
    *(aten.squeeze_.default, aten.squeeze_.dim, aten.squeeze_.dims, aten.unsqueeze_.default, aten.transpose_.default),
    *(aten.t_.default, aten.swapaxes_.default, aten.swapdims_.default, aten.as_strided_.default),
}
"""What makes another view of a tensor in its place: no element of it changes."""
