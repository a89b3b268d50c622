"""Elements of a row in the text of a loop: their indices, and the variables that hold those that were just computed."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from unspool.engine.emit.stages.strided import Place, Ref
from unspool.engine.emit.text.spelling import rounded


class Registers:
    """Variables of a loop by the elements that they hold: what statements hand to each other is not stored first."""

    def __init__(self) -> None:
        self._held: list[tuple[Ref, str]] = []

    def name(self, target: Ref) -> str:
        """A name for a new variable."""
        taken = {name for _, name in self._held}
        name = f"{target.buffer.name}_at"
        return name if name not in taken else f"{name}_{len(taken)}"

    def hold(self, target: Ref, name: str) -> None:
        """Has a variable hold an element from here on."""
        self._held.append((target, name))

    def find(self, ref: Ref) -> str | None:
        """The variable that holds an element, the latest one; None if none does."""
        return next((name for held, name in reversed(self._held) if held.same_elements(ref)), None)

    def argument(self, text: str, ref: Ref, dtype: torch.dtype) -> str:
        """An element as an argument: a half that was just computed is rounded where it becomes one of another dtype."""
        at_hand = any(text == name for _, name in self._held) or ref.buffer.place is Place.CONSTANT
        return rounded(text, ref.buffer.dtype) if at_hand and ref.buffer.dtype != dtype else text


def comment(text: str) -> str:
    """A line of comment; a backslash at its end would take the next line with it."""
    return f"// {text} .\n" if text.endswith("\\") else f"// {text}\n"


def index_text(ref: Ref, names: str | Sequence[str], *further: str) -> str:
    """Where an element is, from the names of loop indices: all begin with `names`, or are these."""
    terms: dict[bool, list[str]] = {True: [], False: []}
    for k, (size, stride) in enumerate(zip(ref.shape, ref.strides, strict=True)):
        if stride and size > 1:
            name = f"{names}{k}" if isinstance(names, str) else names[k]
            terms[stride > 0].append(name if abs(stride) == 1 else f"{name} * {abs(stride)}")
    added = [*terms[True], *further]
    if ref.offset or not added:
        added.append(str(ref.offset))
    return " - ".join([" + ".join(added), *terms[False]])


def index_lines(sizes: Sequence[int], item: str, first: int = 0) -> str:
    """Lines that take a number apart into indices."""
    lines, left = list[str](), math.prod(sizes)
    for k, size in enumerate(sizes, first):
        left //= size
        text = item if left == 1 else f"{item} / {left}"
        over = k > first and size > 1
        lines.append(f"const int i{k} = {f'{text} % {size}' if over else '0' if size == 1 else text};\n")
    return "".join(lines)
