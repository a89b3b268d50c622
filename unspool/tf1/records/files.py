"""Files of records: each with its length, and checksums of both."""

from __future__ import annotations

import gzip
import os
import struct
import zlib
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

from unspool.checkpoints.crc32c import masked_crc32c
from unspool.tf1.errors import DataLossError, NotFoundError


class TFRecordCompressionType:
    """How a file is compressed."""

    NONE, ZLIB, GZIP = 0, 1, 2


class TFRecordOptions:
    """How a file is written: only its compression counts."""

    def __init__(self, compression_type: Any = None, **_: Any) -> None:
        self.compression_type = compression_type


def compression_of(options: Any) -> str:
    """The name of a compression, which is empty for none, of options or of what they say."""
    given = options.compression_type if isinstance(options, TFRecordOptions) else options
    named = {None: "", 0: "", 1: "ZLIB", 2: "GZIP"}.get(given, given) if not isinstance(given, str) else given
    if named not in ("", "ZLIB", "GZIP"):
        raise ValueError(f'compression must be "", "ZLIB" or "GZIP", but is {given!r}')
    return named


class TFRecordWriter:
    """Writes records to a file.

    Args:
        path: its name.
        options: `TFRecordOptions`, for compression.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with TFRecordWriter(folder + "/records") as writer:
    ...         writer.write(b"first")
    ...     list(tf_record_iterator(folder + "/records"))
    [b'first']
    """

    def __init__(self, path: Any, options: Any = None) -> None:
        self._compression = compression_of(options)
        self._file: Any = (gzip.open if self._compression == "GZIP" else open)(os.fspath(path), "wb")
        self._packed = zlib.compressobj() if self._compression == "ZLIB" else None

    def write(self, record: bytes) -> None:
        """Adds a record."""
        if not isinstance(record, bytes):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"a record is bytes, but is a {type(record).__name__}; examples have SerializeToString()")
        length = struct.pack("<Q", len(record))
        checks = [struct.pack("<I", masked_crc32c(each)) for each in (length, record)]
        data = length + checks[0] + record + checks[1]
        self._file.write(data if self._packed is None else self._packed.compress(data))

    def flush(self) -> None:
        """Lets what was written be in the file."""
        self._file.flush()

    def close(self) -> None:
        """Ends the file."""
        if not self._file.closed:
            if self._packed is not None:
                self._file.write(self._packed.flush())
            self._file.close()

    def __enter__(self) -> TFRecordWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def tf_record_iterator(path: Any, options: Any = None) -> Iterator[bytes]:
    """The records of a file.

    Raises:
        NotFoundError: if there is no such file.
        DataLossError: if it is broken.
    """
    return records_of(os.fspath(path), compression_of(options))


def records_of(name: str, compression: str = "") -> Iterator[bytes]:
    """The records of a file, compressed or not."""
    path = Path(name)
    if not path.is_file():
        raise NotFoundError(None, None, f"{path}; No such file or directory")
    with _opened(path, compression) as file:
        at = 0
        while len(header := file.read(12)) == 12:  # with less, TensorFlow too sees the end
            size = struct.unpack("<Q", _checked(header[:8], header[8:], name, at))[0]
            record = file.read(size + 4)
            if len(record) < size + 4:
                raise DataLossError(None, None, f"truncated record at {at} in {name}")
            yield _checked(record[:size], record[size:], name, at)
            at += 16 + size


def _opened(path: Path, compression: str) -> Any:
    if compression == "ZLIB":
        return BytesIO(zlib.decompress(path.read_bytes()))
    return gzip.open(path) if compression == "GZIP" else path.open("rb")


def _checked(data: bytes, check: bytes, name: str, at: int) -> bytes:
    if struct.unpack("<I", check)[0] != masked_crc32c(data):
        raise DataLossError(None, None, f"corrupted record at {at} in {name}")
    return data
