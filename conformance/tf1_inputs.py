"""Notes what TensorFlow makes of the cases in `tests/tf1_inputs`: pipelines, strings, tables, queues and sessions.

    python conformance/tf1_inputs.py [--out file] [--drawn 200] [--seed 0]

Needs the requirements in `conformance/requirements.txt`, and not unspool. Writes `tests/data/tf1_inputs.json`, which
`tests/test_tf1_inputs.py` compares `unspool.tf1` with; pipelines that are drawn at random are noted besides.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from conformance.tf1_on_tensorflow import tf
from tests.tf1_inputs import CASES, MISTAKES, drawn_cases
from tests.tf1_inputs.noting import Case, complaint, noted

OUT = Path(__file__).resolve().parents[1] / "tests" / "data" / "tf1_inputs.json"


def main() -> None:
    """One line a case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--drawn", type=int, default=20, help="how many pipelines are drawn")
    parser.add_argument("--seed", type=int, default=0, help="of the first of them")
    options = parser.parse_args()
    drawn = drawn_cases(range(options.seed, options.seed + options.drawn))
    found = {name: _in_a_folder(noted, case) for name, case in {**CASES, **drawn}.items()}
    found |= {name: _in_a_folder(complaint, case) for name, case in MISTAKES.items()}
    lines = [f"{json.dumps(name)}: {json.dumps(value, separators=(',', ':'))}" for name, value in found.items()]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{len(lines)} cases")


def _in_a_folder(note: Callable[[Any, Case, Path], Any], case: Case) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        return note(tf, case, Path(folder))


if __name__ == "__main__":
    main()
