"""One step that nobody asked for, to see what it puts out, which leaves everything as it was."""

from __future__ import annotations

import copy
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from unspool.engine.guards.fingerprint import Fingerprint
from unspool.engine.guards.generators import generators_restored
from unspool.engine.guards.restoring import restored
from unspool.outputs import Outputs
from unspool.step import step
from unspool.structure import Structure, flatten, map_structure


def outputs_of_a_step(cell: Any, inputs: Structure, state: Structure) -> Outputs:
    """What a step puts out, where none runs that would show it: all sequences are empty.

    It is run without values. A step that looks at values has zeros to look at: it runs without gradients, and
    attributes, buffers and generators are put back. An empty batch has one row for it.

    Args:
        cell: the cell, built.
        inputs: of one step.
        state: the state.
    """
    rows = flatten(inputs)[0].shape[0] or 1
    given = map_structure(lambda leaf: _zeros(leaf, rows), (inputs, state))
    ways: Sequence[FakeTensorMode | None] = (FakeTensorMode(allow_non_fake_inputs=True), None)
    try:
        fingerprint = Fingerprint(cell)
    except Exception:
        # What cannot be followed cannot be put back. Lazy layers are among it, which make their weights in their first
        # step: that is not this one.
        cell, fingerprint, ways = copy.deepcopy(cell), None, (None,)
    for values in ways:
        with unchanged(fingerprint), torch.no_grad(), values or nullcontext():
            try:
                output, _ = step(cell, *given)
            except Exception:
                if values is None:
                    raise
            else:
                return Outputs.of(output, rows)
    raise AssertionError


def _zeros(leaf: Any, rows: int) -> Any:
    return leaf.new_zeros((rows, *leaf.shape[1:])) if isinstance(leaf, Tensor) and leaf.dim() else leaf


@contextmanager
def unchanged(fingerprint: Fingerprint | None) -> Generator[None, None, None]:
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
