"""Whole numbers of any size: seven bits a byte, the lowest first, all bytes but the last marked."""

from __future__ import annotations

from unspool.checkpoints.errors import CheckpointError


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at a position, and the position behind it.

    Raises:
        CheckpointError: if the data ends before the number does, or if it is longer than 64 bits can be.

    >>> read_varint(bytes([0xAC, 0x02, 0x07]), 0)
    (300, 2)
    """
    value = shift = 0
    for place in range(at, min(at + 10, len(data))):
        byte = data[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> 64:
                raise CheckpointError(f"the number at byte {at} is {value}, but 64 bits are the most there can be")
            return value, place + 1
        shift += 7
    if at + 10 <= len(data):
        raise CheckpointError(f"the number at byte {at} goes on after 10 bytes, the most that 64 bits take")
    raise CheckpointError(f"the number at byte {at} goes on after the last byte, {len(data) - 1}")


def varint(value: int) -> bytes:
    """A number as bytes; of a negative one, its 64 bits in two's complement.

    >>> varint(300).hex(), len(varint(-1))
    ('ac02', 10)
    """
    value &= (1 << 64) - 1
    low: list[int] = []
    while value > 0x7F:
        low.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*low, value])


def signed(value: int) -> int:
    """The number whose 64 bits, in two's complement, are those of `value`.

    >>> signed(300), signed((1 << 64) - 1)
    (300, -1)
    """
    return value - (1 << 64) if value >> 63 else value
