"""`tf.saved_model`: graphs with the values of their variables, in a folder."""

from __future__ import annotations

from typing import Any

from unspool.tf1.namespace import missing
from unspool.tf1.saved_model import (
    builder,
    loader,
    signature_constants,
    signature_def_utils,
    tag_constants,
    utils,
)
from unspool.tf1.saved_model.builder import SavedModelBuilder, simple_save
from unspool.tf1.saved_model.loader import load, maybe_saved_model_directory
from unspool.tf1.saved_model.signatures import (
    build_signature_def,
    build_tensor_info,
    get_tensor_from_tensor_info,
    predict_signature_def,
)

Builder = SavedModelBuilder

__all__ = [
    "Builder",
    "build_signature_def",
    "build_tensor_info",
    "builder",
    "get_tensor_from_tensor_info",
    "load",
    "loader",
    "maybe_saved_model_directory",
    "predict_signature_def",
    "signature_constants",
    "signature_def_utils",
    "simple_save",
    "tag_constants",
    "utils",
]


def __getattr__(name: str) -> Any:
    raise missing("tf.saved_model", name, __all__)
