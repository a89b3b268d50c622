"""Notes what TensorFlow makes of the cases in `tests/tf1_inputs`: pipelines, strings, tables, queues and sessions.

    python conformance/tf1_inputs.py

Needs the requirements in `conformance/requirements.txt`, and not unspool. Writes `tests/data/tf1_inputs.json`, which
`tests/test_tf1_inputs.py` compares `unspool.tf1` with.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from conformance.tf1_on_tensorflow import tf
from tests.tf1_inputs import CASES, MISTAKES
from tests.tf1_inputs.noting import Case, complaint, noted

OUT = Path(__file__).resolve().parents[1] / "tests" / "data" / "tf1_inputs.json"


def main() -> None:
    """One line a case."""
    found = {}
    for cases, note in ((CASES, noted), (MISTAKES, complaint)):
        found |= {name: _in_a_folder(note, case) for name, case in cases.items()}
    lines = [f"{json.dumps(name)}: {json.dumps(value, separators=(',', ':'))}" for name, value in found.items()]
    OUT.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{len(lines)} cases")


def _in_a_folder(note: object, case: Case) -> object:
    with tempfile.TemporaryDirectory() as folder:
        return note(tf, case, Path(folder))  # type: ignore[operator]


if __name__ == "__main__":
    main()
