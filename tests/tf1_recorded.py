"""What TensorFlow made of the graphs in `tf1_training.py`, `tf1_layers.py` and `tf1_losses.py`, and how it is compared.

The arrays of a case are kept as one: a file of many small ones would be mostly their headers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent / "data" / "tf1_training"


def packed(arrays: dict[str, Any]) -> dict[str, Any]:
    """The numbers of all arrays in a row, their names, dtypes and shapes, and the words of arrays of words."""
    plain = {name: np.asarray(value) for name, value in arrays.items()}
    numbers = [value.astype("float64").reshape(-1) for value in plain.values() if value.dtype.kind != "U"]
    words = [str(word) for value in plain.values() if value.dtype.kind == "U" for word in value]
    layout = [
        f"{name} words" if value.dtype.kind == "U" else f"{name} {value.dtype.name} {list(value.shape)}"
        for name, value in plain.items()
    ]
    return {
        "layout": np.array(layout),
        "numbers": np.concatenate([np.zeros(0), *numbers]),
        "words": np.array(words, "U"),
    }


def record(subject: str, cases: dict[str, dict[str, Any]]) -> None:
    """Keeps cases of a subject."""
    flat = {f"{case}:{key}": value for case, arrays in cases.items() for key, value in packed(arrays).items()}
    np.savez_compressed(FOLDER / f"{subject}.npz", **flat)


def check(subject: str, case: str, arrays: dict[str, Any], tolerance: float = 1e-6) -> float:
    """Compares a case with TensorFlow's: names, dtypes, shapes, and numbers relative to the largest of their array."""
    made = packed(arrays)
    with np.load(FOLDER / f"{subject}.npz") as kept:
        expected = {key: kept[f"{case}:{key}"] for key in ("layout", "numbers", "words")}
    assert made["layout"].tolist() == expected["layout"].tolist()
    assert made["words"].tolist() == expected["words"].tolist()
    worst, start = 0.0, 0
    for name, value in arrays.items():
        if np.asarray(value).dtype.kind == "U":
            continue
        stop = start + np.asarray(value).size
        one, other = made["numbers"][start:stop], expected["numbers"][start:stop]
        start = stop
        if not one.size:
            continue
        difference = float(np.abs(one - other).max() / max(np.abs(other).max(), 1e-12))
        assert difference <= tolerance, f"{case}: {name} differs by {difference:.2g}"
        worst = max(worst, difference)
    return worst
