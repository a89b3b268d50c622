"""Writing checkpoints that TensorFlow reads."""

from __future__ import annotations

import os
import secrets
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from unspool.checkpoints.crc32c import masked_crc32c
from unspool.checkpoints.dtypes import stored_form
from unspool.checkpoints.files import shard_name
from unspool.checkpoints.messages import Entry, Header, entry_bytes, header_bytes
from unspool.checkpoints.table import table_bytes


def save_tf1_checkpoint(path: str | os.PathLike[str], variables: Mapping[str, Any]) -> None:
    """Writes variables as a checkpoint that TensorFlow's `Saver` restores, and `load_tf1_checkpoint` reads.

    The files `<path>.data-00000-of-00001` and `<path>.index` get their names once they are whole and on the disk, the
    index last: whoever finds an index finds a checkpoint. Their folder is made if there is none.

    Args:
        path: the prefix of the files, such as `model.ckpt-1000`; after a slash at its end their names begin with a dot,
            as TensorFlow has them.
        variables: arrays or tensors by name, such as `tf_variables(cell)`.

    Raises:
        TypeError: if a name is no string, or a value is nothing that TensorFlow can store.
        ValueError: if a name is empty, or has a character that names cannot have; or if `path` is empty.

    >>> import tempfile
    >>> from unspool import GRUCell, load_tf1_checkpoint, save_tf1_checkpoint, tf_variables
    >>> cell = GRUCell(2, input_size=3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_tf1_checkpoint(f"{folder}/model.ckpt", tf_variables(cell))
    ...     for name, array in load_tf1_checkpoint(f"{folder}/model.ckpt").items():
    ...         print(name, array.shape)
    rnn/gru_cell/candidate/bias (2,)
    rnn/gru_cell/candidate/kernel (5, 2)
    rnn/gru_cell/gates/bias (4,)
    rnn/gru_cell/gates/kernel (5, 4)
    """
    prefix = os.fspath(path)
    if not prefix or os.path.basename(prefix) in (".", ".."):
        raise ValueError(f"path must be the prefix of files, such as folder/model.ckpt, but is {prefix!r}")
    stored = {_key(name): _stored(name, value) for name, value in variables.items()}
    Path(os.path.dirname(prefix)).mkdir(parents=True, exist_ok=True)
    items = [(b"", header_bytes(Header(shards=1)))]
    with _replacing(Path(shard_name(prefix, 0, 1))) as data:
        offset = 0
        for key, (dtype, array) in sorted(stored.items(), key=lambda item: item[0]):
            values = memoryview(array.reshape(-1).view("u1")) if array.size else memoryview(b"")
            entry = Entry(dtype, array.shape, 0, offset, len(values), masked_crc32c(values))
            items.append((key, entry_bytes(entry)))
            data.write(values)
            offset += len(values)
    with _replacing(Path(f"{prefix}.index")) as index:
        index.write(table_bytes(items))


def _key(name: Any) -> bytes:
    if not isinstance(name, str):
        raise TypeError(f"variables must have strings for names, but one is {name!r}")
    if not name or "\0" in name:
        raise ValueError(f"variables must have names that are not empty and have no null in them, but one is {name!r}")
    return name.encode()


def _stored(name: str, value: Any) -> Any:
    try:
        return stored_form(value)
    except TypeError as error:
        raise TypeError(f"{name} cannot be stored: {error}") from None


@contextmanager
def _replacing(path: Path) -> Generator[BinaryIO, None, None]:
    """A file that takes the place of the one at `path` once all of it is on the disk, and leaves nothing otherwise."""
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with unfinished.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
