"""Greedy decoding of an LSTM with embedding and output layer: `dynamic_decode` against the loop one writes in PyTorch.

The last case ends 63 of 64 rows early: with finished rows left out, it should cost little more than its long one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

import unspool
from benchmarks.harness import Case, Contender, Options, main

UNITS, VOCABULARY, STEPS, SHORT = 256, 5000, 200, 10
END = VOCABULARY - 1


class Task:
    """A model, and the number of steps after which each row ends."""

    def __init__(self, ends: Sequence[int], options: Options) -> None:
        torch.manual_seed(0)
        self.ends = torch.tensor(ends, device=options.device)
        self.embedding = nn.Embedding(VOCABULARY, UNITS).to(options.device)
        self.cell = unspool.LSTMCell(UNITS, input_size=UNITS).to(options.device)
        self.layer = nn.Linear(UNITS, VOCABULARY).to(options.device)
        self.layer.bias.data[END] = -100  # it ends when the task says so
        self.start = torch.zeros(len(ends), dtype=torch.int64, device=options.device)

    def torch_cell(self) -> nn.LSTMCell:
        """The same weights as torch has them."""
        cell = nn.LSTMCell(UNITS, UNITS).to(self.start.device)
        order = [0, 2, 1, 3]  # TensorFlow has input, candidate, forget, output
        kernel = torch.cat([self.cell.kernel.chunk(4, 1)[k] for k in order], 1).t()
        bias = torch.cat([self.cell.bias.chunk(4)[k] + (k == 2) for k in order])
        with torch.no_grad():
            cell.weight_ih.copy_(kernel[:, :UNITS])
            cell.weight_hh.copy_(kernel[:, UNITS:])
            cell.bias_ih.copy_(bias)
            cell.bias_hh.zero_()
        return cell


class Ending(unspool.RNNCell):
    """The task's cell and layer, with a clock for each row that makes its end token win in time."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.cell, self.layer = task.cell, task.layer
        self.state_size, self.output_size = (task.cell.state_size, 1), VOCABULARY
        self.register_buffer("end", nn.functional.one_hot(torch.tensor(END), VOCABULARY).float())

    def forward(self, x: Tensor, state: tuple[unspool.LSTMStateTuple, Tensor]) -> tuple[Tensor, object]:
        """One step; the clock counts down to 0."""
        inner, clock = state
        h, inner = self.cell(x, inner)
        return self.layer(h) + 1000 * (clock <= 1) * self.end, (inner, clock - 1)


def ours(task: Task, name: str = "dynamic_decode") -> Contender:
    """`dynamic_decode`, ids alone."""
    by_clock = Ending(task).to(task.start.device) if bool((task.ends < STEPS).any()) else None

    def run() -> Sequence[Tensor]:
        helper = unspool.GreedyEmbeddingHelper(task.embedding, task.start, END)
        state = task.cell.zero_state(len(task.start), torch.float32, task.start.device)
        decoder = unspool.BasicDecoder(task.cell, helper, state, task.layer, keep_outputs=False)
        if by_clock is not None:
            decoder = unspool.BasicDecoder(by_clock, helper, (state, task.ends[:, None].float()), keep_outputs=False)
        with torch.no_grad():
            outputs, _, _ = unspool.dynamic_decode(decoder, maximum_iterations=STEPS)
        return (outputs.sample_id,)

    return Contender(name, run, "unspool")


def by_hand(task: Task) -> Contender:
    """The loop that one writes: `nn.LSTMCell`, all rows until the last has ended."""
    cell, by_clock = task.torch_cell(), bool((task.ends < STEPS).any())

    def run() -> Sequence[Tensor]:
        with torch.no_grad():
            ids, done = task.start, torch.zeros_like(task.start, dtype=torch.bool)
            h = c = torch.zeros(len(ids), UNITS, device=ids.device)
            found: list[Tensor] = []
            for time in range(STEPS):
                h, c = cell(task.embedding(ids), (h, c))
                ids = task.layer(h).argmax(-1)
                if by_clock:
                    ids = torch.where(done | (task.ends <= time + 1), END, ids)
                found.append(ids)
                done = done | (ids == END)
                if bool(done.all()):
                    break
            return (torch.stack(found, 1),)

    return Contender("nn.LSTMCell, a loop", run)


def cases(options: Options) -> Iterator[Case]:
    """One row, many, and many of which one is long."""
    for batch in (1, 64):
        task = Task([STEPS] * batch, options)
        yield Case(f"greedy, B{batch} H{UNITS} V{VOCABULARY}, {STEPS} steps", STEPS, [ours(task), by_hand(task)])
    # The last step of a row is decided by its clock, so that all rows long have one too.
    short, full = Task([STEPS - 1] + [SHORT] * 63, options), Task([STEPS - 1] * 64, options)
    contenders = [ours(short), by_hand(short), replace(ours(full, "dynamic_decode, all rows long"), same=False)]
    yield Case(f"greedy, one row of {STEPS} steps and 63 of {SHORT}", STEPS, contenders)


if __name__ == "__main__":
    main(__doc__, cases)
