"""Compile cache: keeps binaries on disk for later processes.

They are only ever loaded from a folder that nobody else can write to, and only if they are whole: each ends with a
checksum of itself.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from unspool.once import Said

_CHECKSUM = 32
_said = Said()
log = logging.getLogger("unspool")


def trusted_folder() -> Path | None:
    """Where binaries are kept: the user's cache, or nowhere if that cannot be trusted."""
    named, home = os.environ.get("UNSPOOL_CACHE"), os.environ.get("XDG_CACHE_HOME")
    try:
        folder = Path(named) if named else Path(home or Path("~/.cache").expanduser()) / "unspool"
        folder = folder.resolve()
        for each in (*reversed(folder.parents), folder):
            if not each.exists():
                each.mkdir(mode=0o700, exist_ok=True)
        if not _is_ours(folder.lstat(), stat.S_ISDIR):
            raise OSError(f"{folder} is no folder of this user's that nobody else can write to")
        for parent in folder.parents:
            if parent.stat().st_mode & (stat.S_IWOTH | stat.S_ISVTX) == stat.S_IWOTH:
                raise OSError(f"everybody can put something else in the place of {folder}")
    except (OSError, RuntimeError) as error:  # RuntimeError: nobody knows the user's home
        _say_once(str(error))
        return None
    return folder


def _say_once(reason: str) -> None:
    if _said.first(reason):
        log.info("compiled loops are not kept for other processes: %s", reason)


def keep(binary: bytes, place: Path) -> bool:
    """Writes a binary to its place among those kept; whether that could be done."""
    try:
        handle, name = tempfile.mkstemp(prefix=f"{place.stem}.", dir=place.parent)
        try:
            with open(handle, "wb") as file:
                file.write(binary + hashlib.sha256(binary).digest())
            Path(name).replace(place)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:  # no space, or no permission
        _say_once(f"{place.parent}: {error.strerror}")
        return False
    return True


def content(path: Path) -> bytes | None:
    """The binary that is kept there, if it is, nobody else could have written it, and it is as it was written."""
    try:
        if not _is_ours(path.lstat(), stat.S_ISREG):
            return None
        found = path.read_bytes()
    except OSError:
        return None
    binary, checksum = found[:-_CHECKSUM], found[-_CHECKSUM:]
    return binary if binary and hashlib.sha256(binary).digest() == checksum else None


def load(path: Path) -> ctypes.CDLL | None:
    """The library that is kept there, if it is."""
    with suppress(OSError):  # not for this machine after all
        return ctypes.CDLL(str(path)) if content(path) is not None else None
    return None


def _is_ours(about: os.stat_result, right_kind: Callable[[int], bool]) -> bool:
    """Whether nobody else could have written it."""
    return right_kind(about.st_mode) and about.st_uid == os.getuid() and not about.st_mode & 0o022
