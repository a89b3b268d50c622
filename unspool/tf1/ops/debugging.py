"""Looking into a graph while it runs: printing, and functions of NumPy arrays."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from unspool.tf1.dtypes import as_dtype, string
from unspool.tf1.errors import of_python
from unspool.tf1.operations import apply, as_tensor
from unspool.tf1.string_values import Strings, is_text

__all__ = [
    "py_func",
]


def print_(
    input_: Any,
    data: Sequence[Any],
    message: str | None = None,
    first_n: int | None = None,
    summarize: int | None = None,
    name: str | None = None,
) -> Any:
    """The same tensor; whenever it is computed, the data are printed to standard error (`tf.Print`).

    Args:
        input_: the tensor that passes through, with its gradient.
        data: the tensors to print.
        message: what to print before them.
        first_n: how many times at most.
        summarize: how many numbers of each; 3 by default.
        name: the operation's name.
    """
    given, shown = as_tensor(input_), [as_tensor(each) for each in data]
    most = 3 if summarize is None else summarize
    count = 0

    def show(run: Any, value: torch.Tensor, *values: torch.Tensor) -> torch.Tensor:
        nonlocal count
        count += 1
        if first_n is None or first_n < 0 or count <= first_n:
            print((message or "") + "".join(brief(each, most) for each in values), file=sys.stderr)
        return value

    outputs = [(given.dtype, given.dims)]
    return apply("Print", show, given, *shown, name=name, outputs=outputs, takes_run=True)


def brief(value: torch.Tensor, most: int) -> str:
    """The first elements of a tensor, as TensorFlow shows them."""
    if isinstance(value, Strings):
        words = [each.decode("utf-8", "replace") for each in value.array().reshape(-1).tolist()]
        shown = words if most < 0 else words[:most]
        return f"[{' '.join(shown)}{'...' if len(shown) < len(words) else ''}]"
    flat = value.detach().reshape(-1)
    numbers = flat.tolist() if most < 0 else flat[:most].tolist()
    words = " ".join(f"{each:g}" if isinstance(each, float) else str(int(each)) for each in numbers)
    return f"[{words}{'...' if len(numbers) < len(flat) else ''}]"


def py_func(func: Callable[..., Any], inp: Sequence[Any], Tout: Any, stateful: bool = True, name: Any = None) -> Any:  # noqa: N803
    """What a Python function of NumPy arrays returns when the graph runs; no gradient goes through it.

    Args:
        func: takes arrays to an array, or to a sequence of them.
        inp: the tensors whose values it takes.
        Tout: the dtype of what it returns, or a list of them.
        stateful: accepted; it is called whenever its result is needed.
        name: the operation's name.

    Raises:
        InvalidArgumentError: in a run, if it returns other dtypes, or not as many arrays, or raises `ValueError` or
            `TypeError`. Other errors of the function are `UnknownError`s, but `StopIteration` is `OutOfRangeError`.

    >>> from unspool import tf1 as tf
    >>> tf.Session().run(tf.py_func(np.sort, [tf.constant([3, 1, 2])], tf.int32))
    array([1, 2, 3], dtype=int32)
    """
    several = isinstance(Tout, list | tuple)
    kinds = [as_dtype(each) for each in (Tout if several else [Tout])]

    def call(run: Any, *values: torch.Tensor) -> Any:
        try:
            made = func(*(_as_argument(each) for each in values))
        except Exception as error:
            raise of_python(error) from error
        arrays = [] if made is None else list(made) if isinstance(made, list | tuple) else [made]
        if len(arrays) != len(kinds):
            raise ValueError(f"{_called(func)} returned {len(arrays)} values, but Tout has {len(kinds)}")
        found: list[torch.Tensor] = []
        for place, (each, kind) in enumerate(zip(arrays, kinds, strict=True)):
            value = Strings.of(each) if is_text(each) or kind is string else torch.from_numpy(np.array(each))
            if isinstance(value, Strings) != (kind is string) or (kind is not string and value.dtype != kind.torch):
                given = "string" if isinstance(value, Strings) else as_dtype(value.dtype).name
                raise ValueError(f"{place}-th value returned by {_called(func)} is {given}, but expects {kind.name}")
            found.append(value.to(run.state.device))
        return found[0] if len(found) == 1 else found

    outputs = [(kind, None) for kind in kinds]
    made = apply("PyFunc", call, *inp, name=name, outputs=outputs, takes_run=True)
    return [made] if several and len(kinds) == 1 else made


def _as_argument(value: torch.Tensor) -> Any:
    """A value as the function takes it: an array, or the bytes of a single string."""
    if isinstance(value, Strings):
        return value.array()[()]
    return value.detach().cpu().numpy()


def _called(func: Any) -> str:
    return getattr(func, "__name__", "the function")
