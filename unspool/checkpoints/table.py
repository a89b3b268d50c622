"""The sorted table of strings that an `.index` file is: LevelDB's, without compression.

    blocks | block of meta data, empty | block of handles | footer

A block is entries, restarts and their number, then a byte for its compression and the checksum of it all. An entry
says how many bytes of its key are those of the key before it; at the restarts, where a binary search may begin, none
are. A handle is the offset and size of a block; its key is not before any key of that block.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from unspool.checkpoints.crc32c import masked_crc32c
from unspool.checkpoints.errors import CheckpointError
from unspool.checkpoints.varints import read_varint, varint

_MAGIC = 0xDB4775248B80FB57
_FOOTER = 48
_TRAILER = 5
_BLOCK = 1 << 18
_RESTART = 16

MOST_BYTES_OF_KEYS = 1 << 26
"""All keys together may have so many bytes. Keys share prefixes, so that a small file could unfold into a vast one."""


def read_table(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The keys and values of a table, in order; what is wrong with it is found no later than it matters.

    Raises:
        CheckpointError: if a checksum does not agree, a size or an offset is not possible, or keys are out of order.

    >>> dict(read_table(table_bytes([(b"kernel", b"1"), (b"kernel/Adam", b"2")])))
    {b'kernel': b'1', b'kernel/Adam': b'2'}
    """
    if len(data) < _FOOTER:
        raise CheckpointError(f"has {len(data)} bytes, but a table has at least {_FOOTER}")
    footer = data[-_FOOTER:]
    magic = int.from_bytes(footer[-8:], "little")
    if magic != _MAGIC:
        raise CheckpointError(f"ends with {magic:#018x}, but a table ends with {_MAGIC:#018x}")
    meta, at = _handle(footer, 0)
    _block(data, *meta)  # nothing is in it, yet it is part of the file, and damage to it is damage
    handles, _ = _handle(footer, at)
    free, last, room = 0, None, MOST_BYTES_OF_KEYS
    for _, value in _entries(_block(data, *handles), room):
        (offset, size), _ = _handle(value, 0)
        if offset < free:  # else a few bytes of handles could name one large block again and again
            raise CheckpointError(f"has a block at byte {offset}, but the block before it ends at byte {free}")
        free = offset + size + _TRAILER
        for key, content in _entries(_block(data, offset, size), room):
            if last is not None and key <= last:
                raise CheckpointError(f"has the key {key!r} after {last!r}, but keys are in order and differ")
            last, room = key, room - len(key)
            yield key, content


def _handle(data: bytes, at: int) -> tuple[tuple[int, int], int]:
    offset, at = read_varint(data, at)
    size, at = read_varint(data, at)
    return (offset, size), at


def _block(data: bytes, offset: int, size: int) -> bytes:
    """A block without its trailer, which is checked."""
    limit = len(data) - _FOOTER
    end = offset + size
    if end + _TRAILER > limit:
        raise CheckpointError(f"has a block of {size} bytes at byte {offset}, but its blocks end at byte {limit}")
    stored = int.from_bytes(data[end + 1 : end + _TRAILER], "little")
    computed = masked_crc32c(data[offset : end + 1])
    if stored != computed:
        raise CheckpointError(
            f"is damaged: the checksum of its bytes {offset} to {end} is {computed:#010x}, but {stored:#010x} is stored"
        )
    if data[end]:
        kind = "Snappy" if data[end] == 1 else f"method {data[end]}"
        raise CheckpointError(f"has a block compressed by {kind}, but only blocks without compression are read")
    return data[offset:end]


def _entries(block: bytes, room: int) -> Iterator[tuple[bytes, bytes]]:
    """The keys and values of a block; the keys of all of them may have `room` bytes."""
    restarts = int.from_bytes(block[-4:], "little") if len(block) >= 4 else -1
    limit = len(block) - 4 * (restarts + 1)
    if restarts < 1 or limit < 0:
        raise CheckpointError(f"has a block of {len(block)} bytes with {max(restarts, 0)} restarts, which cannot be")
    at, key = 0, b""
    while at < limit:
        shared, at = read_varint(block, at)
        own, at = read_varint(block, at)
        length, at = read_varint(block, at)
        if shared > len(key):
            raise CheckpointError(f"has a key that shares {shared} bytes with one of {len(key)} bytes, {key[:80]!r}")
        if at + own + length > limit:
            raise CheckpointError(f"has a key of {own} bytes and a value of {length} in {limit - at} bytes")
        room -= shared + own
        if room < 0:
            raise CheckpointError(f"has keys of more than {MOST_BYTES_OF_KEYS} bytes")
        key = key[:shared] + block[at : at + own]
        at += own
        yield key, block[at : at + length]
        at += length


# -- writing ---------------------------------------------------------------------------------------------------------


def table_bytes(items: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The table of keys, which are in order, and their values.

    >>> len(table_bytes([]))  # two blocks of 8 bytes with trailers of 5, and the footer
    74
    """
    table = bytearray()
    handles: list[tuple[bytes, bytes]] = []
    pending: list[tuple[bytes, bytes]] = []
    size = 0
    last = b""
    for key, value in items:
        if size >= _BLOCK:
            handles.append((_between(last, key), _append(table, _block_bytes(pending, _RESTART))))
            pending, size = [], 0
        pending.append((key, value))
        size += len(key) + len(value)
        last = key
    if pending:
        handles.append((_after(last), _append(table, _block_bytes(pending, _RESTART))))
    footer = _append(table, _block_bytes([], _RESTART)) + _append(table, _block_bytes(handles, 1))
    return bytes(table + footer.ljust(_FOOTER - 8, b"\0") + _MAGIC.to_bytes(8, "little"))


def _append(table: bytearray, block: bytes) -> bytes:
    """Appends a block and its trailer; its handle."""
    handle = varint(len(table)) + varint(len(block))
    table += block + b"\0" + masked_crc32c(block, b"\0").to_bytes(4, "little")
    return handle


def _block_bytes(items: list[tuple[bytes, bytes]], interval: int) -> bytes:
    block = bytearray()
    restarts = [0]
    before = b""
    for k, (key, value) in enumerate(items):
        shared = _shared(before, key) if k % interval else 0
        if k and k % interval == 0:
            restarts.append(len(block))
        block += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        before = key
    return bytes(block) + b"".join(each.to_bytes(4, "little") for each in (*restarts, len(restarts)))


def _shared(one: bytes, other: bytes) -> int:
    """How many bytes are the same at the beginning of both."""
    least = min(len(one), len(other))
    return next((k for k in range(least) if one[k] != other[k]), least)


def _between(key: bytes, following: bytes) -> bytes:
    """A short key that is not before `key`, yet before the one that follows."""
    at = _shared(key, following)
    if at < min(len(key), len(following)) and key[at] < 0xFF and key[at] + 1 < following[at]:
        return key[:at] + bytes([key[at] + 1])
    return key


def _after(key: bytes) -> bytes:
    """A short key that is not before `key`."""
    at = next((k for k, byte in enumerate(key) if byte < 0xFF), None)
    return key if at is None else key[:at] + bytes([key[at] + 1])
