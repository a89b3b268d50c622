"""Compares `unspool.tf1` with what TensorFlow made of the calls that `tf1_draw_ops.py` drew.

    python conformance/tf1_compare_ops.py build/conformance/tf1_ops

Exits with 1 if anything differs: values, dtypes, static shapes, gradients, errors and when they come.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.tf1_ops.call import outcome
from tests.tf1_ops.compare import between
from tests.tf1_ops.drawn import drawn
from unspool import tf1

SLACK = 5
"""Sums over a dozen steps, in float32 and in another order."""


def differences(name: str, noted: dict[str, dict[str, dict]]) -> list[str]:
    """What differs in the calls of an operation."""
    return [
        f"{name}, seed {seed}, {how}: {each}"
        for seed, by_shapes in noted.items()
        for how, theirs in by_shapes.items()
        for each in between(theirs, outcome(tf1, drawn(name, int(seed)), how), SLACK)
    ]


def main() -> None:
    """Prints what differs, and how much was compared."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    count, found = 0, []
    files = sorted(folder.glob("*.json"))
    for file in files:
        noted = json.loads(file.read_text())
        count += len(noted)
        found += differences(file.stem, noted)
    print("\n".join([*found, f"{count} drawn calls of {len(files)} operations, {len(found)} differences"]))
    sys.exit(bool(found) or not count)


if __name__ == "__main__":
    main()
