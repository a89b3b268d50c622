"""What is asked of the CUDA loop emitter on an H200, and whether what was measured meets it.

`python -m benchmarks.cuda.claims build/benchmarks/cuda.json` prints the table of results that were kept.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.cuda.parts import CASES, NEW_CELLS, OWN_CELLS, PARTS, PEAKS

Line = Mapping[str, Any]
"""What a case has measured, as a worker prints it."""
WAYS = ("each", "stream")
SLACK = 1.01
"""A peak may be larger than the one that was recorded by as much: an allocator rounds."""


@dataclass(frozen=True)
class Bound:
    """What is asked of a part's cases, each way to measure by itself.

    Args:
        part: the part.
        what: the line of a case.
        name: the number on that line.
        asked: for each case, in the part's order.
        most: whether that is the most, and not the least.
        some: how many cases there have to be, besides, with at least so much.
    """

    part: str
    what: str
    name: str
    asked: Sequence[float]
    most: bool = False
    some: tuple[int, float] | None = None

    def ok(self, value: float, asked: float) -> bool:
        """Whether a case is as it should be."""
        return value <= asked if self.most else value >= asked

    def limits(self) -> Mapping[str, float]:
        """What is asked, by case."""
        return dict(zip(PARTS[self.part].cases, self.asked, strict=True))


def recorded() -> Mapping[str, float]:
    """The peaks that were measured with the graph emitter, in MiB, by case."""
    file = Path(__file__).parents[1] / "results" / "peaks-cuda.json"
    return {f"{each['kind']} {each['T']}": each["peak_MiB"] for each in json.loads(file.read_text())["peaks"]}


@cache
def bounds() -> Sequence[Bound]:
    """All of them, in the order of the parts."""
    eight, ragged = len(CASES), len(PARTS["ragged"].cases)
    faster, peaks = [1.0] * eight, recorded()
    found = [
        Bound("loop", "forward", "us_a_step", [0.9, 1.2, 1.3, 2.4, 2.0, 1.9, 2.2, 4.0], most=True),
        Bound("loop", "adjoint", "us_a_step", [0.8, 1.1, 1.8, 2.5, 2.6, 2.4, 2.8, 7.0], most=True),
        Bound("calls-fp16", "forward", "ratio", faster),
        Bound("calls-fp16", "training", "ratio", [1.7, 8.0, 3.5, 5.0, 2.5, 1.3, 1.2, 1.4]),
        Bound("calls-bf16", "training", "ratio", [6.0] * 7 + [2.7]),
        Bound("calls-fp32", "training", "ratio", faster, some=(5, 2.0)),
        Bound("calls-tf32", "training", "ratio", faster, some=(5, 2.0)),
        *(
            Bound(part, "training", "ratio", faster, some=(6, 3.0))
            for part in ("gru-bf16", "gru-fp16", "rnn-bf16", "rnn-fp16")
        ),
        Bound("ragged", "forward", "of_full", [0.7] * ragged, most=True),
        Bound("ragged", "training", "of_full", [0.7] * ragged, most=True),
        Bound("ragged", "training", "ratio", [6.0] * ragged),
        Bound("cells", "training", "of_lstm", [1.05, 2.0, 2.0, 2.0, 2.6], most=True),
        Bound("cells", "training", "ratio", [40.0] * len(OWN_CELLS)),
        Bound("first-call", "cold", "explain_s", [5.0] * len(NEW_CELLS), most=True),
        Bound("first-call", "cached", "explain_s", [0.5] * len(NEW_CELLS), most=True),
        Bound("jax", "training", "ratio", [3.0] * eight),
        Bound("memory", "training", "peak_MiB", [SLACK * peaks[case] for case in PEAKS], most=True),
    ]
    assert all(each.limits() for each in found)
    return found


COVERED = 0.9
"""The share of cells that the emitter has to run, in both directions."""


def values(lines: Iterable[Line], bound: Bound) -> dict[str, dict[str, float]]:
    """What was measured of a bound, by case and by way to measure: `""` if there is but one."""
    found: dict[str, dict[str, float]] = {}
    for line in lines:
        if (line.get("part"), line.get("what")) == (bound.part, bound.what) and bound.name in line:
            value = line[bound.name]
            # The first line of a case is what a plan takes; other tilings come after it.
            found.setdefault(str(line["case"]), dict(value) if isinstance(value, Mapping) else {"": value})
    return found


def verdicts(lines: Sequence[Line]) -> Iterator[dict[str, Any]]:
    """A verdict on everything that is asked of the parts that were measured."""
    parts = {line.get("part") for line in lines}
    for bound in bounds():
        if bound.part in parts:
            yield _verdict(lines, bound)
    if "coverage" in parts:
        yield _coverage(lines)


def _verdict(lines: Sequence[Line], bound: Bound) -> dict[str, Any]:
    measured, asked = values(lines, bound), bound.limits()
    met: dict[str, bool] = {}
    counts: list[str] = []
    for way in sorted({way for found in measured.values() for way in found}):
        found = {case: measured[case][way] for case in asked if way in measured.get(case, {})}
        good = sum(bound.ok(value, asked[case]) for case, value in found.items())
        met[way] = good == len(asked)
        counts.append(f"{way} {good} of {len(asked)}".strip())
        if bound.some is not None:
            many = sum(value >= bound.some[1] for value in found.values())
            met[way] = met[way] and many >= bound.some[0]
            counts[-1] += f", {many} of {bound.some[0]} at {bound.some[1]:g}"
    kinds = ", ".join(f"{each:.4g}" for each in dict.fromkeys(bound.asked))
    return {
        "asked": f"{bound.part} {bound.what} {bound.name} {'<=' if bound.most else '>='} {kinds}",
        "measured": "; ".join([*counts, *[f"{len(measured)} measured"] * (len(measured) < len(asked))]),
        "met": met,
        "all": bool(met) and all(met.values()),
        "complete": len(measured) == len(asked),
    }


def _coverage(lines: Sequence[Line]) -> dict[str, Any]:
    cells = [line for line in lines if line.get("part") == "coverage" and "what" in line]
    emitted = sum(covered(line) for line in cells)
    share = emitted / max(1, len(cells))
    return {
        "asked": f"coverage: cells that cuda-loop runs >= {COVERED:g}",
        "measured": f"{emitted} of {len(cells)}, {share:.2f}",
        "met": {"": share >= COVERED},
        "all": share >= COVERED,
        "complete": True,
    }


def covered(line: Line) -> bool:
    """Whether the emitter runs a cell in both directions, as far as there are two."""
    return line.get("emitter") == "cuda-loop" and line.get("backward") in ("cuda-loop", None)


def main() -> None:
    """Prints what is kept in the files of the command line."""
    from benchmarks.cuda.table import table

    lines: list[Line] = []
    for file in sys.argv[1:]:
        lines += [line for part in json.loads(Path(file).read_text())["parts"].values() for line in part["lines"]]
    print(table(lines))


if __name__ == "__main__":
    main()
