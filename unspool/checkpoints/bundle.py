"""The arrays of a checkpoint."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping

import numpy as np

from unspool.checkpoints.crc32c import masked_crc32c
from unspool.checkpoints.dtypes import STORED, Array, array_of, dtype_of, name_of
from unspool.checkpoints.errors import CheckpointError
from unspool.checkpoints.files import Files, Folder, find_prefix
from unspool.checkpoints.messages import Entry, Slice, read_entry, read_header
from unspool.checkpoints.ordered import slice_key
from unspool.checkpoints.table import read_table

_MOST_SHARDS = 99_999
_READER = 1
"""The version of the format that is read here; there has been no other."""


def load_tf1_checkpoint(path: str | os.PathLike[str]) -> TensorBundle:
    """The variables of a checkpoint that TensorFlow's `Saver` wrote, by name; TensorFlow is not needed.

    Names, shapes and dtypes are known at once, for the index is read and checked as a whole. The values of a variable
    are read, and checked against their checksum, when they are asked for: most of a large checkpoint is what an
    optimiser remembers, which nobody needs. `dict(load_tf1_checkpoint(path))` reads them all.

    Args:
        path: the prefix of the files, such as `model.ckpt-1000`; one of them, such as `model.ckpt-1000.index`; or their
            folder, for the latest checkpoint that its file `checkpoint` names.

    Raises:
        FileNotFoundError: if one of the files is missing; it is named.
        CheckpointError: if the files are damaged, or not possible, or in a form that is not read. No more memory is
            used for them than the files themselves account for.

    Variables in slices, as partitioners make them, are put together. bfloat16 becomes float32 of the same values, since
    NumPy does not have it. Strings are left out: asking for them says so.

    >>> import tempfile
    >>> import numpy as np
    >>> from unspool import load_tf1_checkpoint, save_tf1_checkpoint
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_tf1_checkpoint(f"{folder}/model.ckpt", {"rnn/lstm_cell/bias": np.zeros(8, "float32")})
    ...     checkpoint = load_tf1_checkpoint(f"{folder}/model.ckpt")
    ...     checkpoint["rnn/lstm_cell/bias"]
    array([0., 0., 0., 0., 0., 0., 0., 0.], dtype=float32)
    >>> list(checkpoint), checkpoint.shape("rnn/lstm_cell/bias")
    (['rnn/lstm_cell/bias'], (8,))
    """
    return TensorBundle(Folder(find_prefix(path)))


class TensorBundle(Mapping[str, Array]):
    """The variables of a checkpoint by name, read from its files when they are asked for."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._entries: dict[str, Entry] = {}
        self._slices: dict[bytes, Entry] = {}
        data = files.index()
        try:
            self._read_index(data)
        except CheckpointError as error:
            raise CheckpointError(f"{files.name}.index {error}") from None
        self._others = {name: entry for name, entry in self._entries.items() if entry.dtype not in STORED}
        for name in self._others:
            del self._entries[name]

    def __getitem__(self, name: str) -> Array:
        if name in self._others:
            raise CheckpointError(
                f"{self._files.name}: {name} holds values of dtype {name_of(self._others[name].dtype)}, which no array "
                "here can hold"
            )
        entry = self._entries[name]
        if not entry.slices:
            return self._read(name, entry)
        whole = np.empty(entry.shape, dtype_of(entry.dtype))
        for piece in entry.slices:
            where = tuple(slice(start, start + size) for start, size in _extents(piece, entry.shape))
            whole[where] = self._read(name, self._slices[slice_key(name, piece)])
        return whole

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a variable, without reading it."""
        return self._entries[name].shape

    def dtype(self, name: str) -> np.dtype[np.generic]:
        """The dtype of a variable, without reading it."""
        return dtype_of(self._entries[name].dtype)

    def __repr__(self) -> str:
        return f"<checkpoint {self._files.name} of {len(self)} variables>"

    # -- reading -----------------------------------------------------------------------------------------------------

    def _read_index(self, data: bytes) -> None:
        items = read_table(data)
        key, value = next(items, (None, b""))
        if key != b"":
            raise CheckpointError(f"begins with the key {key!r}, but expected the header's, which is empty")
        header = read_header(value)
        if not 1 <= header.shards <= _MOST_SHARDS:
            raise CheckpointError(f"says that there are {header.shards} data files, but expected 1 to {_MOST_SHARDS}")
        if header.big_endian:
            raise CheckpointError("says that values are big-endian, but only little-endian ones are read")
        if header.least_reader > _READER:
            raise CheckpointError(f"can be read from version {header.least_reader} on, but version {_READER} is known")
        self._shards = header.shards
        for key, value in items:
            try:
                entry = read_entry(value)
                self._check(entry)
                if key.startswith(b"\0"):
                    self._slices[key] = entry
                else:
                    self._entries[key.decode()] = entry
            except (CheckpointError, UnicodeDecodeError) as error:
                raise CheckpointError(f"says of {key[:200]!r} what cannot be: {error}") from None
        self._check_places()
        self._check_slices()

    def _check(self, entry: Entry) -> None:
        """Raises unless an entry agrees with itself."""
        if not 0 <= entry.shard < self._shards:
            raise CheckpointError(f"it is in data file {entry.shard} of {self._shards}")
        if entry.offset < 0 or entry.size < 0:
            raise CheckpointError(f"it has {entry.size} bytes at offset {entry.offset}")
        if any(size < 0 for size in entry.shape):
            raise CheckpointError(f"its shape is {list(entry.shape)}")
        if math.prod(size or 1 for size in entry.shape) >> 58:  # what NumPy cannot count, even where one of them is 0
            raise CheckpointError(f"its shape is {list(entry.shape)}, more than memory can hold")
        if entry.slices or entry.dtype not in STORED:
            return
        expected = math.prod(entry.shape) * STORED[entry.dtype].itemsize
        if entry.size != expected:
            what = f"{name_of(entry.dtype)}{list(entry.shape)}"
            raise CheckpointError(f"it has {entry.size} bytes, but {what} takes {expected}")

    def _check_places(self) -> None:
        """Raises unless all values are inside the data files, and apart: together no larger than these."""
        places = [
            (entry.shard, entry.offset, entry.size)
            for entries in (self._entries.values(), self._slices.values())
            for entry in entries
            if entry.size and not entry.slices
        ]
        last, free, limit = -1, 0, 0
        for shard, offset, size in sorted(places):
            if shard != last:
                last, free, limit = shard, 0, self._files.shard_size(shard, self._shards)
            if offset + size > limit:
                raise CheckpointError(
                    f"says that {size} bytes are at offset {offset} of data file {shard}, which has {limit} bytes"
                )
            if offset < free:
                raise CheckpointError(
                    f"says that values begin at offset {offset} of data file {shard}, inside of others, up to {free}"
                )
            free = offset + size

    def _check_slices(self) -> None:
        """Raises unless the slices of each variable are there, and are all of it."""
        unused = set(self._slices)
        for name, entry in self._entries.items():
            for piece in entry.slices:
                key = slice_key(name, piece)
                if key not in unused:
                    raise CheckpointError(f"says that {name} has the slice {list(piece)}, but has it not, or twice")
                unused.remove(key)
                part = self._slices[key]
                expected = tuple(size for _, size in _extents(piece, entry.shape))
                if (part.shape, part.dtype) != (expected, entry.dtype):
                    found = f"{name_of(part.dtype)}{list(part.shape)}"
                    raise CheckpointError(f"has {found} as the slice {list(piece)} of {name}{list(entry.shape)}")
            if entry.slices and not _is_whole(entry.slices, entry.shape):
                raise CheckpointError(f"has slices of {name} that are not all of {list(entry.shape)}, along one axis")
        if unused:
            raise CheckpointError(f"has the slice {min(unused)[:200]!r}, but no variable of which it is one")

    def _read(self, name: str, entry: Entry) -> Array:
        data = self._files.read(entry.shard, self._shards, entry.offset, entry.size)
        if len(data) != entry.size:
            raise CheckpointError(f"{self._files.name}: {name} has {entry.size} bytes, but only {len(data)} are there")
        if (computed := masked_crc32c(data)) != entry.checksum:
            raise CheckpointError(
                f"{self._files.name}: {name} is damaged: the checksum of its values is {computed:#010x}, but "
                f"{entry.checksum:#010x} is stored"
            )
        return array_of(entry.dtype, data, entry.shape)


def _extents(piece: Slice, shape: tuple[int, ...]) -> Slice:
    """The slice with all its lengths; nothing if it has not the dimensions of `shape`."""
    if len(piece) != len(shape):
        return ()
    return tuple((start, full if size < 0 else size) for (start, size), full in zip(piece, shape, strict=True))


def _is_whole(slices: tuple[Slice, ...], shape: tuple[int, ...]) -> bool:
    """Whether slices are `shape` cut along one axis, as all of TensorFlow's are: each element in one of them."""
    found = sorted(_extents(piece, shape) for piece in slices)
    uncut = tuple((0, full) for full in shape)
    axes = {k for piece in found for k, extent in enumerate(piece) if extent != uncut[k]}
    if len(axes) != 1:
        return not axes and len(slices) == 1
    axis = axes.pop()
    reached = 0
    for piece in found:
        start, size = piece[axis]
        if start != reached:
            return False
        reached += size
    return reached == shape[axis]
