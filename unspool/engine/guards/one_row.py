"""One step on one row, to see what it puts out, which leaves everything as it was."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from unspool.engine.guards.fingerprint import Fingerprint
from unspool.engine.guards.generators import generators_restored
from unspool.engine.guards.nodes import CannotGuardError
from unspool.engine.guards.restoring import restored
from unspool.outputs import Outputs
from unspool.step import step
from unspool.structure import Structure, map_structure


def outputs_of_a_step(cell: Any, inputs: Structure, state: Structure) -> Outputs:
    """What a step puts out for one row, where no step runs that would show it: all sequences are empty.

    It is run without values. A step that looks at values has zeros to look at: it runs without gradients, and
    attributes, buffers and generators are put back.

    Args:
        cell: the cell.
        inputs: of one step, with one row.
        state: with any rows.
    """
    given = map_structure(lambda leaf: _one_row(leaf), (inputs, state))
    try:
        fingerprint = Fingerprint(cell)
    except CannotGuardError:
        fingerprint = None
    for values in (FakeTensorMode(allow_non_fake_inputs=True), None):
        with _unchanged(fingerprint), torch.no_grad(), values or nullcontext():
            try:
                output, _ = step(cell, *given)
            except Exception:
                if values is None:
                    raise
            else:
                return Outputs.of(output, 1)
    raise AssertionError


def _one_row(leaf: Any) -> Any:
    return leaf.new_zeros((1, *leaf.shape[1:])) if isinstance(leaf, Tensor) and leaf.dim() else leaf


@contextmanager
def _unchanged(fingerprint: Fingerprint | None) -> Generator[None, None, None]:
    """Leaves what a step reaches as it was, as far as that is known."""
    tensors = [] if fingerprint is None else fingerprint.tensors
    before = [(tensor, tensor._version, tensor.detach().clone()) for tensor in tensors if not tensor.is_inference()]
    objects: AbstractContextManager[Any] = nullcontext() if fingerprint is None else restored(fingerprint)
    with objects, generators_restored():
        try:
            yield
        finally:
            for tensor, version, value in before:
                if tensor._version != version:
                    tensor.detach().copy_(value)
