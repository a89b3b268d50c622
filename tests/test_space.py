"""Memory for what a loop makes."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from unspool.engine.memory.allocation import LARGE, empty

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


TOUCH_AGAIN = """
import resource
import torch
from unspool.engine.memory.allocation import empty

def touch():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for kept in [[empty((3 << 20,), torch.uint8).fill_(1) for _ in range(8)]]:
        pass
    del kept
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

first, again = touch(), min(touch() for _ in range(5))
print(first, again)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only the GNU C library has to be told")
def test_memory_that_was_freed_is_not_fetched_page_by_page_again() -> None:
    done = subprocess.run([sys.executable, "-c", TOUCH_AGAIN], capture_output=True, text=True, check=True)
    first, again = map(int, done.stdout.split())
    assert again < first / 10
