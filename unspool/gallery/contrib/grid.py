"""Grid LSTMs, for spectrograms: one LSTM runs up the frequencies of a step and another through time, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from unspool.cells.layer import check_units
from unspool.flags import checks_flags
from unspool.gallery.contrib.layer import ContribCell, joined, shards


class GridLSTMCell(ContribCell):
    """Two LSTMs on a grid of time and frequency, which see each other's memory (Kalchbrenner, Danihelka & Graves, 2016,
    "Grid Long Short-Term Memory", ICLR), with peepholes as in Sainath and Li's.

        i, j, f, o = split([x_k, h_t, h_f] @ W + B, 4)       for window k; h_t is its own, h_f that of window k - 1
        i, f, o   += I_f * c_f + I_t * c_t and so on         with `use_peepholes`
        c_f', h_f'  from c_f by the frequencies' gates;      c_t', h_t'  from c_t by those of time

    The state is a namedtuple of a memory and an output of time for each window; the output has those of time and of
    frequency, window by window.

    Args:
        num_units: the width N of a window's memories and outputs.
        use_peepholes: whether gates see both memories.
        share_time_frequency_weights: whether both LSTMs have the same weights.
        cell_clip: bound of the memories' absolute value.
        initializer: fills kernels and diagonals; Glorot's uniform by default.
        num_unit_shards: in how many pieces each kernel is kept.
        forget_bias: added to the forget gates.
        feature_size: how wide a window is.
        frequency_skip: how far it is to the next.
        num_frequency_blocks: how many windows each block of frequencies has, as a list.
        start_freqindex_list, end_freqindex_list: where the blocks begin and end; each has its own weights.
        couple_input_forget_gates: whether what is forgotten is what is not taken in.
        state_is_tuple: whether the state is a namedtuple or one tensor.
        reuse, name, dtype, trainable: see `unspool.LSTMCell`.
        input_size: the depth of the inputs, to build the weights at once.

    >>> cell = GridLSTMCell(3, feature_size=2, frequency_skip=2, num_frequency_blocks=[3])
    >>> output, state = cell(torch.zeros(2, 6), cell.zero_state(2, torch.float32))
    >>> output.shape, state._fields[:2]
    (torch.Size([2, 18]), ('state_f00_b00_c', 'state_f00_b00_m'))
    """

    directions: tuple[str, ...] = ("",)
    """Before the names of weights and states, with an underscore."""

    @checks_flags
    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        share_time_frequency_weights: bool = False,
        cell_clip: float | None = None,
        initializer: Any = None,
        num_unit_shards: int = 1,
        forget_bias: float = 1.0,
        feature_size: int | None = None,
        frequency_skip: int | None = None,
        num_frequency_blocks: Sequence[int] | None = None,
        start_freqindex_list: Sequence[int] | None = None,
        end_freqindex_list: Sequence[int] | None = None,
        couple_input_forget_gates: bool = False,
        state_is_tuple: bool = True,
        reuse: bool | None = None,
        *,
        name: str | None = None,
        dtype: Any = None,
        trainable: bool = True,
        input_size: int | None = None,
    ) -> None:
        super().__init__(num_units, initializer, reuse, name, dtype, trainable)
        if num_frequency_blocks is None:
            raise ValueError("Must specify num_frequency_blocks")
        self.use_peepholes, self.share_time_frequency_weights = use_peepholes, share_time_frequency_weights
        self.cell_clip, self.forget_bias = cell_clip, forget_bias
        self.num_unit_shards = check_units("num_unit_shards", num_unit_shards)
        self.feature_size = check_units("feature_size", feature_size)
        self.frequency_skip = check_units("frequency_skip", frequency_skip)
        self.num_frequency_blocks = [check_units("each of num_frequency_blocks", each) for each in num_frequency_blocks]
        self.start_freqindex_list, self.end_freqindex_list = start_freqindex_list, end_freqindex_list
        self.couple_input_forget_gates, self.state_is_tuple = couple_input_forget_gates, state_is_tuple
        self.gates = 3 if couple_input_forget_gates else 4
        self.total = sum(self.num_frequency_blocks) * len(self.directions)
        self.output_size = 2 * self.num_units * self.total
        weights = self.shapes(0)
        ways = [f"{way}_" for way in self.directions if way]
        self.variable_names = {each: f"{each[:3]}/{each[4:]}" for each in weights if each[:4] in ways}
        self.zeros = tuple(each for each in weights if "B_" in each)
        self.declare(input_size)

    @property
    def state_tuple_type(self) -> Any:
        """The kind of namedtuple that the state is; None with `state_is_tuple=False`."""
        if not self.state_is_tuple:
            return None
        return _state_type("".join(each.title() for each in self.directions), tuple(self._state_names()))

    @property
    def state_size(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The width of each memory and output."""
        if not self.state_is_tuple:
            return 2 * self.num_units * self.total
        return self.state_tuple_type(*[self.num_units] * (2 * self.total))

    def _state_names(self) -> list[str]:
        """The names of memories and outputs, in the order of the windows."""
        counts = list(enumerate(self.num_frequency_blocks))
        return [
            f"{way}_state_f{k:02d}_b{block:02d}_{part}".lstrip("_")
            for way in self.directions
            for block, count in counts
            for k in range(count)
            for part in "cm"
        ]

    @property
    def input_size(self) -> int | None:
        """The depth of the inputs; None until the weights are made."""
        return self.built_for

    def build(self, input_size: Any, **where: Any) -> None:
        """Makes the weights, for inputs that have all windows."""
        self._starts(int(input_size))
        super().build(input_size, **where)

    def _starts(self, depth: int) -> list[list[int]]:
        """Where each window of each block begins."""
        blocks = self.num_frequency_blocks
        starts, ends = self.start_freqindex_list, self.end_freqindex_list
        if not starts:
            if len(blocks) != 1:
                raise ValueError(f"Length of num_frequency_blocks is not 1, but instead is {len(blocks)}")
            starts, ends = [0], [depth]
        if len(starts) != len(ends or ()):
            raise ValueError(f"Length of start and end freqindex_list does not match {len(starts)} {len(ends or ())}")
        if len(blocks) != len(starts):
            raise ValueError(
                f"Length of num_frequency_blocks is not equal to start_freqindex_list {len(blocks)} {len(starts)}"
            )
        for first, last, count in zip(starts, ends or (), blocks, strict=True):
            found = (last - first - self.feature_size) // self.frequency_skip + 1
            if found != count:
                raise ValueError(
                    f"Invalid num_frequency_blocks, requires {count} but gets {found}, please check the input size and "
                    "filter config are correct."
                )
        counted = zip(starts, blocks, strict=True)
        return [[first + k * self.frequency_skip for k in range(count)] for first, count in counted]

    def shapes(self, depth: int) -> dict[str, tuple[int, ...]]:
        """The shapes of the weights."""
        return {
            f"{way}_{each}".lstrip("_"): shape
            for way in self.directions
            for block in range(len(self.num_frequency_blocks))
            for each, shape in self._block_shapes(block).items()
        }

    def _block_shapes(self, block: int) -> dict[str, tuple[int, ...]]:
        units, columns = self.num_units, self.gates * self.num_units
        shapes: dict[str, tuple[int, ...]] = {}
        for kind in "f" if self.share_time_frequency_weights else "ft":
            shapes.update(shards(f"W_{kind}_{block}", self.feature_size + 2 * units, columns, self.num_unit_shards))
            shapes[f"B_{kind}_{block}"] = (columns,)
        if self.use_peepholes:
            for of in ("freq",) if self.share_time_frequency_weights else ("freq", "time"):
                for gate in "IO" if self.couple_input_forget_gates else "FIO":
                    shapes.update({f"W_{gate}_diag_{of}{by}_{block}": (units,) for by in "ft"})
        return shapes

    def forward(self, inputs: Tensor, state: Any) -> tuple[Tensor, Any]:
        """One step; the output has those of time and of frequency."""
        outputs, states = self._run("", inputs, self._starts(inputs.shape[1]), state)
        new = self.state_tuple_type(*states) if self.state_is_tuple else torch.cat(states, 1)
        return torch.cat(outputs, 1), new

    def _run(self, way: str, inputs: Tensor, starts: list[list[int]], state: Any) -> tuple[list[Tensor], list[Tensor]]:
        """All blocks in one direction: outputs of time and frequency, and memories and outputs of time."""
        names, units = self._state_names(), self.num_units
        parts: dict[str, Tensor] = {}
        if self.state_is_tuple:
            parts = dict(zip(names, state, strict=True))
        outputs: list[Tensor] = []
        states: list[Tensor] = []
        for block, places in enumerate(starts):
            c_f = h_f = inputs.new_zeros(inputs.shape[0], units)
            for k, place in enumerate(places):
                if self.state_is_tuple:
                    stem = f"{way}_state_f{k:02d}_b{block:02d}".lstrip("_")
                    c_t, h_t = parts[f"{stem}_c"], parts[f"{stem}_m"]
                else:  # of several blocks TensorFlow reads the first one's state too
                    c_t, h_t = (state[:, n * units : (n + 1) * units] for n in (2 * k, 2 * k + 1))
                rows = torch.cat([inputs[:, place : place + self.feature_size], h_t, h_f], 1)
                (c_f, h_f), (c_t, h_t) = self._window(way, block, rows, c_f, c_t)
                outputs += [h_t, h_f]
                states += [c_t, h_t]
        return outputs, states

    def _window(self, way: str, block: int, rows: Tensor, c_f: Tensor, c_t: Tensor) -> list[tuple[Tensor, Tensor]]:
        """The memory and the output of frequency and of time, for one window."""
        prefix = f"{way}_".lstrip("_")
        shared = self.share_time_frequency_weights
        memories: list[Tensor] = []
        lasts: list[tuple[str, Tensor]] = []
        for kind, of, memory in (("f", "freq", c_f), ("f" if shared else "t", "freq" if shared else "time", c_t)):
            kernel = joined(self, f"{prefix}W_{kind}_{block}", self.num_unit_shards)
            sums = torch.addmm(getattr(self, f"{prefix}B_{kind}_{block}"), rows, kernel).chunk(self.gates, 1)
            i = torch.sigmoid(self._seen(sums[0], f"{prefix}W_I_diag_{of}", block, c_f, c_t))
            if self.couple_input_forget_gates:
                f = 1 - i
            else:
                f = torch.sigmoid(self._seen(sums[2] + self.forget_bias, f"{prefix}W_F_diag_{of}", block, c_f, c_t))
            memory = f * memory + i * torch.tanh(sums[1])
            if self.cell_clip is not None:
                memory = memory.clamp(-self.cell_clip, self.cell_clip)
            memories.append(memory)
            lasts.append((of, sums[-1]))
        return [
            (memory, torch.sigmoid(self._seen(o, f"{prefix}W_O_diag_{of}", block, *memories)) * torch.tanh(memory))
            for (of, o), memory in zip(lasts, memories, strict=True)
        ]

    def _seen(self, sums: Tensor, name: str, block: int, c_f: Tensor, c_t: Tensor) -> Tensor:
        """A gate's sum with what it sees of both memories."""
        if not self.use_peepholes:
            return sums
        return sums + getattr(self, f"{name}f_{block}") * c_f + getattr(self, f"{name}t_{block}") * c_t


class BidirectionalGridLSTMCell(GridLSTMCell):
    """A grid LSTM that runs up and down the frequencies (Kalchbrenner, Danihelka & Graves, 2016, "Grid Long Short-Term
    Memory", ICLR).

        outputs = [grid(x_0 .. x_K), grid'(x_K .. x_0)]

    The grids are those of `GridLSTMCell`, with weights and states of their own.

    Args:
        backward_slice_offset: how much higher the windows of the way down begin; zeros stand beyond the end.
        num_units, use_peepholes, share_time_frequency_weights, cell_clip, initializer, num_unit_shards, forget_bias,
        feature_size, frequency_skip, num_frequency_blocks, start_freqindex_list, end_freqindex_list,
        couple_input_forget_gates, reuse, name, dtype, trainable, input_size: see `GridLSTMCell`.

    >>> cell = BidirectionalGridLSTMCell(3, feature_size=2, frequency_skip=2, num_frequency_blocks=[3])
    >>> output, state = cell(torch.zeros(2, 6), cell.zero_state(2, torch.float32))
    >>> output.shape, state._fields[6]
    (torch.Size([2, 36]), 'bwd_state_f00_b00_c')
    """

    directions = ("fwd", "bwd")

    @checks_flags
    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        share_time_frequency_weights: bool = False,
        cell_clip: float | None = None,
        initializer: Any = None,
        num_unit_shards: int = 1,
        forget_bias: float = 1.0,
        feature_size: int | None = None,
        frequency_skip: int | None = None,
        num_frequency_blocks: Sequence[int] | None = None,
        start_freqindex_list: Sequence[int] | None = None,
        end_freqindex_list: Sequence[int] | None = None,
        couple_input_forget_gates: bool = False,
        backward_slice_offset: int = 0,
        reuse: bool | None = None,
        *,
        name: str | None = None,
        dtype: Any = None,
        trainable: bool = True,
        input_size: int | None = None,
    ) -> None:
        super().__init__(
            num_units,
            use_peepholes,
            share_time_frequency_weights,
            cell_clip,
            initializer,
            num_unit_shards,
            forget_bias,
            feature_size,
            frequency_skip,
            num_frequency_blocks,
            start_freqindex_list,
            end_freqindex_list,
            couple_input_forget_gates,
            True,
            reuse,
            name=name,
            dtype=dtype,
            trainable=trainable,
            input_size=input_size,
        )
        self.backward_slice_offset = int(backward_slice_offset)

    def forward(self, inputs: Tensor, state: Any) -> tuple[Tensor, Any]:
        """One step; the output has both directions."""
        starts, offset = self._starts(inputs.shape[1]), self.backward_slice_offset
        moved = F.pad(inputs, (max(-offset, 0), max(offset, 0)))
        back = [[place + max(offset, 0) for place in reversed(block)] for block in starts]
        outputs, states = self._run("fwd", inputs, starts, state)
        down, others = self._run("bwd", moved, back, state)
        return torch.cat(outputs + down, 1), self.state_tuple_type(*states, *others)


@cache
def _state_type(kind: str, names: tuple[str, ...]) -> Any:
    fields: Any = [(name, Any) for name in names]
    return NamedTuple(f"{'Bidirectional' if kind else ''}GridLSTMStateTuple", fields)
