"""What has no gradient in the plain loop has none in a planned one: no `requires_grad`, and None for its gradient."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from unspool import Checkpoint, Keep, Recompute, RNNCell, dynamic_rnn
from unspool.engine import Options, Request
from unspool.engine.execute import plain
from unspool.engine.execute.autograd import run_call
from unspool.engine.run import prepare
from unspool.structure import flatten

UNITS, ROWS = 2, 3


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled or not makes no difference here, but for the time it takes."""
    monkeypatch.setenv("UNSPOOL_EMIT", "interpreted")


class Wired(RNNCell):
    """Any step with several states, outputs and weights of one size."""

    def __init__(self, states: int, outputs: int, weights: int, step: Callable[..., Any]) -> None:
        super().__init__()
        self.state_size, self.output_size = (UNITS,) * states, (UNITS,) * outputs
        self.weights = nn.ParameterList(nn.Parameter(torch.randn(UNITS, dtype=torch.float64)) for _ in range(weights))
        self.step = step

    def forward(self, x: Any, state: Any) -> tuple[Any, Any]:
        outputs, new = self.step(self.weights, x, state)
        return tuple(outputs), tuple(new)


class FirstOnly(torch.autograd.Function):
    """The sum of two, of which the second gets no gradient."""

    @staticmethod
    def forward(ctx: Any, one: Tensor, other: Tensor) -> Tensor:
        return one + other

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return gradient, None


def numbers(*shape: int) -> Tensor:
    return torch.randn(*shape, UNITS, dtype=torch.float64)


def seen(cell: Any, x: Any, lengths: Any, state: Any, run: Callable[..., Any]) -> list[Any]:
    """For every result whether it has a gradient, and of which sources; of all results together, too."""
    outputs, final = run(cell, x, lengths, state)
    results = [*flatten(outputs), *flatten(final)]
    sources = [each for each in [*flatten(x), *flatten(state), *cell.parameters()] if each.requires_grad]
    ends = [each for each in results if each.requires_grad]
    found: list[Any] = [each.requires_grad for each in results]
    for chosen in [[end] for end in ends] + [ends] * (len(ends) > 1):
        loss = sum((end * end.detach().cos()).sum() for end in chosen)
        gradients = torch.autograd.grad(loss, sources, allow_unused=True, retain_graph=True)
        found += [[] if each is None else each.tolist() for each in gradients]
    return found


def by_plan(cell: Any, x: Any, lengths: Any, state: Any, memory: Any = None) -> Any:
    prepare(Request(cell, x, lengths, state, torch.float64))  # there is a plan
    return dynamic_rnn(cell, x, lengths, state, torch.float64, time_major=True, memory=memory)


def by_plain_loop(cell: Any, x: Any, lengths: Any, state: Any) -> Any:
    return plain.run(cell, x, lengths, state, torch.float64)


def assert_same_gradients(cell: Any, x: Any, lengths: Any, state: Any) -> None:
    """The same are None, and the others equal up to the order of sums, in float64."""
    given = None if lengths is None else torch.tensor(lengths)
    expected = seen(cell, x, given, state, by_plain_loop)
    found = seen(cell, x, given, state, by_plan)
    assert [each == [] or each for each in map(_outline, found)] == [
        each == [] or each for each in map(_outline, expected)
    ]
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(torch.tensor(one), torch.tensor(other), rtol=1e-9, atol=1e-9)


def _outline(each: Any) -> Any:
    return each if isinstance(each, bool) or each == [] else "a gradient"


def shift(weights: Any, x: Tensor, state: Any) -> Any:
    a, b, c = state
    return [c * weights[0]], [x * weights[1], a, b]


def detached_output(weights: Any, x: Tensor, state: Any) -> Any:
    new = torch.tanh(x * weights[0] + state[0])
    return [new.detach(), new * 2], [new]


def unused_input(weights: Any, x: Tensor, state: Any) -> Any:
    return [state[0] * weights[0]], [torch.tanh(state[0]), x.detach() + 1]


def swap(weights: Any, x: Tensor, state: Any) -> Any:
    return [x.detach() * 2], [state[1] * 2, state[0] * 3]


def fresh(weights: Any, x: Tensor, state: Any) -> Any:
    """Nothing of the old state is left."""
    return [x * weights[0]], [torch.tanh(x)]


def through(weights: Any, x: Tensor, state: Any) -> Any:
    return [x], [state[0], state[1] + weights[0]]


def constant_derivative(weights: Any, x: Tensor, state: Any) -> Any:
    """Gradients of zero are gradients."""
    return [torch.floor(state[0]) + weights[0]], [torch.sign(x) + state[0] * 0]


def by_hand(weights: Any, x: Tensor, state: Any) -> Any:
    new = torch.tanh(FirstOnly.apply(x, state[0]))
    return [FirstOnly.apply(state[1], weights[0])], [new, FirstOnly.apply(new * weights[1], x)]


STEPS: dict[str, tuple[int, int, int, Callable[..., Any]]] = {
    "a shift register": (3, 1, 2, shift),
    "a detached output": (1, 2, 1, detached_output),
    "an input that is not used": (2, 1, 1, unused_input),
    "states that change places": (2, 1, 0, swap),
    "a state that is not used": (1, 1, 1, fresh),
    "states that pass through": (2, 1, 1, through),
    "derivatives of zero": (1, 1, 1, constant_derivative),
    "derivatives that are left out": (2, 1, 2, by_hand),
}


@pytest.mark.parametrize("steps", [1, 2, 3, 6])
@pytest.mark.parametrize("name", STEPS)
def test_the_same_gradients_are_missing(name: str, steps: int) -> None:
    torch.manual_seed(0)
    states, outputs, weights, step = STEPS[name]
    cell = Wired(states, outputs, weights, step)
    every = [
        [True] * states,
        [k == 0 for k in range(states)],
        [k == states - 1 for k in range(states)],
        [False] * states,
    ]
    for of_states in every:
        for of_x in (True, False):
            x = numbers(steps, ROWS).requires_grad_(of_x)
            state = tuple(numbers(ROWS).requires_grad_(each) for each in of_states)
            for lengths in (None, [steps, 0, steps - 1], [steps, max(steps - 2, 1), steps - 1], [steps] * 3):
                assert_same_gradients(cell, x, lengths, state)


def drawn_step(draw: random.Random, states: int, outputs: int, weights: int) -> Callable[..., Any]:
    """A step in which every result is a sum of some sources, each with or without a gradient."""
    ways: list[Callable[[Tensor], Tensor]] = [torch.sin, torch.tanh, Tensor.detach, lambda t: t, torch.floor]
    wires = [
        [(k, draw.choice(ways)) for k in range(weights + states + 1) if draw.random() < 0.4]
        for _ in range(outputs + states)
    ]

    def step(own: Any, x: Tensor, state: Any) -> Any:
        sources = [*own, x, *state]
        results = [sum((way(sources[k]) for k, way in each), torch.ones_like(x)) for each in wires]
        return results[:outputs], results[outputs:]

    return step


@pytest.mark.parametrize("seed", range(12))
def test_in_drawn_steps_the_same_gradients_are_missing(seed: int) -> None:
    draw = random.Random(seed)
    torch.manual_seed(seed)
    states, outputs, weights = draw.randint(1, 4), draw.randint(1, 2), draw.randint(0, 2)
    cell = Wired(states, outputs, weights, drawn_step(draw, states, outputs, weights))
    for steps in (1, 2, 3, 5):
        x = numbers(steps, ROWS).requires_grad_(draw.random() < 0.5)
        state = tuple(numbers(ROWS).requires_grad_(draw.random() < 0.5) for _ in range(states))
        assert_same_gradients(cell, x, None, state)
        assert_same_gradients(cell, x, [steps, draw.randint(0, steps), draw.randint(0, steps)], state)


def test_a_state_that_is_counted_beside_one_that_is_not() -> None:
    class Counting(RNNCell):
        state_size, output_size = (UNITS, 1), UNITS

        def forward(self, x: Tensor, state: Any) -> Any:
            h, count = state
            return h * 2, (torch.tanh(x + h), count + 1)

    x, h = numbers(3, ROWS).requires_grad_(), numbers(ROWS)
    count = torch.zeros(ROWS, 1, dtype=torch.int64)
    for lengths in (None, [3, 1, 2]):
        assert_same_gradients(Counting(), x, lengths, (h, count))


@pytest.mark.parametrize("memory", [Keep(), Recompute(), Checkpoint(every=2)], ids=str)
def test_results_that_are_all_detached_keep_nothing(memory: Any) -> None:
    """They are computed as without gradients."""
    cell = Wired(1, 1, 1, lambda weights, x, state: [[(x * weights[0]).detach()], [torch.tanh(x + state[0]).detach()]])
    x, state = numbers(3, ROWS).requires_grad_(), (numbers(ROWS).requires_grad_(),)
    call, tensors = prepare(Request(cell, x, None, state, torch.float64, Options(memory=memory)))
    assert call.memory is None
    saved: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda each: saved.append(each) or each, lambda each: each):
        results = run_call(call, tensors)
    assert not saved
    assert not any(each.requires_grad for each in results)
    torch.testing.assert_close(results[0], (x * cell.weights[0]).detach(), rtol=0, atol=0)
    # A row of length 0 has its own state, with its gradient.
    assert prepare(Request(cell, x, torch.tensor([3, 0, 1]), state, torch.float64))[0].memory is not None


def test_gradients_of_gradients_are_missing_too() -> None:
    torch.manual_seed(0)
    cell = Wired(3, 1, 2, shift)
    x, state = numbers(2, ROWS).requires_grad_(), tuple(numbers(ROWS).requires_grad_() for _ in range(3))
    sources = [x, *state, *cell.parameters()]

    def missing(run: Callable[..., Any]) -> Sequence[Any]:
        (outputs,), _ = run(cell, x, None, state)
        return torch.autograd.grad(outputs.sin().sum(), sources, create_graph=True, allow_unused=True)

    found, expected = missing(by_plan), missing(by_plain_loop)
    assert [each is None for each in found] == [each is None for each in expected]
    assert [each is None for each in found].count(True) == 3  # x, the first state and its weight


def test_a_weight_that_nothing_needs_keeps_no_gradient() -> None:
    cell = Wired(1, 1, 2, lambda weights, x, state: [[x * weights[0]], [state[0] * weights[1]]])
    (outputs,), _ = by_plan(cell, numbers(4, ROWS), None, (numbers(ROWS),))
    outputs.sum().backward()
    assert cell.weights[0].grad is not None
    assert cell.weights[1].grad is None
