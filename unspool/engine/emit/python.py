"""Programs as Python functions that call torch, one instruction after another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch

from unspool.engine.ir.program import Instruction, Program, RowCount, Value
from unspool.engine.trace.graph import aten, is_several

INFIX = {aten.add.Tensor: "+", aten.sub.Tensor: "-", aten.mul.Tensor: "*", aten.div.Tensor: "/"}
CALLS = {
    aten.mm.default: "torch.mm",
    aten.addmm.default: "torch.addmm",
    aten.addcmul.default: "torch.addcmul",
    aten.bmm.default: "torch.bmm",
    aten.sigmoid.default: "torch.sigmoid",
    aten.tanh.default: "torch.tanh",
    aten.relu.default: "torch.relu",
    aten.exp.default: "torch.exp",
    aten.neg.default: "torch.neg",
    aten.where.self: "torch.where",
    aten.cat.default: "torch.cat",
    aten.split_with_sizes.default: "torch.split_with_sizes",
    aten.split.Tensor: "torch.split",
    aten.reshape.default: "torch.reshape",
    aten.unsqueeze.default: "torch.unsqueeze",
    aten.t.default: "torch.t",
    aten.permute.default: "torch.permute",
    aten.transpose.int: "torch.transpose",
}
"""What Python calls faster under another name: an overload's own call costs a microsecond more."""

SLOW_ON_SLICES = {aten.tanh.default, aten.exp.default}
"""What a CPU computes several times faster on contiguous memory: more than the copy costs."""


def as_python(program: Program, name: str, device: torch.device) -> tuple[Callable[..., Any], str]:
    """`name(rows, *inputs) -> tuple of outputs`, and its source."""
    inputs = ", ".join(["rows", *(each.name for each in program.inputs)])
    instructions = fuse(program)
    lines = [f"def {name}({inputs}):"]
    names: dict[str, Any] = {"torch": torch}
    slices = _slices(program.instructions) if device.type == "cpu" else set[Value]()
    for number, each in enumerate(instructions):
        names[f"op{number}"] = each.operation
        results = ", ".join(result.name for result in each.results)
        comma = "," if len(each.results) == 1 and each.operation in SEVERAL else ""
        lines.append(f"    {results}{comma} = {_call(each, number, slices)}")
        dead = _dead_after(number, instructions, program)
        if dead:
            lines.append(f"    {' = '.join(dead)} = None")
    lines.append(f"    return {as_tuple([each.name for each in program.outputs])}")
    source = "\n".join(lines) + "\n"
    exec(compile(source, f"<{name} of {len(instructions)} instructions>", "exec"), names)
    return names[name], source


SEVERAL = {aten.split_with_sizes.default, aten.split.Tensor, aten.unbind.int, aten.var_mean.correction}


def can_join(inner: Instruction, addend: Any, total: Instruction) -> bool:
    """Whether `total`, the sum of a product and an addend, may be one operation."""
    if inner.options or not isinstance(addend, Value) or addend.dtype != total.results[0].dtype:
        return False
    tensors = all(isinstance(each, Value) and each.dtype == addend.dtype for each in inner.arguments)
    if inner.operation is aten.mm.default:
        same = inner.results[0].shape == total.results[0].shape  # the product itself is not repeated
        return tensors and same and len(addend.shape) <= 1 + addend.shared
    return inner.operation is aten.mul.Tensor and tensors and addend.dtype.is_floating_point


def fuse(program: Program, joins: Callable[[Instruction, Any, Instruction], bool] = can_join) -> list[Instruction]:
    """The instructions, with sums joined to the products they add: one call and one pass over memory less.

    `a @ b + c` becomes `addmm(c, a, b)`, and `a * b + c` becomes `addcmul(c, a, b)`.

    Args:
        program: the program.
        joins: which products join an addend to which sum.
    """
    uses = Counter(value for each in program.instructions for value in each.uses())
    uses.update(program.outputs)
    made = {each.results[0]: each for each in program.instructions if len(each.results) == 1}
    joined: dict[Value, Instruction] = {}
    dropped: set[Value] = set()
    for each in program.instructions:
        if each.operation is not aten.add.Tensor or each.options:
            continue
        left, right = each.arguments
        for addend, product in ((left, right), (right, left)):
            inner = made.get(product) if isinstance(product, Value) else None
            if inner is None or uses[product] != 1 or product in joined or not joins(inner, addend, each):
                continue
            operation = aten.addmm.default if inner.operation is aten.mm.default else aten.addcmul.default
            joined[each.results[0]] = Instruction(
                each.kind, operation, (addend, *inner.arguments), {}, each.results, each.source
            )
            dropped.add(product)
            break
    kept = [each for each in program.instructions if each.results[0] not in dropped]
    return [joined.get(each.results[0], each) for each in kept]


def _slices(instructions: Sequence[Instruction]) -> set[Value]:
    """What is not contiguous, because it is a part of something wider."""
    cuts = {aten.slice.Tensor, aten.split_with_sizes.default, aten.split.Tensor}
    return {result for each in instructions if each.operation in cuts for result in each.results}


def _dead_after(number: int, instructions: Sequence[Instruction], program: Program) -> list[str]:
    """What nobody needs after that instruction, so that its memory can be used again."""
    later = {value for each in instructions[number + 1 :] for value in each.uses()} | set(program.outputs)
    own = {result for each in instructions[: number + 1] for result in each.results}
    used = dict.fromkeys([*instructions[number].uses(), *instructions[number].results])
    return [value.name for value in used if value in own and value not in later]


def _call(instruction: Instruction, number: int, slices: set[Value]) -> str:
    arguments = [expression(each) for each in instruction.arguments]
    operation, options = instruction.operation, instruction.options
    if operation is aten.slice.Tensor and len(arguments) == 4 and instruction.arguments[1] >= 0 and not options:
        of, dim, start, end = arguments
        return f"{of}[{':, ' * int(dim)}{start}:{end}]"
    if operation in INFIX and not options and isinstance(instruction.arguments[0], Value):
        return f" {INFIX[operation]} ".join(arguments)
    if operation in SLOW_ON_SLICES and instruction.arguments[0] in slices:
        arguments[0] += ".contiguous()"
    arguments += [f"{key}={expression(each)}" for key, each in options.items()]
    return f"{CALLS.get(operation, f'op{number}')}({', '.join(arguments)})"


def expression(argument: Any) -> str:
    """An argument as Python."""
    if isinstance(argument, Value):
        return argument.name
    if isinstance(argument, RowCount):
        return f"rows * {argument.times}" if argument.times != 1 else "rows"
    if is_several(argument):
        return f"[{', '.join(expression(each) for each in argument)}]"
    if isinstance(argument, float) and (argument != argument or argument in (float("inf"), -float("inf"))):
        return f"float('{argument}')"
    if isinstance(argument, torch.device):
        return f"torch.{argument!r}"
    return repr(argument)


def as_tuple(names: Sequence[str]) -> str:
    """A tuple of names as Python."""
    return f"({', '.join(names)}{',' if len(names) == 1 else ''})"
