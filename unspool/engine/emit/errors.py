"""The error by which an emitter declines a core, with its reason."""

from __future__ import annotations

from unspool.engine.reasons import Code, Reason


class CannotEmitError(Exception):
    """The emitter cannot, or may not, run it: a reason for people to read."""

    def __init__(self, message: str, code: Code = Code.NO_FORM) -> None:
        super().__init__(message)
        self.reason = Reason(code, message)
