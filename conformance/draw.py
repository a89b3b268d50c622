"""Runs TensorFlow's own loops on random cases and stores everything they compute.

    python conformance/draw.py --cases 240 --out build/conformance

Needs the requirements in `conformance/requirements.txt`, and not unspool. `conformance/__init__.py` says what a case
holds, `specs.py` what is drawn.
"""

from __future__ import annotations

import argparse
import json
import secrets
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from conformance.errors import relative_error
from conformance.graph import Arrays, Graph
from conformance.specs import Spec, draw_specs

LARGEST = 10.0
"""No output or state may be larger: a loss or a gradient of larger ones cancels too much to compare."""

COARSEST = 2e-6
"""How far TensorFlow's float32 may be from its own float64: a case in which it is further off proves nothing."""


def main() -> None:
    """Draws the cases, one file each; old ones are removed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=240, help="how many (default: 240)")
    parser.add_argument("--seed", type=int, default=None, help="what they are drawn from (default: something new)")
    parser.add_argument("--out", type=Path, required=True, help="the folder for the .npz files")
    arguments = parser.parse_args()
    seed = secrets.randbelow(2**31) if arguments.seed is None else arguments.seed

    arguments.out.mkdir(parents=True, exist_ok=True)
    for old in arguments.out.glob("case_*.npz"):
        old.unlink()
    print(f"drawing {arguments.cases} cases from seed {seed}")
    began = time.perf_counter()
    for k, spec in enumerate(draw_specs(arguments.cases, seed)):
        spec.update(seed=seed, index=k)
        np.savez_compressed(arguments.out / f"case_{k:03d}.npz", **draw_case(spec))
        if (k + 1) % 20 == 0:
            print(f"{k + 1} cases, {time.perf_counter() - began:.0f} s", flush=True)


def draw_case(spec: Spec) -> Arrays:
    """Random values for a spec and what TensorFlow computes from them; the first values good enough to compare."""
    rng = np.random.default_rng([spec["seed"], spec["index"]])
    graph = Graph(spec)
    exact = Graph({**spec, "dtype": "float64"}) if spec["dtype"] == "float32" else None
    for scale in (0.6, 0.3, 0.1, 0.03):
        values = {name: random_like(name, source, scale, rng) for name, source in graph.sources.items()}
        results = graph.run(values)
        if is_moderate(results) and (exact is None or rounding_error(results, exact.run(values)) <= COARSEST):
            texts = {"spec": json.dumps(spec), "outline": json.dumps(graph.outlines)}
            return {**{name: np.array(text) for name, text in texts.items()}, **values, **results}
    raise FloatingPointError(f"no values are good enough for {spec}")


def random_like(name: str, source: Any, scale: float, rng: np.random.Generator) -> np.ndarray:
    """Random values for one source: normal, with weights of that scale; small integers where it holds integers."""
    shape, dtype = source.shape.as_list(), source.dtype.as_numpy_dtype
    if not source.dtype.base_dtype.is_floating:
        return rng.integers(0, 3, shape, dtype)
    return np.asarray(rng.normal(size=shape) * (scale if name.startswith("var:") else 1.0), dtype)


def is_moderate(results: Arrays) -> bool:
    """Whether everything is finite, and outputs and states are not too large."""
    finite = all(np.isfinite(value).all() for value in results.values())
    rows = [value for name, value in results.items() if name.startswith(("out_", "state_")) and value.dtype.kind == "f"]
    return finite and all(np.abs(value).max(initial=0) <= LARGEST for value in rows)


def rounding_error(results: Arrays, exact: Arrays) -> float:
    """The largest error of any tensor."""
    return max(relative_error(name, value, exact[name]) for name, value in results.items())


if __name__ == "__main__":
    main()
