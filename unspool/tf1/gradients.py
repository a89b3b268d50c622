"""`tf.gradients`: autograd, as an operation of the graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from unspool.tf1.dtypes import DType
from unspool.tf1.graph import Operation, get_default_graph
from unspool.tf1.indexed_slices import IndexedSlices
from unspool.tf1.operations import apply, as_tensor
from unspool.tf1.tensor import Tensor

if TYPE_CHECKING:
    from unspool.tf1.session import Run

STOPS = frozenset(
    [
        "StopGradient",
        "Const",
        "Shape",
        "Size",
        "Rank",
        "ZerosLike",
        "OnesLike",
        "Range",
        "Floor",
        "Ceil",
        "Round",
        "FloorDiv",
        "zero_fraction",
        "PyFunc",
    ]
)
"""Operations that no gradient goes through."""

TABLE_LOOKUP = "ResourceGather"
"""The operation that reads rows of a variable: its gradient holds these alone."""


def gradients(
    ys: Any,
    xs: Any,
    grad_ys: Any = None,
    name: str = "gradients",
    colocate_gradients_with_ops: bool = False,
    gate_gradients: bool = False,
    aggregation_method: Any = None,
    stop_gradients: Any = None,
    unconnected_gradients: Any = None,
) -> list[Any]:
    """The gradients of the sum of `ys` by each of `xs`; None for those that the sum does not depend on.

    Of a variable that is only read by `tf.gather` or `tf.nn.embedding_lookup`, they are `IndexedSlices`.

    Args:
        ys: what is differentiated: a tensor or a list.
        xs: by what: a tensor, a variable, or a list.
        grad_ys: what each of `ys` is weighted with; ones by default.
        name: the operation's name.
        stop_gradients: tensors that are held constant.
        colocate_gradients_with_ops, gate_gradients, aggregation_method, unconnected_gradients: unused.

    >>> from unspool import tf1 as tf
    >>> x = tf.placeholder(tf.float32)
    >>> slope, = tf.gradients(x * x, x)
    >>> with tf.Session() as session:
    ...     session.run(slope, {x: 3.0})
    np.float32(6.0)
    """
    if stop_gradients:
        raise NotImplementedError("stop_gradients is not supported; use tf.stop_gradient where the graph is built")
    graph = get_default_graph()
    targets = [graph.adopt(as_tensor(each)) for each in _listed(ys)]
    sources = [graph.adopt(as_tensor(each)) for each in _listed(xs)]
    for each in targets:
        if not each.dtype.is_floating:
            raise TypeError(f"gradients are of floating-point tensors, but {each!r} is {each.dtype.name}")
    reached = _reached(sources, targets)
    differentiated = [each for each, connected in zip(sources, reached, strict=True) if connected]
    if not differentiated:
        return [None] * len(sources)
    weights = [None] * len(targets) if grad_ys is None else _listed(grad_ys)
    given = [as_tensor(each, target.dtype) for each, target in zip(weights, targets, strict=True) if each is not None]
    function = _Gradient(len(targets), [each is not None for each in weights])
    made = apply(
        "Gradients",
        function,
        *targets,
        *given,
        *differentiated,
        name=name,
        outputs=[(each.dtype, each.dims) for each in differentiated],
        takes_run=True,
        watches=differentiated,
    )
    operation: Operation = (made if isinstance(made, Tensor) else made[0]).op
    function.operation = operation
    found = iter(operation.outputs)
    made = [next(found) if connected else None for connected in reached]
    tables = _read_as_tables(sources, targets)
    return [
        _slices(each, tables[x]) if each is not None and x in tables else each
        for x, each in zip(sources, made, strict=True)
    ]


class _Gradient:
    """Runs autograd on what a session has computed."""

    operation: Operation

    def __init__(self, targets: int, weighted: Sequence[bool]) -> None:
        self._targets, self._weighted = targets, weighted

    def __call__(self, run: Run, *values: torch.Tensor) -> Any:
        targets, rest = values[: self._targets], iter(values[self._targets :])
        weights = [next(rest) if given else None for given in self._weighted]
        sources = list(rest)
        pairs = [
            (target, torch.ones_like(target) if weight is None else weight.expand_as(target))
            for target, weight in zip(targets, weights, strict=True)
            if target.requires_grad
        ]
        again = run.program.is_differentiated(self.operation) or self.operation.graph.outer is not None
        found: Sequence[torch.Tensor | None] = [None] * len(sources)
        if pairs:
            found = torch.autograd.grad(
                [target for target, _ in pairs],
                sources,
                [weight for _, weight in pairs],
                retain_graph=again or len(run.program.gradients) > 1,
                create_graph=again,
                allow_unused=True,
            )
        made = [torch.zeros_like(x) if grad is None else grad for x, grad in zip(sources, found, strict=True)]
        return made[0] if len(made) == 1 else made


def stop_gradient(input: Any, name: str | None = None) -> Tensor:
    """The same value, held constant by gradients."""
    return apply("StopGradient", torch.Tensor.detach, input, name=name)


def _reached(sources: Sequence[Tensor], targets: Sequence[Tensor]) -> list[bool]:
    """Which of the sources a gradient of the targets comes to."""
    seen: set[Tensor] = set()
    waiting = list(targets)
    while waiting:
        tensor = waiting.pop()
        if tensor in seen or not tensor.dtype.is_floating:
            continue
        seen.add(tensor)
        if tensor.op.type not in STOPS:
            waiting += tensor.op.inputs
            waiting += [each.value() for each in tensor.op.variables]
    return [each in seen for each in sources]


def _needed(targets: Sequence[Tensor]) -> list[Operation]:
    """All operations that the targets depend on."""
    found: dict[Operation, None] = {}
    waiting = [each.op for each in targets]
    while waiting:
        operation = waiting.pop()
        if operation not in found:
            found[operation] = None
            waiting += [each.op for each in operation.inputs]
    return list(found)


def _read_as_tables(sources: Sequence[Tensor], targets: Sequence[Tensor]) -> dict[Tensor, DType]:
    """The variables among the sources of which the targets read only rows, with the dtype of the rows' numbers."""
    tables = {each for each in sources if each.op.type == "VariableV2"}
    found: dict[Tensor, DType] = {}
    for operation in _needed(targets):
        looks_up = operation.type == TABLE_LOOKUP
        if looks_up:
            found[operation.inputs[0]] = operation.inputs[1].dtype
        whole = [each.value() for each in operation.variables if operation.type != "VariableV2"]
        tables -= {*operation.inputs[1 if looks_up else 0 :], *whole}
    return {each: found[each] for each in tables if each in found}


def _slices(gradient: Tensor, numbers: DType) -> IndexedSlices:
    """The parts of a gradient that holds rows and their numbers."""

    def parts(value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if value.is_sparse:
            return value._values(), value._indices()[0].to(numbers.torch)
        rows = torch.arange(len(value), device=value.device, dtype=numbers.torch)
        return value, rows  # no row was read: all of them are zero

    width = None if gradient.dims is None else gradient.dims[1:]
    outputs = [(gradient.dtype, None if width is None else (None, *width)), (numbers, (None,))]
    values, indices = apply("IndexedSlices", parts, gradient, outputs=outputs)
    return IndexedSlices(values, indices, gradient.dims)


def _listed(values: Any) -> list[Any]:
    return list(values) if isinstance(values, list | tuple) else [values]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
