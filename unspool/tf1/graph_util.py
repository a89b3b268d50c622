"""`tf.graph_util`: graphs whose variables have become constants, and parts of graphs."""

from __future__ import annotations

from typing import Any

from unspool.tf1.graph_def import (
    convert_variables_to_constants,
    extract_sub_graph,
    import_graph_def,
    remove_training_nodes,
)
from unspool.tf1.namespace import missing

__all__ = ["convert_variables_to_constants", "extract_sub_graph", "import_graph_def", "remove_training_nodes"]


def __getattr__(name: str) -> Any:
    raise missing("tf.graph_util", name, __all__)
