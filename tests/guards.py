"""A stage of a changing cell, run by the plain loop and by `dynamic_rnn`: outputs, final state, every gradient."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.cell_changes.table import STEPS, UNITS, Change, Stage
from tests.comparison import Run, engine_loop, loss_of, plain_loop
from unspool import explain
from unspool.structure import flatten

SUMMATION = {torch.float64: 1e-10, torch.float32: 1e-5}
"""Other orders of summation, forwards and backwards over a few steps."""


@contextmanager
def stages_of(entry: Change) -> Iterator[Iterator[Stage]]:
    """The stages of an entry, one after the other; at the end everything around the cell is as it was."""
    torch.manual_seed(0)
    with pytest.MonkeyPatch.context() as patch, closing(entry.story(patch)) as story:
        yield (each if isinstance(each, Stage) else Stage(each) for each in story)


def data_of(stage: Stage) -> tuple[Tensor, Any]:
    """The same numbers for every stage of a kind: inputs and an initial state."""
    draw = torch.Generator().manual_seed(stage.batch)
    inputs = torch.randn(stage.batch, STEPS, UNITS, generator=draw, dtype=torch.float64).to(stage.dtype)
    state = torch.randn(stage.batch, UNITS, generator=draw, dtype=torch.float64).to(stage.dtype)
    return inputs.requires_grad_(stage.wanted), stage.containers(state.requires_grad_(stage.wanted))


def observed(run: Run, stage: Stage) -> dict[str, Tensor]:
    """What a run of the stage computes, by name."""
    torch.manual_seed(5)
    with torch.inference_mode(False):
        inputs, state = data_of(stage)
    stage.reset()
    outputs, final = run(stage.cell, inputs, None, state, stage.dtype)
    found = {f"outputs {k}": leaf for k, leaf in enumerate(flatten(outputs))}
    found |= {f"final state {k}": leaf for k, leaf in enumerate(flatten(final))}
    loss = loss_of(outputs, final)
    if not loss.requires_grad:
        return found
    sources = {"inputs": inputs} | {f"state {k}": leaf for k, leaf in enumerate(flatten(state))}
    if isinstance(stage.cell, nn.Module):
        sources |= dict(stage.cell.named_parameters())
    sources = {name: source for name, source in sources.items() if source.requires_grad}
    gradients = torch.autograd.grad(loss, list(sources.values()), materialize_grads=True)
    return found | {f"gradient of {name}": value for name, value in zip(sources, gradients, strict=True)}


def plainly(stage: Stage) -> dict[str, Tensor]:
    return observed(plain_loop, stage)


def by_the_engine(stage: Stage) -> dict[str, Tensor]:
    return observed(engine_loop, stage)


def reason_of(stage: Stage) -> str | None:
    """Why the cell would run in the plain loop now; None if it is planned."""
    with torch.inference_mode(False):
        inputs, state = data_of(stage)
    stage.reset()
    return explain(stage.cell, inputs, None, state, stage.dtype).reason


def assert_equal(found: dict[str, Tensor], expected: dict[str, Tensor], stage: Stage, when: str) -> None:
    tolerance = SUMMATION[stage.dtype] if stage.tolerance is None else stage.tolerance
    assert found.keys() == expected.keys(), when
    for name, value in expected.items():
        torch.testing.assert_close(
            *(found[name], value),
            rtol=tolerance,
            atol=tolerance,
            equal_nan=True,
            msg=lambda why, name=name: f"{when}, {name}: {why}",
        )


def differ(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    """Whether the results are others, by more than rounding."""
    if one.keys() != other.keys():
        return True
    pairs = [(value, other[name]) for name, value in one.items()]
    return any(
        a.shape != b.shape or a.dtype != b.dtype or not torch.allclose(a, b, 1e-9, 1e-11, equal_nan=True)
        for a, b in pairs
    )
