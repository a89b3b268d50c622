"""What old programs read their inputs with, and train in: pipelines, words, queues and sessions.

Each subject has cases, which both libraries run and which are noted, and mistakes, of which the kind of error is.
"""

from __future__ import annotations

from . import pipelines, queues, sessions, words
from .noting import Case

SUBJECTS = {"pipelines": pipelines, "words": words, "queues": queues, "sessions": sessions}
CASES: dict[str, Case] = {
    f"{subject}: {name}": case for subject, module in SUBJECTS.items() for name, case in module.CASES.items()
}
MISTAKES: dict[str, Case] = {
    f"{subject}: {name}": (lambda tf, folder, make=make: make(tf))
    for subject, module in SUBJECTS.items()
    for name, make in module.MISTAKES.items()
}
