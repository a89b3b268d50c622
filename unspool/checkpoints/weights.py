"""Weights from a checkpoint into cells and into torch's own modules."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from torch import nn

from unspool.cells.like import assert_like_rnncell
from unspool.checkpoints.bundle import load_tf1_checkpoint
from unspool.checkpoints.cell_layouts import layout_of_cell
from unspool.checkpoints.layout import Layout, full_name
from unspool.checkpoints.scopes import find_place, mismatch
from unspool.checkpoints.source import Source
from unspool.checkpoints.torch_layouts import layouts_of_module


def load_tf1_weights(
    cell: Any,
    source: str | os.PathLike[str] | Mapping[str, Any],
    scope: str | None = None,
    *,
    forget_bias: float | None = None,
) -> None:
    """Puts the weights of a TensorFlow 1 checkpoint into a cell, or into an `nn.LSTM`, `nn.RNN` or `nn.GRU`.

    Either all weights are there and fit, or nothing is changed. Floating-point values are converted to the dtype of the
    weights; a cell that is not built yet is built for the shapes and the dtype of the checkpoint.

    Args:
        cell: a cell, or one of torch's modules, of any number of layers and in one direction or two.
        source: the path of a checkpoint, as for `load_tf1_checkpoint`, or arrays by name.
        scope: the scope of the loop that ran the cell, as for `tf_variables`, such as "rnn"; for a bidirectional module
            that of both directions, such as "bidirectional_rnn". By default the only one in which the names fit, or of
            several the only one in which the shapes do too.
        forget_bias: for an `nn.LSTM`, what TensorFlow's cell added to the forget gate, which a checkpoint does not say.
            1.0 by default, as in TensorFlow; 0.0 for its `CudnnCompatibleLSTMCell`, which added nothing. Cells of this
            library add their own.

    Raises:
        WeightsMismatchError: if a weight is missing or of another shape, or if there are other variables in the scope.
            What an optimiser remembers of a variable, `kernel/Adam` say, is no other variable.
        ValueError: if several scopes fit; they are listed. If `cell` cannot be built, or is given a `forget_bias` that
            it has no use for.
        TypeError: if `cell` is neither a cell nor one of the modules above.
        FileNotFoundError, CheckpointError: as `load_tf1_checkpoint` does.

    The equations must agree, and a checkpoint holds only half of them. An `nn.LSTM` is an LSTM with tanh, without
    peepholes and clipping; an `nn.RNN` has the activation that it was given; an `nn.GRU` is TensorFlow's
    `CudnnCompatibleGRUCell`, not its `GRUCell`, which resets before the recurrent product. An `nn.LSTM` of several
    layers is a `MultiRNNCell`; if it is bidirectional too, it is a `stack_bidirectional_dynamic_rnn`.

    >>> from unspool import LSTMCell, load_tf1_weights, tf_variables
    >>> trained = tf_variables(LSTMCell(4, input_size=3), scope="encoder")
    >>> cell = LSTMCell(4)
    >>> load_tf1_weights(cell, trained)
    >>> cell.input_size, bool((cell.kernel == trained["encoder/lstm_cell/kernel"]).all())
    (3, True)
    >>> lstm = nn.LSTM(3, 4)
    >>> load_tf1_weights(lstm, trained)
    >>> load_tf1_weights(nn.LSTM(3, 5), trained)
    Traceback (most recent call last):
    unspool.checkpoints.errors.WeightsMismatchError: the weights do not fit LSTM(3, 5), in the scope 'encoder'
      encoder/lstm_cell/kernel has shape [7, 16], but expected [8, 20]
      encoder/lstm_cell/bias has shape [16], but expected [20]
    """
    if scope is not None and not isinstance(scope, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"scope must be a string or None, but is {scope!r}")
    layouts = _layouts(cell, forget_bias, scope)
    variables = Source(source if isinstance(source, Mapping) else load_tf1_checkpoint(source))
    layout, scope = find_place(cell, layouts, variables, scope)
    if problems := mismatch(cell, layout, variables, scope):
        raise problems
    write = layout.prepare({name: variables.tensor(full_name(scope, name)) for name in layout.names})
    write()


def _layouts(cell: Any, forget_bias: float | None, scope: str | None) -> list[Layout]:
    if forget_bias is not None and not isinstance(cell, nn.LSTM):
        raise ValueError(f"forget_bias is {forget_bias}, but only an nn.LSTM takes one, not {cell!r}")
    if isinstance(cell, (nn.LSTM, nn.RNN, nn.GRU)):
        return layouts_of_module(cell, forget_bias, scope)
    assert_like_rnncell("cell", cell)
    layout = layout_of_cell(cell)
    if not layout.names:
        raise ValueError(f"{cell!r} has no weights")
    return [layout]
