"""Gradients that programs write themselves: `tf.custom_gradient`, `tf.RegisterGradient`, `gradient_override_map`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from unspool.structure import flatten, unflatten_as
from unspool.tf1.functions import Function, Like
from unspool.tf1.graph import get_default_graph
from unspool.tf1.operation import Operation
from unspool.tf1.operations import apply, as_tensor
from unspool.tf1.ops.array import identity
from unspool.tf1.tensor import Tensor

if TYPE_CHECKING:
    from unspool.tf1.session import Run

_REGISTERED: dict[str, Callable[..., Any]] = {}


def custom_gradient(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function of tensors whose gradient is written by hand: it returns its result, and a function of the gradient.

    Args:
        f: `f(*x)` returns `(y, grad_fn)`; `grad_fn(*dy)` returns a gradient for each of `x`. If `f` uses variables,
            `grad_fn(*dy, variables=None)` returns `(dx, dvariables)`.

    Raises:
        TypeError: if `f` uses variables and `grad_fn` takes none.
        ValueError: if `grad_fn` does not return a gradient for each of `x`.

    >>> from unspool import tf1 as tf
    >>> @tf.custom_gradient
    ... def clipped(x):
    ...     return tf.identity(x), lambda dy: tf.clip_by_value(dy, -1.0, 1.0)
    >>> x = tf.constant(3.0)
    >>> tf.Session().run(tf.gradients(clipped(x) ** 2, x))
    [np.float32(1.0)]
    """

    @functools.wraps(f)
    def called(*args: Any, **kwargs: Any) -> Any:
        graph = get_default_graph()
        given = [identity(graph.adopt(as_tensor(each))) for each in args]
        known = set(graph.get_operations())
        result, gradient = f(*given, **kwargs)
        new = [each for each in graph.get_operations() if each not in known]
        read = [*(tensor.op for each in new for tensor in each.inputs), *new]
        variables = list(dict.fromkeys(variable for each in read for variable in each.variables))
        if variables and "variables" not in inspect.signature(gradient).parameters:
            raise TypeError(
                "If using @custom_gradient with a function that uses variables, then grad_fn must accept a 'variables' "
                "keyword argument."
            )

        def gradients(*dy: Tensor) -> list[Any]:
            if not variables:
                return _listed(gradient(*dy))
            inputs, others = gradient(*dy, variables=variables)
            return [*_listed(inputs), *_listed(others)]

        outputs = [as_tensor(each) for each in flatten(result)]
        sources = [*given, *(each.value() for each in variables)]
        made = with_gradient(outputs, sources, gradients)
        return unflatten_as(result, made)

    return called


class RegisterGradient:
    """Registers a function as the gradient of operations, for `Graph.gradient_override_map`.

    Args:
        op_type: its name. Gradients of operations themselves are autograd's, whatever is registered for their types.

    >>> from unspool import tf1 as tf
    >>> @tf.RegisterGradient("TurnedAround")
    ... def _turned_around(op, gradient):
    ...     return -gradient
    >>> x = tf.constant(3.0)
    >>> with tf.get_default_graph().gradient_override_map({"Identity": "TurnedAround"}):
    ...     y = tf.identity(x)
    >>> tf.Session().run(tf.gradients(y, x))
    [np.float32(-1.0)]
    """

    def __init__(self, op_type: str) -> None:
        if not isinstance(op_type, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError("op_type must be a string")
        self._name = op_type

    def __call__(self, f: Callable[..., Any]) -> Callable[..., Any]:
        """Registers `f(operation, *gradients)`, which returns a gradient for each input."""
        if self._name in _REGISTERED:
            raise KeyError(f"Registering two gradient with name '{self._name}'!")
        _REGISTERED[self._name] = f
        return f


def overridden(operation: Operation, registered: str) -> list[Tensor]:
    """The outputs of an operation, with the gradient that is registered under a name."""
    if registered not in _REGISTERED:
        raise LookupError(f"gradient registry has no entry for: {registered}")
    function = _REGISTERED[registered]
    with get_default_graph().plain_gradients():
        return with_gradient(operation.outputs, operation.inputs, lambda *dy: _listed(function(operation, *dy)))


def with_gradient(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], gradient: Callable[..., list[Any]]
) -> list[Tensor]:
    """The same values as `outputs`, of which gradients come to `inputs` by a function of symbolic tensors."""
    there: list[bool] = []

    def called(*dy: Tensor) -> list[Tensor]:
        found = gradient(*dy)
        if len(found) != len(inputs):
            raise ValueError(
                f"custom_gradient function expected to return {len(inputs)} gradients, but returned {len(found)} "
                "instead."
            )
        there[:] = [each is not None for each in found]
        return [as_tensor(each) for each in found if each is not None]

    function = Function(called, *(Like(each.dtype, each.dims) for each in outputs))
    captured = function.captured
    count, last = len(outputs), len(outputs) + len(inputs)

    def compute(run: Run, *values: torch.Tensor) -> Any:
        def backward(dy: Sequence[torch.Tensor], around: Sequence[torch.Tensor]) -> list[torch.Tensor | None]:
            made = iter(function(run, [*dy, *around]))
            return [next(made) if each else None for each in there]

        ys = [each.detach() for each in values[:count]]
        made: Any = _Custom.apply(backward, (count, last), *ys, *values[count:])
        return made[0] if count == 1 else list(made)

    read = [*outputs, *inputs, *captured]
    made = apply("IdentityN", compute, *read, outputs=[(each.dtype, each.dims) for each in outputs], takes_run=True)
    return [made] if isinstance(made, Tensor) else made


class _Custom(torch.autograd.Function):
    """The values of outputs; gradients for inputs, which a function makes of captured tensors."""

    @staticmethod
    def forward(ctx: Any, backward: Any, counts: tuple[int, int], *values: torch.Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx.backward_of, ctx.counts = backward, counts
        ctx.save_for_backward(*values[counts[1] :])
        return tuple(each.view_as(each) for each in values[: counts[0]])

    @staticmethod
    def backward(ctx: Any, *dy: torch.Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        around = ctx.saved_tensors
        made = ctx.backward_of(dy, around)
        return (None, None, *[None] * ctx.counts[0], *made, *[None] * len(around))


def _listed(made: Any) -> list[Any]:
    return list(made) if isinstance(made, list | tuple) else [made]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
