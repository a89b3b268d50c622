"""Modules by TensorFlow's names, such as `tf.nn`: a name that is not there says so, and what is nearest."""

from __future__ import annotations

import difflib
from types import SimpleNamespace
from typing import Any


class Namespace(SimpleNamespace):
    """Names below a module of TensorFlow's.

    >>> Namespace("tf.nn", relu=abs).rellu
    Traceback (most recent call last):
    AttributeError: unspool.tf1 has no tf.nn.rellu; did you mean tf.nn.relu?
    """

    def __init__(self, path: str, **names: Any) -> None:
        super().__init__(**names)
        self.__dict__["__path"] = path

    def __getattr__(self, name: str) -> Any:
        raise missing(self.__dict__["__path"], name, vars(self))


def missing(path: str, name: str, names: Any) -> AttributeError:
    """The error for a name that is not there."""
    known = [each for each in names if not each.startswith("_")]
    near = difflib.get_close_matches(name, known, n=3)
    hint = f"; did you mean {' or '.join(f'{path}.{each}' for each in near)}?" if near else ""
    return AttributeError(f"unspool.tf1 has no {path}.{name}{hint}")
