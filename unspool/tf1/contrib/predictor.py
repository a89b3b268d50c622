"""`tf.contrib.predictor`: functions of arrays that run a saved model."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from unspool.tf1.graph import Graph
from unspool.tf1.namespace import missing
from unspool.tf1.saved_model.loader import load
from unspool.tf1.session import Session
from unspool.tf1.session_options import ConfigProto

__all__ = ["from_estimator", "from_saved_model"]


class Predictor:
    """Runs a graph in a session of its own: takes arrays by name to arrays by name.

    Args:
        session: the session.
        feed_tensors: what it is fed, by name.
        fetch_tensors: what it returns, by name.
    """

    def __init__(self, session: Session, feed_tensors: Mapping[str, Any], fetch_tensors: Mapping[str, Any]) -> None:
        self.session, self.graph = session, session.graph
        self.feed_tensors, self.fetch_tensors = dict(feed_tensors), dict(fetch_tensors)

    def __call__(self, input_dict: Mapping[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
        """What the graph makes of arrays; `ValueError` for a name that it does not take."""
        unknown = sorted(set(input_dict) - set(self.feed_tensors))
        if unknown:
            raise ValueError(f"Got unexpected keys in input_dict: {unknown}; expected {sorted(self.feed_tensors)}")
        return self.session.run(self.fetch_tensors, {self.feed_tensors[key]: each for key, each in input_dict.items()})


def from_saved_model(
    export_dir: str | os.PathLike[str],
    signature_def_key: str | None = None,
    signature_def: Any = None,
    input_names: Mapping[str, str] | None = None,
    output_names: Mapping[str, str] | None = None,
    tags: str | None = None,
    graph: Graph | None = None,
    config: ConfigProto | None = None,
) -> Predictor:
    """A function that runs what `tf.saved_model` wrote.

    Args:
        export_dir: the folder.
        signature_def_key: which of its signatures; "serving_default" by default.
        signature_def: a signature, in the place of one of its own.
        input_names, output_names: names of tensors by names, in the place of a signature.
        tags: which of its graphs, by commas; "serve" by default.
        graph: the graph that it is loaded into; a new one by default.
        config: the session's.

    Raises:
        ValueError: if it has no such signature.

    >>> import tempfile
    >>> from unspool import tf1 as tf
    >>> x = tf.placeholder(tf.float32, [None], name="x")
    >>> folder = tempfile.mkdtemp()
    >>> tf.saved_model.simple_save(tf.Session(), folder, {"x": x}, {"y": 2 * x})
    >>> tf.contrib.predictor.from_saved_model(folder)({"x": [1.0, 2.0]})
    {'y': array([2., 4.], dtype=float32)}
    """
    session = Session(graph=graph or Graph(), config=config)
    found = load(session, (tags or "serve").split(","), export_dir)
    if input_names is not None or output_names is not None:
        inputs, outputs = dict(input_names or {}), dict(output_names or {})
    else:
        key = signature_def_key or "serving_default"
        if signature_def is None and key not in found.signature_def:
            raise ValueError(f"Got signature_def_key {key!r}. Available signatures are {sorted(found.signature_def)}.")
        chosen = signature_def or found.signature_def[key]
        inputs, outputs = ({k: each.name for k, each in part.items()} for part in (chosen.inputs, chosen.outputs))
    tensors = session.graph.get_tensor_by_name
    return Predictor(
        session, {k: tensors(each) for k, each in inputs.items()}, {k: tensors(each) for k, each in outputs.items()}
    )


def from_estimator(
    estimator: Any,
    serving_input_receiver_fn: Callable[[], Any],
    output_key: str | None = None,
    graph: Graph | None = None,
    config: ConfigProto | None = None,
) -> Predictor:
    """A function that runs an estimator's model for prediction.

    Args:
        estimator: a `tf.estimator.Estimator` that has a checkpoint.
        serving_input_receiver_fn: makes the placeholders, as a `ServingInputReceiver`.
        output_key: which of the `export_outputs`; the predictions if None.
        graph: the graph that the model is built in; a new one by default.
        config: the session's.
    """
    with (graph or Graph()).as_default() as made:
        signatures, saver = estimator.served(serving_input_receiver_fn)
        session = Session(graph=made, config=config)
        saver.restore(session, estimator.latest_checkpoint())
        key = output_key or "serving_default"
        if key not in signatures:
            raise ValueError(f"Got output_key {key!r}. Available outputs are {sorted(signatures)}.")
        tensors = made.get_tensor_by_name
        inputs, outputs = (
            {k: tensors(each.name) for k, each in part.items()}
            for part in (signatures[key].inputs, signatures[key].outputs)
        )
    return Predictor(session, inputs, outputs)


def __getattr__(name: str) -> Any:
    raise missing("tf.contrib.predictor", name, __all__)
