"""The core of a loop: what has to run step by step, as every emitter takes it."""

from __future__ import annotations

from dataclasses import dataclass

from torch import fx

from unspool.engine.ir.program import Instruction, Kind, Program, Value, as_value, listing, lower_part
from unspool.engine.partition.split import Split
from unspool.engine.reasons import CannotPlanError, Code
from unspool.engine.rows.labels import SHARED, SUMMED, Axis, Label


@dataclass(frozen=True)
class Core:
    """One step: `new_carried` and `emitted` from `carried`, `streamed` and `shared`.

    Args:
        carried: what is taken over from the step before.
        streamed: what *before* has computed for this step, or the caller has given.
        shared: the same for all steps.
        instructions: what to compute, in order.
        new_carried: what is handed on, in the order of `carried`; None for zeros.
        emitted: what is collected at every step; of a sum over rows, the sum over all steps.
    """

    carried: tuple[Value, ...]
    streamed: tuple[Value, ...]
    shared: tuple[Value, ...]
    instructions: tuple[Instruction, ...]
    new_carried: tuple[Value | None, ...]
    emitted: tuple[Value, ...]

    def __str__(self) -> str:
        groups = {"carried": self.carried, "streamed": self.streamed, "shared": self.shared}
        head = "".join(
            f"  {name} {', '.join(each.type for each in group)}\n" for name, group in groups.items() if group
        )
        carry, emit = ", ".join(map(str, self.new_carried)), ", ".join(map(str, self.emitted))
        return f"core\n{head}{listing(self.instructions)}  carry {carry}\n" + (f"  emit {emit}\n" if emit else "")

    def count(self, kind: Kind) -> int:
        """How many instructions are of that kind."""
        return sum(each.kind is kind for each in self.instructions)


def lower_core(split: Split, labels: dict[fx.Node, Label]) -> Core:
    """The core of `split` as a program.

    Raises:
        CannotPlanError: if rows of different steps could not be told apart where the core begins or ends.
    """
    for node in (*split.core.inputs, *split.core.outputs):
        label = labels[node]
        if isinstance(label, Axis) and label.outer > 1:
            raise CannotPlanError(
                Code.MIXED_ROWS, f"{node.name} has its rows interleaved with another axis at the border of the loop"
            )
    for node in (each for user in split.core.nodes for each in user.all_input_nodes):
        if labels.get(node) == SUMMED:
            raise CannotPlanError(Code.MIXED_ROWS, f"{node.name} sums over rows in the middle of the loop")
    program: Program = lower_part(split.core, labels)
    outside = [node for node in split.core.inputs if node not in split.carried]
    return Core(
        tuple(as_value(node, labels) for node in split.carried),
        tuple(as_value(node, labels) for node in outside if labels[node] != SHARED),
        tuple(as_value(node, labels) for node in outside if labels[node] == SHARED),
        program.instructions,
        tuple(None if node is None else as_value(node, labels) for node in split.new_carried),
        program.outputs,
    )
