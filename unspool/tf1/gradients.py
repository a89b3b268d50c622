"""`tf.gradients`: autograd, as an operation of the graph."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from unspool.tf1.graph import get_default_graph
from unspool.tf1.indexed_slices import IndexedSlices
from unspool.tf1.operation import Operation
from unspool.tf1.operations import apply, as_tensor
from unspool.tf1.program import needed
from unspool.tf1.tables import STOPS, Rows, SlicedGradient, current_lookups, reads
from unspool.tf1.tensor import Tensor

if TYPE_CHECKING:
    from unspool.tf1.session import Run


class AggregationMethod:
    """How TensorFlow adds gradients up: accepted by optimisers and `gradients`, and without effect."""

    ADD_N = DEFAULT = 0
    EXPERIMENTAL_TREE = 1
    EXPERIMENTAL_ACCUMULATE_N = 2


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

    Of a variable that is only read by `tf.gather` or `tf.nn.embedding_lookup`, be it inside loops, branches or cells,
    they are `IndexedSlices`.

    Args:
        ys: what is differentiated: a tensor or a list.
        xs: by what: a tensor, a variable, or a list.
        grad_ys: what each of `ys` is weighted with; ones by default.
        name: the operation's name.
        stop_gradients: tensors that are held constant, also where one of `xs` is computed from another of them.
        colocate_gradients_with_ops, gate_gradients, aggregation_method, unconnected_gradients: unused.

    >>> from unspool import tf1 as tf
    >>> x = tf.placeholder(tf.float32)
    >>> slope, = tf.gradients(x * x, x)
    >>> with tf.Session() as session:
    ...     session.run(slope, {x: 3.0})
    np.float32(6.0)
    """
    graph = get_default_graph()
    targets = [graph.adopt(as_tensor(each)) for each in _listed(ys)]
    sources = [graph.adopt(as_tensor(each)) for each in _listed(xs)]
    if stop_gradients is not None:
        with graph.name_scope(name):
            stand_ins = _held([graph.adopt(as_tensor(each)) for each in _listed(stop_gradients)], targets)
        targets, sources = ([stand_ins.get(each, each) for each in tensors] for tensors in (targets, sources))
    for each in targets:
        if not each.dtype.is_floating:
            raise TypeError(f"gradients are of floating-point tensors, but {each!r} is {each.dtype.name}")
    reached = _reached(sources, targets)
    differentiated = [each for each, connected in zip(sources, reached, strict=True) if connected]
    if not differentiated:
        return [None] * len(sources)
    weights = [None] * len(targets) if grad_ys is None else _listed(grad_ys)
    given = [as_tensor(each, target.dtype) for each, target in zip(weights, targets, strict=True) if each is not None]
    tables = {each: how for each, how in reads(targets).items() if how is not None}
    kinds = [tables.get(each) for each in differentiated]
    function = _Gradient(len(targets), [each is not None for each in weights], kinds)
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
    return [
        _slices(each, tables[x]) if each is not None and x in tables else each
        for x, each in zip(sources, made, strict=True)
    ]


class _Gradient:
    """Runs autograd on what a session has computed.

    Args:
        targets: how many tensors are differentiated.
        weighted: which of them have a weight.
        tables: for each source, how it is read, if only rows of it are.
    """

    operation: Operation

    def __init__(self, targets: int, weighted: Sequence[bool], tables: Sequence[Rows | None]) -> None:
        self._targets, self._weighted, self._tables = targets, weighted, tables

    def reads_rows(self, table: Tensor) -> bool:
        """Whether the gradient by a variable holds the rows that were read of it."""
        return self._tables[self.operation.watches.index(table)] is not None

    def comes_to(self, tensors: Sequence[Tensor], fed: Collection[Tensor]) -> list[bool]:
        """To which of these tensors a gradient of the targets comes, in a run that is fed some."""
        return _reached(tensors, self.operation.inputs[: self._targets], fed)

    def __call__(self, run: Run, *values: torch.Tensor) -> Any:
        targets, rest = values[: self._targets], iter(values[self._targets :])
        weights = [next(rest) if given else None for given in self._weighted]
        sources, lookups = list(rest), current_lookups()
        readings = [lookups.of(x) if how else [] for x, how in zip(sources, self._tables, strict=True)]
        wanted = [
            each
            for x, how, found in zip(sources, self._tables, readings, strict=True)
            for each in ([rows for _, rows in found] if how else [x])
        ]
        pairs = [
            (target, torch.ones_like(target) if weight is None else weight.expand_as(target))
            for target, weight in zip(targets, weights, strict=True)
            if target.requires_grad
        ]
        again = run.program.is_differentiated(self.operation) or self.operation.graph.outer is not None
        grads: Sequence[torch.Tensor | None] = [None] * len(wanted)
        if pairs and wanted:
            grads = torch.autograd.grad(
                [target for target, _ in pairs],
                wanted,
                [weight for _, weight in pairs],
                retain_graph=again or len(run.program.gradients) > 1,
                create_graph=again,
                allow_unused=True,
            )
        remaining, made = iter(grads), list[Any]()
        for x, how, found in zip(sources, self._tables, readings, strict=True):
            if how is None:
                grad = next(remaining)
                made.append(torch.zeros_like(x) if grad is None else grad)
                continue
            each = [(places, next(remaining)) for places, _ in found]
            # A loop may have rows at its end that nobody has read.
            parts = [(places, grad[: len(places)]) for places, grad in each if grad is not None]
            made.append(SlicedGradient(x, how, parts, passed=lookups.was_passed(x)))
        return made[0] if len(made) == 1 else made


def gradients_by(table: Tensor, operations: Iterable[Operation]) -> tuple[list[_Gradient], list[_Gradient]]:
    """Those of the operations that take gradients by the rows that are read of a table, and those by all of it."""
    found: list[Any] = [each.function for each in operations if table in each.watches]
    return [each for each in found if each.reads_rows(table)], [each for each in found if not each.reads_rows(table)]


def stop_gradient(input: Any, name: str | None = None) -> Tensor:
    """The same value, held constant by gradients."""
    return apply("StopGradient", torch.Tensor.detach, input, name=name)


def _held(stops: Sequence[Tensor], targets: Sequence[Tensor]) -> dict[Tensor, Tensor]:
    """What stands for tensors where `stops` are constants: all on the way from these to the targets is there again."""
    stand_ins = {each: stop_gradient(each) for each in stops if each.op.inputs}  # nothing comes to a gradient of others
    for operation in needed(targets, list(stand_ins)):
        read = [each for each in operation.inputs if each in stand_ins and each.dtype.is_floating]
        if not read or operation.type in STOPS or operation.effect:
            continue
        if operation.watches:
            raise NotImplementedError(
                f"stop_gradients with a gradient between them and ys, {operation.name}; use tf.stop_gradient there"
            )
        copy = operation.copied([stand_ins.get(each, each) for each in operation.inputs])
        copy.modules = operation.modules
        stand_ins.update(zip(operation.outputs, copy.outputs, strict=True))
    return stand_ins


def _reached(sources: Sequence[Tensor], targets: Sequence[Tensor], fed: Collection[Tensor] = ()) -> list[bool]:
    """Which of the sources a gradient of the targets comes to; it ends at what is fed."""
    seen: set[Tensor] = set()
    waiting = list(targets)
    while waiting:
        tensor = waiting.pop()
        if tensor in seen or not tensor.dtype.is_floating:
            continue
        seen.add(tensor)
        if tensor.op.type not in STOPS and tensor not in fed:
            waiting += tensor.op.inputs
            waiting += [each.value() for each in tensor.op.variables]
    return [each in seen for each in sources]


def _slices(gradient: Tensor, how: Rows) -> IndexedSlices:
    """The parts of a gradient that holds rows and their numbers."""
    width = None if gradient.dims is None else gradient.dims[1:]
    outputs = [(gradient.dtype, None if width is None else (None, *width)), (how.numbers, (None,))]
    values, indices = apply("IndexedSlices", lambda value: (value.rows, value.places), gradient, outputs=outputs)
    return IndexedSlices(values, indices, gradient.dims)


def _listed(values: Any) -> list[Any]:
    return list(values) if isinstance(values, list | tuple) else [values]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
