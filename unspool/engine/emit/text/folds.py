"""Folds in the text of a loop: how one begins, and how an element is taken in."""

from __future__ import annotations

import math

import torch

from unspool.engine.emit.stages.statements import Reduce
from unspool.engine.emit.text.spelling import COMPUTED, literal

FOLDS = {"max": "larger", "min": "smaller", "argmax": "exceeds", "argmin": "falls_below"}
"""Functions by which elements meet, or are told from the best so far; sums and products have operators."""
SIGNS = {"sum": "+=", "prod": "*="}


def is_place(each: Reduce) -> bool:
    """Whether it looks for where an element is, and not for the element."""
    return each.fold.startswith("arg")


def variables_of_fold(each: Reduce) -> str:
    """The variables that a fold goes on in; one that looks for a place has the best element beside it."""
    dtype, name = each.target.buffer.dtype, each.target.buffer.name
    if not is_place(each):
        return f"{COMPUTED[dtype]} {name}_fold = {start_of_fold(each.fold, dtype)};\n"
    own = each.argument.buffer.dtype
    best = start_of_fold(each.fold.removeprefix("arg"), own)
    return f"{COMPUTED[dtype]} {name}_fold = 0;\n{COMPUTED[own]} {name}_best = {best};\n"


def folded_in(each: Reduce, own: str, value: str, place: str, where: str = "") -> str:
    """What takes an element into a fold.

    Args:
        each: the fold.
        own: the variable that it goes on in.
        value: the element.
        place: its number.
        where: the condition on which there is one; always, if it is empty.
    """
    if is_place(each):
        best = f"{each.target.buffer.name}_best"
        is_better = f"unspool::{FOLDS[each.fold]}({value}, {best})"
        condition = f"{where} && {is_better}" if where else is_better
        return f"if ({condition}) {{\n  {own} = {place};\n  {best} = {value};\n}}\n"
    guard = f"if ({where}) " if where else ""
    if each.fold in SIGNS:
        return f"{guard}{own} {SIGNS[each.fold]} {value};\n"
    return f"{guard}{own} = unspool::{FOLDS[each.fold]}({own}, {value});\n"


def start_of_fold(fold: str, dtype: torch.dtype) -> str:
    """What a fold of numbers of a type begins with: nothing changes if it meets another."""
    if fold in ("sum", "prod"):
        return literal(0 if fold == "sum" else 1, dtype)
    sign = 1 if fold == "min" else -1
    if dtype.is_floating_point:
        return literal(sign * math.inf, dtype)
    if dtype is torch.bool:
        return literal(sign > 0, dtype)
    return literal(torch.iinfo(dtype).max if sign > 0 else torch.iinfo(dtype).min, dtype)
