"""The engine's entry points, each imported when it is first asked for.

Behind them are torch's tracers, sympy and compilers: seconds of imports, which a program pays with its first plan and
not with `import unspool`. So loops and decoding reach them as `entry.run`, never by importing the name, and no module
that they import at once may import these five.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from types import FrameType
from typing import TYPE_CHECKING, Any

from unspool import forking as forking  # at once: a fork before the first plan is one too

if TYPE_CHECKING:
    from unspool.engine.at_once import both as both
    from unspool.engine.explain.explain import explain as explain
    from unspool.engine.guards.one_step import outputs_of_a_step as outputs_of_a_step
    from unspool.engine.run import run as run
    from unspool.engine.stepper import Stepper as Stepper

_MODULES = {
    "run": "unspool.engine.run",
    "both": "unspool.engine.at_once",
    "explain": "unspool.engine.explain.explain",
    "Stepper": "unspool.engine.stepper",
    "outputs_of_a_step": "unspool.engine.guards.one_step",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with _uninterrupted():
        found = getattr(import_module(_MODULES[name]), name)
    globals()[name] = found  # where later calls find it without coming here
    return found


@contextmanager
def _uninterrupted() -> Generator[None, None, None]:
    """Lets Ctrl-C wait: torch does not recover from an import that stopped halfway, and no cell would be planned."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield  # no interrupt arrives in this thread, or none that is an exception
        return
    pressed: list[FrameType | None] = []
    signal.signal(signal.SIGINT, lambda _, frame: pressed.append(frame))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if pressed:
            handler(signal.SIGINT, pressed[0])
