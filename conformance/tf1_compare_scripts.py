"""Compares the losses of the programs in `tests/tf1_programs/scripts` with those that `tf1_scripts.py` noted.

python conformance/tf1_compare_scripts.py build/conformance/tf1_scripts
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.tf1_scripts import COMPARED, STEPS, losses, weights_by_name
from unspool import tf1
from unspool.tf1.running.runner import run

TOLERANCE = 1e-5
"""Relative, of every loss: float32 sums in other orders, over 20 updates."""


def run_compared(name: str) -> list[float]:
    """The losses of a program under unspool, from the weights that TensorFlow had."""
    with weights_by_name(tf1), contextlib.redirect_stdout(io.StringIO()) as printed:
        run(COMPARED[name], f"--steps={STEPS}")
    return losses(printed.getvalue())


def worst(found: list[float], recorded: list[float]) -> float:
    """The largest relative difference of two lists of losses."""
    assert len(found) == len(recorded) == STEPS, (len(found), len(recorded))
    return max(abs(a - b) / max(abs(b), 1e-6) for a, b in zip(found, recorded, strict=True))


def main() -> None:
    """Prints a line a program; exits with 1 if one differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder.resolve()
    differences: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as own, contextlib.chdir(own):  # where programs write
        for name in COMPARED:
            recorded = json.loads((folder / f"{name}.json").read_text())
            differences[name] = difference = worst(run_compared(name), recorded)
            print(f"{name}: {difference:.2g}{'' if difference <= TOLERANCE else '  DIFFERS'}")
    sys.exit(any(difference > TOLERANCE for difference in differences.values()))


if __name__ == "__main__":
    main()
