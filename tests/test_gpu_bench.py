"""What `make gpu-bench` runs, on a CPU at tiny sizes: so that no time on a device is spent on mistakes of scripts."""

from __future__ import annotations

import gc
import importlib.util
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.cuda import __main__ as entry
from benchmarks.cuda import coverage, first_call, loop, timing, worker
from benchmarks.cuda.claims import bounds, recorded, verdicts
from benchmarks.cuda.parts import CASES, PARTS, PEAKS
from benchmarks.cuda.table import table
from tests.emulator import Emulated, emulated

TINY = timing.Settings("cpu", rounds=2, tiny=True)


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSPOOL_EMIT", "interpreted")  # nothing is compiled
    monkeypatch.setattr(gc, "collect", lambda: 0)  # in a process that has run many tests, each takes a second


def printed(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


CALLS = ["calls-fp16", "calls-bf16", "calls-tf32", "ragged", "gru-fp16", "rnn-bf16"]


@pytest.mark.parametrize("part", CALLS)
def test_calls_are_measured_beside_a_peer(part: str, capsys: pytest.CaptureFixture[str]) -> None:
    worker.run(f"{part}:{PARTS[part].cases[-1]}", TINY)
    found = printed(capsys)
    assert [(line["what"], line["emitter"], line.get("failed")) for line in found] == [
        ("forward", "interpreted", None),
        ("training", "interpreted", None),
    ]
    for line in found:
        assert ("of_full" in line) == ("of_longest" in line) == (part == "ragged")
        assert set(line["ours"]) == set(line["peer"]) == {"each_ms", "stream_ms", "host_us", "us_a_step"}
        assert line["ratio"]["each"] > 0
        assert line["ratio"]["stream"] > 0
        assert ("differs" in line) == (part != "gru-fp16")  # torch's GRU has other equations
        assert line.get("differs", 0) <= line.get("tolerance", 0)


@pytest.mark.parametrize("cell", PARTS["cells"].cases)
def test_cells_are_measured_beside_the_built_in_one_and_the_loop(cell: str, capsys: pytest.CaptureFixture[str]) -> None:
    worker.run(f"cells:{cell}", TINY)
    (line,) = printed(capsys)
    assert "failed" not in line
    assert {"ours", "lstm", "loop", "of_lstm", "ratio"} <= set(line)
    assert line["differs"] <= line["tolerance"]


@pytest.mark.parametrize("case", ["nn.LSTM 1024", "checkpoint 1024", "keep+swap 512"])
def test_peaks_are_of_each_policy(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    worker.run(f"memory:{case}", TINY)
    (line,) = printed(capsys)
    assert line["peak_MiB"] == 0  # nobody counts them on a CPU


def test_what_fails_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    worker.run("calls-fp16:not a shape", TINY)
    (line,) = printed(capsys)
    assert line["part"] == "calls-fp16"
    assert line["failed"].startswith("ValueError")
    if importlib.util.find_spec("jax") is None:
        worker.run(f"jax:{CASES[0]}", TINY)
        (line,) = printed(capsys)
        assert line["failed"] == "ModuleNotFoundError: No module named 'jax'"


def test_loops_alone_are_measured_for_the_best_tilings() -> None:
    times = iter(range(1, 100))

    def timed(run: Any) -> float:
        run()
        return float(next(times))

    found = list(loop.lines((2, 3, 32), torch.bfloat16, Emulated(), timed, best=2))
    assert [line["what"] for line in found] == ["forward", "forward", "adjoint", "adjoint"]
    assert [line["us_a_step"] for line in found] == [0.333, 0.667, 1.0, 1.333]
    assert all(line["finite"] for line in found)


def test_coverage_says_who_runs_a_cell() -> None:
    with emulated():
        found = list(coverage.measure("1/1", {}, TINY))
    assert [(line["what"], line["emitter"], line["backward"]) for line in found] == [
        (f"zoo: {name}", "emulated", "emulated") for name in ("basic_rnn", "basic_rnn-sigmoid", "gru", "gru-softsign")
    ]
    assert len(coverage.cells()) > 140


def test_a_first_call_is_explained_and_made(capsys: pytest.CaptureFixture[str]) -> None:
    first_call.main("LSTM by a user", "2x3x8", "bfloat16", "cpu")
    (line,) = printed(capsys)
    assert line["emitter"] == "interpreted"
    assert {"explain_s", "call_s", "warm_up_s"} <= set(line)


def test_every_bound_is_of_a_part_and_its_cases() -> None:
    assert {each.part for each in bounds()} == set(PARTS) - {"coverage"}
    assert all(list(each.limits()) == list(PARTS[each.part].cases) for each in bounds())
    assert set(recorded()) == set(PEAKS)


def calls_of(part: str, ratios: Sequence[float]) -> list[dict[str, Any]]:
    ours = {"each_ms": 1.0, "stream_ms": 1.0, "host_us": 100.0, "us_a_step": 1.0}
    return [
        {"part": part, "case": case, "what": "training", "emitter": "cuda-loop", "against": "nn.LSTM"}
        | {"ours": ours, "peer": ours, "ratio": {"each": 0.5 * ratio, "stream": ratio}}
        for case, ratio in zip(CASES, ratios, strict=False)
    ]


def test_a_verdict_is_on_each_way_to_measure() -> None:
    (found,) = verdicts(calls_of("gru-bf16", [4.0] * 6 + [2.0] * 2))
    assert found["met"] == {"each": False, "stream": True}
    assert found["measured"] == "each 8 of 8, 0 of 6 at 3; stream 8 of 8, 6 of 6 at 3"
    assert not found["all"]
    (found,) = verdicts(calls_of("calls-bf16", [7.0] * 3))
    assert found["measured"] == "each 0 of 8; stream 3 of 8; 3 measured"


def test_the_table_marks_what_misses() -> None:
    lines = [
        *calls_of("calls-bf16", [7.0] * 7 + [2.0]),
        {"part": "loop", "case": CASES[0], "what": "forward", "us_a_step": 0.8, "finite": True},
        {"part": "loop", "case": CASES[1], "failed": "it took more than 75 s"},
        {"part": "coverage", "case": "1/8", "what": "zoo: gru", "emitter": "CUDA graph", "why": "no form"},
        {"part": "memory", "case": "keep 1024", "what": "training", "peak_MiB": 1.0},
    ]
    text = table(lines)
    assert "2!" in text
    assert "bf16 training asked" in text
    assert "incomplete   loop forward" in text
    assert "NOT MET      calls-bf16 training ratio >= 6, 2.7: each 0 of 8; stream 7 of 8" in text
    assert "failed: loop 1x512x512 : it took more than 75 s" in text
    assert "not cuda-loop: zoo: gru: no form" in text
    assert "peaks, MiB: keep 1024 1 (3309)" in text


WORKER = """
import json, sys
print(json.dumps({"environment": {"commit": None, "torch": "2"}}), flush=True)
for named in sys.argv[1:]:
    part, case = named.split(":")
    if case == "keep 1024":
        sys.exit("out of memory")
    print(json.dumps({"part": part, "case": case, "what": "training", "peak_MiB": 1}), flush=True)
    print(json.dumps({"done": named}), flush=True)
"""


def test_parts_share_processes_and_results_are_kept_beside_those_of_others(tmp_path: Path) -> None:
    command = [sys.executable, "-S", "-c", WORKER]
    kept = entry.Kept(tmp_path, "abc")
    for line in entry.lines(command, ["loop", "calls-fp16", "memory"], ["64x256x512", "keep"], float("inf"), 4):
        kept.add(line)
    kept.write()
    other = entry.Kept(tmp_path, "def")
    other.add({"part": "jax", "case": CASES[0], "failed": "no JAX"})
    other.write()
    parts = json.loads((tmp_path / "cuda.json").read_text())["parts"]
    assert list(parts) == ["loop", "calls-fp16", "memory", "jax"]
    assert parts["loop"]["environment"] == {"commit": "abc", "torch": "2"}
    found = {line["case"]: line.get("failed") for line in parts["memory"]["lines"]}
    assert found == {"keep 1024": "out of memory", "keep+swap 512": None, "keep+swap 4096": None}
