"""Names for what a profiler shows."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch._C._autograd import _profiler_enabled  # pyright: ignore[reportPrivateUsage, reportMissingModuleSource]


def profiled(scope: str, *what: str) -> AbstractContextManager[Any]:
    """A range with a name while a profiler runs, and nothing, for nothing, while none does.

    Args:
        scope: the name of the loop.
        what: what of the loop it is, in words; none for all of it. The range is named `scope/these words`.
    """
    if not _profiler_enabled():
        return _NONE
    return torch.profiler.record_function(f"{scope}/{' '.join(what)}" if what else scope)


_NONE = nullcontext()
