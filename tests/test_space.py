"""Memory for what a loop makes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from unspool.engine.space import LARGE, empty

MAPS = Path("/proc/self/smaps")
SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def flags_at(address: int) -> list[str]:
    """The flags of the mapping that has `address`."""
    inside = False
    for line in MAPS.read_text().splitlines():
        if head := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            inside = int(head[1], 16) <= address < int(head[2], 16)
        elif inside and line.startswith("VmFlags:"):
            return line.split()[1:]
    raise AssertionError(f"{address:#x} is in no mapping")


@pytest.mark.skipif(not SETTING.exists(), reason="the system has no huge pages to ask for")
def test_large_tensors_ask_for_huge_pages() -> None:
    tensor = empty((16 * LARGE,), torch.uint8)
    assert "hg" in flags_at(tensor.data_ptr() + LARGE)
    assert "hg" not in flags_at(torch.empty(16 * LARGE, dtype=torch.uint8).data_ptr() + LARGE)


@pytest.mark.parametrize("count", [0, 1, LARGE // 4 - 1, LARGE // 4, LARGE // 4 + 1, LARGE])
def test_memory_of_any_size_can_be_written_and_read(count: int) -> None:
    tensor = empty((count,), torch.float32)
    assert tensor.shape == (count,)
    assert tensor.device.type == "cpu"
    assert bool((tensor.fill_(1.5) == 1.5).all())
