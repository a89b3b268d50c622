"""Programs: the parts of a plan as straight-line instructions on values, which emitters take.

Instructions are of few kinds. Values are tensors with one row for each row of the batch, but for the `shared` ones,
which are the same for all rows.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch
from torch import fx

from unspool.engine import ops
from unspool.engine.partition.split import Part
from unspool.engine.rows.labels import SHARED, SUMMED, Axis, Label
from unspool.engine.trace.graph import is_several, is_size, number, source_of, value


class Kind(Enum):
    """What an instruction does, which says how it can be emitted."""

    PRODUCT = "product"
    """A matrix product: of rows with a shared matrix, or, batched, of two values that both have rows."""
    POINTWISE = "pointwise"
    """Each element from the elements in the same place."""
    REDUCTION = "reduction"
    """Elements of one row meet: sums, softmax, variances."""
    VIEW = "view"
    """The same elements under other indices: slices, reshapes, concatenations."""
    OTHER = "other"
    """Anything else; `ops` says whether it has a lowering."""


@dataclass(frozen=True)
class Value:
    """A tensor of a program.

    Args:
        name: its name in the program.
        shape: its shape without the rows.
        dtype: its dtype.
        shared: whether it has no rows at all.
        axis: where the rows are, if they are not in front.
        times: how many entries of that axis a row has.
        interleaved: whether the entries of a row do not lie next to each other there.
    """

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    shared: bool = False
    axis: int = 0
    times: int = 1
    interleaved: bool = False

    def __str__(self) -> str:
        return self.name

    @property
    def type(self) -> str:
        """How it is printed where it is introduced."""
        return f"{self.name}: {str(self.dtype).removeprefix('torch.')}[{', '.join(map(str, self.sizes))}]"

    @property
    def local_shape(self) -> tuple[int, ...]:
        """Its shape with a single row."""
        return tuple(size.times if isinstance(size, RowCount) else size for size in self.sizes)

    @property
    def sizes(self) -> list[int | RowCount]:
        """Its shape, with the rows."""
        sizes: list[int | RowCount] = list(self.shape)
        if not self.shared:
            sizes.insert(self.axis, RowCount(self.times))
        return sizes


@dataclass(frozen=True)
class RowCount:
    """A multiple of the number of rows, where an operation is told a size."""

    times: int = 1

    def __str__(self) -> str:
        return "rows" if self.times == 1 else f"{self.times} rows"


@dataclass(frozen=True, eq=False)
class Instruction:
    """`results = operation(*arguments, **options)`. Arguments are values, numbers, sizes, and lists of these."""

    kind: Kind
    operation: Any
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    results: tuple[Value, ...]
    source: str = ""
    """The line of the user's code that it came from."""

    @property
    def name(self) -> str:
        """What the operation is called."""
        return operation_name(self.operation)

    def __str__(self) -> str:
        arguments = [*map(_text, self.arguments), *(f"{key}={_text(each)}" for key, each in self.options.items())]
        results = ", ".join(result.type for result in self.results)
        return f"{results} = {self.name}({', '.join(arguments)})"

    def uses(self) -> list[Value]:
        """The values among the arguments."""
        return _values([*self.arguments, *self.options.values()])


@dataclass(frozen=True)
class Program:
    """`outputs` from `inputs`."""

    inputs: tuple[Value, ...]
    instructions: tuple[Instruction, ...]
    outputs: tuple[Value, ...]

    def __str__(self) -> str:
        return (
            f"({', '.join(each.type for each in self.inputs)})\n{listing(self.instructions)}"
            f"  return {', '.join(map(str, self.outputs))}\n"
        )

    def count(self, kind: Kind) -> int:
        """How many instructions are of that kind."""
        return sum(each.kind is kind for each in self.instructions)


def listing(instructions: Sequence[Instruction]) -> str:
    """Instructions, one a line, with their kinds beside them."""
    width = max([len(str(each)) for each in instructions], default=0)
    return "".join(f"  {each!s:<{width}}  # {each.kind.value}\n" for each in instructions)


def can_run(instructions: Iterable[Instruction], known: Iterable[Value]) -> list[Instruction]:
    """Those that can run, one after another, once these values are known."""
    have = set(known)
    found: list[Instruction] = []
    for each in instructions:
        if have.issuperset(each.uses()):
            found.append(each)
            have.update(each.results)
    return found


def lower_part(part: Part, labels: dict[fx.Node, Label]) -> Program:
    """A part as a program. Its values have the names of the part's nodes."""
    values = {node: as_value(node, labels) for node in part.inputs}

    def argument(each: Any) -> Any:
        if isinstance(each, fx.Node):
            return _rows(each) if is_size(each) else values[each]
        if is_several(each):
            return [argument(item) for item in each]
        return each

    instructions: list[Instruction] = []
    for node in part.nodes:
        if node.target is operator.getitem:
            continue  # one of the results of another instruction
        several = {number(user, 1): user for user in node.users if user.target is operator.getitem}
        values.update((each, as_value(each, labels)) for each in several.values())
        if several:
            unused = Value("_", (), torch.float32)
            numbers = range(len(value(node)))
            results = tuple(values[several[k]] if k in several else unused for k in numbers)
        else:
            values[node] = as_value(node, labels)
            results = (values[node],)
        options = {key: argument(each) for key, each in node.kwargs.items()}
        arguments = tuple(argument(each) for each in node.args)
        kind = _KINDS.get(ops.kind_of(node.target), Kind.OTHER)
        instructions.append(Instruction(kind, node.target, arguments, options, results, source_of(node)))
    inputs = tuple(values[node] for node in part.inputs)
    return Program(inputs, tuple(instructions), tuple(values[node] for node in part.outputs))


def as_value(node: fx.Node, labels: dict[fx.Node, Label]) -> Value:
    """The value that a node computes."""
    label = labels[node]
    shape = tuple(size for size in value(node).shape if isinstance(size, int))
    axis, times = (label.index, label.inner * label.outer) if isinstance(label, Axis) else (0, 1)
    interleaved = isinstance(label, Axis) and label.outer > 1
    return Value(node.name, shape, value(node).dtype, label in (SHARED, SUMMED), axis, times, interleaved)


_KINDS = {
    ops.OpKind.PRODUCT: Kind.PRODUCT,
    ops.OpKind.VIEW: Kind.VIEW,
    ops.OpKind.REDUCTION: Kind.REDUCTION,
    ops.OpKind.POINTWISE: Kind.POINTWISE,
    ops.OpKind.COMPARISON: Kind.POINTWISE,
    ops.OpKind.CAST: Kind.POINTWISE,
}
"""Kinds of instructions, by those of their operations; others are OTHER."""


def _rows(node: fx.Node) -> RowCount:
    """What a size is in rows."""
    return RowCount() if node.op == "placeholder" else RowCount(number(node, 1))


def _values(argument: Any) -> list[Value]:
    if is_several(argument):
        return [found for each in argument for found in _values(each)]
    return [argument] if isinstance(argument, Value) else []


def _text(argument: Any) -> str:
    if is_several(argument):
        return f"[{', '.join(_text(each) for each in argument)}]"
    return str(argument)


def operation_name(operation: Any) -> str:
    """What an operation is called, without its overload."""
    return str(operation).removeprefix("aten.").split(".")[0].lstrip("_")
