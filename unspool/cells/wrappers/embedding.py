"""Looking token ids up before a cell."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unspool.cells.layer import check_initializer, check_reuse, check_units
from unspool.cells.like import variables_of
from unspool.cells.wrappers.wrapper import RNNCellWrapper
from unspool.flags import checks_flags
from unspool.structure import Structure, describe
from unspool.tracers import static_shape


class EmbeddingWrapper(RNNCellWrapper):
    """`cell(embedding[ids], state)`: a cell whose inputs are token ids.

    Args:
        cell: the cell to wrap.
        embedding_classes: how many ids there are.
        embedding_size: the width of what the cell sees.
        initializer: fills the embedding; by default uniform with variance 1.
        reuse: only None or False; a cell owns its weights.

    Weights: `embedding [embedding_classes, embedding_size]`.

    >>> from unspool import GRUCell
    >>> cell = EmbeddingWrapper(GRUCell(3), embedding_classes=10, embedding_size=4)
    >>> output, state = cell(torch.tensor([[7], [2]]), cell.zero_state(2, torch.float32))
    >>> output.shape
    torch.Size([2, 3])
    """

    embedding: Tensor

    @checks_flags
    def __init__(
        self,
        cell: Any,
        embedding_classes: int,
        embedding_size: int,
        initializer: Any = None,
        reuse: bool | None = None,
    ) -> None:
        super().__init__(cell)
        self.embedding_classes = check_units("embedding_classes", embedding_classes)
        self.embedding_size = check_units("embedding_size", embedding_size)
        self.initializer = check_initializer("initializer", initializer)
        self.reuse = check_reuse(reuse)
        self.declare_weights("embedding")

    def build(self, input_size: Any, **where: Any) -> None:
        """Makes the embedding and builds the cell for its rows; the size of the ids does not matter."""
        shape = (self.embedding_classes, self.embedding_size)
        self.add_weight("embedding", shape, self.initializer or _unit_variance, **where)
        self.build_cell(self.embedding_size, **where)

    def check_inputs(self, inputs: Structure, state: Structure) -> None:
        """Raises unless the inputs are ids, one per row."""
        if not isinstance(inputs, Tensor) or inputs.is_floating_point() or inputs.dtype == torch.bool:
            what = inputs.dtype if isinstance(inputs, Tensor) else describe(inputs)
            raise TypeError(f"{self.name}: inputs must be integer ids, but are {what}")
        if inputs.dim() == 0 or math.prod(static_shape(inputs)) != static_shape(inputs)[0]:
            raise ValueError(f"{self.name}: inputs must be one id per row, but have shape {list(inputs.shape)}")

    def forward(self, inputs: Tensor, state: Structure) -> tuple[Structure, Structure]:
        """One step of the cell on the rows that `inputs`, flattened, name."""
        self.check_inputs(inputs, state)
        try:
            rows = F.embedding(inputs.reshape(-1).long(), self.embedding)
        except IndexError:
            classes = self.embedding_classes
            raise IndexError(f"{self.name}: an id is not in [0, {classes}): there are {classes} classes") from None
        return self.cell(rows, state)

    def variables(self) -> Iterator[tuple[str, Tensor]]:
        """The embedding, then the cell's, all below the wrapper's name."""
        yield f"{self.name}/embedding", self.embedding
        for name, weight in variables_of(self.cell):
            yield f"{self.name}/{name}", weight


def _unit_variance(weight: Tensor) -> None:
    nn.init.uniform_(weight, -math.sqrt(3), math.sqrt(3))
