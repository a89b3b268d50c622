"""`tf.saved_model.signature_def_utils`: how signatures are made."""

from __future__ import annotations

from typing import Any

from unspool.tf1.namespace import missing
from unspool.tf1.saved_model.signatures import build_signature_def, predict_signature_def

__all__ = ["build_signature_def", "predict_signature_def"]


def __getattr__(name: str) -> Any:
    raise missing("tf.saved_model.signature_def_utils", name, __all__)
