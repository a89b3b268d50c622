"""What a step is traced for: shapes and dtypes of all that it is given, without the number of rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from unspool.engine.execute.operands import Operands
from unspool.structure import Structure, flatten


@dataclass(frozen=True)
class Leaf:
    """One tensor of a step: its shape without the rows, and whether its gradient is wanted."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    wanted: bool = False

    @property
    def differentiable(self) -> bool:
        """Whether gradients can flow through it at all."""
        return self.dtype.is_floating_point or self.dtype.is_complex


@dataclass(frozen=True)
class StepSpec:
    """What a step is traced for.

    Args:
        weights: the cell's parameters and buffers by name; those that require gradients get them.
        inputs: a structure of `Leaf`s.
        state: another.
        output_dtype: the dtype of the outputs; None for a cell that does not know their size: as its step has them.
        adjoint: whether gradients are traced at all.
        row_buffers: buffers with a row for each of the batch, by name: more state, which every step hands on as it is.
        captured: those of them that the cell does not list, but its step reaches.
    """

    weights: dict[str, Tensor]
    inputs: Structure
    state: Structure
    output_dtype: torch.dtype | None
    adjoint: bool
    row_buffers: dict[str, Leaf] = field(default_factory=dict[str, Leaf])
    captured: dict[str, Tensor] = field(default_factory=dict[str, Tensor])

    @cached_property
    def wanted(self) -> Operands[bool]:
        """Which operands get gradients. Those of states are needed to get any others."""
        weights = [weight.requires_grad for weight in self.weights.values()]
        inputs = [leaf.wanted for leaf in self.input_leaves]
        state = [leaf.differentiable for leaf in self.state_leaves]
        return Operands(weights, inputs, state, [leaf.differentiable for leaf in self.row_buffers.values()])

    @cached_property
    def input_leaves(self) -> list[Leaf]:
        """The inputs, flat."""
        return flatten(self.inputs)

    @cached_property
    def state_leaves(self) -> list[Leaf]:
        """The state, flat, without row buffers."""
        return flatten(self.state)

    @property
    def carried_leaves(self) -> list[Leaf]:
        """What a step takes over from the one before."""
        return [*self.state_leaves, *self.row_buffers.values()]

    @property
    def device(self) -> torch.device:
        """Where all of it is."""
        return self.input_leaves[0].device

    def names(self) -> list[str]:
        """The names of what is lifted out of the cell."""
        return [*self.weights, *self.row_buffers]
