"""A translation unit: the functions of one phase, compiled together."""

from __future__ import annotations

from functools import cached_property

from unspool.engine.emit.cpp.libraries.build import Build
from unspool.engine.emit.cpp.libraries.kernels import Kernels, address, header
from unspool.engine.emit.cpp.libraries.runtime import Runtime, runtime_build
from unspool.engine.emit.stages.dtypes import HALVES, MULTIPLIED

FUNCTION = """
extern "C" __attribute__((visibility("default")))
void {name}(const unspool::Chunk& chunk, const unspool::Worker& worker) {{
  for (int64_t k = 0; k < chunk.steps; k++) {{
    const int64_t time = chunk.reverse ? chunk.steps - 1 - k : k;
    const int64_t rows = worker.rows(chunk.counts[time]);
    if (rows == 0) continue;
    [[maybe_unused]] const int64_t start = chunk.starts[time];
    [[maybe_unused]] char* const products = worker.products + k % 2 * worker.other_products;

{body}  }}
}}
"""


class Module:
    """The source of one library. Compilers start when all functions are in it, and work in the background.

    Args:
        rounds: whether its functions round halves after every operation.
    """

    def __init__(self, *, rounds: bool = False) -> None:
        self.rounds = rounds
        self._functions: dict[str, str] = {}
        self._kernels: set[Kernels] = set()

    def add(self, name: str, body: str) -> str:
        """Adds a function that runs `body` at every step, and returns its source."""
        lines = "".join(f"    {line}\n" if line else "\n" for line in body.splitlines())
        self._functions[name] = FUNCTION.format(name=name, body=lines)
        return self._functions[name]

    def need(self, *kernels: Kernels) -> None:
        """Says which kernels its functions call."""
        self._kernels.update(kernels)

    @cached_property
    def _builds(self) -> tuple[Build, Build]:
        text = "".join(self._functions.values())
        halves = any(MULTIPLIED[dtype] in text for dtype in HALVES)
        names = ["functions.h", *(["halves/numbers.h"] if halves else []), "loop.h"]
        names += ["ordering.h"] if "unspool::order" in text else []
        return runtime_build(), Build.of(header(*names) + text)

    def start(self) -> None:
        """Starts the compiler.

        Raises:
            CannotEmitError: if there is none.
        """
        _ = self._builds, [each.build for each in self._kernels]

    def function(self, name: str) -> int:
        """The address of a function, once it is compiled.

        Raises:
            CannotEmitError: if it cannot be.
        """
        _, own = self._builds
        for kernels in self._kernels:
            Runtime.get().use(kernels)
        return address(own.library(), name)
