"""`tf.app`: a program's options, and its main function."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from unspool.tf1 import flags
from unspool.tf1.namespace import missing

__all__ = [
    "flags",
    "run",
]


def run(main: Callable[[list[str]], Any] | None = None, argv: Sequence[str] | None = None) -> NoReturn:
    """Reads the options, calls `main`, by default that of the program, with the rest of the command line, and exits."""
    rest = flags.FLAGS(sys.argv if argv is None else argv)
    sys.exit((main or sys.modules["__main__"].main)(rest))  # pyright: ignore[reportAttributeAccessIssue]


def __getattr__(name: str) -> Any:
    raise missing("tf.app", name, globals())
