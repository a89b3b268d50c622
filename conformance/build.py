"""Building the cells of a spec in either library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from conformance.library import Library

Spec = dict[str, Any]


def build_cells(spec: Spec, library: Library) -> list[Any]:
    """The cells of a spec; with `share`, the backward cell is the forward one."""
    cells = [build_cell(cell, library, spec["dtype"]) for cell in spec["cells"]]
    return cells * 2 if spec.get("share") else cells


def build_cell(spec: Spec, library: Library, dtype: str) -> Any:
    """The cell of a cell's spec: its `kind`, the cells inside it, and the arguments of its constructor."""
    options = dict(spec)
    kind = library.cell(options.pop("kind"))
    if "cells" in options:
        cells = [build_cell(cell, library, dtype) for cell in options.pop("cells")]
        return kind(cells * options.pop("repeat", 1), **options)
    if "cell" in options:
        cell = build_cell(options.pop("cell"), library, dtype)
        return kind(cell, **_wrapper_options(options, library, dtype))
    if "activation" in options:
        options["activation"] = library.activation(options["activation"])
    if "activation_name" in options:
        options["activation"] = options.pop("activation_name")
    if options.pop("own_dtype", False):
        options["dtype"] = dtype
    return kind(**options)


def _wrapper_options(options: Spec, library: Library, dtype: str) -> Spec:
    if "residual_fn" in options:
        return {"residual_fn": RESIDUALS[options["residual_fn"]]}
    if "device" in options:
        return {"device": library.cpu}
    if "keep" in options:
        keep = options.pop("keep")
        names = ("input_keep_prob", "output_keep_prob", "state_keep_prob")
        options.update(dict.fromkeys(names, 1.0 if keep == "number" else library.keep_all(dtype)))
        if keep == "variational":
            options.update(variational_recurrent=True, dtype=dtype)
    return options


RESIDUALS: dict[str, Callable[[Any, Any], Any]] = {
    "scaled": lambda inputs, outputs: 0.5 * inputs + outputs,
    "sliced": lambda inputs, outputs: inputs[:, : int(outputs.shape[1])] + outputs,
}
