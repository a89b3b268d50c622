"""The length of a chunk: how many steps are worked on at once."""

from __future__ import annotations

import math
from collections.abc import Sequence

from unspool.engine.execute.call import Call
from unspool.engine.execute.layout import Layout
from unspool.engine.execute.parts import Parts

CHUNK_STEPS = 32
"""Steps in a chunk, as TensorFlow has it."""
ENOUGH_ROWS = 4096
"""Rows in a chunk with which what is done for all of them at once is as fast as it gets on a CPU."""

LARGE_ROW = 64 << 10
"""Bytes of a value of one row, such as an image, from which few rows are enough for that."""
CHUNK_BYTES = 8 << 20
"""What such a value beside the core may take for all rows of a chunk: what is larger leaves the caches, and a system
hands out fresh memory for it, page by page."""
SWAPPED_BYTES = 128 << 20
"""What the core of a chunk may read and write where residuals are swapped: those of three chunks are on the device at a
time, on their way, and a call of one chunk would wait for all of them."""


def default_chunk(layout: Layout) -> int:
    """How many steps to work on at once if nobody says so: more where rows are few."""
    if layout.device.type != "cpu" or layout.steps == 0:
        return CHUNK_STEPS
    most = max(CHUNK_STEPS, math.ceil(ENOUGH_ROWS / layout.mean_rows))
    return -(-layout.steps // -(-layout.steps // most))  # chunks of much the same length


def suited_chunk(call: Call, parts: Sequence[Parts]) -> int:
    """How many steps to work on at once: as many as suits what an emitter has made, or what values take."""
    chunk, layout = call.chunk, call.layout
    largest = max(each.largest_beside for each in parts)
    if largest >= LARGE_ROW:
        return max(1, min(chunk, CHUNK_BYTES // (largest * layout.batch_size)))
    rooms = [(each.emitter.chunk_bytes(layout.device), each.crossing) for each in parts]
    return longest_chunk(rooms, layout.steps, layout.batch_size, chunk, swap=call.swap)


def longest_chunk(
    rooms: Sequence[tuple[int, int]], steps: int, batch_size: int, least: int, *, swap: bool = False
) -> int:
    """How many steps to work on at once, so that chunks are few and of much the same length.

    Args:
        rooms: for each direction, the bytes that a chunk may take for what its core reads and writes, and how many of
            them there are in a row and step.
        steps: how many there are.
        batch_size: rows of a step.
        least: the shortest chunk.
        swap: whether what backward needs waits in host memory.

    >>> longest_chunk([(448 << 20, 1 << 10)], 1000, 4096, least=32)  # of at most 112 steps
    112
    >>> longest_chunk([(448 << 20, 1 << 10)], 120, 4096, least=32)
    60
    """
    most = min((min(room, SWAPPED_BYTES) if swap else room) // max(1, row * batch_size) for room, row in rooms)
    if most <= least:
        return least
    return max(least, -(-steps // -(-steps // most)))
