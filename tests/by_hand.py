"""The loop that people write by hand around a step, and a comparison with it: values and every gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

import unspool
from unspool.structure import flatten, map_structure, map_tensors

BATCH, TIME = 4, 6
LENGTHS = [6, 0, 3, 1]
Step = Callable[[Any, Any], tuple[Any, Any]]


def by_hand(step: Step, inputs: Any, lengths: Sequence[int] | None, state: Any, axes: Any = 0) -> tuple[Any, Any]:
    """Outputs, batch-major, and the final state of a loop in Python; `axes` is where states have their rows."""
    axes = map_structure(lambda leaf: axes, state) if isinstance(axes, int) else axes
    columns: list[Any] = []
    for time in range(TIME):
        alive = torch.tensor([length > time for length in lengths or [TIME] * BATCH])
        output, new = step(map_structure(lambda leaf, t=time: leaf[:, t], inputs), state)
        columns.append(
            map_tensors(lambda leaf, a=alive: torch.where(_on(a, leaf, 0), leaf, leaf.new_zeros(())), output)
        )
        leaves = zip(flatten(new), flatten(state), flatten(axes), strict=True)
        kept = iter([torch.where(_on(alive, one, axis), one, other) for one, other, axis in leaves])
        state = map_structure(lambda leaf, k=kept: next(k), state)
    by_leaf = zip(*map(flatten, columns), strict=True)
    stacked = iter([None if column[0] is None else torch.stack(column, 1) for column in by_leaf])
    return map_structure(lambda leaf: next(stacked), columns[0]), state


def _on(rows: Tensor, leaf: Tensor, axis: int) -> Tensor:
    return rows.reshape([-1 if k == axis % leaf.dim() else 1 for k in range(leaf.dim())])


def check(
    cell: Any,
    step: Step,
    inputs: Any,
    state: Any,
    weights: Sequence[Tensor],
    *,
    axes: Any = 0,
    extra: Any = (),
    planned: bool = True,
) -> None:
    """Compares `dynamic_rnn` and `static_rnn` with the loop by hand, with lengths and without, and with `explain`.

    `inputs` are what the step sees; `extra` maps them to what a loop is given, if that is something else. Steps are in
    float64, so that only the order of additions differs: 1e-10.
    """
    given = extra or (lambda each: each)
    for lengths in (None, LENGTHS):
        runs = {
            "by hand": lambda x, s, n=lengths: by_hand(step, x, n, s, axes),
            "dynamic_rnn": lambda x, s, n=lengths: unspool.dynamic_rnn(cell, given(x), n, s),
            "time-major": lambda x, s, n=lengths: _time_major(cell, given(x), n, s),
            "static_rnn": lambda x, s, n=lengths: _static(cell, given(x), n, s),
        }
        found = {name: _with_gradients(run, inputs, state, weights) for name, run in runs.items()}
        for name, values in found.items():
            for one, other in zip(values, found["by hand"], strict=True):
                assert (one is None) == (other is None), name
                if one is not None:
                    torch.testing.assert_close(
                        one, other, rtol=1e-10, atol=1e-10, msg=lambda text, n=name: f"{n}: {text}"
                    )
        x, s = _wanting(inputs), _wanting(state)
        explanation = unspool.explain(cell, given(x), lengths, s)
        assert explanation.planned == planned, explanation.reason


def _time_major(cell: Any, inputs: Any, lengths: Any, state: Any) -> tuple[Any, Any]:
    def turned(leaf: Any) -> Any:
        return leaf.transpose(0, 1) if isinstance(leaf, Tensor) else leaf

    outputs, state = unspool.dynamic_rnn(cell, map_structure(turned, inputs), lengths, state, time_major=True)
    return map_structure(turned, outputs), state


def _static(cell: Any, inputs: Any, lengths: Any, state: Any) -> tuple[Any, Any]:
    steps = [
        map_structure(lambda leaf, t=time: leaf[:, t] if isinstance(leaf, Tensor) else leaf, inputs)
        for time in range(TIME)
    ]
    outputs, state = unspool.static_rnn(cell, steps, state, sequence_length=lengths)
    columns = zip(*map(flatten, outputs), strict=True)
    stacked = iter([None if column[0] is None else torch.stack(column, 1) for column in columns])
    return map_structure(lambda leaf: next(stacked), outputs[0]), state


def _wanting(structure: Any) -> Any:
    return map_structure(lambda leaf: leaf.detach().requires_grad_(leaf.is_floating_point()), structure)


def _with_gradients(run: Any, inputs: Any, state: Any, weights: Sequence[Tensor]) -> list[Any]:
    inputs, state = _wanting(inputs), _wanting(state)
    results = flatten(run(inputs, state))
    floating = [leaf for leaf in results if leaf is not None and leaf.requires_grad]
    sources = [leaf for leaf in [*flatten((inputs, state)), *weights] if leaf.requires_grad]
    generator = torch.Generator().manual_seed(3)
    ones = [torch.randn(leaf.shape, dtype=leaf.dtype, generator=generator) for leaf in floating]
    gradients = torch.autograd.grad(floating, sources, ones, allow_unused=True) if floating else []
    zeros = [torch.zeros_like(source) for source in sources]
    return [*results, *(zero if each is None else each for each, zero in zip(gradients, zeros, strict=True))]
