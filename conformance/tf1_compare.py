"""Runs the programs in `tests/tf1_programs` under `unspool.tf1` and compares with what TensorFlow computed.

    python conformance/tf1_compare.py build/conformance/tf1

Compared are the names, shapes and order of all variables and the names of the placeholders; what initializers that are
no random ones gave; then, from the same weights and with the same feeds, every fetch before training, the loss at each
of 20 steps, every variable after them, among them those of the optimizers, and every fetch again. Everything must be
within 1e-5 of TensorFlow, relative to the largest element (`errors.py` has the small print); integers must be equal.
Fetches must be as close to what NumPy computes by hand.

Exits with 1 if anything differs, or if a program was not run.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.progress import track
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from conformance.compare import Comparison, compare_arrays
from conformance.errors import relative_error
from conformance.tf1_run import by_hand, part, run
from tests.tf1_programs import PROGRAMS
from tests.tf1_programs.program import Arrays, Program

CLOSE = 1e-5


def load(path: Path) -> Arrays:
    """What TensorFlow noted."""
    with np.load(path) as stored:
        return dict(stored)


def rerun(tf: Any, name: str, stored: Arrays) -> tuple[Program, Arrays]:
    """Runs a program from the stored weights and with the stored feeds."""
    weights, feeds = part(stored, "var:"), part(stored, "feed:")

    def value(variable: str, shape: tuple[int, ...]) -> np.ndarray:
        if variable not in weights or weights[variable].shape != shape:
            known = {name: weight.shape for name, weight in weights.items()}
            raise LookupError(f"a variable {variable} of shape {shape}; TensorFlow has {known}")
        return weights[variable]

    def feeds_at(program: Program, k: int) -> Arrays:
        return {key: feed[k] for key, feed in feeds.items()}

    return run(tf, PROGRAMS[name], value, feeds_at)


def compare_notes(notes: Arrays, stored: Arrays) -> Iterator[Comparison]:
    """Everything that TensorFlow noted, one by one."""
    for key, expected in stored.items():
        if key in ("variables", "placeholders"):
            found, wanted = json.loads(str(notes[key])), json.loads(str(expected))
            yield Comparison(key, problem="" if found == wanted else f"{found}, but TensorFlow has {wanted}")
        elif key not in notes:
            yield Comparison(key, problem="only TensorFlow has it")
        else:
            yield compare_arrays(key, notes[key], expected)
    fetched = ("before:", "after:", "use:")
    for key in notes.keys() - stored.keys():
        if key.startswith(fetched):
            yield Comparison(key, problem="only unspool has it")


def compare_by_hand(program: Program, notes: Arrays) -> Iterator[Comparison]:
    """Every fetch with what NumPy computes."""
    for key, expected in by_hand(program, notes).items():
        found = notes[key]
        if found.shape != expected.shape:
            problem, error = f"shape {found.shape}, but by hand it is {expected.shape}", 0.0
        elif found.dtype.kind == "f":
            error = relative_error(key, found, expected)
            problem = "" if error <= CLOSE else f"{error:.1e} from what it is by hand"
        else:
            problem, error = "" if np.array_equal(found, expected) else f"{found}, by hand it is {expected}", 0.0
        yield Comparison(f"by hand {key}", str(found.dtype), error, problem)


def check(tf: Any, name: str, stored: Arrays) -> list[Comparison]:
    """Runs a program and compares it; an error in the run is a mismatch too."""
    try:
        program, notes = rerun(tf, name, stored)
        return [*compare_notes(notes, stored), *compare_by_hand(program, notes)]
    except Exception as error:  # whatever it is, the other programs are still worth comparing
        return [Comparison("run", problem=f"{type(error).__name__}: {error}")]


def main() -> None:
    """Compares all programs and prints what differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where tf1_draw.py has stored what TensorFlow computes")
    folder = parser.parse_args().folder

    from unspool import tf1

    console = Console()
    missing = [name for name in PROGRAMS if not (folder / f"{name}.npz").exists()]
    names = [name for name in PROGRAMS if name not in missing]
    table = Table("", "compared", "largest\nerror", "mis-\nmatches", title="TensorFlow 1 programs", box=box.SIMPLE_HEAD)
    problems = [f"{name}: TensorFlow has not run it" for name in missing]
    for name in track(names, "running", console=console, transient=True):
        comparisons = check(tf1, name, load(folder / f"{name}.npz"))
        wrong = [f"{name}, {comparison.key}: {comparison.problem}" for comparison in comparisons if comparison.problem]
        largest = max(comparison.error for comparison in comparisons)
        table.add_row(name, str(len(comparisons)), f"{largest:.1e}", str(len(wrong)))
        problems.extend(wrong)
    console.print(table)
    for problem in problems:
        console.print(problem, markup=False, highlight=False)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
