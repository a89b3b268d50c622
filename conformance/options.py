"""Which options of the API a case makes use of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from conformance.cell_specs import walk
from conformance.structures import CONTAINERS

Spec = dict[str, Any]


def _cells(fits: Callable[[Spec], bool]) -> Callable[[Spec], bool]:
    return lambda spec: any(map(fits, walk(spec["cells"])))


def _cell_has(option: str, *values: Any) -> Callable[[Spec], bool]:
    return _cells(lambda cell: option in cell and (not values or cell[option] in values))


def _call_has(option: str, *values: Any) -> Callable[[Spec], bool]:
    return lambda spec: spec.get(option) in values


def _lengths(fits: Callable[[list[int], Spec], bool]) -> Callable[[Spec], bool]:
    return lambda spec: bool(spec["lengths"]) and fits(spec["lengths"], spec)


def _concatenated(kind: str) -> Callable[[Spec], bool]:
    return _cells(lambda cell: cell["kind"] == kind and cell.get("state_is_tuple") is False)


OPTIONS: dict[str, Callable[[Spec], bool]] = {
    "B = 0": _call_has("B", 0),
    "D = 0": _call_has("D", 0),
    "T = 1": _call_has("T", 1),
    "no lengths": _call_has("lengths", None),
    "lengths int32": _call_has("lengths_dtype", "int32"),
    "lengths int64": _call_has("lengths_dtype", "int64"),
    "lengths in a list": _call_has("lengths_dtype", "list"),
    "a length of 0": _lengths(lambda lengths, spec: 0 in lengths),
    "a length of T": _lengths(lambda lengths, spec: spec["T"] in lengths),
    "all lengths below T": _lengths(lambda lengths, spec: 0 < max(lengths) < spec["T"]),
    "all lengths 0": _lengths(lambda lengths, spec: max(lengths) == 0),
    "time_major": _call_has("time_major", True),
    "initial state": lambda spec: True in spec["initial_state"],
    "zero state": lambda spec: False in spec["initial_state"],
    "dtype left out": _call_has("pass_dtype", False),
    "scope": lambda spec: bool(spec["scope"]),
    'scope ""': _call_has("scope", ""),
    "outer scope": _call_has("outer", "model"),
    "parallel_iterations": _call_has("parallel_iterations", 1, 32),
    "swap_memory": _call_has("swap_memory", True),
    "one cell both ways": _call_has("share", True),
    **{f"inputs in a {container}": _call_has("inputs", container) for container in CONTAINERS},
    "nested outputs": _cell_has("outputs", *CONTAINERS),
    **{f"states in a {container}": _cell_has("states", container) for container in CONTAINERS},
    "loop_fn by lengths": _call_has("loop_fn", "until_lengths"),
    "loop_fn, other emits": _call_has("loop_fn", "other_emits"),
    "loop_fn with feedback": _call_has("loop_fn", "feedback"),
    "use_peepholes": _cell_has("use_peepholes"),
    "cell_clip": _cells(lambda cell: bool(cell.get("cell_clip"))),
    "cell_clip = 0": _cell_has("cell_clip", 0.0),
    "num_proj": _cell_has("num_proj"),
    "proj_clip": _cells(lambda cell: "proj_clip" in cell and "num_proj" in cell),
    "proj_clip alone": _cells(lambda cell: "proj_clip" in cell and "num_proj" not in cell),
    "forget_bias": _cell_has("forget_bias"),
    "activation, a function": _cell_has("activation"),
    "activation, a name": _cell_has("activation_name"),
    "LSTMCell, one tensor": _concatenated("LSTMCell"),
    "BasicLSTMCell, one tensor": _concatenated("BasicLSTMCell"),
    "MultiRNNCell, one tensor": _concatenated("MultiRNNCell"),
    "MultiRNNCell of one cell": _cell_has("repeat"),
    "num_unit_shards": _cell_has("num_unit_shards"),
    "num_proj_shards": _cell_has("num_proj_shards"),
    "name": _cell_has("name"),
    "dtype of a cell": _cell_has("own_dtype"),
    "residual_fn": _cell_has("residual_fn"),
    "keep, a number": _cell_has("keep", "number"),
    "keep, a tensor": _cell_has("keep", "tensor"),
    "keep, variational": _cell_has("keep", "variational"),
}
"""By name, whether a spec has the option."""
