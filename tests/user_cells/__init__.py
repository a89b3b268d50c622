"""Cells as users write them: the table that tests of the engine run through, next to the built-in ones of the zoo."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import unspool
from tests.user_cells.gated import (
    ConvLSTM,
    EmbeddingIds,
    LayerNormLSTM,
    LSTMTwoLinears,
    MinimalGRU,
    NNGRUCopy,
    OutputHead,
    PeepholeProjection,
    TorchLSTMCell,
)
from tests.user_cells.kinds import NTM, AttentionMemory, DictStateDtypes, MultiHead, ScalarState, Tied, WeightNormed
from tests.user_cells.steps import (
    Branching,
    Clockwork,
    CustomFunction,
    DetachAndNoGrad,
    DropoutZoneout,
    Inplace,
    LockedDropout,
    NASLike,
    SoftmaxMixture,
    TopK,
)
from unspool.sizes import shape_of
from unspool.structure import map_structure


@dataclass(frozen=True)
class UserCell:
    """A cell, and what it can be run on."""

    make: Callable[[], Any]
    """Makes the cell, built, in float64."""
    inputs: Callable[[int, int], Any]
    """Random batch-major inputs of (batch, steps), in float64, or ids."""
    state: Callable[[int], Any]
    """A random initial state of (batch) rows, in the structure of the cell's `state_size`."""
    dtype: torch.dtype = torch.float64
    """The dtype of the outputs."""


def _built(cell: Any, input_size: Any) -> Any:
    cell.build(input_size)
    return cell.double()


def _vectors(*shape: int) -> Callable[[int, int], Tensor]:
    return lambda batch, steps: torch.randn(batch, steps, *shape, dtype=torch.float64)


def _states(sizes: Any) -> Callable[[int], Any]:
    return lambda batch: map_structure(lambda size: torch.randn(batch, *shape_of(size), dtype=torch.float64), sizes)


def _with_memory(batch: int, steps: int) -> Any:
    memory = torch.randn(batch, 1, 5, 2, dtype=torch.float64).expand(-1, steps, -1, -1)
    return {"x": torch.randn(batch, steps, 3, dtype=torch.float64), "memory": memory}


def _of_several_dtypes(batch: int) -> Any:
    return {
        "h": torch.randn(batch, 4, dtype=torch.float64),
        "steps": torch.randint(3, (batch,)),
        "seen": torch.rand(batch, 4) < 0.3,
        "slow": torch.randn(batch, 2),
    }


IMAGE = torch.Size([2, 4, 4])

USER_CELLS: dict[str, UserCell] = {
    "layer_norm_lstm": UserCell(lambda: _built(LayerNormLSTM(3, 4), 3), _vectors(3), _states((4, 4))),
    "peephole_projection": UserCell(
        lambda: _built(PeepholeProjection(3, 4, 2), 3), _vectors(3), _states({"c": 4, "h": 2})
    ),
    "dict_state_dtypes": UserCell(lambda: _built(DictStateDtypes(3, 4, 2), 3), _vectors(3), _of_several_dtypes),
    "embedding_ids": UserCell(
        lambda: _built(EmbeddingIds(5, 3, 4), 1), lambda batch, steps: torch.randint(5, (batch, steps, 1)), _states(4)
    ),
    "output_head": UserCell(lambda: _built(OutputHead(3, 4, 5), 3), _vectors(3), _states((4, 4))),
    "weight_normed": UserCell(lambda: _built(WeightNormed(3, 4), 3), _vectors(3), _states(4)),
    "conv_lstm": UserCell(
        lambda: _built(ConvLSTM(3, 2), torch.Size([3, 4, 4])), _vectors(3, 4, 4), _states((IMAGE, IMAGE))
    ),
    "attention_memory": UserCell(
        lambda: _built(AttentionMemory(3, 2, 4), {"x": 3, "memory": torch.Size([5, 2])}), _with_memory, _states(4)
    ),
    "ntm": UserCell(
        lambda: _built(NTM(3, 5, 4, 2), 3), _vectors(3), _states({"h": 5, "memory": torch.Size([4, 2]), "read": 2})
    ),
    "dropout_zoneout": UserCell(lambda: _built(DropoutZoneout(3, 4), 3), _vectors(3), _states((4, 4))),
    "locked_dropout": UserCell(lambda: _built(LockedDropout(3, 4), 3), _vectors(3), _states(4)),
    "softmax_mixture": UserCell(lambda: _built(SoftmaxMixture(3, 4, 3), 3), _vectors(3), _states(4)),
    "scalar_state": UserCell(lambda: _built(ScalarState(3), 3), _vectors(3), _states(torch.Size([]))),
    "minimal_gru": UserCell(lambda: _built(MinimalGRU(4), 3), _vectors(3), _states(4)),
    "nn_gru_copy": UserCell(lambda: _built(NNGRUCopy(3, 4), 3), _vectors(3), _states(4)),
    "inplace": UserCell(lambda: _built(Inplace(3, 5), 3), _vectors(3), _states(5)),
    "detach_and_no_grad": UserCell(lambda: _built(DetachAndNoGrad(3, 4), 3), _vectors(3), _states(4)),
    "custom_function": UserCell(lambda: _built(CustomFunction(3, 4), 3), _vectors(3), _states((4, 4))),
    "stacked": UserCell(
        lambda: _built(unspool.MultiRNNCell([LayerNormLSTM(3, 4), NNGRUCopy(4, 2)]), 3),
        _vectors(3),
        _states(((4, 4), 2)),
    ),
    "lstm_two_linears": UserCell(lambda: _built(LSTMTwoLinears(3, 4), 3), _vectors(3), _states((4, 4))),
    "tied": UserCell(lambda: _built(Tied(4), 4), _vectors(4), _states(4)),
    "multi_head": UserCell(lambda: _built(MultiHead(3, 2, 3), 3), _vectors(3), _states(torch.Size([2, 3]))),
    "nas_like": UserCell(lambda: _built(NASLike(3, 4), 3), _vectors(3), _states((4, 4))),
    "torch_lstm_cell": UserCell(lambda: _built(TorchLSTMCell(4), 4), _vectors(4), _states((4, 4))),
    "top_k": UserCell(lambda: _built(TopK(3, 5), 3), _vectors(3), _states(5)),
    "branching": UserCell(lambda: _built(Branching(3, 4), 3), _vectors(3), _states(4)),
    "clockwork": UserCell(lambda: _built(Clockwork(3, 2), 3), _vectors(3), _states((2, 2))),
}

RANDOM = ["dropout_zoneout", "locked_dropout"]
"""The cells that draw numbers as they run."""
