"""`tf.saved_model.utils`: tensors as signatures have them."""

from __future__ import annotations

from typing import Any

from unspool.tf1.namespace import missing
from unspool.tf1.saved_model.signatures import build_tensor_info, get_tensor_from_tensor_info

__all__ = ["build_tensor_info", "get_tensor_from_tensor_info"]


def __getattr__(name: str) -> Any:
    raise missing("tf.saved_model.utils", name, __all__)
