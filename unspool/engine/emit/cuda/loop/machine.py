"""What runs kernels of loops: a GPU, or whatever tests put in its place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from unspool.engine.emit.cuda.loop.printer.kernel import KernelText
from unspool.engine.emit.cuda.loop.tiles import Limits


class Machine(Protocol):
    """Compiles and launches kernels."""

    def limits(self) -> Limits:
        """What the device has."""
        ...

    def compile(self, text: KernelText) -> Any:
        """The kernel, compiled.

        Raises:
            CannotEmitError: if it cannot be compiled.
        """
        ...

    def resident(self, kernel: Any, threads: int, shared_bytes: int, cluster: int) -> int:
        """How many blocks of a kernel there can be at the same time, in clusters of so many."""
        ...

    def launch(
        self, kernel: Any, chunk: Sequence[int], blocks: int, threads: int, shared_bytes: int, *, together: bool
    ) -> None:
        """Runs a kernel on the current stream.

        Args:
            kernel: what `compile` returned.
            chunk: the `unspool::Chunk` of steps.h, one number after another.
            blocks: how many there are.
            threads: of a block.
            shared_bytes: of a block.
            together: whether all blocks have to be there at the same time.
        """
        ...

    def numbers(self, numbers: Sequence[int]) -> Tensor:
        """Whole numbers where a kernel can read them."""
        ...

    def trouble(self) -> Tensor:
        """Five zeros, which a kernel writes to and the host may read at any time."""
        ...

    @property
    def device(self) -> torch.device:
        """Where tensors are."""
        ...
