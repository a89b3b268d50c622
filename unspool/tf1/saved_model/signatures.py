"""Signatures: the tensors that a saved model is fed and asked for, under names of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from unspool.tf1.dtypes import DType, as_dtype
from unspool.tf1.graph import get_default_graph
from unspool.tf1.operations import as_tensor
from unspool.tf1.shapes import TensorShape
from unspool.tf1.sparse.tensor import SparseTensor
from unspool.tf1.tensor import Tensor

PREDICT = "tensorflow/serving/predict"


@dataclass
class TensorInfo:
    """The name of a tensor in its graph, and what it is like."""

    name: str = ""
    dtype: DType | None = None
    tensor_shape: TensorShape = field(default_factory=lambda: TensorShape(None))

    def written(self) -> list[Any]:
        """What a file holds of it."""
        return [self.name, None if self.dtype is None else self.dtype.name, self.tensor_shape.sizes]

    @classmethod
    def read(cls, name: str, dtype: str | None, sizes: Any) -> TensorInfo:
        """What `written` made."""
        return cls(name, None if dtype is None else as_dtype(dtype), TensorShape(sizes))


@dataclass
class SignatureDef:
    """What a saved model is fed, what it is asked for, and how a server would call it."""

    inputs: dict[str, TensorInfo] = field(default_factory=dict[str, TensorInfo])
    outputs: dict[str, TensorInfo] = field(default_factory=dict[str, TensorInfo])
    method_name: str = ""

    def written(self) -> list[Any]:
        """What a file holds of it."""
        both = [{key: each.written() for key, each in part.items()} for part in (self.inputs, self.outputs)]
        return [*both, self.method_name]

    @classmethod
    def read(cls, inputs: dict[str, Any], outputs: dict[str, Any], method_name: str) -> SignatureDef:
        """What `written` made."""
        fed, asked = ({key: TensorInfo.read(*each) for key, each in part.items()} for part in (inputs, outputs))
        return cls(fed, asked, method_name)


def build_tensor_info(tensor: Any) -> TensorInfo:
    """The name of a tensor, and what it is like.

    >>> from unspool import tf1 as tf
    >>> tf.saved_model.utils.build_tensor_info(tf.placeholder(tf.float32, [None, 3], name="x")).name
    'x:0'
    """
    if isinstance(tensor, SparseTensor):
        raise TypeError("signatures are of dense tensors: give indices, values and shape one by one")
    found = as_tensor(tensor)
    return TensorInfo(found.name, found.dtype, found.shape)


def get_tensor_from_tensor_info(tensor_info: TensorInfo, graph: Any = None, import_scope: str | None = None) -> Tensor:
    """The tensor of that name in a graph, the default one if None."""
    prefix = f"{import_scope}/" if import_scope else ""
    return (graph or get_default_graph()).get_tensor_by_name(prefix + tensor_info.name)


def build_signature_def(
    inputs: Mapping[str, TensorInfo] | None = None,
    outputs: Mapping[str, TensorInfo] | None = None,
    method_name: str | None = None,
) -> SignatureDef:
    """A signature of tensors that `build_tensor_info` describes."""
    return SignatureDef(dict(inputs or {}), dict(outputs or {}), method_name or "")


def predict_signature_def(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> SignatureDef:
    """A signature of tensors by name.

    Raises:
        ValueError: if there are no inputs, or no outputs.
    """
    for name, given in (("inputs", inputs), ("outputs", outputs)):
        if not given:
            raise ValueError(f"Prediction {name} cannot be None or empty.")
    fed, asked = ({key: build_tensor_info(each) for key, each in part.items()} for part in (inputs, outputs))
    return SignatureDef(fed, asked, PREDICT)
