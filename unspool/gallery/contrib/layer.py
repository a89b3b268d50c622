"""What cells with TensorFlow's arguments share: units, initialisers, and weights by TensorFlow's names."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from unspool.cells.building import Buildable, Initializer
from unspool.cells.layer import LayerRNNCell, check_initializer, check_units, glorot_uniform
from unspool.cells.lstm import LSTMStateTuple
from unspool.cells.unbuilt import UnbuiltWeight


class ContribCell(LayerRNNCell):
    """A cell that takes TensorFlow's arguments, and whose weights have TensorFlow's names, shapes and order.

    Weights are built at first use, or with an `input_size`. Those that are named in `zeros` or end in "bias" begin
    with zeros, others as `initializer` fills them, by default with Glorot's uniform.

    Args:
        num_units: the width N.
        initializer: fills kernels; Glorot's uniform if None.
        reuse: only None or False; a cell owns its weights.
        name: the cell's name among TensorFlow's variables.
        dtype: the dtype of the weights; by default that of the first inputs.
        trainable: whether the weights require gradients.
    """

    zeros: tuple[str, ...] = ()
    pieces: int = 1
    """In how many shards the first kernel is."""

    def __init__(
        self,
        num_units: Any,
        initializer: Any = None,
        reuse: bool | None = None,
        name: str | None = None,
        dtype: Any = None,
        trainable: bool = True,
    ) -> None:
        super().__init__(name, dtype, reuse, trainable)
        self.num_units = check_units("num_units", num_units)
        self.initializer = check_initializer("initializer", initializer)

    @property
    def input_size(self) -> int | None:
        """The depth of the inputs; None until the weights have shapes."""
        stem = self.first_kernel.removesuffix("_0")
        kernels = [getattr(self, f"{stem}_{k}" if self.pieces > 1 else self.first_kernel) for k in range(self.pieces)]
        unbuilt = any(isinstance(each, UnbuiltWeight) for each in kernels)
        return None if unbuilt else self.depth_of(sum(each.shape[0] for each in kernels))

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any, **kwargs: Any) -> None:
        if self.pieces > 1:  # no shard alone says how deep the inputs are, so that the others could be checked by it
            Buildable._load_from_state_dict(self, state_dict, prefix, *args, **kwargs)
        else:
            super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    def initializer_of(self, weight: str) -> Initializer:
        """What fills a weight."""
        if weight in self.zeros or weight.endswith("bias"):
            return nn.init.zeros_
        return self.initializer or glorot_uniform


def lstm_sizes(units: int, projection: int | None) -> tuple[LSTMStateTuple, int]:
    """The sizes of an LSTM's state and output, with a projection of the output or none."""
    width = projection or units
    return LSTMStateTuple(units, width), width


def shards(name: str, rows: int, columns: int, count: int) -> dict[str, tuple[int, int]]:
    """The shapes of a kernel that TensorFlow keeps in `count` pieces, `name_0` and so on, of about as many rows.

    >>> shards("W", 5, 2, 2)
    {'W_0': (3, 2), 'W_1': (2, 2)}
    """
    if count > rows:
        raise ValueError(f"Too many shards: shape={[rows, columns]}, num_shards={count}")
    return {f"{name}_{k}": (rows // count + (k < rows % count), columns) for k in range(count)}


def joined(cell: nn.Module, name: str, count: int) -> Tensor:
    """A kernel of `shards` as one."""
    pieces = [getattr(cell, f"{name}_{k}") for k in range(count)]
    return pieces[0] if count == 1 else torch.cat(pieces)
