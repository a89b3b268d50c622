"""Ragged layout: which rows run at which step, and where they are in a batch.

Rows are sorted by length, longest first: the rows that run at a step are then the first ones, and no step touches a
row that has ended. What the parts of a plan work on are the rows of several steps one after another, without padding:
`sum(lengths)` rows for the whole batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any

import torch
from torch import Tensor

from unspool.engine.execute.counts import Counts


class Layout:
    """The rows of a batch by step.

    >>> layout = Layout.of(torch.tensor([1, 3]), steps=4, device=torch.device("cpu"))
    >>> layout.counts
    (2, 1, 1)
    >>> layout.take(torch.arange(8).reshape(4, 2), 0, 3)
    tensor([1, 0, 3, 5])
    """

    on_device = False
    """Whether only the device knows how many rows run at each step, and `counts` how many there are."""

    def __init__(self, batch_size: int, counts: Sequence[int], order: Tensor | None, device: torch.device) -> None:
        self.batch_size, self.counts, self.device = batch_size, Counts(counts), device
        self._starts = self.counts.starts
        self._some: dict[tuple[int, int], Counts] = {}
        self._sorted_rows = order  # on the CPU, where indices are made
        self._indices: dict[tuple[int, int], Tensor] = {}

    @classmethod
    @lru_cache(maxsize=16)
    def full(cls, batch_size: int, steps: int, device: torch.device) -> Layout:
        """Every row runs at every step."""
        return cls(batch_size, [batch_size] * steps, None, device)

    @classmethod
    def of(cls, lengths: Tensor, steps: int, device: torch.device) -> Layout:
        """Rows run as long as `lengths` say. One look at the lengths; on a GPU this waits for it once.

        Raises:
            RuntimeError: if a CUDA graph is being captured, for which nothing can be waited for.
        """
        captured = device.type == "cuda" and torch.cuda.is_current_stream_capturing()
        if captured and lengths.is_cuda:
            raise RuntimeError(
                "sequence_length: this loop needs lengths on the host, which cannot wait for them while a CUDA graph "
                "is captured; expected lengths on the CPU that are all the same, or None"
            )
        lengths = lengths.cpu().clamp(0, steps)
        longest, batch_size = int(lengths.max()), len(lengths)
        if int(lengths.min()) == longest:
            return cls.full(batch_size, longest, device)
        if captured:
            raise RuntimeError(
                f"sequence_length: lengths on the CPU that differ cannot be captured in a CUDA graph, which would keep "
                f"these for ever; expected them on {device}"
            )
        ordered, order = lengths.sort(descending=True, stable=True)
        counts: Any = (ordered[None] > torch.arange(longest, device="cpu")[:, None]).sum(1)
        return cls(batch_size, counts.tolist(), order, device)

    @cached_property
    def steps(self) -> int:
        """The length of the longest row."""
        return len(self.counts)

    @cached_property
    def shortest(self) -> int:
        """The length of the shortest row."""
        return self.counts.count(self.batch_size)

    @property
    def sorted(self) -> bool:
        """Whether rows have changed places."""
        return self._sorted_rows is not None

    @cached_property
    def mean_rows(self) -> float:
        """How many rows a step has, on average."""
        return self._starts[-1] / max(self.steps, 1)

    def counts_of(self, start: int, stop: int) -> Counts:
        """The rows of the steps from `start` to `stop`."""
        found = self._some.get((start, stop))
        if found is None:
            found = self._some[start, stop] = Counts(self.counts[start:stop])
        return found

    def rows(self, start: int, stop: int) -> int:
        """How many rows the steps from `start` to `stop` have together."""
        return self._starts[stop] - self._starts[start]

    @property
    def counted(self) -> Layout:
        """The same rows where the host knows how many run at each step."""
        return self

    def running(self, start: int, stop: int) -> Tensor | None:
        """How many rows run at each of some steps, if only the device knows."""
        return None

    def sort(self, leaf: Tensor) -> Tensor:
        """The rows of one step in the order of their lengths."""
        return leaf if self._order is None else leaf.index_select(0, self._order)

    def unsort(self, leaf: Tensor) -> Tensor:
        """The opposite of `sort`."""
        return leaf if self._order is None else torch.zeros_like(leaf).index_copy(0, self._order, leaf)

    @property
    def scattered(self) -> bool:
        """Whether a step's rows are not beside each other, or do not start at the first place of the step."""
        return self._sorted_rows is not None

    @property
    def fills(self) -> bool:
        """Whether `put` writes every row of a step, also those that do not run."""
        return self._sorted_rows is None

    def shape(self, steps: int) -> tuple[int, ...]:
        """What stands before a row's own axes in the results of so many steps."""
        return (steps, self.batch_size)

    def take(self, leaf: Tensor, start: int, stop: int) -> Tensor:
        """The rows of `leaf`, `[time, batch, ...]`, at the steps from `start` to `stop`, one after another."""
        if self._order is None:
            return (leaf if stop - start == leaf.shape[0] else leaf[start:stop]).flatten(0, 1)
        by_batch = leaf.transpose(0, 1)
        if not leaf.is_contiguous() and by_batch.is_contiguous():
            return by_batch.flatten(0, 1).index_select(0, self._index(start, stop, 1, leaf.shape[0]))
        places = self._index(start, stop, self.batch_size, 1)
        if leaf.is_contiguous():
            return leaf.flatten(0, 1).index_select(0, places)
        # Neither is to be copied as a whole: it may be one step seen many times.
        return leaf[places // self.batch_size, places % self.batch_size]

    def take_gradient(self, leaf: Tensor, start: int, stop: int) -> Tensor:
        """`take`, of gradients: they are zero where no row runs."""
        return self.take(leaf, start, stop)

    def lent(self, start: int, stop: int) -> Tensor | None:
        """For each row of some steps, the one of them whose values it has, if there are any that do not run."""
        return None

    def if_any_runs(self, values: Tensor, start: int) -> Tensor:
        """What is read, or summed, of the rows of the steps from `start` on; zeros if none of them runs."""
        return values

    def put(self, leaf: Tensor, start: int, stop: int, rows: Tensor, *, zero: bool = False) -> None:
        """Writes what `take` would read; `leaf` is contiguous. `zero` says that rows that do not run are zero."""
        if self._order is None:
            own = leaf if stop - start == leaf.shape[0] else leaf[start:stop]
            own.copy_(rows.reshape(own.shape))
        else:
            leaf.flatten(0, 1).index_copy_(0, self._index(start, stop, self.batch_size, 1), rows)

    def spread(self, rows: Tensor, start: int, stop: int) -> Tensor:
        """`[stop - start, batch, ...]` with the rows of these steps in their places, and zeros elsewhere."""
        steps, end = stop - start, min(stop, self.steps)
        if not self.sorted and end == stop:
            return rows.reshape(steps, self.batch_size, *rows.shape[1:])
        places = self._index(start, end, self.batch_size, 1) - start * self.batch_size
        flat = rows.new_zeros(steps * self.batch_size, *rows.shape[1:]).index_copy(0, places, rows)
        return flat.reshape(steps, self.batch_size, *rows.shape[1:])

    def result(self, rows: Tensor, steps: int) -> Tensor:
        """The rows of all steps, as the results of so many steps have them."""
        return self.spread(rows, 0, steps)

    def previous(self, leaf: Tensor, first: Tensor, start: int, stop: int) -> Tensor:
        """The rows of `leaf` one step earlier; before step 0 there are those of `first`, already sorted."""
        begin = max(start, 1)
        if self._order is None:
            earlier = leaf[begin - 1 : stop - 1].flatten(0, 1)
        else:
            places = self._index(begin, stop, self.batch_size, 1) - self.batch_size
            earlier = leaf.flatten(0, 1).index_select(0, places)
        if start > 0:
            return earlier
        return torch.cat([first if first.shape[0] == self.counts[0] else first[: self.counts[0]], earlier])

    @cached_property
    def _order(self) -> Tensor | None:
        """The rows in the order of their lengths, if that is another one, where they are."""
        return None if self._sorted_rows is None else self._sorted_rows.to(self.device)

    def _index(self, start: int, stop: int, per_step: int, per_row: int) -> Tensor:
        """Where each of those rows is in a flat batch in which a step and a row are so many places apart."""
        key = (per_step, per_row)
        if key not in self._indices:
            own = torch.arange(self.batch_size, device="cpu")  # whatever torch's default device is
            order = own if self._sorted_rows is None else self._sorted_rows
            runs = own < torch.tensor(self.counts, device="cpu")[:, None]
            time, row = runs.nonzero(as_tuple=True)
            self._indices[key] = (order[row] * per_row + time * per_step).to(self.device)
        return self._indices[key][self._starts[start] : self._starts[stop]]


class PackedLayout(Layout):
    """Rows that are packed: in a batch they are as the parts of a plan want them, and nothing has to be moved.

    >>> layout = PackedLayout.of_counts((2, 1, 1), torch.device("cpu"))
    >>> layout.take(torch.tensor([1, 10, 2, 3]), 1, 3)
    tensor([2, 3])
    """

    @classmethod
    @lru_cache(maxsize=16)
    def of_counts(cls, counts: tuple[int, ...], device: torch.device) -> PackedLayout:
        """So many rows run at each step."""
        return cls(counts[0], counts, None, device)

    @property
    def sorted(self) -> bool:
        """As rows of different lengths are."""
        return True

    def shape(self, steps: int) -> tuple[int, ...]:
        """All rows."""
        return (self.counts.total,)

    def take(self, leaf: Tensor, start: int, stop: int) -> Tensor:
        """Those of the steps from `start` to `stop`."""
        return leaf[self._starts[start] : self._starts[stop]]

    def put(self, leaf: Tensor, start: int, stop: int, rows: Tensor, *, zero: bool = False) -> None:
        """Writes them."""
        leaf[self._starts[start] : self._starts[stop]] = rows

    def result(self, rows: Tensor, steps: int) -> Tensor:
        """The same rows."""
        return rows

    def previous(self, leaf: Tensor, first: Tensor, start: int, stop: int) -> Tensor:
        """The rows of `leaf` one step earlier."""
        steps = range(max(start, 1), stop)
        parts = [leaf[self._starts[time - 1] : self._starts[time - 1] + self.counts[time]] for time in steps]
        return torch.cat([first[: self.counts[0]], *parts] if start == 0 else parts)

    def padded(self, leaf: Tensor) -> Tensor:
        """`[time, batch, ...]`, zero where no row runs."""
        return self.spread(leaf, 0, self.steps)

    def packed(self, leaf: Tensor) -> Tensor:
        """The opposite of `padded`."""
        return leaf.flatten(0, 1).index_select(0, self._index(0, self.steps, self.batch_size, 1))

    @property
    def lengths(self) -> Tensor:
        """Of each row."""
        counts = torch.tensor(self.counts, device="cpu")
        return (counts[:, None] > torch.arange(self.batch_size, device="cpu")).sum(0)
