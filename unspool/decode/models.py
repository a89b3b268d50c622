"""What a decoder runs at each step, as one cell, so that the engine plans all of it together."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from unspool.structure import Structure


class Layered(nn.Module):
    """A cell and the layer over its output, as one cell."""

    def __init__(self, cell: Any, layer: Any, output_size: Structure) -> None:
        super().__init__()
        self.cell, self.layer = cell, layer
        self.state_size, self.output_size = cell.state_size, output_size

    def forward(self, inputs: Structure, state: Structure) -> tuple[Structure, Structure]:
        """One step of both."""
        output, state = self.cell(inputs, state)
        return self.layer(output), state


class Model(nn.Module):
    """A cell, the layer over its output, and a look for the largest logit, as one cell.

    Args:
        cell, layer: these.
        output_size: of the layer's output, or () if nobody asks for it.
        samples: whether the largest logit is looked for. Its id is a part of the state.
    """

    def __init__(self, cell: Any, layer: Any, output_size: Structure, samples: bool) -> None:
        super().__init__()
        self.cell, self.layer, self.samples = cell, layer, samples
        self.state_size, self.output_size = (cell.state_size, torch.Size([])), output_size

    def forward(self, inputs: Structure, state: tuple[Structure, Tensor]) -> tuple[Structure, tuple[Structure, Tensor]]:
        """One step of all."""
        inner, ids = state
        output, inner = self.cell(inputs, inner)
        output = output if self.layer is None else self.layer(output)
        ids = output.argmax(-1) if self.samples else ids
        return (() if self.output_size == () else output), (inner, ids)
