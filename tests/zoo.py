"""Every built-in cell with every option: the table that the tests of all cells run through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tests.cells import Nested
from unspool import (
    BasicLSTMCell,
    BasicRNNCell,
    DeviceWrapper,
    DropoutWrapper,
    EmbeddingWrapper,
    GRUCell,
    HighwayWrapper,
    InputProjectionWrapper,
    LSTMCell,
    MultiRNNCell,
    OutputProjectionWrapper,
    ResidualWrapper,
)

DEPTH = 3
"""The depth of the inputs that every cell of the zoo takes; the embedding's are ids below it."""

ZOO: dict[str, Callable[[], Any]] = {
    "basic_rnn": lambda: BasicRNNCell(4),
    "basic_rnn-sigmoid": lambda: BasicRNNCell(4, activation="sigmoid"),
    "gru": lambda: GRUCell(4),
    "gru-softsign": lambda: GRUCell(4, activation=torch.nn.functional.softsign),
    "gru-initializers": lambda: GRUCell(4, kernel_initializer=torch.nn.init.orthogonal_, bias_initializer=_halves),
    "basic_lstm": lambda: BasicLSTMCell(4),
    "basic_lstm-concat": lambda: BasicLSTMCell(4, forget_bias=0.5, state_is_tuple=False),
    "basic_lstm-sigmoid": lambda: BasicLSTMCell(4, activation=torch.sigmoid),
    "lstm": lambda: LSTMCell(4),
    "lstm-concat": lambda: LSTMCell(4, state_is_tuple=False),
    "lstm-peepholes": lambda: LSTMCell(4, use_peepholes=True),
    "lstm-cell_clip": lambda: LSTMCell(4, cell_clip=0.4),
    "lstm-projection": lambda: LSTMCell(4, num_proj=2),
    "lstm-projection-clip": lambda: LSTMCell(4, num_proj=2, proj_clip=0.1),
    "lstm-forget_bias": lambda: LSTMCell(4, forget_bias=-1.0),
    "lstm-softplus": lambda: LSTMCell(4, activation="softplus"),
    "lstm-initializer": lambda: LSTMCell(4, initializer=_halves, use_peepholes=True),
    "lstm-shards": lambda: LSTMCell(4, num_unit_shards=2, num_proj=3, num_proj_shards=2),
    "lstm-everything": lambda: LSTMCell(
        4, use_peepholes=True, cell_clip=0.6, num_proj=3, proj_clip=0.3, forget_bias=0.5, state_is_tuple=False
    ),
    "stack": lambda: MultiRNNCell([LSTMCell(4, num_proj=2), GRUCell(3), BasicRNNCell(2)]),
    "stack-concat": lambda: MultiRNNCell([GRUCell(4), BasicLSTMCell(2, state_is_tuple=False)], state_is_tuple=False),
    "dropout-keep_all": lambda: DropoutWrapper(LSTMCell(4), 1.0, 1.0, 1.0),
    "residual": lambda: ResidualWrapper(GRUCell(DEPTH)),
    "residual-fn": lambda: ResidualWrapper(LSTMCell(4), lambda x, y: y * x.sum(1, keepdim=True)),
    "device": lambda: DeviceWrapper(GRUCell(4), "cpu"),
    "input_projection": lambda: InputProjectionWrapper(GRUCell(4), 2, activation="tanh"),
    "output_projection": lambda: OutputProjectionWrapper(LSTMCell(4), 2, activation=torch.sigmoid),
    "embedding": lambda: EmbeddingWrapper(GRUCell(4), DEPTH, 2),
    "highway": lambda: HighwayWrapper(GRUCell(DEPTH)),
    "highway-uncoupled": lambda: HighwayWrapper(GRUCell(DEPTH), couple_carry_transform_gates=False),
    "wrapped-stack": lambda: ResidualWrapper(
        MultiRNNCell([DropoutWrapper(LSTMCell(4)), HighwayWrapper(LSTMCell(4)), OutputProjectionWrapper(GRUCell(2), 3)])
    ),
    "nested": lambda: Nested(DEPTH),
}


def inputs_for(name: str, batch_size: int, steps: int, dtype: torch.dtype = torch.float64) -> Any:
    """Random batch-major inputs for a cell of the zoo."""
    if name == "embedding":
        return torch.randint(DEPTH, (batch_size, steps, 1))
    vectors = torch.randn(batch_size, steps, DEPTH, dtype=dtype)
    if name == "nested":
        return {"x": vectors, "image": torch.randn(batch_size, steps, 2, DEPTH, dtype=dtype)}
    return vectors


def _halves(weight: torch.Tensor) -> None:
    torch.nn.init.constant_(weight, 0.5)
