"""Compares what `unspool.tf1` makes of the cases in `tests/tf1_inputs` with what `tf1_inputs.py` noted.

python conformance/tf1_compare_inputs.py build/conformance/tf1_inputs.json
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.tf1_inputs import CASES, MISTAKES, drawn_case
from tests.tf1_inputs.noting import complaint, differences, noted
from unspool import tf1


def problems(name: str, recorded: Any, folder: Path) -> list[str]:
    """Where a case differs from what TensorFlow made of it."""
    if name in MISTAKES:
        found = complaint(tf1, MISTAKES[name], folder)
        return [] if found == recorded else [f"{found} is not {recorded}"]
    return differences(noted(tf1, CASES.get(name) or drawn_case(name), folder), recorded)


def main() -> None:
    """Prints what differs; exits with 1 if something does."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    recorded: dict[str, Any] = json.loads(parser.parse_args().file.read_text())
    wrong = 0
    for name, value in recorded.items():
        with tempfile.TemporaryDirectory() as folder:
            found = problems(name, value, Path(folder))
        wrong += bool(found)
        for each in found[:3]:
            print(f"{name}: {each}")
    print(f"{len(recorded)} cases, {wrong} differ")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
