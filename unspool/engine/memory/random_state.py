"""The state of torch's random number generators, to draw the same numbers a second time."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import torch


class RandomState:
    """What the default generators of the CPU and of a device are about to draw."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._cpu = torch.get_rng_state()
        self._cuda = torch.cuda.get_rng_state(device) if device.type == "cuda" else None

    def restore(self) -> None:
        """Lets the generators draw the same numbers again from now on."""
        torch.set_rng_state(self._cpu)
        if self._cuda is not None:
            torch.cuda.set_rng_state(self._cuda, self._device)

    @contextmanager
    def again(self) -> Generator[None, None, None]:
        """Draws the same numbers inside of the block, and leaves the generators as they are now."""
        with torch.random.fork_rng([self._device] if self._cuda is not None else []):
            self.restore()
            yield
