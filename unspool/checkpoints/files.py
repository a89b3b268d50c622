"""Where the files of a checkpoint are."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Protocol

from unspool.checkpoints.errors import CheckpointError

LARGEST_INDEX = 1 << 24
"""An index has less than 100 bytes for a variable: one of 16 MiB has more variables than any model."""


class Files(Protocol):
    """The files of one checkpoint."""

    name: str
    """What they are called in messages."""

    def index(self) -> bytes:
        """The whole `.index` file."""
        ...

    def shard_size(self, shard: int, shards: int) -> int:
        """How many bytes a data file has."""
        ...

    def read(self, shard: int, shards: int, offset: int, size: int) -> bytearray:
        """Some bytes of a data file; fewer, if it ends before."""
        ...


class Folder:
    """The files with one prefix, in a folder."""

    def __init__(self, prefix: str) -> None:
        self.prefix = self.name = prefix

    def index(self) -> bytes:
        """The whole `.index` file; `FileNotFoundError` if there is none, `CheckpointError` if it is too large."""
        path = Path(f"{self.prefix}.index")
        if not path.is_file():
            hint = ""
            if os.path.isfile(self.prefix):
                hint = f"; {self.prefix} is a file of itself: if it is a checkpoint, then one of Saver's first version"
            raise FileNotFoundError(f"there is no checkpoint {self.prefix}: looked for {path}{hint}")
        size = path.stat().st_size
        if size > LARGEST_INDEX:
            raise CheckpointError(f"{path} has {size} bytes, but at most {LARGEST_INDEX} are read as an index")
        return path.read_bytes()

    def shard_size(self, shard: int, shards: int) -> int:
        """How many bytes a data file has; `FileNotFoundError` if there is none."""
        path = self._shard(shard, shards)
        if not path.is_file():
            raise FileNotFoundError(f"the checkpoint {self.prefix} is not complete: there is no {path}")
        return path.stat().st_size

    def read(self, shard: int, shards: int, offset: int, size: int) -> bytearray:
        """Some bytes of a data file; fewer, if it ends before."""
        with self._shard(shard, shards).open("rb") as file:
            # Asked again, so that a file which has shrunk since does not make room for what it no longer has.
            data = bytearray(max(min(size, os.fstat(file.fileno()).st_size - offset), 0))
            file.seek(offset)
            return data[: file.readinto(data)]

    def _shard(self, shard: int, shards: int) -> Path:
        return Path(shard_name(self.prefix, shard, shards))


def shard_name(prefix: str, shard: int, shards: int) -> str:
    """The name of a data file.

    >>> shard_name("model.ckpt", 1, 2)
    'model.ckpt.data-00001-of-00002'
    """
    return f"{prefix}.data-{shard:05d}-of-{shards:05d}"


def find_prefix(path: str | os.PathLike[str]) -> str:
    """What the names of a checkpoint's files begin with.

    Args:
        path: this prefix itself, as TensorFlow's `Saver.save` returns it; one of the files; or a folder, for the latest
            checkpoint that its file `checkpoint` names.

    >>> find_prefix("model.ckpt-1000.index") == find_prefix("model.ckpt-1000.data-00000-of-00001")
    True
    """
    given = os.fspath(path)
    if os.path.isdir(given) and not os.path.isfile(f"{given}.index"):
        return os.path.join(given, _latest(Path(given, "checkpoint")))
    return re.sub(r"\.(index|data-\d{5}-of-\d{5})$", "", given)


def _latest(path: Path) -> str:
    """The last component of the path that a `checkpoint` file names: the folder may have moved since.

    Nothing, where that is the folder: then its files have no name before their endings.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no {path}, the file that names the latest checkpoint of a folder")
    with path.open("rb") as file:
        text = file.read(1 << 16)
    found = re.search(rb'^\s*model_checkpoint_path\s*:\s*"((?:[^"\\\n]|\\.)*)"', text, re.MULTILINE)
    if found is None:
        raise CheckpointError(f'{path} has no line model_checkpoint_path: "..."')
    plain = re.sub(rb"\\([0-7]{1,3}|.)", _unescaped, found[1]).decode("utf-8", "replace")
    name = plain.rpartition("/")[2]
    if not plain.strip("/") or name == ".." or "\0" in name:
        raise CheckpointError(f"{path} names the checkpoint {plain!r}, which is no name of a file")
    return "" if name == "." else name


def _unescaped(match: re.Match[bytes]) -> bytes:
    code = match[1]
    return bytes([int(code, 8) & 0xFF]) if code.isdigit() and max(code) < 0x38 else code
