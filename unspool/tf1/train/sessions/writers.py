"""Writers of summaries, one for each folder; none where TensorBoard's package is not installed."""

from __future__ import annotations

import os
from typing import Any

from unspool.tf1 import logging
from unspool.tf1.summary import FileWriter

_writers: dict[str, FileWriter] = {}
_told = False


class FileWriterCache:
    """The writers that hooks share."""

    @staticmethod
    def get(logdir: Any) -> FileWriter:
        """The writer of a folder, made if there is none."""
        folder = os.fspath(logdir)
        if folder not in _writers:
            _writers[folder] = FileWriter(folder)
        _writers[folder].reopen()
        return _writers[folder]

    @staticmethod
    def clear() -> None:
        """Closes all of them."""
        for each in _writers.values():
            each.close()
        _writers.clear()


def writer_for(logdir: Any) -> FileWriter | None:
    """The writer of a folder; None, and a warning once, if there is no TensorBoard to write with."""
    global _told
    try:
        return FileWriterCache.get(logdir)
    except ImportError as error:
        if not _told:
            logging.warning("no summaries are written: %s", error)
            _told = True
        return None
