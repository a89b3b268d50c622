"""What a session raises: TensorFlow's errors, by their names."""

from __future__ import annotations

from typing import Any

__all__ = [
    "AbortedError",
    "AlreadyExistsError",
    "CancelledError",
    "DataLossError",
    "DeadlineExceededError",
    "FailedPreconditionError",
    "InternalError",
    "InvalidArgumentError",
    "NotFoundError",
    "OpError",
    "OutOfRangeError",
    "PermissionDeniedError",
    "ResourceExhaustedError",
    "UnavailableError",
    "UnimplementedError",
    "UnknownError",
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


def of_python(error: Exception) -> OpError:
    """The error of an operation for one that a Python function of the program raised in it."""
    kinds: list[tuple[type[Exception] | tuple[type[Exception], ...], type[OpError]]] = [
        ((TypeError, ValueError), InvalidArgumentError),
        (StopIteration, OutOfRangeError),
        (MemoryError, ResourceExhaustedError),
        (NotImplementedError, UnimplementedError),
    ]
    kind = next((made for given, made in kinds if isinstance(error, given)), UnknownError)
    return error if isinstance(error, OpError) else kind(None, None, f"{type(error).__name__}: {error}")


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


class CancelledError(OpError):
    """An operation was stopped, such as one that waits for a queue that was closed."""


class AbortedError(OpError):
    """An operation was given up, and may be tried again."""


class DeadlineExceededError(OpError):
    """An operation took too long."""


class UnavailableError(OpError):
    """What an operation needs is not there at present."""


class AlreadyExistsError(OpError):
    """What is to be made is there already."""


class UnimplementedError(OpError):
    """An operation is not there for such arguments."""


class ResourceExhaustedError(OpError):
    """There is not enough memory, or space."""


class InternalError(OpError):
    """An operation failed by a fault of its own."""


class UnknownError(OpError):
    """An operation failed, and nobody knows why."""


class PermissionDeniedError(OpError):
    """An operation may not do what it is asked to."""
