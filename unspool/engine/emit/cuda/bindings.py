"""NVIDIA's own Python packages, which torch's CUDA builds come with."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from functools import cache
from typing import Any

from unspool.engine.emit.errors import CannotEmitError
from unspool.engine.reasons import Code


@cache
def bindings(name: str) -> Any:
    """The module of a library, `driver` or `nvrtc`.

    Raises:
        CannotEmitError: if it is not there.
    """
    try:
        return importlib.import_module(f"cuda.bindings.{name}")
    except ImportError as error:
        raise CannotEmitError(f"cuda.bindings cannot be imported: {error}", Code.NO_COMPILER) from error


def done(result: Sequence[Any]) -> Sequence[Any]:
    """What a call returned besides its status.

    Raises:
        RuntimeError: if it failed.
    """
    status, *rest = result
    if int(status):
        raise RuntimeError(f"CUDA failed: {status}")
    return rest
