"""Runs cases one after another, and prints lines of JSON: what they depend on, then what each has measured."""

from __future__ import annotations

import argparse
import gc
import importlib
import json
from typing import Any

import torch

from benchmarks.cuda.parts import PARTS
from benchmarks.cuda.timing import Settings, synchronize
from benchmarks.environment import environment
from benchmarks.harness import reason


def main() -> None:
    """Runs the cases of the command line, each named by its part and itself: `calls-fp16:64x256x512`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rounds", type=int, default=Settings.rounds)
    parser.add_argument("--best", type=int, default=Settings.best)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("cases", nargs="+")
    options = parser.parse_args()
    settings = Settings(options.device, options.rounds, options.tiny, options.best)
    torch.zeros(1, device=options.device)
    say({"environment": environment(options.device)})
    for named in options.cases:
        run(named, settings)
        synchronize(settings.device)  # what a fault has left of the context would fail every case after this one
        say({"done": named})
    say({"environment": environment(options.device)})  # with what has been imported since


def run(named: str, settings: Settings) -> None:
    """Prints the lines of a case; what it raises is one of them."""
    part, _, case = named.partition(":")
    head = {"part": part, "case": case}
    try:
        module: Any = importlib.import_module(f"benchmarks.cuda.{PARTS[part].module}")
        for line in module.measure(case, PARTS[part].options, settings):
            say({**head, **line})
    except Exception as error:
        say({**head, "failed": reason(error)})
    gc.collect()
    if settings.device == "cuda":
        torch.cuda.empty_cache()


def say(line: Any) -> None:
    """Prints it at once: this process may be ended at any time."""
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
