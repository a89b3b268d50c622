"""The engine's rooms stay small enough to be read."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

ENGINE = Path(__file__).parents[1] / "unspool" / "engine"
SOURCES = [each for each in ENGINE.rglob("*") if each.suffix in (".py", ".h", ".cpp", ".cu")]


def test_no_file_has_more_than_350_lines() -> None:
    assert [each.name for each in SOURCES if len(each.read_text().splitlines()) > 350] == []


def test_no_function_has_more_than_60_lines() -> None:
    long = [
        f"{file.name}: {node.name}"
        for file in SOURCES
        if file.suffix == ".py"
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef) and (node.end_lineno or 0) - node.lineno >= 60
    ]
    assert long == []


def test_no_room_has_more_than_12_files() -> None:
    rooms = Counter(each.parent for each in SOURCES if each.name != "__init__.py")
    assert {room.name: count for room, count in rooms.items() if count > 12} == {}
    assert len(rooms) > 15  # it has looked


def test_the_type_checker_is_overruled_less_than_ten_times_and_each_time_for_a_reason() -> None:
    lines = [line for each in SOURCES for line in each.read_text().splitlines() if "pyright: ignore" in line]
    assert 0 < len(lines) < 10
    assert all(re.search(r"pyright: ignore\[[\w, ]+\]  # \w", line) for line in lines)


def test_the_map_names_every_file_of_the_engine_and_nothing_that_is_not_there() -> None:
    text = (ENGINE.parents[1] / "CONTRIBUTING.md").read_text()
    named = set(re.findall(r"[\w/]*\w+\.(?:py|h|cpp|cu)\b", text))
    last = {each.rpartition("/")[2] for each in named}
    assert {each.name for each in SOURCES if each.name != "__init__.py"} - last == set()
    root = ENGINE.parents[1]
    files = {
        each.name
        for room in ("unspool", "tests", "benchmarks", "conformance", "docs", "examples")
        for each in (root / room).rglob("*")
    }
    assert last - files == set()
