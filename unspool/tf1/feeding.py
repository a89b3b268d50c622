"""What a session is fed: values of the right shape and dtype, or an error that names the placeholder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from unspool.structure import check_same_structure, flatten, is_leaf
from unspool.tf1.dtypes import string
from unspool.tf1.graph import Graph
from unspool.tf1.shapes import described, fit
from unspool.tf1.sparse.tensor import SparseTensor
from unspool.tf1.string_values import Strings
from unspool.tf1.tensor import Tensor


def as_fed(graph: Graph, feed_dict: Any, device: torch.device) -> dict[Tensor, torch.Tensor]:
    """The value of each fed tensor, on the session's device.

    A key is a tensor, its name, or a structure of tensors, such as the state of an LSTM, with a value
    for each.
    """
    if not feed_dict:
        return {}
    if not isinstance(feed_dict, Mapping):
        raise TypeError(f"feed_dict must be a dict from placeholders to values, but is a {type(feed_dict).__name__}")
    fed: dict[Tensor, torch.Tensor] = {}
    for key, value in feed_dict.items():  # pyright: ignore[reportUnknownVariableType]
        if isinstance(key, SparseTensor):
            pairs: list[tuple[Any, Any]] = list(zip(key.parts(), _sparse_parts(key, value), strict=True))
        elif isinstance(key, Tensor) or is_leaf(key):
            pairs = [(key, value)]
        else:
            pairs = _parts(key, value)
        for each, its in pairs:
            tensor = _fed_tensor(graph, each)
            if tensor in fed:
                raise ValueError(f"{tensor.name} is fed twice")
            fed[tensor] = _value_for(tensor, its, device)
    return fed


def _parts(key: Any, value: Any) -> list[tuple[Any, Any]]:
    """The tensors of a structure with their values, which may be in any tuples and lists, as in TensorFlow."""
    if is_leaf(value):
        check_same_structure(key, value, name="a value of feed_dict", like="its key")
    tensors, values = flatten(key), flatten(value)
    if len(tensors) != len(values):
        raise ValueError(
            f"a key of feed_dict has {len(tensors)} tensors, but its value has {len(values)} elements; arrays count as "
            "one, numbers in lists each"
        )
    return list(zip(tensors, values, strict=True))


def _sparse_parts(key: SparseTensor, value: Any) -> list[Any]:
    """Indices, values and shape of what is fed for a sparse tensor; an empty list says not how deep it is."""
    if not isinstance(value, tuple | list) or len(value) != 3:  # pyright: ignore[reportUnknownArgumentType]
        raise TypeError(
            f"'{key.name}' is sparse: feed a tf.SparseTensorValue, or a tuple of indices, values and shape, "
            f"but not {value!r:.80}"
        )
    indices, values, sizes = value  # pyright: ignore[reportUnknownVariableType]
    if not np.size(indices):
        indices = np.zeros((0, np.size(sizes)), np.int64)
    return [indices, values if np.size(values) else np.zeros(0, key.dtype.as_numpy_dtype), sizes]


def _fed_tensor(graph: Graph, key: Any) -> Tensor:
    if isinstance(key, Tensor) and key.graph is graph:
        return key
    try:
        found = graph.as_graph_element(key)
    except (KeyError, ValueError, TypeError) as error:
        raise TypeError(f"Cannot interpret feed_dict key as Tensor: {error}") from None
    if not isinstance(found, Tensor):
        raise TypeError(f"Cannot interpret feed_dict key as Tensor: {found!r} is an operation")
    return found


def _value_for(tensor: Tensor, value: Any, device: torch.device) -> torch.Tensor:
    if isinstance(value, Tensor) or hasattr(value, "_as_graph_element"):
        raise TypeError(
            "The value of a feed cannot be a tf.Tensor object, which has no value yet; give numbers or a numpy array. "
            f"{value!r} was passed to {tensor.name}"
        )
    made = value.detach() if isinstance(value, torch.Tensor) else _from_numpy(tensor, value)
    if tensor.dtype is not string:
        _check_kind(tensor, made)
    if not fit(tensor.dims, tuple(made.shape)):
        raise ValueError(
            f"Cannot feed value of shape {tuple(made.shape)} for Tensor '{tensor.name}', which has shape "
            f"'{described(tensor.dims)}'"
        )
    return made if tensor.dtype is string else made.to(device=device, dtype=tensor.dtype.torch)


def _from_numpy(tensor: Tensor, value: Any) -> torch.Tensor:
    if value is None:
        raise TypeError(f"None was fed for Tensor '{tensor.name}', which is {tensor.dtype.name}")
    if tensor.dtype is string:
        return _strings(tensor, value)
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"the value for Tensor '{tensor.name}' is no array: {error}") from None
    if array.dtype.kind in "US":
        raise ValueError(f"could not convert {value!r:.80} for Tensor '{tensor.name}', which is {tensor.dtype.name}")
    if array.dtype.kind not in "biufc":
        raise TypeError(f"Tensor '{tensor.name}' is {tensor.dtype.name}, but was fed {array.dtype.name}: {value!r:.80}")
    if not array.flags.writeable or any(stride < 0 for stride in array.strides):
        array = array.copy()
    return torch.from_numpy(array) if array.dtype != np.uint16 else torch.from_numpy(array.astype(np.int32))


def _strings(tensor: Tensor, value: Any) -> torch.Tensor:
    try:
        return Strings.of(value)
    except TypeError as error:
        raise TypeError(f"the value for Tensor '{tensor.name}' is not made of strings: {error}") from None


def _check_kind(tensor: Tensor, value: torch.Tensor) -> None:
    """Raises `TypeError` where the tensor's dtype would silently lose what was fed."""
    wanted = tensor.dtype.torch
    if wanted is None:
        raise TypeError(f"Tensor '{tensor.name}' is {tensor.dtype.name}, which cannot be fed")
    if wanted == value.dtype or (wanted.is_floating_point and not value.is_complex()):
        return
    if value.is_complex() and not wanted.is_complex:
        raise TypeError(f"Tensor '{tensor.name}' is {tensor.dtype.name}, but was fed complex numbers")
    rounded = value.to(wanted)
    if not torch.equal(rounded.to(value.dtype), value):
        have = str(value.dtype).removeprefix("torch.")
        raise TypeError(
            f"Type of feed value {have} is not compatible with Tensor '{tensor.name}' of type {tensor.dtype.name}: it "
            f"cannot hold {value[rounded.to(value.dtype) != value].reshape(-1)[0].item()!r}"
        )
