"""The file `checkpoint` of a folder: which checkpoints are there, and which is the latest."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

_LINE = re.compile(rb'^\s*(model_checkpoint_path|all_model_checkpoint_paths)\s*:\s*"((?:[^"\\\n]|\\.)*)"', re.MULTILINE)
_ESCAPED = re.compile(rb"\\([0-7]{1,3}|.)")


@dataclass
class CheckpointState:
    """What the file says: the latest checkpoint, and all that are kept, oldest first."""

    model_checkpoint_path: str = ""
    all_model_checkpoint_paths: list[str] = field(default_factory=list[str])


def get_checkpoint_state(
    checkpoint_dir: str | os.PathLike[str], latest_filename: str | None = None
) -> CheckpointState | None:
    """What the file `checkpoint` of a folder says; None if there is none. Paths in it are relative to the folder.

    >>> from unspool import tf1 as tf
    >>> tf.train.get_checkpoint_state("/no/such/folder") is None
    True
    """
    folder = os.fspath(checkpoint_dir)
    file = Path(folder, latest_filename or "checkpoint")
    if not file.is_file():
        return None
    state = CheckpointState()
    for name, written in _LINE.findall(file.read_bytes()):
        path = _ESCAPED.sub(_unescaped, written).decode("utf-8", "surrogateescape")
        plain = os.path.join(folder, "" if path == "." else path)  # the folder itself: files that begin with a dot
        if name == b"model_checkpoint_path":
            state.model_checkpoint_path = plain
        else:
            state.all_model_checkpoint_paths.append(plain)
    return state if state.model_checkpoint_path else None


def latest_checkpoint(checkpoint_dir: str | os.PathLike[str], latest_filename: str | None = None) -> str | None:
    """The prefix of the latest checkpoint in a folder, for `Saver.restore`; None if there is none.

    >>> from unspool import tf1 as tf
    >>> tf.train.latest_checkpoint("/no/such/folder") is None
    True
    """
    state = get_checkpoint_state(checkpoint_dir, latest_filename)
    if state is None or not checkpoint_exists(state.model_checkpoint_path):
        return None
    return state.model_checkpoint_path


def checkpoint_exists(checkpoint_prefix: str | os.PathLike[str]) -> bool:
    """Whether there is a checkpoint with that prefix."""
    return Path(f"{os.fspath(checkpoint_prefix)}.index").is_file()


def remove_checkpoint(checkpoint_prefix: str | os.PathLike[str]) -> None:
    """Removes the files of a checkpoint, the index first: what has an index is whole."""
    prefix = os.fspath(checkpoint_prefix)
    folder, name = Path(os.path.dirname(prefix)), os.path.basename(prefix)
    Path(f"{prefix}.index").unlink(missing_ok=True)
    own = re.compile(re.escape(name) + r"\.(meta|data-\d{5}-of-\d{5})")
    if folder.is_dir():
        for each in [each for each in folder.iterdir() if own.fullmatch(each.name)]:
            each.unlink(missing_ok=True)


def update_checkpoint_state(
    save_dir: str | os.PathLike[str],
    model_checkpoint_path: str,
    all_model_checkpoint_paths: Sequence[str] | None = None,
    latest_filename: str | None = None,
    relative: bool = False,
) -> None:
    """Writes the file `checkpoint` of a folder; it is always whole, as it was or as it will be.

    Args:
        save_dir: the folder.
        model_checkpoint_path: the prefix of the latest checkpoint.
        all_model_checkpoint_paths: those of all that are kept, oldest first.
        latest_filename: the name of the file, if it is another.
        relative: whether paths are written relative to the folder, so that it can be moved; they always are if
            `save_dir` is relative itself.
    """
    folder = os.fspath(save_dir)
    kept = list(all_model_checkpoint_paths or ())
    if not kept or kept[-1] != model_checkpoint_path:
        kept.append(model_checkpoint_path)

    def written(path: str) -> str:
        nearby = relative if os.path.isabs(path) else not os.path.isabs(folder)
        return _quoted(os.path.relpath(path, folder or ".") if nearby else path)

    lines = [f"model_checkpoint_path: {written(model_checkpoint_path)}"]
    lines += [f"all_model_checkpoint_paths: {written(each)}" for each in kept]
    path = Path(folder, latest_filename or "checkpoint")
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        unfinished.write_text("\n".join(lines) + "\n")
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def _quoted(path: str) -> str:
    """A string of a protocol buffer in text."""
    codes = os.fsencode(path)
    return '"' + "".join(_escapes.get(code, chr(code) if 32 <= code < 127 else f"\\{code:03o}") for code in codes) + '"'


_escapes = {ord('"'): '\\"', ord("\\"): "\\\\", ord("'"): "\\'", ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t"}


def _unescaped(match: re.Match[bytes]) -> bytes:
    code = match[1]
    if code.isdigit() and max(code) < 0x38:
        return bytes([int(code, 8) & 0xFF])
    return {b"n": b"\n", b"r": b"\r", b"t": b"\t"}.get(code, code)
