"""The layout of rows whose lengths only the device knows.

Each operation costs the host as much as a small kernel takes, whatever its size: what several questions share is found
once, and a question is then one operation or two.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cached_property

import torch
from torch import Tensor

from unspool.engine.execute.layout import Layout
from unspool.engine.memory.gathering import clear, gather


class DeviceLayout(Layout):
    """Rows whose lengths only the device knows: it sorts them, and nothing here waits for it.

    Every step has all rows, the longest first. Only a core may leave out those that have ended: whatever is computed
    for many steps at once computes them too, from what it is lent of the longest row at the first of these steps, so
    that nothing is computed that no row would. Their gradients are zero, and so are their outputs.

    >>> layout = DeviceLayout(torch.tensor([1, 3]), steps=4, device=torch.device("cpu"))
    >>> layout.counts, layout.running(0, 4)
    ((2, 2, 2, 2), tensor([2, 1, 1, 0]))
    >>> layout.take(torch.arange(8).reshape(4, 2), 0, 4)
    tensor([1, 0, 3, 1, 5, 1, 1, 1])
    >>> layout.lent(0, 4)
    tensor([0, 1, 2, 0, 4, 0, 0, 0])
    """

    on_device = True

    def __init__(self, lengths: Tensor, steps: int, device: torch.device) -> None:
        batch_size = lengths.shape[0]
        super().__init__(batch_size, Layout.full(batch_size, steps, device).counts, None, device)
        self._lengths = lengths  # those out of range too: no step is before the first one, or after the last
        self._of_steps: dict[tuple[str, int, int], Tensor] = {}
        self._zeros: dict[torch.dtype, Tensor] = {}

    @property
    def lengths(self) -> Tensor:
        """Of each row."""
        return self._lengths

    def with_lengths(self, lengths: Tensor) -> DeviceLayout:
        """As many rows and steps; nothing is asked of the device yet."""
        return DeviceLayout(lengths, self.steps, self.device)

    def apart(self) -> DeviceLayout:
        """The same, with all that has been found; what is found from now on, it has for itself."""
        found = copy.copy(self)
        found._of_steps, found._zeros = dict(self._of_steps), dict(self._zeros)
        return found

    @property
    def sorted(self) -> bool:
        """By the device."""
        return True

    @property
    def scattered(self) -> bool:
        """As far as the host knows."""
        return True

    @property
    def counted(self) -> Layout:
        """Waits for the device."""
        return Layout.of(self._lengths, self.steps, self.device)

    @property
    def fills(self) -> bool:
        """Rows that do not run are zero."""
        return True

    @cached_property
    def shortest(self) -> int:
        """A row may have no step at all."""
        return 0

    def running(self, start: int, stop: int) -> Tensor:
        """How many rows run at each of some steps."""
        return self._steps_of(self._running, start, stop)

    def unsort(self, leaf: Tensor) -> Tensor:
        """The opposite of `sort`."""
        return leaf.index_select(0, self._sorted_places(self.batch_size))

    def take(self, leaf: Tensor, start: int, stop: int) -> Tensor:
        """The rows of `leaf` at some steps, in the order of their lengths."""
        if leaf.is_contiguous():
            return self._read(self._steps_of(leaf, start, stop), start, stop)
        by_batch = leaf.transpose(0, 1)
        if by_batch.is_contiguous():
            return gather(by_batch.flatten(0, 1), self._places_by_row(start, stop))
        if leaf.stride(0) == 0:  # one step seen many times, such as the gradient of a sum
            return gather(leaf[0].contiguous(), self._rows(start, stop))
        return self._read(self._steps_of(leaf, start, stop).contiguous(), start, stop)

    def take_gradient(self, leaf: Tensor, start: int, stop: int) -> Tensor:
        """The same, zero where no row runs."""
        return clear(self.take(leaf, start, stop), self._steps_of(self._ended, start, stop).flatten())

    def lent(self, start: int, stop: int) -> Tensor:
        """For each row of some steps, itself if it runs, and else the longest row at the first of them."""

        def found() -> Tensor:
            own = self._steps_of(self._numbers, 0, (stop - start) * self.batch_size)
            return own * self._steps_of(self._alive, start, stop).flatten()

        return self._once("lent", start, stop, found)

    def if_any_runs(self, values: Tensor, start: int) -> Tensor:
        """Zeros if even the longest row has ended: then nobody could lend anything."""
        return torch.where(self._alive[start, 0], values, self._zero(values.dtype))

    def put(self, leaf: Tensor, start: int, stop: int, rows: Tensor, *, zero: bool = False) -> None:
        """Writes the rows that run, and zeros for the others."""
        own = self._steps_of(leaf, start, stop).flatten(0, 1)
        gather(rows.reshape(own.shape).contiguous(), self._sorted_places(len(own)), own)
        if not zero:
            clear(own, self._steps_of(self._ended_in_place, start, stop).flatten())

    def spread(self, rows: Tensor, start: int, stop: int) -> Tensor:
        """`[stop - start, batch, ...]` with the rows that run in their places, and zeros elsewhere."""
        own = gather(rows.contiguous(), self._sorted_places(len(rows)))
        clear(own, self._steps_of(self._ended_in_place, start, stop).flatten())
        return own.view(stop - start, self.batch_size, *rows.shape[1:])

    def previous(self, leaf: Tensor, first: Tensor, start: int, stop: int) -> Tensor:
        """The rows of `leaf` one step earlier."""
        earlier = leaf[start - 1 : stop - 1] if start > 0 else torch.cat([self.unsort(first)[None], leaf[: stop - 1]])
        return self._read(earlier, start, stop)

    def _read(self, leaf: Tensor, start: int, stop: int) -> Tensor:
        """From a contiguous leaf that has only so many steps."""
        return gather(leaf.flatten(0, 1), self._places(start, stop))

    # -- what is found once --------------------------------------------------------------------------------------------

    @cached_property
    def _ends(self) -> Tensor:
        return self._by_length[0]

    @cached_property
    def _order(self) -> Tensor:
        return self._by_length[1]

    @cached_property
    def _by_length(self) -> tuple[Tensor, Tensor]:
        """Lengths, and rows in their order."""
        ends, rows = self._lengths.sort(descending=True, stable=True)
        return ends, rows

    @cached_property
    def _numbers(self) -> Tensor:
        """Those of all steps and of all their rows, from 0 on."""
        return torch.arange(self.steps * self.batch_size, device=self.device)

    @cached_property
    def _alive(self) -> Tensor:
        """Whether each row runs, `[time, batch]`, longest first."""
        return self._numbers[: self.steps, None] < self._ends

    @cached_property
    def _running(self) -> Tensor:
        return self._alive.sum(1)

    @cached_property
    def _ended(self) -> Tensor:
        """The opposite."""
        return self._alive.logical_not()

    @cached_property
    def _ended_in_place(self) -> Tensor:
        """The same, as rows are in a batch."""
        return self._numbers[: self.steps, None] >= self._lengths

    @cached_property
    def _by_step(self) -> Tensor:
        """Where each sorted row of all steps is among them as rows are in a batch, `[time, batch]`."""
        return torch.add(self._order, self._numbers[: self.steps, None], alpha=self.batch_size)

    @cached_property
    def _by_row(self) -> Tensor:
        """The same in a batch whose rows have all their steps side by side."""
        return torch.add(self._numbers[: self.steps, None], self._order, alpha=self.steps)

    @cached_property
    def _all_sorted_places(self) -> Tensor:
        return torch.empty_like(self._numbers).scatter_(0, self._by_step.flatten(), self._numbers)

    def _sorted_places(self, rows: int) -> Tensor:
        """Where each row of some steps is among these when they are sorted: the same for any that are as many."""
        return self._steps_of(self._all_sorted_places, 0, rows)

    def _places(self, start: int, stop: int) -> Tensor:
        """Where each sorted row of some steps, or the one it is lent, is in these steps as a flat batch."""
        return self._lending("steps", start, stop, lambda: self._steps_of(self._by_step, 0, stop - start))

    def _places_by_row(self, start: int, stop: int) -> Tensor:
        """The same in a flat batch of all steps, a row's side by side."""
        return self._lending("rows", start, stop, lambda: self._steps_of(self._by_row, start, stop))

    def _rows(self, start: int, stop: int) -> Tensor:
        """Which row it is."""
        return self._lending("row", start, stop, lambda: self._order.expand(stop - start, -1))

    def _lending(self, name: str, start: int, stop: int, places: Callable[[], Tensor]) -> Tensor:
        """Places of the rows that run, and for the others that of the longest row at the first step."""

        def found() -> Tensor:
            own = places()
            return torch.where(self._steps_of(self._alive, start, stop), own, own[0, 0]).flatten()

        return self._once(name, start, stop, found)

    def _once(self, name: str, start: int, stop: int, find: Callable[[], Tensor]) -> Tensor:
        key = (name, start, stop)
        found = self._of_steps.get(key)
        if found is None:
            found = self._of_steps[key] = find()
        return found

    @staticmethod
    def _steps_of(leaf: Tensor, start: int, stop: int) -> Tensor:
        return leaf if stop - start == leaf.shape[0] else leaf[start:stop]

    def _zero(self, dtype: torch.dtype) -> Tensor:
        found = self._zeros.get(dtype)
        if found is None:
            found = self._zeros[dtype] = torch.zeros((), dtype=dtype, device=self.device)
        return found
