"""`tensorflow.python.debug`: there is no debugger of graphs; a session that one would wrap runs as it is."""

from __future__ import annotations

from typing import Any, TypeVar

__all__ = ["LocalCLIDebugHook", "LocalCLIDebugWrapperSession", "TensorBoardDebugWrapperSession", "has_inf_or_nan"]

S = TypeVar("S")


def LocalCLIDebugWrapperSession(sess: S, **unused: Any) -> S:  # noqa: N802
    """The session itself: with torch underneath, `breakpoint()` stops in any function of the graph.

    >>> LocalCLIDebugWrapperSession("a session")
    'a session'
    """
    return sess


def TensorBoardDebugWrapperSession(sess: S, *unused: Any, **options: Any) -> S:  # noqa: N802
    """The session itself."""
    return sess


def LocalCLIDebugHook(**unused: Any) -> Any:  # noqa: N802
    """A hook that does nothing."""
    from unspool.tf1.train import SessionRunHook

    return SessionRunHook()


def has_inf_or_nan(datum: Any, tensor: Any) -> bool:
    """Whether an array has an element that is not finite."""
    import numpy as np

    return not bool(np.isfinite(tensor).all())
