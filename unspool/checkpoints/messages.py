"""The protocol buffers of an `.index` file, its header and its entries, as far as they matter.

The numbers of their fields:

    header: 1 number of shards, 2 byte order, 3 version (1 producer, 2 least consumer)
    entry:  1 dtype, 2 shape, 3 shard, 4 offset, 5 size, 6 checksum, 7 slices
    shape:  2 dimensions (1 size), 3 whether even their number is unknown
    slice:  1 extents (1 start, 2 length; without a length the whole dimension)

What is left out is 0. Fields of other numbers are passed over.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

from unspool.checkpoints.errors import CheckpointError
from unspool.checkpoints.varints import read_varint, signed, varint

Slice: TypeAlias = tuple[tuple[int, int], ...]
"""The start and length of each dimension; length -1 is the whole dimension."""

MOST_DIMENSIONS = 32
"""What any NumPy can hold. TensorFlow has up to 254, but no variable has ever had so many."""


class Header(NamedTuple):
    """What is said of a checkpoint as a whole."""

    shards: int
    big_endian: bool = False
    least_reader: int = 0


class Entry(NamedTuple):
    """Where the values of a variable are, and what they are."""

    dtype: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    checksum: int
    slices: tuple[Slice, ...] = ()


def read_header(data: bytes) -> Header:
    """The header from its bytes.

    >>> read_header(header_bytes(Header(shards=2)))
    Header(shards=2, big_endian=False, least_reader=0)
    """
    shards = order = least = 0
    for field, value in _fields(data, {1: 0, 2: 0, 3: 2}):
        if field == 1:
            shards = signed(value)
        elif field == 2:
            order = value
        else:
            least = next((signed(number) for field, number in _fields(value, {1: 0, 2: 0}) if field == 2), 0)
    return Header(shards, bool(order), least)


def read_entry(data: bytes) -> Entry:
    """An entry from its bytes.

    >>> read_entry(entry_bytes(Entry(1, (2, 3), 0, 0, 24, 7)))
    Entry(dtype=1, shape=(2, 3), shard=0, offset=0, size=24, checksum=7, slices=())
    """
    numbers = {1: 0, 3: 0, 4: 0, 5: 0, 6: 0}
    shape: tuple[int, ...] = ()
    slices: list[Slice] = []
    for field, value in _fields(data, {1: 0, 2: 2, 3: 0, 4: 0, 5: 0, 6: 5, 7: 2}):
        if field == 2:
            shape = _read_shape(value)
        elif field == 7:
            slices.append(_read_slice(value))
        else:
            numbers[field] = signed(value)
    dtype, shard, offset, size, checksum = numbers.values()
    return Entry(dtype, shape, shard, offset, size, checksum, tuple(slices))


def _read_shape(data: bytes) -> tuple[int, ...]:
    dimensions: list[int] = []
    for field, value in _fields(data, {2: 2, 3: 0}):
        if field == 2:
            dimensions.append(next((signed(size) for _, size in _fields(value, {1: 0})), 0))
        elif value:
            raise CheckpointError("its shape is unknown")
        if len(dimensions) > MOST_DIMENSIONS:
            raise CheckpointError(f"it has more than {MOST_DIMENSIONS} dimensions")
    return tuple(dimensions)


def _read_slice(data: bytes) -> Slice:
    extents: list[tuple[int, int]] = []
    for _, value in _fields(data, {1: 2}):
        numbers = dict(_fields(value, {1: 0, 2: 0}))
        extents.append((signed(numbers.get(1, 0)), signed(numbers[2]) if 2 in numbers else -1))
        if len(extents) > MOST_DIMENSIONS:
            raise CheckpointError(f"it has a slice of more than {MOST_DIMENSIONS} dimensions")
    return tuple(extents)


def _fields(data: bytes, kinds: dict[int, int]) -> Iterator[tuple[int, Any]]:
    """The fields of a message that are in `kinds`, which says how each is encoded; the others are passed over."""
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at)
        field, kind = tag >> 3, tag & 7
        value: Any
        if kind == 0:
            value, at = read_varint(data, at)
        elif kind in (1, 2, 5):
            size, at = read_varint(data, at) if kind == 2 else ((4 if kind == 5 else 8), at)
            if at + size > len(data):
                raise CheckpointError(f"field {field} has {size} bytes, but only {len(data) - at} are left")
            value = data[at : at + size] if kind == 2 else int.from_bytes(data[at : at + size], "little")
            at += size
        else:
            raise CheckpointError(f"field {field} is encoded as {kind}, but only 0, 1, 2 and 5 are known")
        if field in kinds:
            if kinds[field] != kind:
                raise CheckpointError(f"field {field} is encoded as {kind}, but expected {kinds[field]}")
            yield field, value


# -- writing ---------------------------------------------------------------------------------------------------------


def header_bytes(header: Header) -> bytes:
    """A header as bytes: little-endian, and of the one version there has been."""
    return _number(1, header.shards) + _message(3, _number(1, 1))


def entry_bytes(entry: Entry) -> bytes:
    """An entry without slices as bytes; as in all such messages, zeros are left out."""
    shape = b"".join(_message(2, _number(1, size)) for size in entry.shape)
    numbers = _number(3, entry.shard) + _number(4, entry.offset) + _number(5, entry.size)
    checksum = varint(6 << 3 | 5) + entry.checksum.to_bytes(4, "little") if entry.checksum else b""
    return _number(1, entry.dtype) + _message(2, shape) + numbers + checksum


def _number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value) if value else b""


def _message(field: int, content: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(content)) + content
