"""A dense layer before or after a cell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from unspool.cells.activations import as_activation
from unspool.cells.layer import check_matrix, check_reuse, check_same_dtype, check_units, check_width, glorot_uniform
from unspool.cells.like import variables_of
from unspool.cells.unbuilt import UnbuiltWeight
from unspool.cells.wrappers.wrapper import RNNCellWrapper
from unspool.flags import checks_flags
from unspool.structure import Structure


class InputProjectionWrapper(RNNCellWrapper):
    """`cell(activation(inputs @ kernel + bias), state)`.

    Args:
        cell: the cell to wrap.
        num_proj: the width P of what the cell sees.
        activation: a function or its name; None for none.
        input_size: the depth D of the inputs, to build the weights at once.
        reuse: only None or False; a cell owns its weights.

    Weights: `kernel [D, P]`, `bias [P]`.

    >>> from unspool import GRUCell
    >>> cell = InputProjectionWrapper(GRUCell(3), num_proj=4)
    >>> output, state = cell(torch.zeros(2, 7), cell.zero_state(2, torch.float32))
    >>> cell.kernel.shape
    torch.Size([7, 4])
    """

    kernel: Tensor
    bias: Tensor

    @checks_flags
    def __init__(
        self, cell: Any, num_proj: int, activation: Any = None, input_size: int | None = None, reuse: bool | None = None
    ) -> None:
        super().__init__(cell)
        self.num_proj = check_units("num_proj", num_proj)
        self.activation = None if activation is None else as_activation(activation)
        self.reuse = check_reuse(reuse)
        self.declare_weights("kernel", "bias")
        if input_size is not None:
            self.build(input_size)

    @property
    def input_size(self) -> int | None:
        """The depth of the inputs; None until the weights have shapes."""
        kernel = self.kernel
        return None if isinstance(kernel, UnbuiltWeight) else kernel.shape[0]

    def build(self, input_size: Any, **where: Any) -> None:
        """Makes the projection and builds the cell for what it gives."""
        depth = check_width(input_size, self.name)
        self.add_weight("kernel", (depth, self.num_proj), glorot_uniform, **where)
        self.add_weight("bias", (self.num_proj,), nn.init.zeros_, **where)
        self.build_cell(self.num_proj, **where)

    def check_inputs(self, inputs: Structure, state: Structure) -> None:
        """Raises unless `inputs` is a floating-point matrix: the projection sees it, not the cell."""
        check_matrix(self.name, inputs)
        check_same_dtype(self.name, inputs, state)

    def forward(self, inputs: Tensor, state: Structure) -> tuple[Structure, Structure]:
        """One step of the cell on the projected inputs."""
        kernel = self.kernel
        check_matrix(self.name, inputs, kernel)
        projected = torch.addmm(self.bias, inputs, kernel)
        return self.cell(projected if self.activation is None else self.activation(projected), state)

    def variables(self) -> Iterator[tuple[str, Tensor]]:
        """The projection's, then the cell's, all below the wrapper's name."""
        yield f"{self.name}/kernel", self.kernel
        yield f"{self.name}/bias", self.bias
        for name, weight in variables_of(self.cell):
            yield f"{self.name}/{name}", weight


class OutputProjectionWrapper(RNNCellWrapper):
    """`activation(output @ kernel + bias)` of the cell's output; the state is the cell's own.

    Args:
        cell: the cell to wrap; its output must be one matrix.
        output_size: the width P of the projected output.
        activation: a function or its name; None for none.
        reuse: only None or False; a cell owns its weights.

    Weights: `kernel [N, P]`, `bias [P]`.

    >>> from unspool import GRUCell
    >>> cell = OutputProjectionWrapper(GRUCell(3), output_size=2)
    >>> output, state = cell(torch.zeros(2, 7), cell.zero_state(2, torch.float32))
    >>> output.shape, state.shape
    (torch.Size([2, 2]), torch.Size([2, 3]))
    """

    kernel: Tensor
    bias: Tensor

    @checks_flags
    def __init__(self, cell: Any, output_size: int, activation: Any = None, reuse: bool | None = None) -> None:
        super().__init__(cell)
        self._output_size = check_units("output_size", output_size)
        self.activation = None if activation is None else as_activation(activation)
        self.reuse = check_reuse(reuse)
        self.declare_weights("kernel", "bias")

    @property
    def output_size(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The width of the projected output."""
        return self._output_size

    def build(self, input_size: Any, **where: Any) -> None:
        """Builds the cell and makes the projection of its output."""
        self.build_cell(input_size, **where)
        width = check_width(self.cell.output_size, self.name)
        self.add_weight("kernel", (width, self._output_size), glorot_uniform, **where)
        self.add_weight("bias", (self._output_size,), nn.init.zeros_, **where)

    def forward(self, inputs: Structure, state: Structure) -> tuple[Tensor, Structure]:
        """One step of the cell, its output projected."""
        output, new_state = self.cell(inputs, state)
        projected = torch.addmm(self.bias, output, self.kernel)
        return projected if self.activation is None else self.activation(projected), new_state

    def variables(self) -> Iterator[tuple[str, Tensor]]:
        """The cell's, then the projection's, all below the wrapper's name."""
        for name, weight in variables_of(self.cell):
            yield f"{self.name}/{name}", weight
        yield f"{self.name}/kernel", self.kernel
        yield f"{self.name}/bias", self.bias
