"""The core of a loop in lowered form: what every emitter takes.

A `Core` is a short straight program for one step. Its instructions are of few kinds, and its values are tensors with
one row for each row of the batch, but for the `shared` ones, which are the same for all rows and steps.
"""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import torch
from torch import fx

from unspool.engine.graph import aten, is_pointwise, is_size, value
from unspool.engine.reasons import CannotPlanError
from unspool.engine.rows import SHARED, SUMMED, Axis, Label
from unspool.engine.split import Split


class Kind(Enum):
    """What an instruction does, which says how it can be emitted."""

    PRODUCT = "product"
    """Rows times a shared matrix."""
    POINTWISE = "pointwise"
    """Each element from the elements in the same place."""
    REDUCTION = "reduction"
    """Elements of one row meet: sums, softmax, variances."""
    VIEW = "view"
    """The same elements under other indices: slices, reshapes, concatenations."""
    OTHER = "other"
    """Anything else; only the interpreter runs it."""


@dataclass(frozen=True)
class Value:
    """A tensor of the core.

    Args:
        name: its name in the core.
        shape: its shape without the rows.
        dtype: its dtype.
        shared: whether it has no rows at all.
        axis: where the rows are, if they are not in front.
        times: how many entries of that axis a row has.
    """

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    shared: bool = False
    axis: int = 0
    times: int = 1

    def __str__(self) -> str:
        return self.name

    @property
    def type(self) -> str:
        """How it is printed where it is introduced."""
        sizes = list(map(str, self.shape))
        if not self.shared:
            sizes.insert(self.axis, str(Rows(self.times)))
        return f"{self.name}: {str(self.dtype).removeprefix('torch.')}[{', '.join(sizes)}]"


@dataclass(frozen=True)
class Instruction:
    """`results = operation(*arguments, **options)`. Arguments are values, numbers, lists of these, and sizes."""

    kind: Kind
    operation: Any
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    results: tuple[Value, ...]
    source: str = field(default="", compare=False)

    def __str__(self) -> str:
        name = str(self.operation).removeprefix("aten.").split(".")[0]
        arguments = [*map(_text, self.arguments), *(f"{key}={_text(each)}" for key, each in self.options.items())]
        results = ", ".join(result.type for result in self.results)
        return f"{results} = {name}({', '.join(arguments)})"


@dataclass(frozen=True)
class Rows:
    """A multiple of the number of rows, where an operation is told a size."""

    times: int = 1

    def __str__(self) -> str:
        return "rows" if self.times == 1 else f"{self.times} rows"


@dataclass(frozen=True)
class Core:
    """One step: `new_carried` and `emitted` from `carried`, `streamed` and `shared`.

    Args:
        carried: what is taken over from the step before.
        streamed: what *before* has computed for this step, or the caller has given.
        shared: the same for all steps.
        instructions: what to compute, in order.
        new_carried: what is handed on, in the order of `carried`; None for zeros.
        emitted: what is collected at every step.
    """

    carried: tuple[Value, ...]
    streamed: tuple[Value, ...]
    shared: tuple[Value, ...]
    instructions: tuple[Instruction, ...]
    new_carried: tuple[Value | None, ...]
    emitted: tuple[Value, ...]

    def __str__(self) -> str:
        head = "; ".join(", ".join(each.type for each in group) for group in (self.carried, self.streamed, self.shared))
        width = max([len(str(each)) for each in self.instructions], default=0)
        body = "".join(f"  {each!s:<{width}}  # {each.kind.value}\n" for each in self.instructions)
        carry, emit = ", ".join(map(str, self.new_carried)), ", ".join(map(str, self.emitted))
        return f"core({head}):\n{body}  carry {carry}\n" + (f"  emit {emit}\n" if emit else "")

    def count(self, kind: Kind) -> int:
        """How many instructions are of that kind."""
        return sum(each.kind is kind for each in self.instructions)


TORCH = str(Path(torch.__file__).parent)
PRODUCTS = {aten.mm.default, aten.bmm.default, aten.mv.default}
REDUCTIONS = {
    aten.sum.dim_IntList,
    aten.mean.dim,
    aten.amax.default,
    aten.amin.default,
    aten.var.correction,
    aten.var_mean.correction,
    aten.logsumexp.default,
    aten._softmax.default,
    aten._log_softmax.default,
    aten._softmax_backward_data.default,
    aten._log_softmax_backward_data.default,
    aten.linalg_vector_norm.default,
}
VIEWS = {
    aten.slice.Tensor,
    aten.select.int,
    aten.split_with_sizes.default,
    aten.split.Tensor,
    aten.unbind.int,
    aten.reshape.default,
    aten.t.default,
    aten.transpose.int,
    aten.permute.default,
    aten.unsqueeze.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.expand.default,
    aten.cat.default,
    aten.stack.default,
    aten.slice_backward.default,
}


def lower(split: Split, labels: dict[fx.Node, Label]) -> Core:
    """The core of `split` as a program."""
    values: dict[fx.Node, Value] = {}

    def introduce(node: fx.Node) -> Value:
        label = labels[node]
        shape = tuple(size for size in value(node).shape if isinstance(size, int))
        rows = {"axis": label.index, "times": label.inner} if isinstance(label, Axis) else {}
        if isinstance(label, Axis) and label.outer > 1 and (node in split.core.inputs or node in split.core.outputs):
            raise CannotPlanError(f"{node.name} has its rows interleaved with another axis at the border of the loop")
        if label == SUMMED:
            raise CannotPlanError(f"{node.name} sums over rows in the middle of the loop")
        values[node] = Value(node.name, shape, value(node).dtype, label == SHARED, **rows)
        return values[node]

    def argument(each: Any) -> Any:
        if isinstance(each, fx.Node):
            return values[each] if not is_size(each) else _rows(each)
        if isinstance(each, tuple | list):
            return [argument(item) for item in each]  # pyright: ignore[reportUnknownVariableType]
        return each

    carried = tuple(introduce(node) for node in split.carried)
    outside = [node for node in split.core.inputs if node not in split.carried]
    shared = tuple(introduce(node) for node in outside if labels[node] == SHARED)
    streamed = tuple(introduce(node) for node in outside if labels[node] != SHARED)
    instructions: list[Instruction] = []
    for node in split.core.nodes:
        if node.target is operator.getitem:
            continue  # a result of the instruction before it
        several = [user for user in node.users if user.target is operator.getitem]
        if several:
            count = len(value(node))
            named = {int(user.args[1]): introduce(user) for user in several if user in split.core.nodes}  # pyright: ignore
            results = [named.get(k) or Value(f"{node.name}_{k}", (), torch.float32) for k in range(count)]
        else:
            results = [introduce(node)]
        options = {key: argument(each) for key, each in node.kwargs.items()}
        arguments = tuple(argument(each) for each in node.args)
        instructions.append(Instruction(_kind(node), node.target, arguments, options, tuple(results), source_of(node)))
    return Core(
        carried,
        streamed,
        shared,
        tuple(instructions),
        tuple(None if node is None else values[node] for node in split.new_carried),
        tuple(values[node] for node in split.core.outputs),
    )


def _kind(node: fx.Node) -> Kind:
    if node.target in PRODUCTS:
        return Kind.PRODUCT
    if node.target in VIEWS:
        return Kind.VIEW
    if node.target in REDUCTIONS:
        return Kind.REDUCTION
    return Kind.POINTWISE if is_pointwise(node) or node.target is aten._to_copy.default else Kind.OTHER


def _rows(node: fx.Node) -> Rows:
    """What a size is in rows."""
    return Rows() if node.op == "placeholder" else Rows(int(node.args[1]))  # pyright: ignore[reportArgumentType]


def _text(argument: Any) -> str:
    if isinstance(argument, list):
        return f"[{', '.join(map(_text, argument))}]"  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return str(argument)


def source_of(node: fx.Node) -> str:
    """The line of the user's code that a node came from: the innermost one outside of torch."""
    frames = re.findall(r'File "(.*)", line \d+, in .*\n +(.*)', node.meta.get("stack_trace", ""))
    return next((line for file, line in reversed(frames) if not file.startswith(TORCH)), "")
