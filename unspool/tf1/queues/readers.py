"""Readers: they take the names of files from a queue, and give records of the files, one by one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from unspool.tf1.data.sources import lines_of
from unspool.tf1.dtypes import int64, string
from unspool.tf1.errors import NotFoundError
from unspool.tf1.operations import apply
from unspool.tf1.queues.queue import QueueBase
from unspool.tf1.records.files import compression_of, records_of
from unspool.tf1.string_values import Strings
from unspool.tf1.tensor import Tensor

if TYPE_CHECKING:
    from unspool.tf1.session import Run, State


class ReaderBase:
    """What the readers share: records of one file after the other."""

    def records(self, name: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The key and the value of each record of a file."""
        raise NotImplementedError

    def read(self, queue: QueueBase, name: str | None = None) -> tuple[Tensor, Tensor]:
        """The key and the value of the next record, of the file that a queue names.

        Raises:
            OutOfRangeError: in a run, if there is no file left, and the queue is closed.
        """

        def next_record(run: Run) -> tuple[Strings, Strings]:
            key, value = self._position(run.state, queue).next()
            return Strings.of(key), Strings.of(value)

        outputs = [(string, ()), (string, ())]
        key, value = apply("ReaderRead", next_record, outputs=outputs, takes_run=True, name=name)
        return key, value

    def num_records_produced(self, name: str | None = None) -> Tensor:
        """How many records were read."""

        def count(run: Run) -> torch.Tensor:
            return torch.tensor(run.state.kept((self, "count"), lambda: [0])[0])

        return apply("ReaderNumRecordsProduced", count, outputs=[(int64, ())], takes_run=True, name=name)

    def _position(self, state: State, queue: QueueBase) -> _Position:
        return state.kept(self, lambda: _Position(self, state, queue))


class _Position:
    """Where a reader is in one session; threads may share it."""

    def __init__(self, reader: ReaderBase, state: State, queue: QueueBase) -> None:
        self._reader, self._lock = reader, threading.Lock()
        self._names = queue._contents(state)  # pyright: ignore[reportPrivateUsage]
        self._count: list[int] = state.kept((reader, "count"), lambda: [0])
        self._records: Iterator[tuple[bytes, bytes]] = iter(())

    def next(self) -> tuple[bytes, bytes]:
        with self._lock:
            while True:
                record = next(self._records, None)
                if record is not None:
                    self._count[0] += 1
                    return record
                ((name,),) = self._names.take(1, 1)
                self._records = self._reader.records(name.item())


class TextLineReader(ReaderBase):
    """Reads the lines of text files; the key of a line is the file's name and the line's number.

    Args:
        skip_header_lines: how many lines at the beginning of each file are left out.
        name: accepted.
    """

    def __init__(self, skip_header_lines: int | None = None, name: str | None = None) -> None:
        self._skip = skip_header_lines or 0

    def records(self, name: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Each line."""
        for number, line in enumerate(lines_of(name), 1):
            if number > self._skip:
                yield name + f":{number}".encode(), line


class WholeFileReader(ReaderBase):
    """Reads files as a whole; the key is the file's name."""

    def __init__(self, name: str | None = None) -> None:
        pass

    def records(self, name: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The file."""
        path = Path(name.decode())
        if not path.is_file():
            raise NotFoundError(None, None, f"{path}; No such file or directory")
        yield name, path.read_bytes()


class TFRecordReader(ReaderBase):
    """Reads the records of files; the key of one is the file's name and the record's number.

    Args:
        name: accepted.
        options: `tf.python_io.TFRecordOptions`, for compression.
    """

    def __init__(self, name: str | None = None, options: Any = None) -> None:
        self._compression = compression_of(options)

    def records(self, name: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Each record."""
        for number, record in enumerate(records_of(name.decode(), self._compression)):
            yield name + f":{number}".encode(), record
