"""`tf.gfile`: files and folders of this machine, by TensorFlow's names."""

from __future__ import annotations

import glob
import os
import shutil
from typing import Any

from unspool.tf1.namespace import missing

__all__ = [
    "Copy",
    "DeleteRecursively",
    "Exists",
    "FastGFile",
    "GFile",
    "Glob",
    "IsDirectory",
    "ListDirectory",
    "MakeDirs",
    "MkDir",
    "Open",
    "Remove",
    "Rename",
]

Exists = os.path.exists
IsDirectory = os.path.isdir
ListDirectory = os.listdir
Glob = glob.glob
Remove = os.remove
DeleteRecursively = shutil.rmtree
MkDir = os.mkdir


class GFile:
    r"""An open file. It reads bytes with "b" in the mode, else texts in UTF-8, and writes both in every mode.

    Args:
        name: its path.
        mode: as `open` takes it.

    >>> import tempfile
    >>> path = tempfile.mktemp()
    >>> with GFile(path, "w") as file:
    ...     file.write("one\n")
    ...     file.write(b"two\n")
    >>> GFile(path).readlines(), GFile(path, "rb").read(3), GFile(path).size()
    (['one\n', 'two\n'], b'one', 8)
    """

    def __init__(self, name: Any, mode: str = "r") -> None:
        self.name, self.mode = name, mode
        self._binary = "b" in mode
        self._file: Any = open(name, mode if self._binary else f"{mode}b")  # noqa: SIM115

    def _read(self, found: bytes) -> Any:
        return found if self._binary else found.decode()

    def read(self, n: int = -1) -> Any:
        """The next `n` bytes, or all that follow."""
        return self._read(self._file.read(n))

    def readline(self, *limit: int) -> Any:
        """The next line with its end; nothing after the last."""
        return self._read(self._file.readline(*limit))

    def readlines(self) -> list[Any]:
        """All lines that follow."""
        return list(self)

    def write(self, file_content: str | bytes) -> None:
        """Writes a text in UTF-8, or bytes as they are."""
        self._file.write(file_content.encode() if isinstance(file_content, str) else file_content)

    def size(self) -> int:
        """How many bytes the file has."""
        return os.path.getsize(self.name)

    def seek(self, offset: int | None = None, whence: int = 0, position: int | None = None) -> None:
        """Goes on at a byte; `position` is an older name of `offset`.

        Raises:
            TypeError: if neither is given.
        """
        place = position if offset is None else offset
        if place is None:
            raise TypeError("seek(): offset argument required")
        self._file.seek(place, whence)

    def next(self) -> Any:
        """The next line; `StopIteration` after the last."""
        found = self.readline()
        if not found:
            raise StopIteration
        return found

    __next__ = next

    def __iter__(self) -> GFile:
        return self

    def __enter__(self) -> GFile:
        return self

    def __exit__(self, *error: Any) -> None:
        self._file.close()

    def __del__(self) -> None:
        if "_file" in vars(self):
            self._file.close()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"GFile has no attribute {name!r}")
        return getattr(self._file, name)  # what is the same of every file: close, flush, tell


FastGFile = Open = GFile


def MakeDirs(dirname: Any) -> None:  # noqa: N802
    """Makes a folder, and those that it is in, unless they are there."""
    os.makedirs(dirname, exist_ok=True)


def Copy(oldpath: Any, newpath: Any, overwrite: bool = False) -> None:  # noqa: N802
    """Copies a file; `FileExistsError` if the other is there already and may not be overwritten."""
    if not overwrite and os.path.exists(newpath):
        raise FileExistsError(f"{newpath} is there already")
    shutil.copyfile(oldpath, newpath)


def Rename(oldname: Any, newname: Any, overwrite: bool = False) -> None:  # noqa: N802
    """Gives a file another name; `FileExistsError` if that is taken and may not be overwritten."""
    if not overwrite and os.path.exists(newname):
        raise FileExistsError(f"{newname} is there already")
    os.replace(oldname, newname)


def __getattr__(name: str) -> Any:
    raise missing("tf.gfile", name, globals())
