"""Datasets of what is in files."""

from __future__ import annotations

from typing import Any

from unspool.tf1.data import sources
from unspool.tf1.data.dataset import Dataset


class TextLineDataset(Dataset):
    """The lines of text files, as strings without their ends.

    Args:
        filenames: the name of a file, or several; tensors too.
        compression_type: "" or None, "GZIP" or "ZLIB".
        buffer_size: accepted.
        num_parallel_reads: accepted.

    Raises:
        NotFoundError: in a run, if there is no such file.
    """

    def __init__(
        self,
        filenames: Any,
        compression_type: str | None = None,
        buffer_size: Any = None,
        num_parallel_reads: Any = None,
    ) -> None:
        super().__init__(sources.TextLines(filenames, compression_type))


class TFRecordDataset(Dataset):
    """The records of files that `tf.python_io.TFRecordWriter` wrote, as strings.

    Args:
        filenames: the name of a file, or several; tensors too.
        compression_type: "" or None, "GZIP" or "ZLIB".
        buffer_size: accepted.
        num_parallel_reads: accepted.

    Raises:
        NotFoundError: in a run, if there is no such file.
        DataLossError: in a run, if a file is broken.
    """

    def __init__(
        self,
        filenames: Any,
        compression_type: str | None = None,
        buffer_size: Any = None,
        num_parallel_reads: Any = None,
    ) -> None:
        super().__init__(sources.Records(filenames, compression_type))
