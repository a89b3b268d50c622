"""Formats counts, bytes and times for `explain` and for messages."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """A number of things.

    >>> counted(1, "step"), counted(3200, "row")
    ('1 step', '3,200 rows')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def in_bytes(number: float) -> str:
    """A size in bytes, rounded.

    >>> in_bytes(512), in_bytes(3072), in_bytes(2.5 * 2**30)
    ('512 B', '3.0 KiB', '2.5 GiB')
    """
    return _scaled(number, 1024, ("B", "KiB", "MiB", "GiB", "TiB"))


def in_flops(number: float) -> str:
    """A number of floating-point operations, rounded.

    >>> in_flops(65536), in_flops(2.1e9)
    ('65.5 kFLOP', '2.1 GFLOP')
    """
    return _scaled(number, 1000, ("FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP"))


def _scaled(number: float, factor: int, units: tuple[str, ...]) -> str:
    power = 0
    while number >= factor and power < len(units) - 1:
        number, power = number / factor, power + 1
    return f"{number:.1f} {units[power]}" if power or number % 1 else f"{number:.0f} {units[power]}"
