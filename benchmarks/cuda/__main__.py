"""Measures parts one after another, prints a line for each result and a table at the end, and keeps them as JSON."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks.apart import measured_apart
from benchmarks.cuda.claims import verdicts
from benchmarks.cuda.parts import PARTS
from benchmarks.cuda.table import table


def main() -> None:
    """Runs what the command line asks for; this process never loads torch, which takes seconds."""
    parser = argparse.ArgumentParser("python -m benchmarks.cuda", description=__doc__)
    parser.add_argument("--only", nargs="+", default=list(PARTS), metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--cases", nargs="+", default=[], metavar="TEXT", help="only cases with one of these in them")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each contender (default: 7)")
    parser.add_argument("--best", type=int, default=1, help="tilings of a loop alone (default: 1, which a plan takes)")
    parser.add_argument("--json", type=Path, metavar="DIR", help="keep results in DIR/cuda.json, beside other parts'")
    parser.add_argument("--seconds", type=float, default=570.0, help="when all of it has to end (default: 570)")
    parser.add_argument("--at-once", type=int, default=8, help="processes where nothing is timed (default: 8)")
    parser.add_argument("--commit", help="what is measured, where git cannot tell")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--tiny", action="store_true", help="small sizes, to see that everything runs")
    options = parser.parse_args()
    if unknown := set(options.only) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    told = ["--device", options.device, "--rounds", str(options.rounds), "--best", str(options.best)]
    command = [sys.executable, "-m", "benchmarks.cuda.worker", *told, *["--tiny"] * options.tiny]
    began = time.monotonic()
    kept = Kept(options.json, options.commit)
    for line in lines(command, options.only, options.cases, began + options.seconds, options.at_once):
        kept.add(line)
        if "environment" not in line:
            print(f"{time.monotonic() - began:5.0f} s  {brief(line)}", flush=True)
    kept.write()
    print(f"\n{table(kept.lines)}")


def lines(
    command: Sequence[str], parts: Sequence[str], texts: Sequence[str], until: float, at_once: int
) -> Iterator[dict[str, Any]]:
    """The lines of all cases, in as few processes as their parts allow."""
    for process, group in groupby(parts, lambda part: (PARTS[part].process, PARTS[part].process == "own" and part)):
        names = list(group)
        everything = [(part, case) for part in names for case in PARTS[part].cases]
        cases = [f"{part}:{case}" for part, case in everything if not texts or any(text in case for text in texts)]
        seconds = max(PARTS[part].seconds for part in names)
        if process[0] != "each":
            yield from (_named(line, names) for line in measured_apart(command, cases, seconds, until))
            continue
        with ThreadPoolExecutor(at_once) as pool:
            alone = [pool.submit(_all_of, command, case, seconds, until) for case in cases]
            for each in as_completed(alone):
                yield from (_named(line, names) for line in each.result())


def _all_of(command: Sequence[str], case: str, seconds: float, until: float) -> list[dict[str, Any]]:
    return list(measured_apart(command, [case], seconds, until))


def _named(line: dict[str, Any], parts: Sequence[str]) -> dict[str, Any]:
    """With its part, which a case that has ended its process could not say; what an environment is that of."""
    if "environment" in line:
        return {**line, "parts": list(parts)}
    if "part" not in line:
        part, _, case = str(line["case"]).partition(":")
        return {**line, "part": part, "case": case}
    return line


class Kept:
    """Results by part, each with what it depends on, in one file.

    Args:
        folder: where the file is; None to keep none.
        commit: what is measured, where git cannot tell.
    """

    def __init__(self, folder: Path | None, commit: str | None) -> None:
        self.lines: list[dict[str, Any]] = []
        self._environments: dict[str, Mapping[str, Any]] = {}
        self._file = None if folder is None else folder / "cuda.json"
        self._commit, self._written = commit, time.monotonic()

    def add(self, line: dict[str, Any]) -> None:
        """Keeps a line; in the file too, every few seconds, since this process may be ended at any time."""
        if "environment" in line:
            about = {**line["environment"], "commit": line["environment"]["commit"] or self._commit}
            self._environments |= dict.fromkeys(line["parts"], about)
        else:
            self.lines.append(line)
        if time.monotonic() - self._written > 5:
            self.write()

    def write(self) -> None:
        """Writes the file, in which parts that were not measured now stay as they are."""
        self._written = time.monotonic()
        if self._file is None:
            return
        before = json.loads(self._file.read_text())["parts"] if self._file.exists() else {}
        now = {
            part: {
                "environment": self._environments.get(part),
                "lines": [line for line in self.lines if line["part"] == part],
            }
            for part in dict.fromkeys(str(line["part"]) for line in self.lines)
        }
        parts = before | now
        everything = [line for part in parts.values() for line in part["lines"]]
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._file.write_text(json.dumps({"parts": parts, "verdicts": list(verdicts(everything))}, indent=1) + "\n")


def brief(line: Mapping[str, Any]) -> str:
    """A line of a result, for who waits for it."""
    names = (
        "us_a_step",
        "ratio",
        "of_full",
        "of_longest",
        "of_lstm",
        "peak_MiB",
        "explain_s",
        "emitter",
        "why",
        "differs",
        "failed",
    )
    found = [f"{name} {line[name]}" for name in names if line.get(name) is not None]
    return f"{line['part']} {line['case']} {line.get('what', '')}: {', '.join(found)}"[:160]


if __name__ == "__main__":
    main()
