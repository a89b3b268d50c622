"""`LSTM`, `GRU` and `RNN`: torch's modules, of which the engine runs every layer and direction."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from unspool.dynamo import called_as_it_is
from unspool.loops.arguments import Sequences
from unspool.loops.packed import Full, Packed
from unspool.nn.steps import STEPS, Step
from unspool.structure import Structure, flatten, map_structure
from unspool.tracers import differentiator, has_values, onlooker
from unspool.wrapped import without_views

COMPILED = (torch.float32, torch.float64)
"""What the engine compiles for a CPU. Other dtypes and devices have kernels of their vendors, which torch calls."""

_steps: WeakKeyDictionary[nn.RNNBase, list[Step]] = WeakKeyDictionary()
"""The cells of each module. They keep its plans, and are no part of what is saved and copied."""


class _OnEngine(nn.RNNBase):
    """What the three have in common: another `forward`. Weights, checks, names and copies are torch's."""

    _all_weights: list[list[str]]

    def forward(self, input: Any, hx: Any = None) -> Any:
        """The outputs and the final states, as torch's module returns them."""
        # Dynamo knows the answer: an exporter traces torch's module, `torch.compile` calls the loops as they are.
        if torch.compiler.is_exporting():
            return super().forward(input, hx)
        return without_views(self, self._forward(input, hx))

    @called_as_it_is
    def _forward(self, input: Any, hx: Any) -> Any:
        if not self._runs_here(input, hx):
            return super().forward(input, hx)  # which also says what is wrong with its arguments
        if isinstance(input, PackedSequence):
            data, batch_sizes, order, back = input
            hx = None if hx is None else self.permute_hidden(hx, order)
            data, states = self._run(data, Packed(batch_sizes), hx)
            return PackedSequence(data, batch_sizes, order, back), self.permute_hidden(states, back)
        axis, batched = int(not self.batch_first), input.dim() == 3
        rows = input if batched else input.unsqueeze(axis)
        if not batched and hx is not None:
            hx = map_structure(lambda state: state.unsqueeze(1), hx)
        rows = rows.transpose(0, 1) if self.batch_first else rows
        outputs, states = self._run(rows, Full(rows.shape[1]), hx)
        outputs = outputs.transpose(0, 1) if self.batch_first else outputs
        return (outputs, states) if batched else (outputs.squeeze(axis), map_structure(lambda s: s.squeeze(1), states))

    def _run(self, rows: Tensor, batch: Full, hx: Any) -> tuple[Tensor, Structure]:
        """All layers over the rows of a batch: the rows that the last one puts out, and the final states."""
        steps = iter(self._current_steps())
        starts = iter(self._initial_states(rows, batch, hx))
        finals: list[Any] = []
        for layer in range(self.num_layers):
            found: list[Tensor] = []
            for suffix in ("", "_reverse")[: 1 + self.bidirectional]:
                inputs = batch.reversed(rows) if suffix else rows
                sequences = Sequences(next(steps), inputs, None, next(starts), rows.dtype, counts=batch.counts)
                outputs, state = sequences.run(f"{type(self).__name__}_l{layer}{suffix}")
                found.append(batch.reversed(outputs) if suffix else outputs)
                finals.append(state)
            rows = torch.cat(found, -1) if self.bidirectional else found[0]
            if self.dropout and self.training and layer + 1 < self.num_layers:
                rows = F.dropout(rows, self.dropout)
        return rows, map_structure(_stacked, *finals)

    def _current_steps(self) -> list[Step]:
        """A cell for each layer and direction, with the weights that the module has now."""
        steps = _steps.get(self)
        if steps is None:
            steps = _steps[self] = [STEPS[self.mode](self) for _ in self._all_weights]
        for step, weights in zip(steps, self.all_weights, strict=True):
            step.take(weights)
        return steps

    def _initial_states(self, rows: Tensor, batch: Full, hx: Any) -> list[Structure]:
        """One for each of them."""
        if hx is not None:
            return list(zip(*(h.unbind(0) for h in hx), strict=True) if self.mode == "LSTM" else hx.unbind(0))
        zeros = tuple(rows.new_zeros(batch.batch_size, size) for size in self._state_sizes())
        return [zeros if self.mode == "LSTM" else zeros[0]] * len(self._all_weights)

    def _state_sizes(self) -> tuple[int, ...]:
        """Of h, and of an LSTM's c."""
        return (self.proj_size or self.hidden_size, self.hidden_size)[: 1 + (self.mode == "LSTM")]

    def _runs_here(self, input: Any, hx: Any) -> bool:
        """Whether the engine runs it: it compiles such tensors, they fit, and nobody watches torch's operations."""
        if onlooker() is not None or differentiator() is not None or torch.is_autocast_enabled("cpu"):
            return False
        packed = isinstance(input, PackedSequence)
        data: Any = input.data if packed else input
        if not isinstance(data, Tensor) or data.dim() not in ((2,) if packed else (2, 3)) or not data.numel():
            return False
        if data.dtype not in COMPILED or data.shape[-1] != self.input_size:
            return False
        rows = [int(input.batch_sizes[0])] if packed else [data.shape[not self.batch_first]] * (data.dim() == 3)
        shapes = [(len(self._all_weights), *rows, size) for size in self._state_sizes()]
        states: list[Any] = [] if hx is None else flatten(hx)
        if states:
            fit = [isinstance(each, Tensor) and each.shape in shapes[k : k + 1] for k, each in enumerate(states)]
            if isinstance(hx, Tensor) == (self.mode == "LSTM") or len(fit) != len(shapes) or not all(fit):
                return False
        weight: Any = self.weight_hh_l0
        tensors: list[Tensor] = [data, weight, *states]
        return all(each.dtype == data.dtype and each.is_cpu and has_values(each) for each in tensors)


def _stacked(*states: Tensor) -> Tensor:
    return torch.stack(states)


class LSTM(_OnEngine, nn.LSTM):
    """`torch.nn.LSTM`: its arguments, weights, outputs and errors, run by the engine.

    That is on a CPU, in float32 and float64. Elsewhere, under autocast, and for whoever records or transforms torch's
    operations, `forward` is torch's own. Packed sequences cost what their lengths do.

    >>> lstm = LSTM(3, 4, num_layers=2, bidirectional=True, batch_first=True)
    >>> outputs, (h, c) = lstm(torch.randn(2, 5, 3))
    >>> outputs.shape, h.shape
    (torch.Size([2, 5, 8]), torch.Size([4, 2, 4]))
    >>> same = nn.LSTM(3, 4, num_layers=2, bidirectional=True, batch_first=True)
    >>> same.load_state_dict(lstm.state_dict())
    <All keys matched successfully>
    """


class GRU(_OnEngine, nn.GRU):
    """`torch.nn.GRU`: its arguments, weights, outputs and errors, run by the engine as `LSTM` is.

    >>> from torch.nn.utils.rnn import pack_sequence
    >>> gru = GRU(3, 4)
    >>> outputs, h = gru(pack_sequence([torch.randn(2, 3), torch.randn(5, 3)], enforce_sorted=False))
    >>> outputs.data.shape, h.shape
    (torch.Size([7, 4]), torch.Size([1, 2, 4]))
    """


class RNN(_OnEngine, nn.RNN):
    """`torch.nn.RNN`: its arguments, weights, outputs and errors, run by the engine as `LSTM` is.

    >>> rnn = RNN(3, 4, nonlinearity="relu")
    >>> outputs, h = rnn(torch.randn(5, 3))  # one sequence, without a batch
    >>> outputs.shape, h.shape
    (torch.Size([5, 4]), torch.Size([1, 4]))
    """
