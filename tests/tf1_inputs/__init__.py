"""What old programs read their inputs with, and train in: pipelines, words, queues and sessions.

Each subject has cases, which both libraries run and which are noted, and mistakes, of which the kind of error is.
"""

from __future__ import annotations

from collections.abc import Iterable

from . import pipelines, queues, records, sessions, words
from .drawn import drawn
from .noting import Case

SUBJECTS = {"pipelines": pipelines, "words": words, "queues": queues, "records": records, "sessions": sessions}
CASES: dict[str, Case] = {
    f"{subject}: {name}": case for subject, module in SUBJECTS.items() for name, case in module.CASES.items()
}
MISTAKES: dict[str, Case] = {
    f"{subject}: {name}": (lambda tf, folder, make=make: make(tf))
    for subject, module in SUBJECTS.items()
    for name, make in module.MISTAKES.items()
}


def drawn_case(name: str) -> Case:
    """The pipeline that a name draws."""
    seed = int(name.removeprefix("drawn: "))
    return lambda tf, folder: drawn(tf, folder, seed)


def drawn_cases(seeds: Iterable[int]) -> dict[str, Case]:
    """Pipelines drawn from seeds."""
    return {f"drawn: {seed}": drawn_case(f"drawn: {seed}") for seed in seeds}
