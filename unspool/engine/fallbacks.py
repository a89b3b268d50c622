"""Fallbacks are said: each warns, goes to the log, or is an error under `strict`."""

from __future__ import annotations

import inspect
import logging
import os
import warnings
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from types import FunctionType
from typing import Any

from unspool.engine.reasons import TORCH, UNSPOOL, Code, Reason
from unspool.flags import check_flag
from unspool.once import Said

log = logging.getLogger("unspool")


class PerformanceWarning(UserWarning):
    """A cell runs more slowly than it could: step by step, or interpreted where a compiler is at hand.

    It is said once for each class of cells and reason, with the line and what to change.

    >>> import warnings
    >>> warnings.simplefilter("ignore", PerformanceWarning)  # for cells that are to run so
    """


class StrictError(RuntimeError):
    """A fallback where `strict` allows none; its `reason` says why, as data.

    Args:
        text: what happens, and what to change.
        reason: why.

    >>> import torch, unspool
    >>> hooked = unspool.GRUCell(4, input_size=3)
    >>> _ = hooked.register_forward_hook(lambda *_: None)
    >>> try:
    ...     with unspool.strict():
    ...         unspool.dynamic_rnn(hooked, torch.zeros(2, 5, 3), dtype=torch.float32)
    ... except StrictError as error:
    ...     print(error.reason)
    the cell has hooks (forward_hooks), which want to see every step
    """

    def __init__(self, text: str, reason: Reason) -> None:
        super().__init__(text)
        self.reason = reason


_strict: ContextVar[bool | None] = ContextVar("strict", default=None)


def strict(enabled: bool = True) -> AbstractContextManager[None]:
    """Turns every fallback inside of the block into an error, whatever its reason.

    `UNSPOOL_STRICT=1` in the environment does so for a whole program; `strict(False)` allows fallbacks in a block.

    Raises:
        StrictError: from a loop in the block whose cell would run in the plain loop, or be interpreted.

    >>> import torch
    >>> from unspool import LSTMCell, dynamic_rnn
    >>> with strict():
    ...     outputs, state = dynamic_rnn(LSTMCell(4), torch.zeros(2, 5, 3), dtype=torch.float32)
    """
    check_flag("enabled", enabled)
    return _strictly(enabled)


@contextmanager
def _strictly(enabled: bool) -> Generator[None, None, None]:
    token = _strict.set(enabled)
    try:
        yield
    finally:
        _strict.reset(token)


def is_strict() -> bool:
    """Whether a fallback is an error here."""
    asked = _strict.get()
    return os.environ.get("UNSPOOL_STRICT", "0") not in ("", "0") if asked is None else asked


_said = Said()


def fall_back(cell: Any, what: str, reason: Reason) -> None:
    """Says that a cell runs otherwise than it could.

    Args:
        cell: the cell, or the function that it was made of.
        what: what becomes of it, after its name: "runs in the plain loop".
        reason: why.

    Raises:
        StrictError: if nothing may fall back.
    """
    if reason.code is Code.NOTHING_TO_RUN:
        return
    kind = named_after(cell)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if is_strict():
        raise StrictError(_text(kind, what, reason), reason)
    if not _said.first(name, what, reason):
        return
    log.info("%s %s: %s", kind.__qualname__, what, reason)
    if not reason.code.asked:
        warnings.warn(_text(kind, what, reason), PerformanceWarning, stacklevel=_users_level())


def _text(kind: type | FunctionType, what: str, reason: Reason) -> str:
    """With what to change, for which the user's file is read: not at every call."""
    return " ".join([f"{kind.__qualname__} {what}: {reason}.", *filter(None, [reason.advice])])


def report_fault(cell: Any, error: BaseException) -> None:
    """Says that a plan failed where the plain loop does not: a fault of the engine, not of the cell."""
    kind = named_after(cell).__qualname__
    text = (
        f"the plan of {kind} failed ({type(error).__name__}: {error}), but its plain loop did not: a fault of the "
        "engine. The result is the plain loop's. Please report it, with the cell."
    )
    warnings.warn(text, RuntimeWarning, stacklevel=_users_level())


def named_after(cell: Any) -> type | FunctionType:
    """What a cell is called after: its class, or the function that it was made of."""
    return cell if isinstance(cell, FunctionType) else cell.__class__


def _users_level() -> int:
    """How far up the stack the user's code is, for whoever called the caller of this."""
    level, frame = 2, inspect.currentframe()
    frame = frame and frame.f_back and frame.f_back.f_back
    while frame is not None and frame.f_code.co_filename.startswith((UNSPOOL, TORCH)):
        frame, level = frame.f_back, level + 1
    return level
