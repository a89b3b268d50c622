"""Runs unspool on a case and names everything it computes as the case does."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import unspool
from conformance.build import build_cells
from conformance.on_unspool import Unspool
from conformance.program import Call, Spec
from unspool.structure import flatten, unflatten_as


@dataclass(frozen=True)
class Case:
    """What TensorFlow was given and what it computed."""

    name: str
    spec: Spec
    arrays: dict[str, np.ndarray]

    @classmethod
    def load(cls, path: Path) -> Case:
        """The case in a file."""
        with np.load(path) as file:
            arrays = {key: file[key] for key in file.files}
        spec = json.loads(str(arrays.pop("spec")))
        if isinstance(spec["initial_state"], bool):  # for both directions
            spec["initial_state"] = [spec["initial_state"]]
        return cls(path.stem, spec, arrays)

    @property
    def variables(self) -> list[str]:
        """TensorFlow's names of the variables, in the order it made them."""
        return [key.removeprefix("var:") for key in self.arrays if key.startswith("var:")]

    @property
    def expected(self) -> dict[str, np.ndarray]:
        """What TensorFlow computed, by name."""
        return {key: value for key, value in self.arrays.items() if key.startswith(_COMPUTED)}

    @property
    def outlines(self) -> dict[str, str]:
        """The containers of what TensorFlow's loop returned; empty if the case does not say."""
        return json.loads(str(self.arrays["outline"])) if "outline" in self.arrays else {}

    def tensors(self, prefix: str) -> dict[str, Tensor]:
        """The arrays called `prefix` or `prefix_0`, `prefix_1`, ..., as tensors that want gradients if they can."""
        found = {key: value for key, value in self.arrays.items() if key == prefix or key.startswith(f"{prefix}_")}
        return {key: _source(torch.from_numpy(value.copy())) for key, value in found.items()}


_COMPUTED = ("out_", "state_", "loop_", "saved_", "loss", "grad")


@dataclass(frozen=True)
class Computed:
    """What unspool computed for a case; a gradient is None where autograd found no path."""

    values: dict[str, np.ndarray | None]
    variables: list[str]
    outlines: dict[str, str]


def run_case(case: Case) -> Computed:
    """Builds the cells of a case, loads its weights, runs its loop and differentiates its loss."""
    library, spec = Unspool(), case.spec
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "MultiRNNCell was given the same cell object more than once")
        cells = build_cells(spec, library)
    inputs, start_leaves = case.tensors("x"), case.tensors("init")
    starts = pack_starts(spec, cells, list(start_leaves.values()))
    call = Call(spec, library, cells, list(inputs.values()), starts)
    with torch.no_grad():
        call.run()  # only to build the cells, as their first call does
    weights: dict[str, Tensor] = {}
    for cell, scope in scopes(spec, cells):
        weights.update(unspool.tf_variables(cell, scope))
    load(weights, case)
    outcome = call.run()

    results = outcome.named_leaves(library)
    results["loss"] = loss = loss_of(results)
    results.update({f"saved_{k}": leaf for k, leaf in enumerate(outcome.saved)})
    sources = {f"grad_{key}": leaf for key, leaf in {**inputs, **start_leaves}.items() if leaf.requires_grad}
    gradients = differentiate(loss, sources, weights, cells)
    values = {key: leaf.detach().numpy() for key, leaf in results.items()}
    values.update({key: None if leaf is None else leaf.numpy() for key, leaf in gradients.items()})
    return Computed(values, list(weights), outcome.outlines())


def pack_starts(spec: Spec, cells: list[Any], leaves: list[Tensor]) -> list[Any]:
    """The initial state of each cell, or None, from the leaves of all of them."""
    given, remaining = spec["initial_state"], iter(leaves)
    starts: list[Any] = []
    for k, cell in enumerate(cells):
        if given[k % len(given)]:
            starts.append(unflatten_as(cell.state_size, [next(remaining) for _ in flatten(cell.state_size)]))
        else:
            starts.append(None)
    return starts


def scopes(spec: Spec, cells: list[Any]) -> Iterator[tuple[Any, str]]:
    """Each cell once, with the scope of its variables, in the order in which a loop first runs them."""
    loop, outer = spec["loop"], f"{spec['outer']}/" if spec.get("outer") else ""
    if "bidirectional" not in loop:
        yield cells[0], f"{outer}{spec['scope'] or 'rnn'}"
        return
    default = "stack_bidirectional_rnn" if loop.startswith("stack") else "bidirectional_rnn"
    inner = "/bidirectional_rnn" if loop == "stack_bidirectional_dynamic_rnn" else ""
    for k, cell in enumerate(cells):
        layer = f"/cell_{k // 2}{inner}" if loop.startswith("stack") else ""
        if not any(cell is earlier for earlier in cells[:k]):
            yield cell, f"{outer}{spec['scope'] or default}{layer}/{('fw', 'bw')[k % 2]}"


def load(weights: dict[str, Tensor], case: Case) -> None:
    """Copies the variables of a case into the weights of the same names; other names are for the comparison to find."""
    with torch.no_grad():
        for name, weight in weights.items():
            if f"var:{name}" in case.arrays:
                weight.copy_(torch.from_numpy(case.arrays[f"var:{name}"]))


def loss_of(results: dict[str, Tensor]) -> Tensor:
    """A scalar that depends on every element of every floating leaf, on each in its own way."""
    terms: list[Tensor] = []
    for name, leaf in results.items():
        if leaf.is_floating_point():
            weights = torch.cos(torch.arange(leaf.numel(), dtype=torch.float64)).to(leaf.dtype)
            terms.append((leaf.reshape(-1) * weights if name.startswith("out") else torch.sin(leaf)).sum())
    return torch.stack(terms).sum()


def differentiate(
    loss: Tensor, sources: dict[str, Tensor], weights: dict[str, Tensor], cells: list[Any]
) -> dict[str, Tensor | None]:
    """The gradient of each source and of each weight, or None."""
    parameters = list({id(weight): weight for cell in cells for weight in cell.parameters()}.values())
    found = torch.autograd.grad(loss, [*sources.values(), *parameters], allow_unused=True)
    gradients: dict[str, Tensor | None] = dict(zip(sources, found, strict=False))
    # A sharded variable is a view of a part of its parameter, and has the same part of the gradient.
    owners = {weight.untyped_storage().data_ptr(): k for k, weight in enumerate(parameters, len(sources))}
    for name, weight in weights.items():
        whole = found[owners[weight.untyped_storage().data_ptr()]]
        part = (weight.shape, weight.stride(), weight.storage_offset())
        gradients[f"grad:{name}"] = None if whole is None else whole.contiguous().as_strided(*part)
    return gradients


def _source(tensor: Tensor) -> Tensor:
    return tensor.requires_grad_(tensor.is_floating_point())
