"""Compiled loops stay within the memory that is theirs: they run under AddressSanitizer and UBSan.

Sanitizers have to be there before Python is, so each test runs a process of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.compiling import ROOT, script
from unspool.engine.emit.compile_cache import trusted_folder

pytestmark = pytest.mark.compiled

FLAGS = "-fsanitize=address,undefined -fno-sanitize-recover=all -g -O1"
"""Memory is reached where the source says, however much a compiler optimises; it is done sooner with less of that."""

Run = Callable[..., subprocess.CompletedProcess[str]]


def library(name: str) -> str:
    """Where a sanitizer's library is; without it, tests are skipped."""
    if not shutil.which("g++"):
        pytest.skip("there is no g++")
    found = subprocess.run(["g++", f"-print-file-name={name}"], text=True, capture_output=True, check=True).stdout
    if not Path(found.strip()).is_absolute():
        pytest.skip(f"{name} is not installed")
    return found.strip()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs Python code in an environment, with sanitizers in everything that is compiled: the next run finds that."""
    folder, cache = tmp_path_factory.mktemp("sanitized"), trusted_folder()
    kept = folder if cache is None else cache / "sanitized"
    kept.mkdir(mode=0o700, exist_ok=True)
    preload = f"{library('libasan.so')} {library('libubsan.so')}"
    # The compiler itself is better off without them.
    compiler = script(kept / "sanitizing", f'unset LD_PRELOAD\nexec g++ "$@" {FLAGS}\n')
    environment = {
        **{name: value for name, value in os.environ.items() if name != "UNSPOOL_EMIT"},
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "2",
        "UNSPOOL_CACHE": str(kept / "cache"),
        "CXX": compiler,
        "LD_PRELOAD": preload,
        "ASAN_OPTIONS": "detect_leaks=0",  # those would be Python's
    }

    def run(code: str, **more: str) -> subprocess.CompletedProcess[str]:
        program = folder / "program.py"
        program.write_text(code)
        return subprocess.run(
            [sys.executable, str(program)],
            env={**environment, **more},
            text=True,
            capture_output=True,
            timeout=600,
            check=False,
        )

    return run


REACHES_TOO_FAR = """
import ctypes
import torch
from unspool.engine.emit.cpp.libraries.build import Build

library = Build.of('''
extern "C" __attribute__((visibility("default")))
float one(const float* numbers, long place) { return numbers[place]; }
''').library()
library.one.restype = ctypes.c_float
numbers = torch.ones(16)
for place in (15, 16):
    print(library.one(ctypes.c_void_p(numbers.data_ptr()), ctypes.c_long(place)), flush=True)
"""


def test_what_reaches_too_far_is_found(run: Run) -> None:
    """In the memory of tensors too; so the other tests can fail."""
    done = run(REACHES_TOO_FAR)
    assert done.returncode != 0
    assert "heap-buffer-overflow" in done.stderr
    assert done.stdout == "1.0\n"


CELLS = """
import torch
from tests.test_compiled import LENGTHS, POLICIES, made

torch.set_num_threads(2)
for name, dtype in (("layer_norm_lstm", torch.float64), ("ntm", torch.float32), ("nested", torch.float32)):
    for batch, lengths in ((len(LENGTHS), LENGTHS), (33, None)):
        case = made(name, dtype, batch, lengths)
        for memory in POLICIES if lengths else POLICIES[:1]:
            case.check(memory)
"""

IMAGES = """
import torch
from tests import test_convolutions as images

torch.set_num_threads(2)
images.test_every_geometry_is_torchs()
for name in images.SHAPED:
    images.test_cells_of_images(name, [4, 0, 2, 4, 1])
for rows in (1, 5):
    images.test_conv_lstm(torch.float32, rows)
"""

DRAWN = """
from tests.test_compiled_drawn import check

check(range(20, 30))
"""

THREADS = """
from dataclasses import replace
import torch
from tests.test_compiled import LARGE, STEPS, large

for name in LARGE:
    for batch in (1, 3, 18):
        case = large(name, batch, torch.float32)
        lengths = [STEPS, 0, *(1 + k % STEPS for k in range(batch - 2))][:batch]
        for threads in (1, 2, 4):
            torch.set_num_threads(threads)
            for each in (case, replace(case, lengths=lengths)):
                each.results()
print("done")
"""

FUNCTIONS = """
from tests.test_compiled_functions import FUNCTIONS, TYPES, computed, grid

for name in FUNCTIONS:
    for kind in TYPES:
        computed(name, kind, grid(kind)[::7])
"""


PLACES = """
import pytest
import torch
from tests.single_operations import by_compiled_loops
from tests.test_compiled_places import ADDRESSED, Addressed, singles
from unspool import dynamic_rnn

by_compiled_loops([each for each in singles() if torch.float32 in (each.arguments[0].dtype, each.by_torch().dtype)])
for name, step in ADDRESSED.items():
    for place in (-(2**62), -5, 4, 2**62):
        inputs = torch.zeros(3, 5, 4, dtype=torch.int64)
        inputs[1, 2] = place
        with pytest.raises((IndexError, RuntimeError)):
            dynamic_rnn(Addressed(step), inputs, initial_state=torch.randn(3, 4))
"""


HALVES = """
import torch
from tests import test_compiled_halves as halves

torch.set_num_threads(2)
halves.test_products_are_summed_in_float32()
for dtype in halves.HALVES:
    halves.TestConversions().test_a_number_that_goes_through_a_half_is_rounded(dtype)
    for rows, depth, width in ((1, 1, 1), (7, 9, 33), (600, 17, 70)):
        halves.test_sums_over_rows_are_in_float32(dtype, rows, depth, width)
cell = halves.Attending().to(torch.bfloat16)
halves.drawn(cell, cell, torch.bfloat16, 0).halves.results(halves.POLICIES[0])
"""


PARTS = {
    "cells": CELLS,
    "images": IMAGES,
    "drawn cells": DRAWN,
    "places": PLACES,
    "halves": HALVES,
    "functions": FUNCTIONS,
}


@pytest.fixture(scope="module")
def done(run: Run) -> subprocess.CompletedProcess[str]:
    """All parts in one process, which writes down each that it is done with: sanitizers make it slow to start."""
    return run("".join(f"{code}print({name!r}, flush=True)\n" for name, code in PARTS.items()))


@pytest.mark.parametrize("part", ["cells", "images", "drawn cells", "places", "halves"])
def test_loops_stay_within_their_memory(done: subprocess.CompletedProcess[str], part: str) -> None:
    assert part in done.stdout.splitlines(), done.stderr


def test_functions_have_no_undefined_behaviour(done: subprocess.CompletedProcess[str]) -> None:
    """For NaN, infinities and numbers of the wrong sign too."""
    assert "functions" in done.stdout.splitlines(), done.stderr
    assert done.returncode == 0, done.stderr


def test_threads_stay_within_their_memory(run: Run) -> None:
    """And what Python gives them, which only the system's allocator watches."""
    done = run(THREADS, PYTHONMALLOC="malloc")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "done\n"
