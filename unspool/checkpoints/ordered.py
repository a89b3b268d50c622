"""The keys under which slices of variables are kept: names and numbers as bytes that sort like them."""

from __future__ import annotations

from unspool.checkpoints.messages import Slice


def slice_key(name: str, piece: Slice) -> bytes:
    r"""The key of a slice of a variable: 0, the name, the number of dimensions, then the start and length of each.

    >>> slice_key("w", ((2, 3), (0, -1)))
    b'\x00w\x00\x01\x01\x02\x82\x83\x80\x7f'
    """
    escaped = name.encode().replace(b"\0", b"\0\xff").replace(b"\xff", b"\xff\0")
    numbers = (number for extent in piece for number in extent)
    return b"\0" + escaped + b"\0\1" + _natural(len(piece)) + b"".join(map(_whole, numbers))


def _natural(value: int) -> bytes:
    """A number that is not negative: how many bytes it has, then these, the highest first."""
    size = (value.bit_length() + 7) // 8
    return bytes([size]) + value.to_bytes(size, "big")


def _whole(value: int) -> bytes:
    """Any number in the fewest bytes: its bits in two's complement, as many of the first flipped as there are bytes."""
    bits = (value if value >= 0 else ~value).bit_length()
    size = bits // 7 + 1
    ones = ((1 << size) - 1) << (7 * size)
    return ((value & ((1 << 8 * size) - 1)) ^ ones).to_bytes(size, "big")
