"""Arguments of instructions, as lowerings read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the stages of emitters import the table of operations
    from unspool.engine.emit.stages.row import Row
    from unspool.engine.emit.stages.strided import Ref
    from unspool.engine.ir.program import Instruction


def given(instruction: Instruction, k: int, otherwise: Any) -> Any:
    """An argument, or what it is if it was not given."""
    return instruction.arguments[k] if len(instruction.arguments) > k else otherwise


def first(row: Row, instruction: Instruction) -> Ref:
    """Where an instruction's first argument is."""
    return row.ref(instruction.arguments[0])


def dims_of(instruction: Instruction, k: int = 1) -> list[int]:
    """The dimensions that it acts on, its k-th argument."""
    dims = given(instruction, k, instruction.options.get("dim"))
    return [dims] if isinstance(dims, int) else list(dims or ())


def dim_of(instruction: Instruction, ref: Ref, k: int = 1, otherwise: int = -1) -> int:
    """The one dimension of `ref` that it acts on, its k-th argument, counted from the first."""
    return int(given(instruction, k, instruction.options.get("dim", otherwise))) % len(ref.shape)


def name_of(instruction: Instruction) -> str:
    """A name for what it computes: that of the first of its results that somebody uses."""
    return next((each.name for each in instruction.results if each.name != "_"), "_")
