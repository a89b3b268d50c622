"""What a session raises: TensorFlow's errors, by their names."""

from __future__ import annotations

from typing import Any

__all__ = [
    "DataLossError",
    "FailedPreconditionError",
    "InvalidArgumentError",
    "NotFoundError",
    "OpError",
    "OutOfRangeError",
]


class OpError(Exception):
    """An operation failed while a session ran it.

    Args:
        node_def: unused; TensorFlow's first argument.
        op: the operation.
        message: what went wrong.
    """

    def __init__(self, node_def: Any, op: Any, message: str) -> None:
        super().__init__(message)
        self.node_def, self.op, self.message = node_def, op, message

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (None, None, self.message)  # a graph stays where it is


class InvalidArgumentError(OpError):
    """A value does not fit an operation, or a placeholder was not fed."""


class FailedPreconditionError(OpError):
    """A variable was read before it was initialised."""


class NotFoundError(OpError):
    """A file, or a variable in a checkpoint, is not there."""


class DataLossError(OpError):
    """A file is broken."""


class OutOfRangeError(OpError):
    """There is nothing more to read."""
