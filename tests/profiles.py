"""How much of what is drawn at random a run covers.

`make test` runs the profile `commit`. `make soak` sets UNSPOOL_TESTS=soak, and runs the tests marked `drawn` or
`hypothesis` in the profile `soak`: with more cases, and with those that `commit` leaves out.
"""

from __future__ import annotations

import os

SOAK = os.environ.get("UNSPOOL_TESTS") == "soak"


def cases(commit: int, soak: int) -> int:
    """How many cases a test draws."""
    return soak if SOAK else commit


def register() -> None:
    """Hypothesis's own profiles, for tests that do not say how many examples they want."""
    from hypothesis import settings

    settings.register_profile("commit", max_examples=50)
    settings.register_profile("soak", max_examples=500)
    settings.load_profile("soak" if SOAK else "commit")
