"""Runs the benchmarks that make sense on this machine, one after another, and keeps their results."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import torch

ANYWHERE = ("cpu", "cuda")
CPU_ONLY = ("cpu",)
GPU_ONLY = ("cuda",)  # peaks of memory, copies to the host: on a CPU there is nothing to see

BENCHMARKS = {
    "lstm": ANYWHERE,
    "gru": ANYWHERE,
    "basic": ANYWHERE,
    "lengths": ANYWHERE,
    "dropins": CPU_ONLY,  # on a GPU both are torch's
    "inference": ANYWHERE,
    "own_cells": ANYWHERE,
    "gallery": CPU_ONLY,
    "layer": ANYWHERE,
    "compiled": ANYWHERE,
    "growth": ANYWHERE,
    "decode": ANYWHERE,
    "attention": ANYWHERE,
    "session": ANYWHERE,
    "unrolled": CPU_ONLY,  # what TensorFlow's environment has
    "bfloat16": ANYWHERE,
    "memory": GPU_ONLY,
    "swap": GPU_ONLY,
}
"""Every script, and where it runs unless it is asked for by name."""


def main() -> None:
    """Runs them, each in a process of its own, so that none inherits another's memory, caches or threads."""
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(BENCHMARKS)}; all that fit by default")
    parser.add_argument("--device", choices=ANYWHERE, default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks"), help="folder of the JSON files")
    arguments, others = parser.parse_known_args()  # the others are the scripts' own
    if unknown := set(arguments.names) - set(BENCHMARKS):
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")

    arguments.out.mkdir(parents=True, exist_ok=True)
    failed: list[str] = []
    for name in arguments.names or [name for name, devices in BENCHMARKS.items() if arguments.device in devices]:
        results = arguments.out / f"{name}-{arguments.device}.json"
        options = ["--device", arguments.device, "--json", str(results), *others]
        if subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *options], check=False).returncode:
            failed.append(name)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
