"""A run of `dynamic_rnn` beside the plain loop that it stands for: outputs, states and every gradient."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from tests.user_cells import RANDOM, USER_CELLS, UserCell
from unspool import dynamic_rnn
from unspool.cells.like import start_sequence
from unspool.engine.execute import plain
from unspool.structure import flatten, map_structure, same_structure

BATCH, STEPS = 5, 7
LENGTHS = [7, 0, 3, 3, 1]
CERTAIN = [name for name in USER_CELLS if name not in RANDOM]
FEW = ["layer_norm_lstm", "weight_normed", "tied", "conv_lstm", "stacked"]
"""Cells with weights of different kinds, for what does not depend on what a step computes."""

Run = Callable[[Any, Any, Any, Any, torch.dtype], tuple[Any, Any]]


def plain_loop(cell: Any, inputs: Any, lengths: Any, state: Any, dtype: torch.dtype) -> tuple[Any, Any]:
    """What `dynamic_rnn` stands for, batch-major like it."""
    start_sequence(cell)
    time_major = map_structure(lambda leaf: leaf.transpose(0, 1), inputs)
    outputs, final = plain.run(cell, time_major, None if lengths is None else torch.tensor(lengths), state, dtype)
    return map_structure(lambda leaf: leaf.transpose(0, 1), outputs), final


def engine_loop(cell: Any, inputs: Any, lengths: Any, state: Any, dtype: torch.dtype) -> tuple[Any, Any]:
    return dynamic_rnn(cell, inputs, lengths, state, dtype)


def with_parallel_iterations(parallel_iterations: int) -> Run:
    def run(cell: Any, inputs: Any, lengths: Any, state: Any, dtype: torch.dtype) -> tuple[Any, Any]:
        return dynamic_rnn(cell, inputs, lengths, state, dtype, parallel_iterations)

    return run


def wanting_gradients(structure: Any) -> Any:
    """The tensors as leaves of a new autograd graph, with their strides: a memory expanded over time stays so."""
    return map_structure(lambda leaf: leaf.detach().requires_grad_(leaf.is_floating_point()), structure)


def loss_of(*structures: Any) -> Tensor:
    """A number that every element of every floating tensor has a part of its own in."""
    generator = torch.Generator().manual_seed(11)
    leaves = [leaf.double() for leaf in flatten(structures) if leaf.is_floating_point()]
    terms = [(leaf * torch.randn(leaf.shape, dtype=leaf.dtype, generator=generator)).sum() for leaf in leaves]
    return sum(terms, torch.zeros((), dtype=torch.float64))


def results(
    run: Run,
    cell: Any,
    dtype: torch.dtype,
    lengths: Any,
    inputs: Any,
    state: Any,
    loss: Any = loss_of,
    *,
    optional: bool = False,
) -> dict[str, Any]:
    """Outputs, final state, and the gradient of `loss(outputs, final)` for everything that wants one.

    One loop may leave out a gradient that another computes to be zero. It is zero here, or None if `optional`.
    """
    torch.manual_seed(5)  # the same draws for each way to run
    outputs, final = run(cell, inputs, lengths, state, dtype)
    assert same_structure(cell.output_size, outputs)
    assert same_structure(cell.state_size, final)
    weights = dict(cell.named_parameters()) if isinstance(cell, nn.Module) else {}
    sources = {f"inputs {k}": leaf for k, leaf in enumerate(flatten(inputs))}
    sources |= {f"state {k}": leaf for k, leaf in enumerate(flatten(state))} | weights
    sources = {name: source for name, source in sources.items() if source.requires_grad}
    end = loss(outputs, final)
    gradients: Sequence[Any] = [None] * len(sources)
    if end.requires_grad or not optional:
        gradients = torch.autograd.grad(end, list(sources.values()), allow_unused=True, materialize_grads=not optional)
    found = {f"outputs {k}": leaf for k, leaf in enumerate(flatten(outputs))}
    found |= {f"final state {k}": leaf for k, leaf in enumerate(flatten(final))}
    return found | {f"gradient of {name}": value for name, value in zip(sources, gradients, strict=True)}


def assert_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """Equal up to the order of summation."""
    assert found.keys() == expected.keys()
    # A cell that carries something in float32 computes through it, forwards and backwards: its rounding is everywhere.
    single = any(leaf.dtype == torch.float32 for leaf in expected.values())
    tolerance = dict(rtol=1e-5, atol=1e-5) if single else dict(rtol=1e-10, atol=1e-12)
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, **tolerance, msg=lambda why, name=name: f"{name}: {why}")


def check(
    cell: Any, dtype: torch.dtype, lengths: Any, inputs: Any, state: Any, loss: Any = loss_of, run: Run = engine_loop
) -> dict[str, Any]:
    """Asserts that `dynamic_rnn` equals the plain loop, now; returns what it computed."""
    expected = results(plain_loop, cell, dtype, lengths, inputs, state, loss)
    found = results(run, cell, dtype, lengths, inputs, state, loss)
    assert_same(found, expected)
    return found


def made(name: str, batch: int = BATCH, steps: int = STEPS) -> tuple[Any, torch.dtype, Any, Any]:
    """A cell of the table, the dtype of its outputs, inputs and a state; the latter two want gradients."""
    torch.manual_seed(0)
    case = USER_CELLS[name]
    return case.make(), case.dtype, *data_for(case, batch, steps)


@functools.cache
def shared(name: str) -> tuple[Any, torch.dtype, Any, Any]:
    """What `made` makes, once for all tests that leave it as it is: one cell in many runs, and planned only once."""
    return made(name)


def data_for(case: UserCell, batch: int, steps: int) -> tuple[Any, Any]:
    return wanting_gradients(case.inputs(batch, steps)), wanting_gradients(case.state(batch))


def assert_changed(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert not torch.allclose(before["outputs 0"], after["outputs 0"], rtol=1e-3, atol=1e-3)


class Loop(nn.Module):
    """A module that holds a cell and runs it."""

    def __init__(self, cell: Any, lengths: Any, dtype: torch.dtype, run: Run) -> None:
        super().__init__()
        self.cell, self.lengths, self.dtype, self.run = cell, lengths, dtype, run

    def forward(self, inputs: Any, state: Any) -> Any:
        return self.run(self.cell, inputs, self.lengths, state, self.dtype)


def total(structure: Any) -> Tensor:
    return torch.stack([leaf.sum() for leaf in flatten(structure)]).sum()
