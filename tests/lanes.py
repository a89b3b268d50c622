"""Which tests follow each other on one worker, and which come first.

Tracing a step takes longer than most tests, and cells of the same making share a plan within a process. So files that
run the cells of one table are one lane, and a worker takes a lane as a whole. The long ones come first: what is handed
out last is short, and all workers end at about the same time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

LANES = {
    "tables": [
        "test_user_cells",
        "test_compiled",
        "test_cuda_loop",
        "test_gradients",
        "test_tracers",
        "test_modes",
        "test_building",
        "test_cell_contract",
        "test_checkpoints_weights",
        "test_names",
        "test_plans",
        "test_fallbacks",
        "test_edges",
        "test_memory",
    ],
    "attention": ["test_attention", "test_attention_modules", "test_memory_of_rows", "test_beam_attention"],
}
"""Files of tests/ that are handed out together, in this order."""

LONGEST = [
    "tables",
    "attention",
    "test_guards",
    "test_oracle",
    "test_soak",
    "test_compiled_memory",
    "test_compiled_processes",
    "test_compiled_drawn",
    "test_compiled_halves",
    "test_reach",
    "test_compiled_special_gradients",
    "test_rows",
    "test_between_runs",
    "test_outer_sums",
    "test_compiled_faults",
    "test_contractions",
    "test_compilers",
    "test_largest",
    "test_documentation",
    "test_leaks",
    "test_interrupts",
    "test_equivalence",
    "test_torch_compile",
    "test_distributed",
    "test_distributed_kills",
]
"""Lanes that come first, and files that are a lane of their own; those that are not named here follow."""

_LANE_OF = {file: lane for lane, files in LANES.items() for file in files}
_ORDER = {file: number for files in LANES.values() for number, file in enumerate(files)}


def lane(nodeid: str) -> str:
    """The lane of a test: one of those above, or its file."""
    path = nodeid.split("::")[0]
    return _LANE_OF.get(_file(path), path)


def rank(nodeid: str) -> tuple[int, int]:
    """Where a test comes in the order of all."""
    path = nodeid.split("::")[0]
    name = _LANE_OF.get(_file(path), _file(path))
    return LONGEST.index(name) if name in LONGEST else len(LONGEST), _ORDER.get(_file(path), 0)


def _file(path: str) -> str:
    return path.removeprefix("tests/").removesuffix(".py")


class Lanes(LoadScopeScheduling):
    """Hands out whole lanes, in the order of the tests."""

    def __init__(self, config: pytest.Config, log: Callable[..., Any] | None = None) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return lane(nodeid)
