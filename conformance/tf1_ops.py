"""Notes what TensorFlow makes of the calls in `tests/tf1_ops`: values, dtypes, static shapes, gradients, errors, names.

    python conformance/tf1_ops.py [subject ...]

Needs the requirements in `conformance/requirements.txt`, and not unspool. Writes `tests/data/tf1_ops/*.json`, which
`tests/test_tf1_ops.py` compares `unspool.tf1` with.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from conformance.tf1_on_tensorflow import tf
from tests.tf1_ops import CALLS
from tests.tf1_ops.call import HOW, outcome
from tests.tf1_ops.mistakes import MISTAKES, complaint
from tests.tf1_ops.names import NAMED, names

OUT = Path(__file__).resolve().parents[1] / "tests" / "data" / "tf1_ops"


def main() -> None:
    """One file a subject, one line a call; of the subjects that are named, or of all, with names and mistakes."""
    OUT.mkdir(exist_ok=True)
    chosen = sys.argv[1:]
    for subject, calls in ((each, CALLS[each]) for each in chosen or CALLS):
        lines = []
        for name, call in calls.items():
            found = {how: outcome(tf, call, how) for how in HOW}
            lines.append(f"{json.dumps(name)}: {json.dumps(_shortened(found), separators=(',', ':'))}")
        (OUT / f"{subject}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
        print(f"{subject}: {len(lines)} calls")
    if chosen:
        return
    (OUT / "names.json").write_text(json.dumps({each: names(tf, each) for each in NAMED}, indent=1) + "\n")
    (OUT / "mistakes.json").write_text(json.dumps({each: complaint(tf, each) for each in MISTAKES}, indent=1) + "\n")


def _shortened(found: dict[str, dict]) -> dict[str, dict]:
    """Without what is the same whatever is known of the shapes."""
    first, *rest = found.values()
    for each in rest:
        for key in [key for key in each if key in first and each[key] == first[key] and key not in ("raises", "when")]:
            each[key] = "same"
    return found


if __name__ == "__main__":
    main()
