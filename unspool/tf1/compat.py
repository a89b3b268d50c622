"""`tf.compat`: texts and bytes, and `tf.compat.v1`, which is `unspool.tf1` itself."""

from __future__ import annotations

import sys
from typing import Any

from unspool.tf1.namespace import missing

__all__ = [
    "as_bytes",
    "as_str",
    "as_text",
    "disable_v2_behavior",
]


def as_bytes(bytes_or_text: bytes | str, encoding: str = "utf-8") -> bytes:
    """A text as bytes; bytes as they are."""
    return bytes_or_text.encode(encoding) if isinstance(bytes_or_text, str) else bytes_or_text


def as_text(bytes_or_text: bytes | str, encoding: str = "utf-8") -> str:
    """Bytes as a text; a text as it is."""
    return bytes_or_text if isinstance(bytes_or_text, str) else bytes_or_text.decode(encoding)


as_str = as_text


def disable_v2_behavior() -> None:
    """Does nothing: there is no other behaviour here."""


LATER = ("v1",)


def __getattr__(name: str) -> Any:
    if name in LATER:
        return sys.modules["unspool.tf1"]
    raise missing("tf.compat", name, globals())
