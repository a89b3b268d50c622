"""`Stack`: layers on top of one another, with dropout between them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from unspool.flags import check_flag
from unspool.layers.rnn import RNN
from unspool.layers.states import as_states
from unspool.structure import Structure, describe, map_tensors
from unspool.wrapped import without_views


class Stack(nn.Module):
    """Layers on top of one another: each runs over the whole outputs of the one below.

        for k, layer in enumerate(layers):
            x, states[k] = layer(x, states[k], lengths)
            x = dropout(x)  # but for the last

    `MultiRNNCell`, which is one cell of several, computes the same without dropout; here the products of every layer
    with its inputs leave the loop.

    Args:
        layers: cells or `RNN` layers, from the inputs upwards.
        dropout: the probability with which each number between two layers is zero in training.
        batch_first, bidirectional, initial_state, detach_every, memory, swap_memory: of the layers that are made of
            cells, as `RNN` has them.

    Raises:
        TypeError: if `layers` is no list, one of its entries is neither a cell nor a layer, or `bidirectional` no bool.
        ValueError: if it is empty, `dropout` is no probability, or a layer has another `batch_first`.

    >>> from unspool import GRUCell, LSTMCell, Stack
    >>> stack = Stack([LSTMCell(4), GRUCell(6)], dropout=0.1, bidirectional=True)
    >>> outputs, states = stack(torch.randn(2, 5, 3), lengths=[5, 2])
    >>> outputs.shape, len(states)
    (torch.Size([2, 5, 12]), 2)
    """

    def __init__(
        self, layers: Iterable[Any], *, dropout: float = 0.0, batch_first: bool = True, **options: Any
    ) -> None:
        super().__init__()
        check_flag("batch_first", batch_first)
        if not isinstance(layers, list | tuple | nn.ModuleList):
            raise TypeError(f"layers must be a list of cells or layers, but is {describe(layers)}")
        if not layers:
            raise ValueError("layers is empty: a stack has at least one layer")
        if isinstance(dropout, bool) or not 0 <= dropout <= 1:
            raise ValueError(f"dropout must be a probability, but is {dropout!r}")
        if not isinstance(options.get("bidirectional", False), bool):
            raise TypeError(
                "bidirectional must be True or False for a stack, whose layers each have a cell of their own"
            )
        if "return_states" in options:
            raise ValueError("return_states is an option of a layer: give it to the RNN whose states are wanted")
        each = [layer if isinstance(layer, RNN) else RNN(layer, batch_first=batch_first, **options) for layer in layers]
        for k, layer in enumerate(each):
            if layer.batch_first != batch_first:
                raise ValueError(f"layers[{k}] has batch_first={layer.batch_first}, but the stack {batch_first}")
            if layer.return_states:
                raise ValueError(f"layers[{k}] returns all its states, which a stack has no place for")
        self.layers, self.dropout, self.batch_first = nn.ModuleList(each), dropout, batch_first

    def forward(
        self, x: Any, state: Structure = None, lengths: Any = None, *, resets: Any = None
    ) -> tuple[Structure, tuple[Structure, ...]]:
        """Runs all layers; returns the outputs of the last and the final states of all.

        Args:
            x: the inputs, as `RNN` takes them.
            state: a tuple of the layers' states, or None.
            lengths: the length of each row, or None.
            resets: flags of the steps at which rows start anew, or None.
        """
        states: list[Any] = []
        for k, (layer, start) in enumerate(zip(self._layers, as_states(state, len(self.layers), "layer"), strict=True)):
            x, final = layer(self._dropped(x) if k else x, start, lengths, resets=resets)
            states.append(final)
        return without_views(self, (x, tuple(states)))

    def step(self, x: Structure, state: Structure = None) -> tuple[Structure, tuple[Structure, ...]]:
        """One step of all layers, for streams."""
        states: list[Any] = []
        for k, (layer, start) in enumerate(zip(self._layers, as_states(state, len(self.layers), "layer"), strict=True)):
            x, new = layer.step(self._dropped(x) if k else x, start)
            states.append(new)
        return x, tuple(states)

    def materialize(self, x: Any) -> Stack:
        """Makes the weights that wait for the first inputs, for inputs like `x`; returns the stack."""
        for layer in self._layers:
            layer.materialize(x)
            with torch.no_grad():
                x, _ = layer(x)
        return self

    def reset_parameters(self) -> None:
        """Draws the weights of all layers anew, in place, as `RNN.reset_parameters` does."""
        for layer in self._layers:
            layer.reset_parameters()

    def extra_repr(self) -> str:
        """The options that differ from what they are by default."""
        given = {"dropout": (self.dropout, 0.0), "batch_first": (self.batch_first, True)}
        return ", ".join(f"{name}={value!r}" for name, (value, default) in given.items() if value != default)

    @property
    def _layers(self) -> list[RNN]:
        return [cast(RNN, layer) for layer in self.layers]

    def _dropped(self, outputs: Structure) -> Structure:
        if not self.training or not self.dropout:
            return outputs
        if isinstance(outputs, PackedSequence):
            return outputs._replace(data=nn.functional.dropout(outputs.data, self.dropout))

        def drop(leaf: Tensor) -> Tensor:
            return nn.functional.dropout(leaf, self.dropout) if leaf.is_floating_point() else leaf

        return map_tensors(drop, outputs)
