"""Runs the programs in `tests/tf1_programs` under TensorFlow and stores everything they compute.

    python conformance/tf1_draw.py --out build/conformance/tf1

Needs the requirements in `conformance/requirements.txt`, and not unspool. `tf1_run.py` says what is stored. Also checks
that TensorFlow computes what NumPy computes by hand, and raises what `mistakes.py` says.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from conformance.errors import relative_error
from conformance.tf1_on_tensorflow import tf
from conformance.tf1_run import by_hand, run
from tests.tf1_programs import PROGRAMS
from tests.tf1_programs.mistakes import MISTAKES, complaint
from tests.tf1_programs.program import Arrays, Build, Program

BY_HAND = 1e-5
"""How far TensorFlow's float32 may be from NumPy's float64."""

COARSEST, SHAKES = 2e-6, 3
"""How much the last bits of the first weights may matter, in any of so many ways to change them.

Where they matter more, the numbers prove nothing."""


def main() -> None:
    """Runs every program, one file each; old ones are removed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=None, help="what values are drawn from (default: something new)")
    parser.add_argument("--out", type=Path, required=True, help="the folder for the .npz files")
    parser.add_argument("names", nargs="*", metavar="NAME", help="a program to run (default: all)")
    arguments = parser.parse_args()
    seed = secrets.randbelow(2**31) if arguments.seed is None else arguments.seed

    complaints = {name: complaint(tf, name) for name in MISTAKES}
    if any(complaints.values()):
        raise AssertionError(f"TensorFlow takes these otherwise: {complaints}")

    arguments.out.mkdir(parents=True, exist_ok=True)
    if not arguments.names:
        for old in arguments.out.glob("*.npz"):
            old.unlink()
    print(f"running {len(arguments.names or PROGRAMS)} programs from seed {seed}")
    for name in arguments.names or PROGRAMS:
        began = time.perf_counter()
        np.savez_compressed(arguments.out / f"{name}.npz", **draw(name, PROGRAMS[name], seed))
        print(f"{name}: {time.perf_counter() - began:.1f} s", flush=True)


def draw(name: str, build: Build, seed: int) -> Arrays:
    """A program's notes, from the first weights and feeds whose last bits do not matter."""
    sensitivities = []
    for attempt in range(16):
        notes = notes_from(name, build, [seed, attempt])
        shaken = [notes_from(name, build, [seed, attempt], shake) for shake in range(1, SHAKES + 1)]
        distances = [
            (distance(key, each[key], notes[key]), key) for each in shaken for key in notes if is_computed(key)
        ]
        sensitivity, key = max(distances)
        if sensitivity <= COARSEST:
            return {key: array for key, array in notes.items() if is_stored(key, array, shaken[0][key])}
        sensitivities.append(f"{key}: {sensitivity:.1e}")
    raise FloatingPointError(f"no values are good enough for {name}: {', '.join(sensitivities)}")


def notes_from(name: str, build: Build, seed: list[int], shake: int = 0) -> Arrays:
    """A program's notes, with random weights and feeds; a `shake` changes the weights by what a rounding may."""

    def value(name: str, shape: tuple[int, ...]) -> np.ndarray:
        rng = np.random.default_rng([*seed, *name.encode()])
        scale = 1 / np.sqrt(np.prod(shape[:-1])) if len(shape) > 1 else 0.3
        drawn = np.asarray(scale * rng.normal(size=shape), np.float32)
        ways = np.random.default_rng([*seed, shake, *name.encode()]).choice([-9, 9], shape)
        return np.nextafter(drawn, ways, dtype=np.float32) if shake else drawn

    def feeds_at(program: Program, k: int) -> Arrays:
        return program.feeds(np.random.default_rng([*seed, k, *name.encode()]))

    program, notes = run(tf, build, value, feeds_at)
    for key, expected in by_hand(program, notes).items():
        error = distance(key, notes[key], expected)
        if not error <= BY_HAND:
            raise AssertionError(f"{name}, {key}: TensorFlow is {error:.1e} from NumPy\n{notes[key]}\n{expected}")
    return notes


def distance(key: str, found: np.ndarray, expected: np.ndarray) -> float:
    """The relative error; infinite where shapes or integers differ."""
    if found.shape != expected.shape:
        raise AssertionError(f"{key}: {found.shape} is not {expected.shape}")
    if found.dtype.kind != "f":
        return 0.0 if np.array_equal(found, expected) else np.inf
    return relative_error(key, found, expected)


def is_computed(key: str) -> bool:
    """Whether the program computed it, and nobody gave it."""
    return key.startswith(("before:", "losses", "final:", "after:", "use:"))


def is_stored(key: str, array: np.ndarray, again: np.ndarray) -> bool:
    """Whether it can be compared: initial values that are random, and so another time are others, cannot."""
    return not key.startswith("start:") or bool((array == array.flat[0]).all() and (array == again).all())


if __name__ == "__main__":
    main()
