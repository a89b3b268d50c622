"""Texts that take numbers apart into indices."""

from __future__ import annotations

import math
from collections.abc import Sequence


def index_lines(sizes: Sequence[int], item: str, first: int = 0) -> str:
    """Lines that take a number apart into indices."""
    lines, left = list[str](), math.prod(sizes)
    for k, size in enumerate(sizes, first):
        left //= size
        text = item if left == 1 else f"{item} / {left}"
        over = k > first and size > 1
        lines.append(f"const int i{k} = {f'{text} % {size}' if over else '0' if size == 1 else text};\n")
    return "".join(lines)
