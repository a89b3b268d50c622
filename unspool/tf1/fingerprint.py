"""The 64-bit fingerprint of strings by which TensorFlow puts words into buckets: FarmHash's `Fingerprint64`.

Numbers wrap at 64 bits. https://github.com/google/farmhash
"""

from __future__ import annotations

_MASK = 2**64 - 1
_K0, _K1, _K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F


def fingerprint64(text: bytes) -> int:
    """The fingerprint of a string.

    >>> fingerprint64(b"")
    11160318154034397263
    """
    if len(text) <= 16:
        return _short(text)
    if len(text) <= 32:
        return _medium(text)
    return _longer(text) if len(text) <= 64 else _long(text)


def bucket_of(text: bytes, buckets: int) -> int:
    """Which of so many buckets a string belongs to."""
    return fingerprint64(text) % buckets


def _word(text: bytes, start: int, size: int = 8) -> int:
    return int.from_bytes(text[start : start + size], "little")


def _rotated(value: int, places: int) -> int:
    value &= _MASK
    return (value >> places) | (value << (64 - places)) & _MASK


def _mixed(value: int) -> int:
    value &= _MASK
    return value ^ (value >> 47)


def _pair(one: int, other: int, factor: int) -> int:
    first = _mixed(((one ^ other) & _MASK) * factor)
    return _mixed(((other & _MASK) ^ first) * factor) * factor & _MASK


def _short(text: bytes) -> int:
    size = len(text)
    factor = _K2 + size * 2
    if size >= 8:
        a, b = _word(text, 0) + _K2, _word(text, size - 8)
        return _pair(_rotated(b, 37) * factor + a, (_rotated(a, 25) + b) * factor, factor)
    if size >= 4:
        return _pair(size + (_word(text, 0, 4) << 3), _word(text, size - 4, 4), factor)
    if size:
        y = text[0] + (text[size >> 1] << 8)
        z = size + (text[size - 1] << 2)
        return _mixed((y * _K2 & _MASK) ^ (z * _K0 & _MASK)) * _K2 & _MASK
    return _K2


def _medium(text: bytes) -> int:
    size = len(text)
    factor = _K2 + size * 2
    a, b = _word(text, 0) * _K1, _word(text, 8)
    c, d = _word(text, size - 8) * factor, _word(text, size - 16) * _K2
    return _pair(_rotated(a + b, 43) + _rotated(c, 30) + d, a + _rotated(b + _K2, 18) + c, factor)


def _longer(text: bytes) -> int:
    size = len(text)
    factor = _K2 + size * 2
    a, b = _word(text, 0) * _K2, _word(text, 8)
    c, d = _word(text, size - 8) * factor, _word(text, size - 16) * _K2
    y = _rotated(a + b, 43) + _rotated(c, 30) + d
    z = _pair(y, a + _rotated(b + _K2, 18) + c, factor)
    e, f = _word(text, 16) * factor, _word(text, 24)
    g, h = (y + _word(text, size - 32)) * factor, (z + _word(text, size - 24)) * factor
    return _pair(_rotated(e + f, 43) + _rotated(g, 30) + h, e + _rotated(f + a, 18) + g, factor)


def _weak(text: bytes, start: int, a: int, b: int) -> tuple[int, int]:
    w, x, y, z = (_word(text, start + 8 * place) for place in range(4))
    a += w
    b = _rotated(b + a + z, 21)
    c = a
    a += x + y
    b += _rotated(a, 44)
    return (a + z) & _MASK, (b + c) & _MASK


def _long(text: bytes) -> int:
    size, seed = len(text), 81
    y = seed * _K1 + 113
    z = _mixed(y * _K2 + 113) * _K2
    x = seed * _K2 + _word(text, 0)
    v, w = (0, 0), (0, 0)
    end = (size - 1) // 64 * 64
    for start in range(0, end, 64):
        x, y, z, v, w = _block(text, start, x, y, z, v, w, _K1, 1)
    factor = _K1 + ((z & 0xFF) << 1)
    w = (w[0] + ((size - 1) & 63), w[1])
    v = (v[0] + w[0], v[1])
    w = (w[0] + v[0], w[1])
    x, y, z, v, w = _block(text, size - 64, x, y, z, v, w, factor, 9)
    return _pair(
        _pair(v[0], w[0], factor) + _mixed(y) * _K0 + z,
        _pair(v[1], w[1], factor) + x,
        factor,
    )


def _block(
    text: bytes,
    start: int,
    x: int,
    y: int,
    z: int,
    v: tuple[int, int],
    w: tuple[int, int],
    factor: int,
    weight: int,
) -> tuple[int, int, int, tuple[int, int], tuple[int, int]]:
    """What 64 bytes do to the numbers that a fingerprint is made of."""
    x = _rotated(x + y + v[0] + _word(text, start + 8), 37) * factor & _MASK
    y = _rotated(y + v[1] + _word(text, start + 48), 42) * factor & _MASK
    x ^= w[1] * weight & _MASK
    y += v[0] * weight + _word(text, start + 40)
    z = _rotated(z + w[0], 33) * factor & _MASK
    v = _weak(text, start, v[1] * factor, x + w[0])
    w = _weak(text, start + 32, z + w[1], y + _word(text, start + 16))
    return z, y & _MASK, x, v, w
