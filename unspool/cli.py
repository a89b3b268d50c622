"""The command `unspool`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

USAGE = """usage: unspool run [-m] program [arguments ...]   runs a program that says `import tensorflow`
       unspool check program [program ...]        lists the names that it uses and unspool.tf1 lacks"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Reads the command line, and does what it says."""
    command, *words = (sys.argv[1:] if arguments is None else arguments) or [""]
    if command == "run":
        from unspool.tf1.running import runner

        runner.main(words)
    elif command == "check" and words:
        from unspool.tf1.running import check

        sys.exit(check.main(words))
    else:
        print(USAGE)
        sys.exit(0 if command in ("-h", "--help") else 2)
