"""How functions of one kind are made: elementwise ones, of one tensor or of two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from unspool.tf1.dtypes import DType
from unspool.tf1.operations import apply, as_tensor, check_takes, elementwise


def unary(
    kind: str,
    function: Callable[[torch.Tensor], torch.Tensor],
    what: str,
    takes: str | None = None,
    dtype: DType | None = None,
) -> Callable[..., Any]:
    """An elementwise function of one tensor."""

    def call(x: Any, name: str | None = None) -> Any:
        if isinstance(x, torch.Tensor):
            return function(x)
        given = as_tensor(x)
        check_takes(kind, given, takes)
        return apply(kind, function, given, name=name, outputs=[(dtype or given.dtype, given.dims)])

    return documented(call, kind, what)


def binary(
    kind: str,
    function: Callable[..., torch.Tensor],
    what: str,
    takes: str | None = None,
    dtype: DType | None = None,
    default_name: str | None = None,
) -> Callable[..., Any]:
    """An elementwise function of two tensors."""

    def call(x: Any, y: Any, name: str | None = None) -> Any:
        return elementwise(kind, function, x, y, name=name or default_name, dtype=dtype, takes=takes)

    return documented(call, kind, what)


def documented(call: Callable[..., Any], kind: str, what: str) -> Callable[..., Any]:
    """The function, with a docstring and a name."""
    call.__doc__ = what
    call.__name__ = call.__qualname__ = kind
    return call
