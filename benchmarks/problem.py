"""What the contenders of a case compute: a cell with its weights, inputs, lengths, and the gradient of the outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

import unspool
from benchmarks.cells import LayerNormLSTM, ResetAfterGRU, SearchedCell, UserLSTM
from benchmarks.harness import Options
from unspool.structure import flatten


class Shape(NamedTuple):
    """The sizes of a case."""

    batch: int
    steps: int
    depth: int
    units: int

    def __str__(self) -> str:
        return f"B{self.batch} T{self.steps} D{self.depth} H{self.units}"


QUICK = Shape(4, 12, 8, 16)
COMMON = [Shape(32, 100, 64, 128), Shape(16, 500, 128, 256), Shape(128, 100, 28, 150)]
SHAPES = {
    "cpu": [*COMMON, Shape(1, 100, 64, 128), Shape(4, 1000, 32, 64), Shape(64, 200, 256, 512)],
    "cuda": [
        *COMMON,
        Shape(1, 1000, 512, 512),
        Shape(16, 1024, 128, 128),
        Shape(16, 1024, 768, 768),
        Shape(64, 256, 256, 256),
        Shape(64, 256, 512, 512),
        Shape(64, 256, 1024, 1024),
    ],
}
"""What is measured on each device: row by row, small to large states, short to long sequences."""


def shapes(options: Options) -> list[Shape]:
    """The shapes for the device, or one tiny one."""
    return [QUICK] if options.quick else SHAPES[options.device]


Kind = Literal[
    "LSTM", "GRU", "RNN", "three LSTMs", "GRU, reset after", "LSTM by a user", "LayerNorm LSTM", "searched cell"
]

CELLS: dict[Kind, Callable[[int, int], nn.Module]] = {
    "LSTM": lambda depth, units: unspool.LSTMCell(units, input_size=depth),
    "GRU": lambda depth, units: unspool.GRUCell(units, input_size=depth),
    "RNN": lambda depth, units: unspool.BasicRNNCell(units, input_size=depth),
    "three LSTMs": lambda depth, units: unspool.MultiRNNCell(
        [unspool.LSTMCell(units, input_size=size) for size in (depth, units, units)]
    ),
    "GRU, reset after": ResetAfterGRU,
    "LSTM by a user": UserLSTM,
    "LayerNorm LSTM": LayerNormLSTM,
    "searched cell": SearchedCell,
}


@dataclass(frozen=True)
class Problem:
    """One training or inference step of `cell` over time-major sequences."""

    kind: Kind | str
    shape: Shape
    cell: Any
    inputs: Any
    """`[T, B, D]`, or a structure of such tensors."""
    gradient: Any
    """Of the outputs, `[T, B, H]`, or of each of them: random, because a constant one is cheaper to read."""
    lengths: Tensor | None
    """`[B]`, on the CPU, where `pack_padded_sequence` wants them; None for full length."""
    training: bool
    tf32: bool
    sources: Sequence[Tensor] | None = None
    """What training asks the gradient of, besides the weights: the inputs if None, as any layer but the first must give
    it."""

    @classmethod
    def of(
        cls,
        kind: Kind,
        shape: Shape,
        options: Options,
        *,
        dtype: torch.dtype = torch.float32,
        lengths: bool = False,
        training: bool = True,
    ) -> Problem:
        """A random problem; `lengths` are uniform in 1..T, one of them T."""
        torch.manual_seed(0)
        cell = CELLS[kind](shape.depth, shape.units)
        with torch.no_grad():
            for weight in cell.parameters():
                if weight.dim() == 1:  # biases of 0 and scales of 1 would hide that a peer leaves them out
                    weight.add_(0.1 * torch.randn_like(weight))
        chosen = torch.randint(1, shape.steps + 1, (shape.batch,))
        chosen[0] = shape.steps
        return cls(
            kind,
            shape,
            cell.to(options.device, dtype),
            torch.randn(shape.steps, shape.batch, shape.depth).to(options.device, dtype).requires_grad_(training),
            torch.randn(shape.steps, shape.batch, shape.units).to(options.device, dtype),
            chosen if lengths else None,
            training,
            options.tf32,
        )

    @property
    def device(self) -> torch.device:
        """Where it is computed."""
        return flatten(self.inputs)[0].device

    @property
    def dtype(self) -> torch.dtype:
        """Of everything."""
        return flatten(self.inputs)[0].dtype

    @property
    def title(self) -> str:
        """How a report calls it."""
        words = [f"{self.kind}, {self.shape}"]
        if self.lengths is not None:
            fill = self.lengths.double().mean().item() / self.shape.steps
            words.append(f"lengths fill {100 * fill:.0f} %")
        return ", ".join([*words, *[str(self.dtype).removeprefix("torch.")] * (self.dtype != torch.float32)])

    @property
    def tolerance(self) -> float:
        """How far two right answers may be apart: bfloat16 has 8 bits, and rounding feeds back at every step.

        Of the millions of relus in a searched cell, a few have inputs within rounding of zero, and each of those that
        is passed by one and not by the other is a part of 3e-4 of all gradients. TF32 has 11 bits: terms are rounded by
        up to 2.4e-4, and other ones by each library.
        """
        if self.dtype != torch.float32:
            return 5e-2
        return 1e-3 if self.tf32 or self.kind == "searched cell" else 1e-4

    def zero_state(self) -> Any:
        """The cell's."""
        return self.cell.zero_state(self.shape.batch, self.dtype, self.device)

    def with_full_length(self) -> Problem:
        """The same without lengths."""
        return replace(self, lengths=None)

    def on_torch(self, forward: Callable[[], Any], weights: Sequence[Tensor]) -> Callable[[], Sequence[Tensor]]:
        """`forward` and, in training, its backward to `weights` and inputs.

        Returns what can be compared between peers that lay out their weights differently: the outputs and the gradient
        of the inputs.
        """
        sources = flatten(self.inputs) if self.sources is None else list(self.sources)

        def train() -> Sequence[Tensor]:
            outputs = flatten(forward())
            gradients = torch.autograd.grad(outputs, [*sources, *weights], flatten(self.gradient))
            return [*(each.detach() for each in outputs), *gradients[: len(sources)]]

        def infer() -> Sequence[Tensor]:
            with torch.no_grad():
                return flatten(forward())

        return train if self.training else infer
