"""Many drawn cells by the engine beside the plain loop: `make soak`, or `python -m tests.soak --cells 1000`.

A fault leaves a file that shows it: `python build/soak/cell_17.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import torch

from tests.soak_check import Case, Outcome, check_compiled, check_interpreted
from tests.soak_script import script

TOGETHER = 12
"""How many cells are compiled at once."""


def outcomes(first: int, cells: int, *, out: Path) -> Iterator[Outcome]:
    """What becomes of each cell: half of them are compiled, for all policies, the others interpreted."""
    for start in range(first, first + cells, TOGETHER):
        cases = [Case(seed) for seed in range(start, min(start + TOGETHER, first + cells))]
        if start // TOGETHER % 2:
            found = check_compiled(cases, every_policy=True)
        else:
            found = [check_interpreted(case, every_chunk=True) for case in cases]
        for case in cases:
            if case.outcome.faults:
                (out / f"cell_{case.seed}.py").write_text(script(case))
        yield from found


def summary(found: list[Outcome]) -> dict[str, object]:
    """Numbers to look at: a soak of cells that have no plan shows little."""
    planned = [each for each in found if not each.reason]
    return {
        "cells": len(found),
        "runs": sum(each.runs for each in found),
        "planned": len(planned),
        "compiled": sum("c++" in each.emitters for each in found),
        "decided by rounding": len([each for each in found if each.ill]),
        "faults": len([each for each in found if each.faults]),
        "kinds": Counter(each.kind for each in found),
        "operations": Counter(name for each in planned for name in each.operations),
        "without a plan": Counter(each.reason for each in found if each.reason).most_common(),
    }


def main() -> int:
    """Runs the soak; 1 if there is a fault."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the seed of the first cell")
    parser.add_argument("--out", type=Path, default=Path("build/soak"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    arguments.out.mkdir(parents=True, exist_ok=True)
    for left in arguments.out.glob("cell_*.py"):
        left.unlink()
    cache = arguments.out / "cache"
    os.environ["UNSPOOL_CACHE"] = str(cache.resolve())
    found, began = list[Outcome](), time.monotonic()
    for each in outcomes(arguments.first, arguments.cells, out=arguments.out):
        found.append(each)
        for fault in each.faults:
            print(f"\nseed {each.seed}: {fault}\n\n{each.source}", flush=True)
        if each.ill:
            print(f"seed {each.seed} is decided by rounding: {each.ill}", flush=True)
        if len(found) % 20 == 0 or len(found) == arguments.cells:
            faults = sum(bool(each.faults) for each in found)
            planned = sum(not each.reason for each in found)
            seconds = time.monotonic() - began
            print(f"{len(found)} cells, {planned} planned, {faults} faults, {seconds:.0f} s", flush=True)
            numbers = summary(found)
            (arguments.out / "summary.json").write_text(json.dumps(numbers, indent=2))
    shutil.rmtree(cache, ignore_errors=True)
    show(summary(found))
    print("faults:", *(each.seed for each in found if each.faults))
    return 1 if any(each.faults for each in found) else 0


def show(numbers: dict[str, object]) -> None:
    """The summary as a table."""
    print()
    for name, value in numbers.items():
        if isinstance(value, Counter):
            value = ", ".join(f"{key} {count}" for key, count in value.most_common())
        if isinstance(value, list):
            print(f"{name}:")
            for reason, count in value:
                print(f"  {count:4}  {reason}")
        else:
            print(f"{name:20} {value}")


if __name__ == "__main__":
    raise SystemExit(main())
