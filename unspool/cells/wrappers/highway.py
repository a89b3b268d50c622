"""Gating between a cell's inputs and its outputs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from unspool.cells.layer import check_matrix, check_width, glorot_uniform
from unspool.cells.like import variables_of
from unspool.cells.wrappers.wrapper import RNNCellWrapper
from unspool.flags import checks_flags
from unspool.structure import Structure


class HighwayWrapper(RNNCellWrapper):
    """`output = inputs * carry + cell's output * transform` (Srivastava et al., 2015); the state is the cell's own.

        carry     = sigmoid(inputs @ carry_w + carry_b)
        transform = 1 - carry, or a gate of its own

    Args:
        cell: the cell to wrap; its output must be as wide as its inputs.
        couple_carry_transform_gates: whether the transform gate is what the carry gate leaves.
        carry_bias_init: the initial bias of the carry gate; minus it for a transform gate of its own.

    Weights: `carry_w [D, D]`, `carry_b [D]`, and `transform_w`, `transform_b` if the gates are not coupled.

    >>> from unspool import GRUCell
    >>> cell = HighwayWrapper(GRUCell(3))
    >>> output, state = cell(torch.ones(2, 3), cell.zero_state(2, torch.float32))
    >>> output.shape
    torch.Size([2, 3])
    """

    carry_w: Tensor
    carry_b: Tensor
    transform_w: Tensor
    transform_b: Tensor

    @checks_flags
    def __init__(self, cell: Any, couple_carry_transform_gates: bool = True, carry_bias_init: float = 1.0) -> None:
        super().__init__(cell)
        self.couple_carry_transform_gates = couple_carry_transform_gates
        self.carry_bias_init = carry_bias_init
        self._gates = ("carry",) if couple_carry_transform_gates else ("carry", "transform")
        for gate in self._gates:
            self.declare_weights(f"{gate}_w", f"{gate}_b")

    def build(self, input_size: Any, **where: Any) -> None:
        """Builds the cell and makes the gates."""
        depth = check_width(input_size, self.name)
        width = check_width(self.cell.output_size, self.name)
        if depth != width:
            raise ValueError(f"{self.name}: inputs have depth {depth}, but the cell's output has {width}")
        self.build_cell(depth, **where)
        for gate, bias in zip(self._gates, (self.carry_bias_init, -self.carry_bias_init), strict=False):
            self.add_weight(f"{gate}_w", (depth, depth), glorot_uniform, **where)
            self.add_weight(f"{gate}_b", (depth,), partial(nn.init.constant_, val=bias), **where)

    def forward(self, inputs: Tensor, state: Structure) -> tuple[Tensor, Structure]:
        """One step of the cell, gated against its inputs."""
        carry_w = self.carry_w
        check_matrix(self.name, inputs, carry_w)
        output, new_state = self.cell(inputs, state)
        carry = torch.sigmoid(torch.addmm(self.carry_b, inputs, carry_w))
        if self.couple_carry_transform_gates:
            transform = 1 - carry
        else:
            transform = torch.sigmoid(torch.addmm(self.transform_b, inputs, self.transform_w))
        return inputs * carry + output * transform, new_state

    def variables(self) -> Iterator[tuple[str, Tensor]]:
        """The cell's, then the gates', which TensorFlow leaves in the loop's own scope."""
        yield from variables_of(self.cell)
        yield from self.named_parameters(recurse=False)
