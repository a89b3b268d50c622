"""Errors of emitters: what they cannot run, with its reason, and what a step does wrong."""

from __future__ import annotations

from unspool.engine.reasons import Code, Reason


class CannotEmitError(Exception):
    """The emitter cannot, or may not, run it: a reason for people to read."""

    def __init__(self, message: str, code: Code = Code.NO_FORM) -> None:
        super().__init__(message)
        self.reason = Reason(code, message)


class OutOfBoundsError(IndexError, RuntimeError):
    """A step has an index that is out of range; torch raises one or the other, by operation."""
