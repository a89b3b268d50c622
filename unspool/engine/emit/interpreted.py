"""The core as Python: its instructions are called one by one, step after step. Every core runs here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from unspool.engine.core import Core, Instruction, Rows, Value
from unspool.engine.graph import aten

INFIX = {aten.add.Tensor: "+", aten.sub.Tensor: "-", aten.mul.Tensor: "*", aten.div.Tensor: "/"}
CALLS = {
    aten.mm.default: "torch.mm",
    aten.bmm.default: "torch.bmm",
    aten.sigmoid.default: "torch.sigmoid",
    aten.tanh.default: "torch.tanh",
    aten.relu.default: "torch.relu",
    aten.exp.default: "torch.exp",
    aten.neg.default: "torch.neg",
    aten.where.self: "torch.where",
    aten.cat.default: "torch.cat",
    aten.split_with_sizes.default: "torch.split_with_sizes",
}
"""What Python calls faster under another name: an overload's own call costs a microsecond more."""


class Interpreted:
    """Runs a core over a chunk of steps.

    >>> h, x = Value("h", (3,), torch.float32), Value("x", (3,), torch.float32)
    >>> y = Value("y", (3,), torch.float32)
    >>> from unspool.engine.core import Kind
    >>> add = Instruction(Kind.POINTWISE, aten.add.Tensor, (h, x), {}, (y,))
    >>> loop = Interpreted(Core((h,), (x,), (), (add,), (y,), (y,)))
    >>> print(loop.source, end="")
    def step(rows, h, x):
        y = h + x
        return (y,), (y,)
    >>> carried, emitted = loop([2, 1], [], [torch.ones(3, 3)], [torch.zeros(2, 3)])
    >>> carried[0][:, 0], emitted[0][:, 0]
    (tensor([2., 1.]), tensor([1., 1., 2.]))
    """

    def __init__(self, core: Core) -> None:
        self.core = core
        self.source = _source(core)
        names: dict[str, Any] = {"torch": torch}
        for number, instruction in enumerate(core.instructions):
            names[f"op{number}"] = instruction.operation
        exec(compile(self.source, f"<core of {len(core.instructions)} instructions>", "exec"), names)
        self._step: Callable[..., Any] = names["step"]

    def __call__(
        self,
        counts: Sequence[int],
        shared: Sequence[Tensor],
        streamed: Sequence[Tensor],
        carried: Sequence[Tensor],
        *,
        reverse: bool = False,
        into: Sequence[Tensor | None] | None = None,
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Runs every step of a chunk.

        Args:
            counts: how many rows each step has: the first ones of those carried. They never grow with time.
            shared: the core's `shared` values.
            streamed: its `streamed` values, the rows of all steps one after another.
            carried: its `carried` values, for the rows of the first step.
            reverse: whether to run from the last step to the first; `counts` and `streamed` stay in order of time.
            into: for each of the core's `emitted` values, a tensor to write it to, or None.

        Returns:
            What is carried after the last step run, with as many rows as were given: those that a step does not have
            stay as they were. And the emitted values, in order of time, laid out like `streamed`.
        """
        now, emitted = list(carried), list[tuple[Tensor, ...]]()
        by_step = [_by_step(each, like, counts) for each, like in zip(streamed, self.core.streamed, strict=True)]
        steps = list(zip(*by_step, strict=True)) or [()] * len(counts)
        order = range(len(counts) - 1, -1, -1) if reverse else range(len(counts))
        step, ragged = self._step, counts[0] != counts[-1]
        for time in order:
            rows = counts[time]
            running = [each[:rows] for each in now] if ragged else now
            new, out = step(rows, *running, *steps[time], *shared)
            emitted.append(out)
            if not ragged or not now or rows == len(now[0]):
                now = list(new)
            else:
                now = [torch.cat([fresh, old[rows:]]) for fresh, old in zip(new, now, strict=True)]
        if reverse:
            emitted.reverse()
        targets = into or [None] * len(self.core.emitted)
        columns = zip(zip(*emitted, strict=True), self.core.emitted, targets, strict=True)
        return now, [_joined(column, like, target) for column, like, target in columns]


def _by_step(streamed: Tensor, like: Value, counts: Sequence[int]) -> Sequence[Tensor]:
    if counts[0] == counts[-1] and like.axis == 0:
        return streamed.unflatten(0, (len(counts), counts[0] * like.times)).unbind(0)
    return streamed.split_with_sizes([count * like.times for count in counts], like.axis)


def _joined(column: Sequence[Tensor], like: Value, target: Tensor | None) -> Tensor:
    return torch.cat(column, like.axis) if target is None else torch.cat(column, like.axis, out=target)


def _source(core: Core) -> str:
    names = [each.name for each in (*core.carried, *core.streamed, *core.shared)]
    lines = [f"def step({', '.join(['rows', *names])}):"]
    for number, each in enumerate(core.instructions):
        results = ", ".join(result.name for result in each.results)
        lines.append(f"    {results} = {_call(each, number)}")
    zeros = [f"torch.zeros_like({old.name})" for old in core.carried]
    new = [zero if each is None else each.name for each, zero in zip(core.new_carried, zeros, strict=True)]
    lines.append(f"    return {_tuple(new)}, {_tuple([each.name for each in core.emitted])}")
    return "\n".join(lines) + "\n"


def _call(instruction: Instruction, number: int) -> str:
    arguments = [_expression(each) for each in instruction.arguments]
    tensors_first = isinstance(instruction.arguments[0], Value) if instruction.arguments else False
    if instruction.operation in INFIX and not instruction.options and tensors_first:
        return f" {INFIX[instruction.operation]} ".join(arguments)
    arguments += [f"{key}={_expression(each)}" for key, each in instruction.options.items()]
    return f"{CALLS.get(instruction.operation, f'op{number}')}({', '.join(arguments)})"


def _expression(argument: Any) -> str:
    if isinstance(argument, Value):
        return argument.name
    if isinstance(argument, Rows):
        return f"rows * {argument.times}" if argument.times != 1 else "rows"
    if isinstance(argument, list):
        return f"[{', '.join(map(_expression, argument))}]"  # pyright: ignore
    if (isinstance(argument, float) and argument != argument) or argument in (float("inf"), -float("inf")):
        return f"float('{argument}')"
    if isinstance(argument, torch.device):
        return f"torch.{argument!r}"
    return repr(argument)


def _tuple(names: Sequence[str]) -> str:
    return f"({''.join(f'{name}, ' for name in names).rstrip(' ')})" if len(names) == 1 else f"({', '.join(names)})"
