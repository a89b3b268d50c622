"""Checks that run with the graph: of conditions, of ranks, of numbers that are not finite."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from unspool.tf1.dtypes import bool_
from unspool.tf1.graph import get_default_graph
from unspool.tf1.operation import Operation
from unspool.tf1.operations import apply, as_tensor, same_dtype
from unspool.tf1.shapes import described
from unspool.tf1.variables import group

__all__ = [
    "add_check_numerics_ops",
    "assert_equal",
    "assert_greater",
    "assert_greater_equal",
    "assert_less",
    "assert_less_equal",
    "assert_negative",
    "assert_non_negative",
    "assert_non_positive",
    "assert_none_equal",
    "assert_positive",
    "assert_rank",
    "check_numerics",
    "verify_tensor_all_finite",
]


def _check(
    kind: str,
    words: str,
    holds: Callable[..., torch.Tensor],
    read: Sequence[Any],
    data: Sequence[Any] | None,
    message: str | None,
    name: str | None,
) -> Operation:
    """An operation that fails unless `holds` is true of every element."""
    given = [as_tensor(each) for each in read]
    shown = [each if isinstance(each, str) else as_tensor(each) for each in (given if data is None else data)]
    texts = [each if isinstance(each, str) else None for each in shown]
    numbers = [each for each in shown if not isinstance(each, str)]

    def check(run: Any, *values: torch.Tensor) -> torch.Tensor:
        truth = holds(*values[: len(given)])
        if not bool(truth.all()):
            rest = iter(values[len(given) :])
            parts = [next(rest).tolist() if text is None else text for text in texts]
            raise ValueError(
                f"assertion failed: {message or ''}{' ' * bool(message)}Condition {words} did not hold: {parts}"
            )
        return truth

    outputs = [(bool_, None)]
    return apply(kind, check, *given, *numbers, name=name, outputs=outputs, takes_run=True).op


def _pairwise(kind: str, sign: str, holds: Callable[..., torch.Tensor]) -> Callable[..., Operation]:
    def call(
        x: Any, y: Any, data: Any = None, summarize: int | None = None, message: str | None = None, name: Any = None
    ) -> Operation:
        given = same_dtype(kind, x, y)
        return _check(kind, f"x {sign} y", holds, given, data, message, name or kind)

    call.__name__ = call.__qualname__ = kind
    call.__doc__ = (
        f"An operation that fails unless `x {sign} y` everywhere; a `control_dependencies` makes others wait."
    )
    return call


def _single(kind: str, sign: str, holds: Callable[..., torch.Tensor]) -> Callable[..., Operation]:
    def call(
        x: Any, data: Any = None, summarize: int | None = None, message: str | None = None, name: Any = None
    ) -> Operation:
        return _check(kind, f"x {sign} 0", holds, [x], data, message, name or kind)

    call.__name__ = call.__qualname__ = kind
    call.__doc__ = f"An operation that fails unless `x {sign} 0` everywhere."
    return call


assert_equal = _pairwise("assert_equal", "==", torch.eq)
assert_none_equal = _pairwise("assert_none_equal", "!=", torch.ne)
assert_less = _pairwise("assert_less", "<", torch.lt)
assert_less_equal = _pairwise("assert_less_equal", "<=", torch.le)
assert_greater = _pairwise("assert_greater", ">", torch.gt)
assert_greater_equal = _pairwise("assert_greater_equal", ">=", torch.ge)
assert_positive = _single("assert_positive", ">", lambda x: x > 0)
assert_negative = _single("assert_negative", "<", lambda x: x < 0)
assert_non_negative = _single("assert_non_negative", ">=", lambda x: x >= 0)
assert_non_positive = _single("assert_non_positive", "<=", lambda x: x <= 0)


def assert_rank(
    x: Any, rank: int, data: Any = None, summarize: int | None = None, message: str | None = None, name: Any = None
) -> Operation:
    """An operation that fails unless a tensor has so many axes; `ValueError` at once if that is known already.

    >>> from unspool import tf1 as tf
    >>> tf.assert_rank(tf.zeros([2, 3]), 3)
    Traceback (most recent call last):
    ValueError: Tensor zeros:0 must have rank 3, but has rank 2, with shape (2, 3)
    """
    given = as_tensor(x)
    if given.dims is not None and len(given.dims) != rank:
        raise ValueError(
            f"{message + ': ' if message else ''}Tensor {given.name} must have rank {rank}, but has rank "
            f"{len(given.dims)}, with shape {described(given.dims)}"
        )
    holds: Callable[[torch.Tensor], torch.Tensor] = lambda value: torch.tensor(value.ndim == rank)  # noqa: E731
    return _check("assert_rank", f"rank(x) == {rank}", holds, [given], data, message, name or "assert_rank")


def check_numerics(tensor: Any, message: str, name: str | None = None) -> Any:
    """The same tensor; an error if it has numbers that are not finite.

    >>> from unspool import tf1 as tf
    >>> try:
    ...     tf.Session().run(tf.check_numerics(tf.log(tf.constant([0.0])), "the loss"))
    ... except tf.errors.InvalidArgumentError as error:
    ...     print(error.message.splitlines()[0])
    the loss : Tensor had Inf values
    """
    given = as_tensor(tensor)

    def check(run: Any, value: torch.Tensor) -> torch.Tensor:
        if not bool(torch.isfinite(value).all()):
            found = [word for word, test in (("Inf", torch.isinf), ("NaN", torch.isnan)) if bool(test(value).any())]
            raise ValueError(f"{message} : Tensor had {' and '.join(found)} values")
        return value

    outputs = [(given.dtype, given.dims)]
    return apply("CheckNumerics", check, given, name=name, outputs=outputs, takes_run=True)


def verify_tensor_all_finite(t: Any, msg: str, name: str | None = None) -> Any:
    """`check_numerics`."""
    return check_numerics(t, msg, name)


def add_check_numerics_ops() -> Operation:
    """An operation that checks everything in the graph that changes no variable, and names what is not finite.

    Raises:
        InvalidArgumentError: in a run, with the name of the first tensor that has such numbers.
    """
    late: set[Operation] = set()
    checks: list[Any] = []
    for each in get_default_graph().get_operations():
        before = [*each.control_inputs, *(tensor.op for tensor in each.inputs)]
        if each.effect or any(one in late for one in before):
            late.add(each)
            continue
        checks += [check_numerics(tensor, tensor.name) for tensor in each.outputs if tensor.dtype.is_floating]
    return group(*checks)
