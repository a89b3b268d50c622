"""`tf.contrib.learn`: what recurrent programs use of it."""

from __future__ import annotations

from typing import Any

from unspool.tf1.contrib.learn import preprocessing
from unspool.tf1.estimator import spec
from unspool.tf1.estimator.run_config import RunConfig
from unspool.tf1.namespace import missing

__all__ = ["ModeKeys", "RunConfig", "preprocessing"]


class ModeKeys(spec.ModeKeys):
    """What a model is built for, by the names of `contrib.learn`."""

    INFER = spec.ModeKeys.PREDICT


def __getattr__(name: str) -> Any:
    raise missing("tf.contrib.learn", name, globals())
