"""`RNN`: a cell as a layer, over a batch of sequences in any form."""

from __future__ import annotations

from contextlib import suppress
from itertools import product
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.nn.utils.rnn import PackedSequence

from unspool.cells.fresh import mirrored, reset_any
from unspool.cells.rows_first import RowsFirst, has_rows_first, own_layout, rows_first
from unspool.cells.torch_cells import as_cell
from unspool.engine import Explanation, Memory, Options, check_memory
from unspool.flags import check_flag
from unspool.layers.batches import Padded, Rows, as_batch
from unspool.layers.resets import as_flags
from unspool.layers.states import LearnedState, as_states
from unspool.layers.steps import Resetting, Showing, Truncating
from unspool.loops.arguments import as_state, begin, check_state_rows
from unspool.loops.bidirectional_dynamic import bidirectional_dynamic_rnn
from unspool.loops.directions import join
from unspool.loops.dynamic import dynamic_rnn
from unspool.loops.explain import explain
from unspool.loops.packed import Sorted
from unspool.loops.step_index import StepIndex
from unspool.sizes import UNKNOWN
from unspool.structure import flatten, map_structure, map_tensors
from unspool.wrapped import without_views


class RNN(nn.Module):
    """Runs a cell over a batch of sequences: `outputs, state = layer(x, state, lengths)`.

    It stands for this loop, for every row `b` of the batch:

        for t in range(lengths[b]):
            outputs[b, t], state[b] = cell(x[b, t], state[b])

    Dtype and device are those of the inputs, which may come as

    | x                                        | outputs                    |
    |------------------------------------------|----------------------------|
    | padded, `[batch, time, ...]`, `lengths`  | padded, zero past a length |
    | one sequence, `[time, depth]`            | `[time, ...]`              |
    | a `PackedSequence`                       | a `PackedSequence`         |
    | a nested tensor of jagged layout         | the same                   |
    | a structure of padded tensors            | padded                     |

    Args:
        cell: an `RNNCell`, one of torch's cells, or anything with `state_size`, `output_size` and a call;
            `unspool.cell` makes one of any step.
        batch_first: whether padded tensors are `[batch, time, ...]`, not `[time, batch, ...]`.
        bidirectional: the cell that runs from the end of each sequence to its start; True makes one like `cell`, with
            weights of its own. Outputs of the two stand side by side, on the last axis; the state is a pair.
        initial_state: `"zero"`, or `"learned"`: a parameter for each tensor of the state, from zeros on.
        return_states: `"all"` also returns the state after every step, `[batch, time, ...]`, with gradients.
        detach_every: truncated backpropagation: no gradient goes through the state from one segment of so many steps
            to the one before.
        memory: what is kept for backward: `Keep()`, `Recompute()` or `Checkpoint(every=N)`.
        swap_memory: whether that waits in host memory while a GPU goes on.

    Raises:
        TypeError: if `cell` or `bidirectional` is no cell, or an option is not of its kind.
        ValueError: if an option is none of those above.

    >>> from unspool import RNN, LSTMCell
    >>> layer = RNN(LSTMCell(4))
    >>> outputs, state = layer(torch.randn(2, 5, 3), lengths=[5, 2])
    >>> outputs.shape, bool((outputs[1, 2:] == 0).all()), bool((outputs[1, 1] == state.h[1]).all())
    (torch.Size([2, 5, 4]), True, True)
    """

    def __init__(
        self,
        cell: Any,
        *,
        batch_first: bool = True,
        bidirectional: Any = False,
        initial_state: str = "zero",
        return_states: Any = False,
        detach_every: int | None = None,
        memory: Memory | None = None,
        swap_memory: bool = False,
    ) -> None:
        super().__init__()
        check_flag("batch_first", batch_first)
        check_flag("swap_memory", swap_memory)
        check_memory(memory)
        self.cell = as_cell("cell", cell, starts=False)
        self.cell_bw = (
            None
            if bidirectional is False
            else as_cell("bidirectional", mirrored(self.cell) if bidirectional is True else bidirectional)
        )
        self.batch_first, self.memory, self.swap_memory = batch_first, memory, swap_memory
        if return_states is not False and return_states != "all":
            raise ValueError(f'return_states must be False or "all", but is {return_states!r}')
        self.return_states = return_states
        self.detach_every = _as_every(detach_every)
        if initial_state not in ("zero", "learned"):
            raise ValueError(f'initial_state must be "zero" or "learned", but is {initial_state!r}')
        learned = initial_state == "learned"
        self.initial_state = nn.ModuleList(_learned(each) for each in self._cells) if learned else None
        self._wrap()

    @property
    def bidirectional(self) -> bool:
        """Whether there is a cell for the other direction."""
        return self.cell_bw is not None

    def forward(self, x: Any, state: Any = None, lengths: Any = None, *, resets: Any = None) -> Any:
        """Runs the cell over a batch of sequences.

        Args:
            x: the inputs, in any of the forms above.
            state: the state to start from, a pair of them if the layer is bidirectional; its initial state if None.
            lengths: the length of each row of padded inputs; None for full length.
            resets: flags `[batch, time]` (or as `batch_first` has it): a row starts anew, from the layer's initial
                state, before each step whose flag is set, such as the first step of an episode.

        Returns:
            The outputs and the final state; with `return_states="all"` also the states after every step.
        """
        plain = lengths is None and resets is None and self.detach_every is None
        if plain and isinstance(x, PackedSequence) and Sorted.serves(x):
            return without_views(self, self._forward_packed(Rows(x), state))
        batch, cells, inputs, starts = self._given(x, state, lengths, resets)
        run: Any = bidirectional_dynamic_rnn if self.bidirectional else dynamic_rnn
        outputs, finals = run(*cells, inputs, batch.lengths, *starts, **self._options)
        if not self.bidirectional:
            outputs, finals = [outputs], [finals]
        return without_views(self, self._returned(outputs, finals, batch))

    def _forward_packed(self, batch: Rows, state: Any) -> Any:
        """Runs the cells over packed rows as they are, without padding."""
        options = Options(None, self.swap_memory, self.memory)
        each = [
            batch.sorted.run(self._running(k, False), start, options, backwards=bool(k), name=name)
            for k, (start, name) in enumerate(zip(self._starts(state, batch), self._directions, strict=True))
        ]
        return without_views(
            self, self._returned([outputs for outputs, _ in each], [final for _, final in each], batch)
        )

    def explain(self, x: Any, state: Any = None, lengths: Any = None, *, resets: Any = None) -> Explanation:
        """Says how the layer would run the same arguments, without running them; the first direction of two.

        >>> from unspool import RNN, GRUCell
        >>> RNN(GRUCell(4)).explain(torch.zeros(2, 5, 3)).planned
        True
        """
        batch, cells, inputs, starts = self._given(x, state, lengths, resets)
        return explain(cells[0], inputs, batch.lengths, starts[0], **self._options)

    def step(self, x: Any, state: Any = None) -> tuple[Any, Any]:
        """One step, for streams: `output, state = layer.step(x, state)`.

        Args:
            x: the inputs of one step, `[batch, ...]`, or `[depth]` of a single sequence.
            state: what the step before returned; None at the first.

        Raises:
            ValueError: if the layer is bidirectional: it would have to know the end.

        >>> from unspool import RNN, GRUCell
        >>> layer, x = RNN(GRUCell(4)), torch.randn(5, 3)
        >>> outputs, _ = layer(x)
        >>> state = None
        >>> for row in x:
        ...     output, state = layer.step(row, state)
        >>> torch.allclose(output, outputs[-1], atol=1e-6)
        True
        """
        if self.bidirectional:
            raise ValueError("a bidirectional layer has no step: its other direction begins at the end of a sequence")
        unbatched = isinstance(x, Tensor) and x.dim() == 1 and x.is_floating_point()
        x, axes = x[None] if unbatched else x, 0 if unbatched else getattr(self.cell, "batch_axis", 0)
        cell = _with_rows_first(self.cell)
        if state is None:
            state = self._begun(0, x)
        else:
            state = map_structure(lambda leaf: leaf[None], state) if unbatched else rows_first(state, axes)
        output, state = cell(x, state)
        if unbatched:
            return tuple(map_tensors(lambda leaf: leaf[0], each) for each in (output, state))
        return output, own_layout(state, axes)

    def materialize(self, x: Any) -> RNN:
        """Makes the weights that wait for the first inputs, for inputs like `x`; returns the layer.

        Optimisers, `DistributedDataParallel` and `fully_shard` want them made.

        >>> from unspool import RNN, GRUCell
        >>> sum(weight.numel() for weight in RNN(GRUCell(4)).materialize(torch.zeros(1, 1, 3)).parameters())
        96
        """
        batch = as_batch(x, None, self.batch_first)
        step = map_structure(lambda leaf: leaf.select(1 if self.batch_first else 0, 0)[:1], batch.inputs)
        for k, cell in enumerate(self._cells):
            state = self._begun(k, step)
            if isinstance(cell, nn.Module) and any(map(is_lazy, cell.parameters())):
                with torch.no_grad():
                    _with_rows_first(cell)(step, state)
        self._wrap()
        return self

    def reset_parameters(self) -> None:
        """Draws the weights of the cells anew, in place; a learned initial state is zero again.

        >>> from unspool import RNN, GRUCell
        >>> with torch.device("meta"):
        ...     layer = RNN(GRUCell(4, input_size=3), initial_state="learned")
        >>> layer.to_empty(device="cpu").reset_parameters()
        >>> layer(torch.zeros(1, 2, 3))[0].shape
        torch.Size([1, 2, 4])
        """
        for k, cell in enumerate(self._cells):
            reset_any(cell)
            if (learned := self._learned(k)) is not None:
                learned.reset_parameters()

    def extra_repr(self) -> str:
        """The options that differ from what they are by default."""
        given: dict[str, tuple[Any, Any]] = {
            "batch_first": (self.batch_first, True),
            "return_states": (self.return_states, False),
            "detach_every": (self.detach_every, None),
            "memory": (self.memory, None),
            "swap_memory": (self.swap_memory, False),
        }
        return ", ".join(f"{name}={value!r}" for name, (value, default) in given.items() if value != default)

    @property
    def _cells(self) -> list[Any]:
        return [self.cell] if self.cell_bw is None else [self.cell, self.cell_bw]

    @property
    def _directions(self) -> list[str]:
        return ["fw", "bw"] if self.bidirectional else [""]

    @property
    def _options(self) -> dict[str, Any]:
        return {"time_major": not self.batch_first, "swap_memory": self.swap_memory, "memory": self.memory}

    def _given(self, x: Any, state: Any, lengths: Any, resets: Any) -> tuple[Padded, list[Any], Any, list[Any]]:
        """The batch, and what a loop over it is given: the cell of each direction, inputs, and where they start."""
        batch = as_batch(x, lengths, self.batch_first)
        flags = None if resets is None else as_flags(resets, batch, self.bidirectional)
        inputs = batch.inputs if flags is None else (batch.inputs, *flags)
        inputs = inputs if self.detach_every is None else (inputs, StepIndex())
        starts = self._starts(state, batch)
        return batch, [self._running(k, flags is not None) for k in range(len(starts))], inputs, starts

    def _starts(self, state: Any, batch: Padded) -> list[Any]:
        """What each direction starts from."""
        given = as_states(state, 2, "direction") if self.bidirectional else [state]
        return [self._start_of(k, each, batch) for k, each in enumerate(given)]

    def _learned(self, k: int) -> LearnedState | None:
        return None if self.initial_state is None else cast(LearnedState, self.initial_state[k])

    def _start_of(self, k: int, state: Any, batch: Padded) -> Any:
        """The state that a direction starts from, with rows on the first axes; None for its cell's own."""
        if state is not None:
            axes = getattr(self._cells[k], "batch_axis", 0)
            if batch.unbatched:
                return map_structure(lambda leaf: leaf[None], state)
            given = rows_first(state, axes)
            check_state_rows(given, batch.rows, "state")
            return given
        learned = self._learned(k)
        return None if learned is None else learned.rows(batch.rows, batch.device)

    def _begun(self, k: int, step: Any) -> Any:
        """The state before a first step whose inputs are given; the cell is ready for it."""
        cell, learned = _with_rows_first(self._cells[k]), self._learned(k)
        leaves = flatten(step)
        rows, device = leaves[0].shape[0], leaves[0].device
        state = as_state(cell, None, None, rows, leaves, "state") if learned is None else learned.rows(rows, device)
        begin(cell, step, state)
        return state

    def _wrap(self) -> None:
        """Makes what is run of each cell before anybody traces a call, who would trace it again after the first."""
        self._wrapped: dict[tuple[int, bool], tuple[Any, Any]] = {}
        for k, resetting in product(range(len(self._cells)), (False, True)):
            with suppress(TypeError):  # which a call will raise that needs it
                self._running(k, resetting)

    def _running(self, k: int, resetting: bool) -> Any:
        """A cell with what is done at every step around it; kept, since whoever runs has the plans."""
        cell = self._cells[k]
        kept = self._wrapped.get((k, resetting))
        if kept is not None and kept[0] is cell:
            return kept[1]
        runs = _with_rows_first(cell)
        if resetting:
            runs = Resetting(runs, self._learned(k), k)
        if self.detach_every is not None:  # what is carried is cut off, not what a row starts anew from
            runs = Truncating(runs, self.detach_every)
        if self.return_states:
            runs = Showing(runs)
        self._wrapped[k, resetting] = cell, runs
        return runs

    def _returned(self, outputs: Any, finals: Any, batch: Padded) -> Any:
        """What the caller gets of every direction's outputs and final state."""
        shown: list[Any] = [each[1] for each in outputs] if self.return_states else []
        outputs = [each[0] for each in outputs] if self.return_states else list(outputs)
        states = [
            map_structure(lambda leaf: leaf[0], each) if batch.unbatched else own_layout(each, axes)
            for each, axes in zip(finals, (getattr(cell, "batch_axis", 0) for cell in self._cells), strict=True)
        ]
        every = [batch.outputs(each) for each in shown]
        if self.bidirectional:
            joined = join(*outputs, axis=-1)
            return batch.outputs(joined), tuple(states), *([tuple(every)] if every else [])
        return batch.outputs(outputs[0]), states[0], *every


def _with_rows_first(cell: Any) -> Any:
    return cell if has_rows_first(cell) else RowsFirst(cell)


def _learned(cell: Any) -> LearnedState:
    if UNKNOWN in flatten(cell.state_size):
        raise ValueError('initial_state="learned" needs a cell that knows its state_size: give it to unspool.cell')
    return LearnedState(cell.state_size)


def _as_every(detach_every: Any) -> int | None:
    if detach_every is None:
        return None
    if not isinstance(detach_every, int) or isinstance(detach_every, bool) or detach_every < 1:
        raise ValueError(f"detach_every must be a positive number of steps, but is {detach_every!r}")
    return detach_every
