"""Draws calls of the operations in `tests/tf1_ops/drawn.py` and notes what TensorFlow makes of each.

    python conformance/tf1_draw_ops.py --calls 10 --out build/conformance/tf1_ops

Needs the requirements in `conformance/requirements.txt`, and not unspool. `tf1_compare_ops.py` compares.
"""

from __future__ import annotations

import argparse
import json
import secrets
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from conformance.tf1_on_tensorflow import tf
from tests.tf1_ops.call import HOW, outcome
from tests.tf1_ops.drawn import DRAWN, drawn


def main() -> None:
    """One file an operation: what was made of the call of each seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=10, help="how many of each operation")
    parser.add_argument("--seed", type=int, default=None, help="the first seed (default: something new)")
    parser.add_argument("--out", type=Path, required=True, help="the folder for the .json files")
    parser.add_argument("names", nargs="*", metavar="NAME", help="an operation (default: all)")
    arguments = parser.parse_args()
    first = secrets.randbelow(2**31) if arguments.seed is None else arguments.seed
    arguments.out.mkdir(parents=True, exist_ok=True)
    for old in arguments.out.glob("*.json"):
        old.unlink()
    names = arguments.names or list(DRAWN)
    for name in names:
        made = {}
        for seed in range(first, first + arguments.calls):
            how = HOW[seed % len(HOW)]
            made[seed] = {how: outcome(tf, drawn(name, seed), how)}
        (arguments.out / f"{name}.json").write_text(json.dumps(made))
    print(f"{arguments.calls} calls of {len(names)} operations from seed {first}")


if __name__ == "__main__":
    main()
