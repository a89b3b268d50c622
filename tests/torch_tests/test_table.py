"""`TORCH_TESTS.md` says what is there, all of it, and nothing else."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
TABLE = HERE.parent / "TORCH_TESTS.md"


def rows() -> Iterator[tuple[str, str, str]]:
    """`(torch's test, what it pins, our tests)` for every row."""
    for line in TABLE.read_text().splitlines():
        if line.startswith("| ") and not line.startswith("| torch's test"):
            theirs, pins, ours = (cell.strip() for cell in line.strip("|").split("|"))
            yield theirs, pins, ours


def existing_tests() -> list[str]:
    """Every `file::test` of this folder but those of this file."""
    return sorted(
        f"{path.name}::{node.name}"
        for path in HERE.glob("test_torch_*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    )


def test_every_test_the_table_names_exists_and_every_test_is_named_once() -> None:
    named = [test.strip() for _, _, tests in rows() if not tests.startswith("n/a") for test in tests.split(",")]
    assert sorted(named) == existing_tests()


def test_every_row_says_what_it_pins_and_what_is_not_there_says_why() -> None:
    for theirs, pins, ours in rows():
        assert pins, theirs
        assert re.fullmatch(r"n/a: .{20,}|test_torch_\w+\.py::test_\w+(, test_torch_\w+\.py::test_\w+)*", ours), theirs


def test_no_test_of_torch_has_two_rows() -> None:
    names = [theirs for theirs, _, _ in rows()]
    assert len(set(names)) == len(names) > 50


def test_our_names_are_theirs() -> None:
    for theirs, _, ours in rows():
        if not ours.startswith("n/a"):
            assert ours.split(",")[0].split("::")[1] == theirs.split(".")[1].lower()
