"""Pictures as PNG files, as `tf.summary.image` puts them into summaries."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np

Pixels = np.ndarray[Any, Any]

_KINDS = {1: 0, 3: 2, 4: 6}
"""The numbers that PNG has for grey, colours, and colours with opacity."""


def encoded(pixels: Pixels) -> bytes:
    r"""The file of a picture, uint8 `[height, width, channels]`.

    >>> encoded(np.zeros((2, 3, 1), np.uint8))[:8]
    b'\x89PNG\r\n\x1a\n'
    """
    height, width, channels = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, 8, _KINDS[channels], 0, 0, 0)
    lines = b"".join(b"\0" + line.tobytes() for line in pixels)  # every line says how it is filtered: not at all
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(lines)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_part(*each) for each in parts)


def scaled(image: Pixels, bad_color: Pixels) -> Pixels:
    """A picture of any numbers as bytes, as TensorFlow scales it: 0 to the largest, or 0 in the middle of both signs.

    Args:
        image: `[height, width, channels]`.
        bad_color: the colour of what is not finite.
    """
    if image.dtype == np.uint8:
        return image
    finite = np.isfinite(image).all(2)
    good = image[finite]
    least, most = (good.min(), good.max()) if good.size else (0.0, 0.0)
    largest = max(abs(least), abs(most))
    scale = 0.0 if largest < 1e-6 else (127.0 if least < 0 else 255.0) / largest
    made = np.empty(image.shape, np.uint8)
    made[finite] = (good * scale + (128.0 if least < 0 else 0.0)).astype(np.uint8)
    made[~finite] = bad_color[: image.shape[2]]
    return made


def _part(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
