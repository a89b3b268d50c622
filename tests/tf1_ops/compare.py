"""What differs between TensorFlow and `unspool.tf1`."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tests.tf1_ops import CALLS
from tests.tf1_ops.call import HOW, KNOWN, outcome
from unspool import tf1

VALUES, GRADIENTS = 1e-6, 1e-5
"""How far float32 may be from TensorFlow's, relative to the largest element if that is above 1."""

Outcome = dict[str, Any]


@cache
def noted(subject: str) -> dict[str, dict[str, Outcome]]:
    """What TensorFlow made of the calls of a subject, by name and by what was known of the shapes."""
    stored = json.loads((Path(__file__).parents[1] / "data" / "tf1_ops" / f"{subject}.json").read_text())
    for found in stored.values():
        for each in found.values():
            each.update({key: found[KNOWN][key] for key in each if each[key] == "same"})
    return stored


def differences(subject: str, name: str) -> list[str]:
    """What differs in one call."""
    expected = noted(subject)[name]
    return [f"{how}: {each}" for how in HOW for each in between(expected[how], outcome(tf1, CALLS[subject][name], how))]


def between(theirs: Outcome, ours: Outcome, slack: float = 1.0) -> list[str]:
    """What differs between two outcomes; numbers may be `slack` times as far apart as they usually are."""
    if "raises" in theirs or "raises" in ours:
        said = [f"{each['raises']} when {each['when']}" if "raises" in each else "none" for each in (theirs, ours)]
        return [] if said[0] == said[1] else [f"raises {said[1]}, not {said[0]}"]
    found = []
    if theirs["dtypes"] != ours["dtypes"]:
        found.append(f"dtypes {ours['dtypes']}, not {theirs['dtypes']}")
    if len(theirs["values"]) != len(ours["values"]):
        return [*found, f"{len(ours['values'])} values, not {len(theirs['values'])}"]
    known = [*zip(theirs["shapes"], ours["shapes"], strict=True)]
    for number, (their, our) in enumerate(zip(theirs["values"], ours["values"], strict=True)):
        found += _apart(f"value {number}", their, our, slack * VALUES)
        found += _shape(*known[number % len(known)], our["shape"])
    if "gradients" in theirs and "gradients" not in ours:
        found.append("has no gradients")
    elif "gradients" in theirs:
        for number, (their, our) in enumerate(zip(theirs["gradients"], ours["gradients"], strict=True)):
            found += _apart(f"gradient {number}", their, our, slack * GRADIENTS)
    return found


def _apart(what: str, theirs: Any, ours: Any, close: float) -> list[str]:
    if theirs is None or ours is None:
        return [] if theirs is ours else [f"{what} is {ours}, not {theirs}"]
    if theirs["shape"] != ours["shape"]:
        return [f"{what} has shape {ours['shape']}, not {theirs['shape']}"]
    there, here = np.array(theirs["flat"]), np.array(ours["flat"])
    if there.dtype.kind != "f":
        return [] if np.array_equal(there, here) else [f"{what} is {here}, not {there}"]
    scale = max(1.0, np.abs(there[np.isfinite(there)]).max(initial=0.0))
    return [] if np.allclose(here, there, 0, close * scale, equal_nan=True) else [f"{what} is {here}, not {there}"]


def _shape(theirs: Any, ours: Any, real: list[int]) -> list[str]:
    if ours is not None and (
        len(ours) != len(real) or any(a not in (None, b) for a, b in zip(ours, real, strict=True))
    ):
        return [f"claims the shape {ours}, but it is {real}"]
    if theirs is not None and (
        ours is None or any(a is None and b is not None for a, b in zip(ours, theirs, strict=True))
    ):
        return [f"knows the shape {ours}, not {theirs}"]
    return []
