"""`tf.estimator.export`: models of estimators as saved models."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from unspool.tf1.estimator.spec import EstimatorSpec
from unspool.tf1.namespace import missing
from unspool.tf1.operations import as_tensor
from unspool.tf1.ops.array import placeholder
from unspool.tf1.saved_model.builder import SavedModelBuilder
from unspool.tf1.saved_model.signatures import SignatureDef, predict_signature_def

__all__ = ["PredictOutput", "ServingInputReceiver", "build_raw_serving_input_receiver_fn"]

DEFAULT = "serving_default"


class ServingInputReceiver(NamedTuple):
    """The features of a served model, and the placeholders that they are computed from.

    >>> ServingInputReceiver({"x": 1}, {"example": 2}).receiver_tensors
    {'example': 2}
    """

    features: Any
    receiver_tensors: Any
    receiver_tensors_alternatives: Any = None


class PredictOutput:
    """Tensors that a served model returns, for `EstimatorSpec(export_outputs=)`.

    Args:
        outputs: a tensor, or a dict of them.
    """

    def __init__(self, outputs: Any) -> None:
        self.outputs: dict[str, Any] = _named(outputs)


def _named(outputs: Any) -> dict[str, Any]:
    given: Mapping[Any, Any] = outputs if isinstance(outputs, Mapping) else {"output": outputs}
    return {str(key): as_tensor(each) for key, each in given.items()}


def build_raw_serving_input_receiver_fn(
    features: Mapping[str, Any] | Any, default_batch_size: int | None = None
) -> Callable[[], ServingInputReceiver]:
    """A function that makes a placeholder like each feature, with any number of rows.

    Args:
        features: tensors by name, or one; only their dtypes and shapes matter.
        default_batch_size: how many rows there are; any number if None.

    >>> from unspool import tf1 as tf
    >>> make = tf.estimator.export.build_raw_serving_input_receiver_fn({"x": tf.zeros([2, 3])})
    >>> make().features["x"].shape
    TensorShape([None, 3])
    """
    given: Mapping[str, Any] = features if isinstance(features, Mapping) else {"feature": features}
    likes = {key: (each.dtype, each.shape.as_list()) for key, each in given.items()}

    def make() -> ServingInputReceiver:
        made = {
            key: placeholder(dtype, [default_batch_size, *sizes[1:]], name=key) for key, (dtype, sizes) in likes.items()
        }
        return ServingInputReceiver(made if isinstance(features, Mapping) else made["feature"], made)

    return make


def signatures_of(spec: EstimatorSpec, receiver: ServingInputReceiver) -> dict[str, SignatureDef]:
    """The signatures of a model: one for each of its `export_outputs`, or one for its predictions.

    Raises:
        ValueError: if there are several outputs, and none is the default.
    """
    tensors: Any = receiver.receiver_tensors
    inputs = dict(tensors) if isinstance(tensors, Mapping) else {"input": tensors}
    outputs: dict[str, Any] = dict(spec.export_outputs or {DEFAULT: PredictOutput(spec.predictions)})
    if len(outputs) > 1 and DEFAULT not in outputs:
        raise ValueError(f"Multiple export_outputs were provided, but none of them is named {DEFAULT!r}.")
    made = {key: predict_signature_def(inputs, each.outputs) for key, each in outputs.items()}
    return made if DEFAULT in made else {**made, DEFAULT: next(iter(made.values()))}


def exported(session: Any, base: str | os.PathLike[str], signatures: Mapping[str, SignatureDef], saver: Any) -> str:
    """Writes the graph of a session below a folder, into one that is named after the time; its path."""
    stamp = int(time.time())
    while os.path.exists(os.path.join(os.fspath(base), str(stamp))):
        stamp += 1
    folder = os.path.join(os.fspath(base), str(stamp))
    builder = SavedModelBuilder(folder)
    builder.add_meta_graph_and_variables(session, ["serve"], signatures, saver=saver)
    builder.save()
    return folder


def __getattr__(name: str) -> Any:
    raise missing("tf.estimator.export", name, __all__)
