"""`tf.contrib.slim.model_analyzer`: how many parameters a model has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unspool.tf1.namespace import missing

__all__ = ["analyze_ops", "analyze_vars", "tensor_description"]


def tensor_description(var: Any) -> str:
    """The dtype and the shape of a tensor or variable.

    >>> from unspool import tf1 as tf
    >>> tensor_description(tf.zeros([2, 3]))
    '(float32 2x3)'
    """
    sizes = "x".join(str(each) for each in var.get_shape())
    return f"({var.dtype.name} {sizes})"


def analyze_vars(variables: Sequence[Any], print_info: bool = False) -> tuple[int, int]:
    """How many elements and how many bytes variables have.

    >>> from unspool import tf1 as tf
    >>> analyze_vars([tf.get_variable("kernel", [2, 3])], print_info=True)
    ---------
    Variables: name (type shape) [size]
    ---------
    kernel:0 (float32_ref 2x3) [6, bytes: 24]
    Total size of variables: 6
    Total bytes of variables: 24
    (6, 24)
    """
    if print_info:
        print("---------", "Variables: name (type shape) [size]", "---------", sep="\n")
    size = total = 0
    for each in variables:
        count = each.get_shape().num_elements() or 0
        size, total = size + count, total + count * each.dtype.size
        if print_info:
            kind = tensor_description(each).replace(each.dtype.name, f"{each.dtype.name}_ref")
            print(each.name, kind, f"[{count}, bytes: {count * each.dtype.size}]")
    if print_info:
        print(f"Total size of variables: {size}", f"Total bytes of variables: {total}", sep="\n")
    return size, total


def analyze_ops(graph: Any, print_info: bool = False) -> int:
    """How many elements the outputs of all operations have, as far as their shapes are known."""
    if print_info:
        print("---------", "Operations: name -> (type shapes) [size]", "---------", sep="\n")
    total = 0
    for each in graph.get_operations():
        sizes = [tensor.get_shape().num_elements() or 0 for tensor in each.outputs]
        total += sum(sizes)
        if print_info:
            print(each.name, "->", f"[{', '.join(map(tensor_description, each.outputs))}] [{sum(sizes)}]")
    if print_info:
        print(f"Total size: {total}")
    return total


def __getattr__(name: str) -> Any:
    raise missing("tf.contrib.slim.model_analyzer", name, __all__)
