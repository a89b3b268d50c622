"""What the layers of `tf.contrib.layers` share: the lists that variables and outputs are in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from unspool.tf1.graph import get_default_graph
from unspool.tf1.variables import GraphKeys, Variable


def finished(
    made: Any,
    normalizer_fn: Callable[..., Any] | None,
    normalizer_params: dict[str, Any] | None,
    activation_fn: Callable[[Any], Any] | None,
    outputs_collections: Any,
) -> Any:
    """What a layer made, normalised and activated, in the lists that are asked for."""
    if normalizer_fn is not None:
        made = normalizer_fn(made, **(normalizer_params or {}))
    if activation_fn is not None:
        made = activation_fn(made)
    get_default_graph().add_to_collections(outputs_collections or (), made)
    return made


def collect(variable: Variable, name: str, collections: Any) -> None:
    """Adds a variable to the lists that are asked for, and to that of the model's, once each."""
    asked: Any = collections
    if isinstance(collections, dict):
        asked = cast("dict[str, Any]", collections).get(name)
    keys: list[str] = [GraphKeys.MODEL_VARIABLES, *([asked] if isinstance(asked, str) else asked or ())]
    graph = get_default_graph()
    for key in dict.fromkeys(keys):
        if variable not in graph.get_collection(key):
            graph.add_to_collection(key, variable)
