"""Tests with libraries that the others do without: `make ecosystem` runs them, in an environment that has them."""

from __future__ import annotations

from importlib.util import find_spec

LIBRARIES = ["accelerate", "lightning", "safetensors", "skorch", "tensordict"]

collect_ignore = [f"test_{name}.py" for name in LIBRARIES if find_spec(name) is None]
