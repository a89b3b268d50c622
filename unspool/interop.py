"""Weights by TensorFlow's names."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from unspool.cells.like import assert_like_rnncell, variables_of
from unspool.cells.unbuilt import UnbuiltWeight


def tf_variables(cell: Any, scope: Any = "rnn") -> dict[str, Tensor]:
    """The cell's weights by the names TensorFlow gives its variables, in the order TensorFlow makes them.

    The values are the cell's own parameters: copy into them to load a checkpoint, read them to write one.

    Args:
        cell: a built cell; give it its `input_size`, or run it once.
        scope: the scope of the loop that runs it: "rnn" by default; `bidirectional_rnn/fw` and `bidirectional_rnn/bw`
            for the two cells of a bidirectional loop; `stack_bidirectional_rnn/cell_0/bidirectional_rnn/fw` and so on
            for a dynamic stack, without the inner `bidirectional_rnn` for a static one.

    Raises:
        TypeError: if `cell` is no cell.
        ValueError: if the cell is not built, or two of its weights would have the same name.

    >>> from unspool import GRUCell, LSTMCell, MultiRNNCell, tf_variables
    >>> cell = MultiRNNCell([LSTMCell(4, input_size=3, num_proj=2), GRUCell(2, input_size=2)])
    >>> for name, weight in tf_variables(cell).items():
    ...     print(name, list(weight.shape))
    rnn/multi_rnn_cell/cell_0/lstm_cell/kernel [5, 16]
    rnn/multi_rnn_cell/cell_0/lstm_cell/bias [16]
    rnn/multi_rnn_cell/cell_0/lstm_cell/projection/kernel [4, 2]
    rnn/multi_rnn_cell/cell_1/gru_cell/gates/kernel [4, 4]
    rnn/multi_rnn_cell/cell_1/gru_cell/gates/bias [4]
    rnn/multi_rnn_cell/cell_1/gru_cell/candidate/kernel [4, 2]
    rnn/multi_rnn_cell/cell_1/gru_cell/candidate/bias [2]
    """
    assert_like_rnncell("cell", cell)
    if not isinstance(scope, str):
        raise TypeError(f"scope must be a string, but is {scope!r}")
    named: dict[str, Tensor] = {}
    seen: set[Any] = set()
    for name, weight in variables_of(cell):
        if isinstance(weight, UnbuiltWeight):
            raise ValueError(f"{name} has no shape yet: give the cell its input_size, or run it once")
        # A cell used twice has its weights once, under its first name; a shard is known by where it lies in its weight.
        identity = id(weight if weight._base is None else weight._base), weight.storage_offset()
        if identity in seen:
            continue
        seen.add(identity)
        full = f"{scope}/{name}" if scope else name
        if full in named:
            raise ValueError(f"two different weights are both named {full}: give one of the cells a name")
        named[full] = weight
    return named
