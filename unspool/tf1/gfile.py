"""`tf.gfile`: files and folders of this machine, by TensorFlow's names."""

from __future__ import annotations

import glob
import os
import shutil
from typing import IO, Any

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


def GFile(name: Any, mode: str = "r") -> IO[Any]:  # noqa: N802
    """An open file; texts are UTF-8."""
    return open(name, mode, encoding=None if "b" in mode else "utf-8")


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
