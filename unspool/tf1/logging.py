"""`tf.logging`: Python's logger `tensorflow`, which writes to standard error from warnings upwards."""

from __future__ import annotations

import logging as _logging
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from unspool.tf1.namespace import missing

__all__ = [
    "DEBUG",
    "ERROR",
    "FATAL",
    "INFO",
    "WARN",
    "debug",
    "error",
    "fatal",
    "get_verbosity",
    "info",
    "log",
    "log_every_n",
    "log_first_n",
    "set_verbosity",
    "warn",
    "warning",
]

DEBUG, INFO, WARN, ERROR, FATAL = 10, 20, 30, 40, 50

_logger = _logging.getLogger("tensorflow")
if not _logger.handlers and not _logging.getLogger().handlers:
    _handler = _logging.StreamHandler()
    _handler.setFormatter(_logging.Formatter("%(levelname)s:%(name)s:%(message)s"))
    _logger.addHandler(_handler)
    _logger.propagate = False
if _logger.level == _logging.NOTSET:
    _logger.setLevel(WARN)

debug, info, warning, warn = _logger.debug, _logger.info, _logger.warning, _logger.warning
error, fatal, log = _logger.error, _logger.critical, _logger.log
_counts: dict[str, int] = {}


def set_verbosity(v: Any) -> None:
    """What is less important than this level is not written; a number or a name."""
    _logger.setLevel(v)


def get_verbosity() -> int:
    """The level from which messages are written."""
    return _logger.getEffectiveLevel()


@contextmanager
def fresh() -> Generator[None, None, None]:
    """The level and the counts of messages are afterwards what they were before."""
    level, counts = _logger.level, dict(_counts)
    try:
        yield
    finally:
        _logger.setLevel(level)
        _counts.clear()
        _counts.update(counts)


def _counted(message: str) -> int:
    count = _counts.get(message, 0)
    _counts[message] = count + 1
    return count


def log_every_n(level: int, msg: str, n: int, *args: Any) -> None:
    """Writes a message the first time, and then every `n`-th."""
    if _counted(msg) % n == 0:
        log(level, msg, *args)


def log_first_n(level: int, msg: str, n: int, *args: Any) -> None:
    """Writes a message the first `n` times."""
    if _counted(msg) < n:
        log(level, msg, *args)


def __getattr__(name: str) -> Any:
    raise missing("tf.logging", name, globals())
