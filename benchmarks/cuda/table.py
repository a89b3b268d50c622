"""Results as a table that fits on a screen: a row for a number, a column for a shape, `!` where more was asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.cuda.claims import WAYS, Bound, Line, bounds, covered, recorded, values, verdicts
from benchmarks.cuda.parts import CASES, PARTS, PEAKS

WIDTH, LABEL = 11, 28
MOST = 8
"""Lines of a kind that may be long."""


def table(lines: Sequence[Line]) -> str:
    """All that was measured, then a verdict on each thing that is asked."""
    measured = {str(line["part"]) for line in lines if "part" in line}
    rows = [f"{'':{LABEL}}" + "".join(f"{case:>{WIDTH + 1}}" for case in CASES)] if measured & _SHAPED else []
    rows += [row for part in PARTS if part in measured & _SHAPED for row in _shapes(lines, part)]
    rows += [*_host(lines), *_cells(lines), *_first_calls(lines), *_memory(lines), *_coverage(lines), *_failures(lines)]
    for each in verdicts(lines):
        ways = [way for way, met in each["met"].items() if met]
        missed = "NOT MET" if each["complete"] else "incomplete"
        word = "met" if each["all"] else f"only {ways[0]}" if any(ways) else missed
        rows.append(f"{word:12} {each['asked']}: {each['measured']}")
    return "\n".join(rows)


_SHAPED = {name for name, part in PARTS.items() if part.module in ("loop", "calls")}
_BRIEF = {"gru-bf16", "gru-fp16", "rnn-bf16", "rnn-fp16", "calls-bf16", "calls-fp32", "calls-tf32"}
"""Of these, what is not asked for has one row, if any."""


def _shapes(lines: Sequence[Line], part: str) -> Iterator[str]:
    known = {(each.what, each.name): each for each in bounds() if each.part == part}
    nothing = [0.0] * len(PARTS[part].cases)
    if PARTS[part].module == "loop":
        for what in ("forward", "adjoint"):
            yield from _rows(lines, known[what, "us_a_step"], f"{part} {what} us", [""])
        return
    for what in ("forward", "training"):
        for name in ("ratio", "of_full", "of_longest"):
            bound = known.get((what, name))
            ways = WAYS if bound is not None or part not in _BRIEF else WAYS[1:]
            yield from _rows(lines, bound or Bound(part, what, name, nothing), f"{part} {what} {name}", ways)
    if not part.startswith(("gru", "rnn")):
        ours = [{**line, "ms": line["ours"]["stream_ms"]} for line in _of(lines, part) if "ours" in line]
        yield from _rows(ours, Bound(part, "training", "ms", nothing), f"{part} training ms", [""])


def _rows(lines: Sequence[Line], bound: Bound, label: str, ways: Sequence[str]) -> Iterator[str]:
    found, asked = values(lines, bound), bound.limits()
    if len(set(bound.asked)) > 1 and found:
        yield _row(label, "asked", [f"{asked[case]:.3g} " for case in CASES])
    for way in ways:
        cells: list[str] = []
        for case in CASES:
            value = found.get(case, {}).get(way)
            missed = value is not None and not bound.ok(value, asked[case])
            cells.append(f"{'' if value is None else f'{value:.3g}':>{WIDTH}}{'!' if missed else ' '}")
        if any(each.strip() for each in cells):
            yield _row(label, way, cells)


def _row(label: str, way: str, cells: Sequence[str]) -> str:
    name = f"{label.replace('calls-', '').replace(' ratio', '').replace(' of_', '/')} {way}"
    return name[:LABEL].ljust(LABEL) + "".join(f"{each:>{WIDTH + 1}}" for each in cells)


def _host(lines: Sequence[Line]) -> Iterator[str]:
    for line in lines:
        if (line.get("part"), line.get("case")) == ("calls-fp16", CASES[0]) and "ours" in line:
            ours, peer = line["ours"]["host_us"], line["peer"]["host_us"]
            yield f"host, {CASES[0]} fp16 {line['what']}: ours {ours:.0f} us, {line['against']} {peer:.0f} us"


def _cells(lines: Sequence[Line]) -> Iterator[str]:
    for line in _of(lines, "cells"):
        if "ours" in line:
            own, loop = line["of_lstm"], line["ratio"]
            ours = f"{own['each']:.3g} each, {own['stream']:.3g} stream of our LSTM's time"
            theirs = f"{loop['each']:.3g}, {loop['stream']:.3g} of ours"
            yield f"{line['case']}: {ours}; Python loop {theirs}; {line['emitter']}, {line.get('backward')}"


def _first_calls(lines: Sequence[Line]) -> Iterator[str]:
    for line in _of(lines, "first-call"):
        if "explain_s" in line:
            seconds = ", ".join(f"{name[:-2]} {line[name]:.2f} s" for name in ("explain_s", "call_s", "warm_up_s"))
            yield f"first call, {line['case']}, {line['what']}: {seconds}; {line['emitter']}"


def _memory(lines: Sequence[Line]) -> Iterator[str]:
    before = recorded()
    found = {line["case"]: line["peak_MiB"] for line in _of(lines, "memory") if "peak_MiB" in line}
    texts = [f"{case} {found[case]:.0f} ({before[case]:.0f})" for case in PEAKS if case in found]
    for first in range(0, len(texts), 4):
        yield "peaks, MiB: " + ", ".join(texts[first : first + 4])


def _coverage(lines: Sequence[Line]) -> Iterator[str]:
    others = [line for line in _of(lines, "coverage") if "what" in line and not covered(line)]
    for line in others[:MOST]:
        yield f"not cuda-loop: {line['what']}: {str(line.get('failed') or line.get('why'))[:90]}"
    if len(others) > MOST:
        yield f"not cuda-loop either: {', '.join(line['what'] for line in others[MOST:])}"[:400]


def _failures(lines: Sequence[Line]) -> Iterator[str]:
    failed = [line for line in lines if "failed" in line and (line.get("part") != "coverage" or "what" not in line)]
    for line in failed[: 2 * MOST]:
        yield f"failed: {line.get('part')} {line.get('case')} {line.get('what', '')}: {str(line['failed'])[:80]}"
    if len(failed) > 2 * MOST:
        yield f"and {len(failed) - 2 * MOST} more failed"
    for line in lines:
        if "differs" in line and not line["differs"] <= line["tolerance"]:
            yield f"differs: {line['part']} {line['case']} {line['what']}: by {line['differs']:.1e} from its peer"
        if line.get("finite") is False:
            yield f"not finite: {line['part']} {line['case']} {line['what']}"
    strange = {str(line["part"]) for line in lines if "part" in line and line.get("emitter") not in (None, "cuda-loop")}
    if strange - {"coverage"}:
        yield f"other emitters than cuda-loop ran cases of: {', '.join(sorted(strange - {'coverage'}))}"


def _of(lines: Sequence[Line], part: str) -> list[Line]:
    return [line for line in lines if line.get("part") == part]
