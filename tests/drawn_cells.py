"""Cells drawn at random, of operations that compiled loops know: several inputs, states and outputs of several ranks.

Unlike the steps of `drawn_steps`, they keep rows apart by construction, and their numbers stay small.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from tests.drawn_operations import OPERATIONS, ROWS, Draw, Operation
from tests.drawn_steps import DoesNotFitError
from unspool import RNNCell

SHAPES = [(4,), (4,), (6,), (1,), (2, 3), (3, 2), (2, 2, 2), (5,), (17,)]
"""Of inputs, and of states, without the rows; a state may also be a single number."""
LARGEST = 60
"""Elements of a row."""


WRONG_SIZES = (RuntimeError, IndexError, ValueError, DoesNotFitError)


class DrawnCell(RNNCell):
    """Drawn operations on a few inputs and states, with drawn weights; in float64.

    Args:
        seed: everything follows from it.
        operations: how many are drawn.
    """

    def __init__(self, seed: int, operations: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        draw = Draw(seed)
        self.seed = seed
        self.input_shapes = [draw.choice(SHAPES) for _ in range(draw.random.randint(1, 2))]
        self.state_shapes = [draw.choice([*SHAPES, ()]) for _ in range(draw.random.randint(1, 3))]
        if draw.chance(0.3):
            self.state_shapes.append(self.state_shapes[0])
        self.steps: list[tuple[str, Operation, list[int]]] = []
        with torch.no_grad():
            values = self._draw(draw, operations)
            self._new_states = [self._new_state(draw, values, k) for k in range(len(self.state_shapes))]
            self._outputs = self._draw_outputs(draw, values)
            self.weights = nn.ParameterList(draw.weights)
            outputs, _ = self([values[k] for k in range(len(self.input_shapes))], self._given_states(values))
        self.state_size = [torch.Size(shape) for shape in self.state_shapes]
        self.output_size = [output.shape[1:] for output in outputs]

    def _given_states(self, values: Sequence[Tensor]) -> list[Tensor]:
        first = len(self.input_shapes)
        return list(values[first : first + len(self.state_shapes)])

    def _draw(self, draw: Draw, operations: int) -> list[Tensor]:
        shapes = [*self.input_shapes, *self.state_shapes]
        values = [torch.randn(ROWS, *shape, dtype=torch.float64) for shape in shapes]
        for _ in range(6 * operations):
            count, make = draw.choice(OPERATIONS)
            operands = [self._operand(draw, len(values)) for _ in range(count)]
            given = [values[k] for k in operands]
            had = len(draw.weights)
            try:
                operation = make(draw, *given)
                result = operation(draw.weights, *given)
            except WRONG_SIZES:
                del draw.weights[had:]
                continue
            fits = result.shape[:1] == (ROWS,) and 0 < result[0].numel() <= LARGEST and result.dim() <= 4
            if fits and result.isfinite().all() and result.abs().max() < 20:
                self.steps.append((make.__name__, operation, operands))
                values.append(result)
            else:
                del draw.weights[had:]
            if len(self.steps) == operations:
                break
        return values

    @staticmethod
    def _operand(draw: Draw, count: int) -> int:
        return count - 1 - draw.random.randrange(min(3, count)) if draw.chance(0.6) else draw.random.randrange(count)

    def _new_state(self, draw: Draw, values: Sequence[Tensor], number: int) -> Operation:
        """A value, brought to the shape of a state in one way or another, and kept small."""
        shape, first = self.state_shapes[number], len(self.input_shapes)
        size = math.prod(shape)
        same = [k for k, each in enumerate(values) if each.shape[1:] == shape and k != first + number]
        as_many = [k for k, each in enumerate(values) if each[0].numel() == size]
        source = draw.choice(as_many) if draw.chance(0.6) else len(values) - 1 - draw.random.randrange(2)
        other = draw.choice(same) if same else first + number
        width = values[source][0].numel()
        k, b = draw.weight(width, size), draw.weight(size)

        def fitted(weights: Any, seen: Sequence[Tensor]) -> Tensor:
            value = seen[source].flatten(1) if seen[source].dim() > 1 else seen[source].unsqueeze(1)
            if width == size:
                return value.reshape(value.shape[0], *shape)
            return (value @ weights[k] + weights[b]).reshape(value.shape[0], *shape)

        ways: list[Operation] = [
            lambda weights, seen: torch.tanh(fitted(weights, seen)),
            lambda weights, seen: torch.tanh(fitted(weights, seen)),
            lambda weights, seen: 0.5 * seen[first + number] + 0.5 * torch.tanh(fitted(weights, seen)),
            lambda weights, seen: torch.lerp(
                seen[first + number], torch.tanh(fitted(weights, seen)), torch.sigmoid(seen[other])
            ),
        ]
        if draw.chance(0.15):  # handed on as it is, in the place of another, or not at all
            ways = [
                lambda weights, seen: seen[first + number],
                lambda weights, seen: torch.tanh(seen[other]),
                lambda weights, seen: torch.zeros_like(seen[first + number]),
            ]
            swaps = [each for each in same if each < first + len(self.state_shapes)]
            if swaps:
                swap = draw.choice(swaps)
                ways = [lambda weights, seen: seen[swap]]
        return draw.choice(ways)

    def _draw_outputs(self, draw: Draw, values: Sequence[Tensor]) -> list[Operation]:
        count, states = draw.random.randint(1, 3), len(self.state_shapes)

        def one() -> Operation:
            k = len(values) - 1 - draw.random.randrange(min(4, len(values)))
            state = draw.random.randrange(states)
            ways: list[Operation] = [
                lambda weights, seen, new: seen[k],
                lambda weights, seen, new: torch.tanh(seen[k]),
                lambda weights, seen, new: new[state],
                lambda weights, seen, new: new[state] * 2,
                lambda weights, seen, new: torch.cat([each.reshape(each.shape[0], -1) for each in new], 1),
            ]
            return draw.choice(ways)

        return [one() for _ in range(count)]

    def forward(self, inputs: Any, state: Any) -> Any:
        seen, weights = [*inputs, *state], list(self.weights)
        for _, operation, operands in self.steps:
            seen.append(operation(weights, *(seen[k] for k in operands)))
        new = [operation(weights, seen) for operation in self._new_states]
        return [operation(weights, seen, new) for operation in self._outputs], new

    @property
    def operations(self) -> list[str]:
        """What was drawn."""
        return [name for name, _, _ in self.steps]

    def __str__(self) -> str:
        shapes = {f"x{k}": shape for k, shape in enumerate(self.input_shapes)}
        shapes |= {f"h{k}": shape for k, shape in enumerate(self.state_shapes)}
        names = [*shapes, *(f"v{k}" for k in range(len(self.steps)))]
        lines = [
            f"v{k} = {name}({', '.join(names[operand] for operand in operands)})"
            for k, (name, _, operands) in enumerate(self.steps)
        ]
        given = ", ".join(f"{name}{list(shape)}" for name, shape in shapes.items())
        return "\n".join([f"seed {self.seed}: {given}", *lines])
