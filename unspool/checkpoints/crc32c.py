"""CRC-32C, the checksum of TensorFlow's files, by exclusive ors of whole slices.

A checksum is the remainder of a polynomial over GF(2) whose coefficients are the bits of the data, the first bit first.
Whatever is a multiple of the divisor P may be added to the data. P divides

    x^5685 + x^1362 + x^426 + 1

and so the polynomial that has 64 times these exponents, its 64th power. A word of 64 bits may therefore be taken away
if it is added to the words 4323, 5259 and 5685 places behind it. Applied from the front, this makes data of any length
short with nothing but exclusive ors of long slices; then the same with words of 32, 16 and 8 bits.
"""

from __future__ import annotations

import functools
from typing import Any, TypeAlias

import numpy as np

Words: TypeAlias = Any  # np.ndarray: NumPy's annotations have no room for arrays as buffers

_DIVISOR = 0x82F63B78
"""Castagnoli's polynomial, its lowest coefficient in the highest bit, as the first bit of a byte is its lowest."""

_TERMS = (5685, 1362, 426)
"""The exponents of a multiple of the divisor, but for the last, 0; the first two are far apart, so slices are long."""

_PIECE = 1 << 22
"""How many bytes are copied and made short at a time."""

_SHORT = 512
"""Below so many bytes, calls of NumPy cost more than a loop over bytes."""


def crc32c(*parts: Any) -> int:
    """The CRC-32C of the bytes of all parts, one after another.

    >>> hex(crc32c(b"123456789")), hex(crc32c(b"1234", b"56789"))
    ('0xe3069283', '0xe3069283')
    """
    register = 0xFFFFFFFF
    for part in parts:
        data = memoryview(part).cast("B")
        for start in range(0, len(data), _PIECE):
            register = _advance(register, data[start : start + _PIECE])
    return register ^ 0xFFFFFFFF


def masked_crc32c(*parts: Any) -> int:
    """The checksum as it is stored, changed so that data which holds checksums has a good one too.

    >>> hex(masked_crc32c(b"123456789"))
    '0xc78ab0e5'
    """
    crc = crc32c(*parts)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _advance(register: int, data: memoryview) -> int:
    """The register after it has taken in `data`."""
    if len(data) >= _SHORT:
        # Zeros in front add nothing. The register is added to the first bits: it is what they leave behind.
        words = np.zeros(-(-len(data) // 8) + 1, np.uint64)
        padded = words.view(np.uint8)
        padded[-len(data) :] = np.frombuffer(data, np.uint8)
        padded[-len(data) :][:4] ^= np.array([register], "<u4").view(np.uint8)
        register, data = 0, memoryview(_halved(_folded(words))).cast("B")
    table = _BYTES
    for byte in data:
        register = table[(register ^ byte) & 0xFF] ^ (register >> 8)
    return register


def _folded(words: Words) -> Words:
    """A few thousand bytes with the same remainder; changes `words`."""
    whole, *lower = _TERMS
    distances = [whole - term for term in (*lower, 0)]
    step = min(distances)  # a longer slice would reach words that it changes itself
    for width in (8, 4, 2, 1):
        words = words.view(f"u{width}")
        last = len(words) - whole
        for start in range(0, max(last, 0), step):
            taken = words[start : min(start + step, last)]
            for distance in distances:
                words[start + distance :][: len(taken)] ^= taken
        words = words[max(last, 0) :]
    return words


def _halved(data: Words) -> Words:
    """At most `_SHORT` bytes with the same remainder: the front half moved onto the other, again and again."""
    count = 1 << max(-(-len(data) // 4) - 1, 0).bit_length()
    words = np.zeros(count, "<u4")
    words.view(np.uint8)[-len(data) :] = data
    while len(words) * 4 > _SHORT:
        half = len(words) // 2
        front = words[:half].view(np.uint8).reshape(half, 4)
        tables = _zeros_table(half * 4)
        words = words[half:]
        for column, table in enumerate(tables):
            words = words ^ table[front[:, column]]
    return words


def _table_of_bytes() -> list[int]:
    table: list[int] = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (_DIVISOR if byte & 1 else 0)
        table.append(byte)
    return table


_BYTES = _table_of_bytes()
"""What a byte leaves in the register."""


@functools.cache
def _zeros_table(count: int) -> Words:
    """What `count` zero bytes, a power of two, make of a register: four tables, for each of its bytes one."""
    if count == 1:
        values = np.arange(256, dtype=np.uint32)
        registers = np.stack([values << np.uint32(8 * place) for place in range(4)])
        return np.array(_BYTES, np.uint32)[registers & 0xFF] ^ (registers >> np.uint32(8))
    half = _zeros_table(count // 2)
    parts = (table[(half >> np.uint32(8 * place)) & np.uint32(0xFF)] for place, table in enumerate(half))
    return functools.reduce(np.bitwise_xor, parts)
