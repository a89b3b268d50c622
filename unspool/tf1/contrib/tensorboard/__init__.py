"""`tf.contrib.tensorboard`."""

from __future__ import annotations

from typing import Any

from unspool.tf1.contrib.tensorboard import plugins
from unspool.tf1.namespace import missing

__all__ = ["plugins"]


def __getattr__(name: str) -> Any:
    raise missing("tf.contrib.tensorboard", name, globals())
