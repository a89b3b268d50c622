"""A kernel compiled by NVRTC at its first launch, with torch's operations as the fallback."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

log = logging.getLogger("unspool")


@cache
def functions() -> str:
    """What texts of operations call."""
    return Path(__file__).with_name("functions.h").read_text()


def with_functions(source: str) -> str:
    """A kernel's code behind the functions that it calls."""
    return f"{functions()}\n{source}" if "unspool::" in source else source


class Kernel:
    """An operation of our own, `kernel(rows, *inputs)`: its one output, or all of them.

    Args:
        name: its name.
        source: its code, for people to read.
        otherwise: what does the same if it cannot be compiled, or does not serve such inputs.
    """

    def __init__(self, name: str, source: str, otherwise: Callable[..., Any]) -> None:
        self.name, self.source, self._otherwise = name, source, otherwise
        self._functions: dict[str, Any] = {}
        self._failed = False

    def __str__(self) -> str:
        return self.name

    def __call__(self, rows: int, *inputs: Tensor) -> Any:
        """Runs it; at the first call it is compiled."""
        if any(not each.is_cuda for each in inputs):
            return self._otherwise(rows, *inputs)
        made = self.launch(rows, inputs)
        return self._otherwise(rows, *inputs) if made is None else made

    def launch(self, rows: int, inputs: Sequence[Tensor]) -> Any:
        """The outputs; None if it does not serve such inputs."""
        raise NotImplementedError

    def _compiled(self, source: str, shared_memory: int = 0) -> Any:
        """What launches that code; None if it cannot be compiled."""
        if source not in self._functions and not self._failed:
            try:
                function: Any = torch.cuda._compile_kernel(  # pyright: ignore[reportPrivateUsage]  # no public name
                    with_functions(source), self.name
                )
                function.set_shared_memory_config(shared_memory)
                self._functions[source] = function
            except (RuntimeError, OSError, AttributeError, ImportError) as error:
                log.info("%s runs one operation after another, since it could not be compiled: %s", self.name, error)
                self._failed = True
        return self._functions.get(source)
