"""What a decoder runs at each step, as one cell, so that the engine plans all of it together."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from unspool.structure import Structure, map_structure


class Layered(nn.Module):
    """A cell and the layer over its output, as one cell."""

    def __init__(self, cell: Any, layer: Any, output_size: Structure) -> None:
        super().__init__()
        self.cell, self.layer, self.output_size = cell, layer, output_size

    @property
    def state_size(self) -> Structure:
        """The cell's."""
        return self.cell.state_size

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
        self.output_size = output_size

    @property
    def state_size(self) -> Structure:
        """The cell's, and an id's."""
        return (self.cell.state_size, torch.Size([]))

    def forward(self, inputs: Structure, state: tuple[Structure, Tensor]) -> tuple[Structure, tuple[Structure, Tensor]]:
        """One step of all."""
        inner, ids = state
        output, inner = self.cell(inputs, inner)
        output = output if self.layer is None else self.layer(output)
        ids = output.argmax(-1) if self.samples else ids
        return (() if self.output_size == () else output), (inner, ids)


class ClosedModel(nn.Module):
    """A model that reads what it said itself, as a cell without inputs: it can take any number of steps in one go.

    Args:
        cell, layer: a cell and the layer over its output.
        embedding: what the cell reads for an id.
        output_size: of the layer's output, or () if nobody asks for it.
        end_token: the id that ends a row. From then on, its state stays.
    """

    def __init__(self, cell: Any, layer: Any, embedding: Any, output_size: Structure, end_token: int) -> None:
        super().__init__()
        self.cell, self.layer, self.embedding, self.end_token = cell, layer, embedding, end_token
        self.output_size = output_size

    @property
    def state_size(self) -> Structure:
        """The cell's, an id's, and that of whether a row has ended."""
        return (self.cell.state_size, torch.Size([]), torch.Size([]))

    def forward(self, inputs: Tensor, state: tuple[Structure, Tensor, Tensor]) -> tuple[Structure, Structure]:
        """One step; the state is the cell's, the id that is read, and whether the row has ended."""
        old, ids, ended = state
        output, new = self.cell(self.embedding(ids), old)
        output = output if self.layer is None else self.layer(output)
        ids = output.argmax(-1)
        kept = map_structure(lambda before, after: torch.where(beside(ended, after), before, after), old, new)
        return (() if self.output_size == () else output), (kept, ids, ended | (ids == self.end_token))


def beside(rows: Tensor, leaf: Tensor) -> Tensor:
    """A number for each row, as a column beside the row's other axes."""
    return rows.reshape(-1, *[1] * (leaf.dim() - 1))
