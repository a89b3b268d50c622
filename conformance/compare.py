"""Runs unspool on the cases of a folder and compares everything with what TensorFlow computed.

    python conformance/compare.py build/conformance

Compared are every output, final state, loop state and saved state, the loss, and the gradients of inputs, variables
and initial states; their shapes and dtypes; the containers they come in; and the names of the variables and their
order. The error of a tensor is

    max |unspool - TensorFlow| / max |TensorFlow|

(`errors.py` has the small print) and must stay within 1e-10 in float64 and 1e-5 in float32; integers must be equal.
Where autograd found no path to a gradient, TensorFlow's must be exactly zero.

Exits with 1 if anything differs, if there are fewer than 200 cases, or if an option occurs in none of them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.progress import track
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from conformance.cases import Case, Computed, run_case
from conformance.cell_specs import walk
from conformance.errors import relative_error
from conformance.options import OPTIONS

TOLERANCES = {"float64": 1e-10, "float32": 1e-5}
FEWEST_CASES = 200


@dataclass(frozen=True)
class Comparison:
    """One thing of a case that was compared; `problem` says what differs, if anything does."""

    key: str
    dtype: str = ""
    error: float = 0.0
    problem: str = ""


@dataclass(frozen=True)
class Verdict:
    """A case and all its comparisons."""

    case: Case
    comparisons: list[Comparison]

    @property
    def mismatches(self) -> list[Comparison]:
        """The comparisons that found a difference."""
        return [comparison for comparison in self.comparisons if comparison.problem]


def check(case: Case) -> Verdict:
    """Runs unspool on a case and compares; an error in the run is a mismatch too."""
    try:
        computed = run_case(case)
    except Exception as error:  # whatever it is, the other cases are still worth comparing
        return Verdict(case, [Comparison("run", problem=f"{type(error).__name__}: {error}")])
    return Verdict(case, list(compare(case, computed)))


def compare(case: Case, computed: Computed) -> Iterator[Comparison]:
    """Everything that was computed, one by one."""
    if computed.variables != case.variables:
        yield Comparison("variables", problem=f"{computed.variables}, but TensorFlow has {case.variables}")
    for name, expected in case.outlines.items():
        if computed.outlines[name] != expected:
            yield Comparison(name, problem=f"{computed.outlines[name]}, but TensorFlow has {expected}")
    for key in sorted(case.expected.keys() ^ computed.values.keys()):
        yield Comparison(key, problem=f"only {'TensorFlow' if key in case.expected else 'unspool'} has it")
    for key, expected in case.expected.items():
        if key in computed.values:
            yield compare_arrays(key, computed.values[key], expected)


def compare_arrays(key: str, found: np.ndarray | None, expected: np.ndarray) -> Comparison:
    """One tensor with TensorFlow's; None is a gradient without a path."""
    dtype = str(expected.dtype)
    if found is None:
        return Comparison(key, dtype, problem="" if not expected.any() else "no gradient, but TensorFlow has one")
    if (found.shape, found.dtype) != (expected.shape, expected.dtype):
        given, wanted = f"{found.dtype}{list(found.shape)}", f"{dtype}{list(expected.shape)}"
        return Comparison(key, dtype, problem=f"{given}, but TensorFlow has {wanted}")
    if dtype not in TOLERANCES:
        return Comparison(key, dtype, problem="" if (found == expected).all() else f"{found}, not {expected}")
    error = relative_error(key, found, expected)
    within = error <= TOLERANCES[dtype]  # never true for NaN
    return Comparison(key, dtype, error, "" if within else f"error {error:.1e}, more than {TOLERANCES[dtype]}")


# -- the report ------------------------------------------------------------------------------------------------------


_PLAIN: dict[str, Any] = {"box": box.SIMPLE_HEAD, "collapse_padding": True}


def kinds(case: Case) -> set[str]:
    """The kinds of cells in a case."""
    return {cell["kind"] for cell in walk(case.spec["cells"])}


def comparison_table(verdicts: list[Verdict]) -> Table:
    """What was compared: by loop, by kind of cell, and in all."""
    headers = ["", "cases", "tensors", *(f"error\n{dtype}" for dtype in TOLERANCES), "mis-\nmatches"]
    table = Table(*headers, title="unspool against TensorFlow, with the largest errors", **_PLAIN)
    for column in table.columns:
        column.no_wrap = True
        column.justify = "right" if column.header else "left"
    for loop in sorted({verdict.case.spec["loop"] for verdict in verdicts}):
        _add_row(table, loop, verdicts, lambda case, loop=loop: case.spec["loop"] == loop)
    table.add_section()
    for kind in sorted(set().union(*(kinds(verdict.case) for verdict in verdicts))):
        _add_row(table, kind, verdicts, lambda case, kind=kind: kind in kinds(case))
    table.add_section()
    _add_row(table, "all", verdicts, lambda case: True)
    return table


def _add_row(table: Table, name: str, verdicts: list[Verdict], fits: Callable[[Case], bool]) -> None:
    verdicts = [verdict for verdict in verdicts if fits(verdict.case)]
    comparisons = [comparison for verdict in verdicts for comparison in verdict.comparisons]
    errors = {
        dtype: max((each.error for each in comparisons if each.dtype == dtype), default=None) for dtype in TOLERANCES
    }
    shown = ["-" if error is None else f"{error:.1e}" for error in errors.values()]
    mismatches = sum(len(verdict.mismatches) for verdict in verdicts)
    table.add_row(name, str(len(verdicts)), str(len(comparisons)), *shown, str(mismatches))


def option_counts(verdicts: list[Verdict]) -> dict[str, int]:
    """In how many cases each option occurs."""
    return {name: sum(has(verdict.case.spec) for verdict in verdicts) for name, has in OPTIONS.items()}


def option_table(counts: dict[str, int], width: int) -> Table:
    """How often each option occurred, several to a row where the width allows it."""
    columns = max(1, width // 38)
    table = Table(*["option", "cases"] * columns, title="how often each option occurred", **_PLAIN)
    for column in table.columns[1::2]:
        column.justify = "right"
    height = -(-len(counts) // columns)
    entries = list(counts.items())
    for row in range(height):
        table.add_row(*(str(value) for entry in entries[row::height] for value in entry))
    return table


def main() -> int:
    """Compares the cases of a folder and prints what was compared; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where draw.py has put the cases")
    paths = sorted(parser.parse_args().folder.glob("case_*.npz"))
    console = Console()
    verdicts = [check(Case.load(path)) for path in track(paths, "comparing", console=console, transient=True)]
    counts = option_counts(verdicts)
    console.print(comparison_table(verdicts), option_table(counts, console.width))

    failures = [
        f"{verdict.case.name} ({verdict.case.spec['loop']}): {each.key}: {each.problem}"
        for verdict in verdicts
        for each in verdict.mismatches
    ]
    if len(verdicts) < FEWEST_CASES:
        failures.append(f"{len(verdicts)} cases, but at least {FEWEST_CASES} are needed")
    failures += [f"no case has the option {name}" for name, count in counts.items() if not count]
    for failure in failures:
        console.print(failure, style="red", markup=False, highlight=False, soft_wrap=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
