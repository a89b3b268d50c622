"""How operations are made: values become tensors, a torch function becomes a node of the graph.

Called with torch's own tensors, an operation computes at once: so `tf.nn.relu` can be the activation of a cell.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from unspool.tf1.dtypes import DType, as_dtype, string
from unspool.tf1.graph import UNNAMED, get_default_graph
from unspool.tf1.inference import broadcast, infer
from unspool.tf1.shapes import Dims, TensorShape
from unspool.tf1.string_values import Strings, as_bytes, is_text
from unspool.tf1.tensor import Operators, Tensor

KNOWN = 64
"""Values of up to so many elements are followed through the building of a graph, where they may say a shape."""


def apply(
    kind: str,
    function: Callable[..., Any],
    *inputs: Any,
    name: str | None = None,
    outputs: Sequence[tuple[DType, Dims]] | None = None,
    **details: Any,
) -> Any:
    """A new operation: its output, or a list of them if the function returns several.

    Args:
        kind: TensorFlow's name for what it does.
        function: takes torch tensors for the inputs to the outputs' values.
        inputs: tensors, or what can be made into them.
        name: its name.
        outputs: the dtype and shape of each output; found by trying the function if None.
        details: see `Operation`.
    """
    if any(isinstance(each, torch.Tensor) for each in inputs):
        return function(*(as_torch(each, inputs) for each in inputs))
    graph = get_default_graph()
    read = [graph.adopt(as_tensor(each)) for each in inputs]
    found = infer(kind, function, read) if outputs is None else outputs
    operation = graph.add(kind, name, function, read, found, **details)
    for number, each in enumerate(read):
        if each.op.unnamed:
            graph.name_after(each.op, operation, "xyz"[number] if number < 3 else f"input_{number}")
    if read and not details and all(_is_clear(each) for each in read):
        _work_out(operation)
    made = list(operation.outputs)
    registered = graph.gradient_name(kind)
    if registered is not None:
        from unspool.tf1.custom_gradients import overridden

        made = overridden(operation, registered)
    return made[0] if len(made) == 1 else made


FRACTIONS, NUMBERS, TRUTHS, SUMMANDS = "fractions", "numbers", "truths", "numbers and strings"
"""What an operation may be limited to: floats, anything but bool and string, bool, anything but bool."""


def elementwise(
    kind: str,
    function: Callable[..., Any],
    *inputs: Any,
    name: str | None = None,
    dtype: DType | None = None,
    takes: str | None = None,
) -> Any:
    """An operation on tensors of one dtype that are stretched to one shape; numbers take the tensors' dtype."""
    if any(isinstance(each, torch.Tensor) for each in inputs):
        return apply(kind, function, *inputs)
    read = same_dtype(kind, *inputs)
    check_takes(kind, read[0], takes)
    shape = broadcast(kind, *(each.dims for each in read))
    return apply(kind, function, *read, name=name, outputs=[(dtype or read[0].dtype, shape)])


def check_takes(kind: str, tensor: Tensor, takes: str | None) -> None:
    """Raises `TypeError` if an operation is limited to other dtypes."""
    dtype = tensor.dtype
    fine = {
        None: True,
        FRACTIONS: dtype.is_floating or dtype.is_complex,
        NUMBERS: not dtype.is_bool and dtype.torch is not None,
        TRUTHS: dtype.is_bool,
        SUMMANDS: not dtype.is_bool,
    }[takes]
    if not fine:
        raise TypeError(f"{kind} is an operation on {takes}, but {tensor.name} is {dtype.name}; use tf.cast")


def same_dtype(kind: str, *inputs: Any) -> list[Tensor]:
    """The inputs as tensors of one dtype; `TypeError` if they have several."""
    first = next((as_tensor(each).dtype for each in inputs if isinstance(each, Operators)), None)
    if first is None:
        first = as_tensor(inputs[0]).dtype
    read = [as_tensor(each, None if isinstance(each, Operators) else first) for each in inputs]
    for each in read:
        if each.dtype is not first:
            raise TypeError(
                f"{kind}: an input has type {each.dtype.name} that does not match type {first.name} of another one; "
                "use tf.cast"
            )
    return read


def as_tensor(value: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    """The tensor that a value stands for: itself, a variable's value, or a constant.

    Raises:
        ValueError: if it is None, a tensor of another dtype, or numbers that the dtype cannot hold.
        TypeError: if no tensor can be made of it.
    """
    if isinstance(value, Operators):
        found: Tensor = value if isinstance(value, Tensor) else value._as_graph_element()  # pyright: ignore[reportAttributeAccessIssue]
        if dtype is not None and found.dtype is not as_dtype(dtype):
            wanted = as_dtype(dtype).name
            raise ValueError(
                f"Tensor conversion requested dtype {wanted} for Tensor with dtype {found.dtype.name}: {found!r}"
            )
        return found
    if isinstance(value, list | tuple) and any(isinstance(each, Operators) for each in _leaves(value)):  # pyright: ignore[reportUnknownArgumentType]
        return _packed(value, dtype, name)  # pyright: ignore[reportUnknownArgumentType]
    return constant(value, dtype, name=name or UNNAMED)


def convert_to_tensor(value: Any, dtype: Any = None, name: str | None = None, preferred_dtype: Any = None) -> Tensor:
    """The tensor that a value stands for: itself, a variable's value, or a constant.

    >>> from unspool import tf1 as tf
    >>> tf.convert_to_tensor([1.0, 2.0])
    <tf.Tensor 'Const:0' shape=(2,) dtype=float32>
    """
    return as_tensor(value, dtype, name or "Const")


def constant(
    value: Any, dtype: Any = None, shape: Any = None, name: str = "Const", verify_shape: bool = False
) -> Tensor:
    """A tensor of numbers that are known now; with a shape, a single number fills it and fewer are repeated at the end.

    >>> from unspool import tf1 as tf
    >>> tf.constant([1.0, 2.0]), tf.constant(7, shape=[2, 3]).shape
    (<tf.Tensor 'Const:0' shape=(2,) dtype=float32>, TensorShape([2, 3]))
    """
    wanted = None if dtype is None else as_dtype(dtype)
    text = wanted is string or (wanted is None and is_text(value))
    array = as_bytes(value) if text else as_array(value, wanted)
    if shape is not None:
        sizes = tuple(int(each) for each in TensorShape(shape).as_list())  # pyright: ignore[reportArgumentType]
        if verify_shape and array.shape != sizes:
            raise TypeError(f"Expected Tensor's shape: {sizes}, got {array.shape}.")
        array = _filled(array, sizes)
    if text:
        kept, kind = Strings.of(array), string
    else:
        kept = torch.from_numpy(np.ascontiguousarray(array).reshape(array.shape).copy())
        kind = as_dtype(kept.dtype) if wanted is None else wanted
        kept = kept.to(kind.torch)
    operation = get_default_graph().add(
        "Const", name, lambda run: run.placed(kept), (), [(kind, tuple(array.shape))], takes_run=True
    )
    operation.constant = kept
    tensor: Tensor = operation.outputs[0]
    if array.size <= KNOWN and not text:
        tensor.known = array
    return tensor


def as_array(value: Any, dtype: DType | None) -> np.ndarray[Any, Any]:
    """A value as an array: Python's floats are float32 and its ints int32, as in TensorFlow."""
    if value is None:
        raise ValueError("None values not supported.")
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, TensorShape):
        value = value.as_list()
    given = np.asarray(value)
    if given.dtype == object or given.dtype.kind in "USO":
        raise TypeError(f"Failed to convert {value!r} to a Tensor: it is not made of numbers")
    python = not isinstance(value, np.ndarray | np.generic)
    if dtype is None:
        if python and given.dtype == np.float64:
            return given.astype(np.float32)
        if python and given.dtype == np.int64:
            return _narrowed(given)
        return given
    wanted = np.float32 if dtype.name == "bfloat16" else dtype.as_numpy_dtype
    if python and given.size:  # arrays are rounded, as in TensorFlow
        if given.dtype.kind in "fc" and not (dtype.is_floating or dtype.is_complex):
            raise TypeError(f"Expected {dtype.name}, but got {value!r}, which has fractions")
        if given.dtype.kind != "b" and dtype.is_bool:
            raise TypeError(f"Expected {dtype.name}, but got {value!r}")
    return given.astype(wanted)


def as_torch(value: Any, others: Sequence[Any]) -> Any:
    """An argument of an operation that computes at once, as a torch tensor like the others."""
    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, Operators):
        raise TypeError(f"{value!r} is symbolic, but is given beside a torch tensor, which has its value already")
    like = next(each for each in others if isinstance(each, torch.Tensor))
    made = torch.as_tensor(value, device=like.device)
    floating = isinstance(value, float) and like.is_floating_point()
    return made.to(like.dtype) if floating or isinstance(value, int) else made


def as_sizes(shape: Any) -> Tensor:
    """A shape as a tensor of ints; `Dimension`s and tensors may stand in it."""
    if isinstance(shape, Operators):
        return as_tensor(shape)
    if isinstance(shape, TensorShape):
        if not shape.is_fully_defined():
            raise ValueError(
                f"a shape for values must be known, but is {shape}; tf.shape(x) is one when the graph runs"
            )
        shape = shape.as_list()
    entries = list(shape) if hasattr(shape, "__iter__") else [shape]
    if any(each is None or isinstance(each, float | np.floating) for each in entries):
        raise TypeError(f"a shape is made of ints, but is {entries}; tf.shape(x)[0] is a size when the graph runs")
    entries = [each if isinstance(each, Operators) else int(each) for each in entries]
    return as_tensor(entries if entries else np.zeros(0, np.int32))


def ints(sizes: Any) -> list[int]:
    """The numbers of a tensor of sizes; in a step, which has no values when it is traced, they are a list already."""
    return sizes.tolist() if isinstance(sizes, torch.Tensor) else list(sizes)


def as_axis(axis: Any) -> int | Tensor:
    """An axis: a number, if it is known when the graph is built, or else a tensor."""
    if not isinstance(axis, Operators):
        return int(axis)
    given = as_tensor(axis)
    number = known_int(given)
    return given if number is None else number


def check_axis(kind: str, axis: int, rank: int | None) -> None:
    """Raises `ValueError` if there is no such axis."""
    if rank is not None and not -rank <= axis < rank:
        raise ValueError(f"{kind}: axis {axis} is not in [{-rank}, {rank})")


def known_int(tensor: Tensor) -> int | None:
    """The whole number that a scalar will hold, if that is clear."""
    value = None if tensor.known is None else tensor.known.item()
    return None if value is None else int(value)


def known_ints(tensor: Any) -> list[int | None] | None:
    """The whole numbers that a tensor will hold, as far as they are clear; None if not even how many."""
    found = as_tensor(tensor)
    if found.known is None:
        count = found.dims[0] if found.dims is not None and len(found.dims) == 1 else None
        nothing: list[int | None] = [None] * (count or 0)
        return None if count is None else nothing
    return [None if each is None else int(each) for each in found.known.reshape(-1).tolist()]


def _leaves(value: Any) -> list[Any]:
    return [leaf for each in value for leaf in _leaves(each)] if isinstance(value, list | tuple) else [value]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def _packed(value: Any, dtype: Any, name: str | None) -> Tensor:
    """A list with tensors in it, as one tensor."""
    from unspool.tf1.ops.joining import stack

    first = next(each for each in _leaves(value) if isinstance(each, Operators))
    wanted = as_tensor(first).dtype if dtype is None else as_dtype(dtype)
    made: Tensor = stack([as_tensor(each, wanted) for each in value], name=name or "packed")
    return made


def _filled(array: np.ndarray[Any, Any], sizes: tuple[int, ...]) -> np.ndarray[Any, Any]:
    count = int(np.prod(sizes))
    if array.size > max(count, 1):
        raise ValueError(f"Too many elements provided. Needed at most {count}, but received {array.size}")
    if array.size == 0 and count:
        raise ValueError(f"no elements were provided to fill the shape {sizes}")
    flat = array.reshape(-1)[:count]
    return np.concatenate([flat, np.full(count - flat.size, flat[-1] if count else 0, flat.dtype)]).reshape(sizes)


def _narrowed(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    limits = np.iinfo(np.int32)
    fits = array.size == 0 or (array.min() >= limits.min and array.max() <= limits.max)
    return array.astype(np.int32) if fits else array


def _is_clear(tensor: Tensor) -> bool:
    return tensor.known is not None and tensor.known.dtype != object


def _work_out(operation: Any) -> None:
    """Follows small values through an operation, so that what is computed of them can say a shape."""
    if any(each.dims is None or None in each.dims or np.prod(each.dims) > KNOWN for each in operation.outputs):
        return
    values = [torch.from_numpy(np.array(each.known)).to(each.dtype.torch) for each in operation.inputs]
    try:
        made = operation.function(*values)
    except (RuntimeError, ValueError, IndexError, TypeError):
        return  # the run will tell
    for output, value in zip(operation.outputs, made if isinstance(made, list | tuple) else [made], strict=True):
        if isinstance(value, torch.Tensor) and value.dtype != torch.bfloat16:
            output.known = value.detach().numpy()
