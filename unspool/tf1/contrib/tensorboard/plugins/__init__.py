"""`tf.contrib.tensorboard.plugins`."""

from __future__ import annotations

from typing import Any

from unspool.tf1.contrib.tensorboard.plugins import projector
from unspool.tf1.namespace import missing

__all__ = ["projector"]


def __getattr__(name: str) -> Any:
    raise missing("tf.contrib.tensorboard.plugins", name, globals())
