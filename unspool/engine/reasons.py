"""Why a cell cannot be planned."""

from __future__ import annotations


class CannotPlanError(Exception):
    """A cell's step does not hold what the engine's plan needs; the plain loop runs it instead. The text says why."""
