"""Names for what a profiler shows."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch._C._autograd import _profiler_enabled  # pyright: ignore[reportPrivateUsage, reportMissingModuleSource]


def profiled(scope: str) -> AbstractContextManager[Any]:
    """A range with a name while a profiler runs, and nothing, for nothing, while none does."""
    return torch.profiler.record_function(scope) if _profiler_enabled() else nullcontext()
