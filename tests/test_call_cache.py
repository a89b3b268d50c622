"""Calls that look like an earlier one are neither checked nor prepared again, unless something is not as it was."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from unspool import BasicLSTMCell, Checkpoint, Keep, LSTMStateTuple, Recompute, RNNCell, dynamic_rnn, static_rnn
from unspool.engine import Memory, run
from unspool.engine.known import cache

BATCH, STEPS, UNITS = 3, 5, 4


class Own(RNNCell):
    """A cell as users write it, with everything where a user may change it."""

    def __init__(self) -> None:
        super().__init__()
        self.state_size = self.output_size = UNITS
        self.mix = nn.Linear(2 * UNITS, UNITS, dtype=torch.float64)
        self.scale = 1.0
        self.has_nothing_to_build()

    def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.tanh(self.scale * self.mix(torch.cat([x, h], 1)))
        return h, h


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The cells of calls that had to be prepared."""
    found, prepare = list[Any](), run.prepare
    monkeypatch.setattr(run, "prepare", lambda request, *more: (found.append(request.cell), prepare(request, *more))[1])
    return found


def inputs_of(seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(BATCH, STEPS, UNITS, generator=generator, dtype=torch.float64).requires_grad_()


def by_loop(own: Any, seed: int, **options: Any) -> list[Tensor]:
    """Outputs, the final state, and the gradients of inputs and weights."""
    inputs = inputs_of(seed)
    outputs, state = dynamic_rnn(own, inputs, **options)
    total = outputs.square().sum() + (state.sum() if isinstance(state, Tensor) else state.c.sum())
    return [outputs.detach(), *torch.autograd.grad(total, [inputs, *own.parameters()])]


def step_by_step(own: Any, seed: int, **options: Any) -> list[Tensor]:
    """The same by the chain of the cell's calls."""
    inputs = inputs_of(seed)
    outputs, state = static_rnn(own, list(inputs.unbind(1)), dtype=torch.float64, **options)
    stacked = torch.stack(outputs, 1)
    total = stacked.square().sum() + (state.sum() if isinstance(state, Tensor) else state.c.sum())
    return [stacked.detach(), *torch.autograd.grad(total, [inputs, *own.parameters()])]


def assert_close(found: list[Tensor], expected: list[Tensor]) -> None:
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def known(own: Any) -> dict[Any, Any]:
    return cache._known.find(own) or {}


def called_often(make: Callable[[], Any] = Own) -> Any:
    torch.manual_seed(0)
    own = make()
    for seed in range(3):
        by_loop(own, seed)
    assert len(known(own)) == 1
    return own


@pytest.mark.parametrize("make", [Own, lambda: BasicLSTMCell(UNITS, input_size=UNITS).double()], ids=["own", "lstm"])
@pytest.mark.parametrize("memory", [None, Keep(), Recompute(), Checkpoint(every=2)], ids=str)
def test_from_the_third_on_calls_have_their_own_numbers_and_gradients(
    make: Callable[[], Any], memory: Any, prepared: list[Any]
) -> None:
    torch.manual_seed(0)
    own = make()
    optimizer = torch.optim.SGD(own.parameters(), lr=0.1)
    for seed in range(6):
        expected = step_by_step(own, seed)
        assert_close(by_loop(own, seed, memory=memory), expected)
        for weight, gradient in zip(own.parameters(), expected[2:], strict=True):
            weight.grad = gradient
        optimizer.step()
    assert len(prepared) == 2


def test_a_state_that_is_given_is_each_calls_own(prepared: list[Any]) -> None:
    own = BasicLSTMCell(UNITS, input_size=UNITS).double()
    for seed in range(5):
        c, h = torch.randn(2, BATCH, UNITS, dtype=torch.float64).requires_grad_()
        found = []
        for loop in (by_loop, step_by_step):
            found.append(loop(own, seed, initial_state=LSTMStateTuple(c=c, h=h)))
        assert_close(*found)
    assert len(prepared) == 2


def test_gradients_of_gradients_are_those_of_the_steps(prepared: list[Any]) -> None:
    own, both = called_often(), list[Tensor]()
    prepared.clear()
    for loop in (lambda inputs: dynamic_rnn(own, inputs)[0], lambda inputs: chained(own, inputs)):
        inputs = inputs_of(1)
        (first,) = torch.autograd.grad(loop(inputs).square().sum(), inputs, create_graph=True)
        both += torch.autograd.grad(first.square().sum(), inputs)
    torch.testing.assert_close(*both, rtol=1e-10, atol=1e-10)
    assert not prepared


def chained(own: Any, inputs: Tensor) -> Tensor:
    return torch.stack(static_rnn(own, list(inputs.unbind(1)), dtype=torch.float64)[0], 1)


class Passes(RNNCell):
    """Hands a part of its state on as it is."""

    def __init__(self) -> None:
        super().__init__()
        self.state_size, self.output_size = (UNITS, UNITS), UNITS
        self.has_nothing_to_build()

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        c, h = state
        h = torch.tanh(x + h + c)
        return h, (c, h)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_first_state_is_the_callers_if_a_result_is(mode: Any, prepared: list[Any]) -> None:
    own, inputs = Passes(), inputs_of(1).detach()
    with mode():
        expected = dynamic_rnn(own, inputs)[0].clone()
        results = [dynamic_rnn(own, inputs) for _ in range(4)]
        for _, (c, _) in results:
            c.data.fill_(5.0)
        outputs, (c, _) = dynamic_rnn(own, inputs)
        assert torch.equal(outputs, expected)
        assert not c.any()
        assert c.is_inference() == (mode is torch.inference_mode)
        assert len({each.data_ptr() for _, (each, _) in results}) == len(results)
    assert len(prepared) == 2


def test_a_policy_need_not_be_hashable() -> None:
    @dataclass
    class Mine(Memory):
        every: int = 1

        def schedule(self, plan: Any) -> Any:
            return plan.keep

    own = called_often()
    for _ in range(3):
        assert_close(by_loop(own, 1, memory=Mine()), step_by_step(own, 1))


def test_what_a_property_of_the_cell_says_is_asked_for_again() -> None:
    told = {"default_dtype": torch.float32}

    class Told(Passes):
        @property
        def default_dtype(self) -> torch.dtype:
            return told["default_dtype"]

    own, inputs = Told(), torch.zeros(BATCH, STEPS, UNITS)
    for _ in range(3):
        assert dynamic_rnn(own, inputs)[0].dtype == torch.float32
    told["default_dtype"] = torch.float64
    assert dynamic_rnn(own, inputs)[0].dtype == torch.float64


def test_training_and_evaluation_may_take_turns(prepared: list[Any]) -> None:
    own = called_often()
    for turn in range(5):
        assert dynamic_rnn(own, inputs_of(turn))[0].requires_grad
        with torch.no_grad():
            dynamic_rnn(own, inputs_of(turn))
    assert len(prepared) == 4


CHANGES: dict[str, Callable[[Any], object]] = {
    "a number": lambda own: setattr(own, "scale", 2.0),
    "a weight": lambda own: setattr(own.mix, "weight", nn.Parameter(own.mix.weight.detach() * 2)),
    "a weight's gradient": lambda own: own.mix.bias.requires_grad_(False),
    "a hook": lambda own: own.mix.register_forward_hook(lambda module, given, result: 2 * result),
    "its step": lambda own: setattr(own, "forward", lambda x, h: (x + h, x + h)),
    "its first state": lambda own: setattr(
        own, "zero_state", lambda rows, dtype, device=None: torch.ones(rows, UNITS, dtype=dtype)
    ),
}


@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.filterwarnings("ignore::unspool.PerformanceWarning")
def test_a_change_of_the_cell_is_seen(what: str, prepared: list[Any]) -> None:
    own = called_often()
    prepared.clear()
    CHANGES[what](own)
    outputs, _ = dynamic_rnn(own, inputs_of(0))
    stepped, _ = static_rnn(own, list(inputs_of(0).unbind(1)), dtype=torch.float64)
    torch.testing.assert_close(outputs, torch.stack(stepped, 1), rtol=1e-12, atol=1e-12)
    assert prepared == [own]


@pytest.mark.parametrize("name", ["zero_state", "start_sequence"])
def test_a_change_of_the_cells_class_is_seen(name: str, prepared: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    class Changed(Own):
        pass

    own, began = called_often(Changed), list[bool]()
    prepared.clear()

    def ones(self: Any, rows: int, dtype: Any, device: Any = None) -> Tensor:
        began.append(True)
        return torch.ones(rows, UNITS, dtype=dtype)

    monkeypatch.setattr(Changed, name, ones if name == "zero_state" else lambda self: began.append(True), raising=False)
    dynamic_rnn(own, inputs_of(0))
    assert began
    assert prepared == [own]


MISTAKES: dict[str, tuple[dict[str, Any], type[Exception]]] = {
    "time_major": ({"time_major": 0}, TypeError),
    "swap_memory": ({"swap_memory": 0}, TypeError),
    "parallel_iterations": ({"parallel_iterations": -1}, TypeError),
    "parallel_iterations, a float": ({"parallel_iterations": 1.0}, AssertionError),
    "memory": ({"memory": ["Keep"]}, TypeError),
    "sequence_length": ({"sequence_length": [6, 1, 1]}, ValueError),
    "sequence_length, a tensor": ({"sequence_length": torch.tensor([6, 1, 1])}, ValueError),
    "initial_state": ({"initial_state": torch.float64}, TypeError),
    "scope": ({"scope": 3}, TypeError),
}


@pytest.mark.parametrize("what", MISTAKES)
@pytest.mark.filterwarnings("ignore::unspool.PerformanceWarning")
def test_mistakes_are_found_however_often_a_cell_has_run(what: str) -> None:
    own, (options, error) = called_often(), MISTAKES[what]
    for _ in range(3):
        with pytest.raises(error):
            dynamic_rnn(own, inputs_of(0), **options)


def test_another_container_of_a_state_is_an_error_as_before() -> None:
    own = BasicLSTMCell(UNITS, input_size=UNITS).double()
    c, h = torch.zeros(2, BATCH, UNITS, dtype=torch.float64)
    for _ in range(4):
        dynamic_rnn(own, inputs_of(0), initial_state=LSTMStateTuple(c=c, h=h))
    assert known(own)
    with pytest.raises(TypeError, match="LSTMStateTuple"):
        dynamic_rnn(own, inputs_of(0), initial_state=(c, h))


def test_modes_are_told_apart(prepared: list[Any]) -> None:
    own = called_often()
    expected = by_loop(own, 1)[0]
    for _ in range(3):
        with torch.no_grad():
            assert not dynamic_rnn(own, inputs_of(1))[0].requires_grad
        with torch.inference_mode():
            assert dynamic_rnn(own, inputs_of(1))[0].is_inference()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            dynamic_rnn(own, inputs_of(1))
        outputs, _ = dynamic_rnn(own, inputs_of(1))
        assert outputs.requires_grad
        assert torch.equal(outputs, expected)


def test_lengths_on_the_host_are_looked_at(prepared: list[Any]) -> None:
    own = called_often()
    for lengths in ([5, 2, 0], [1, 1, 4], [5, 5, 5]):
        outputs, _ = dynamic_rnn(own, inputs_of(1), torch.tensor(lengths))
        assert [int((row.abs().sum(1) > 0).sum()) for row in outputs] == lengths


def test_what_fails_is_said_as_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    own = called_often()

    def fails(*_: Any) -> Any:
        raise RuntimeError("a fault")

    expected = step_by_step(own, 1)[0]
    monkeypatch.setattr("unspool.engine.known.guarded.run_call", fails)
    monkeypatch.setattr(run, "run_call", fails)
    with pytest.warns(RuntimeWarning, match="a fault"):
        outputs, _ = dynamic_rnn(own, inputs_of(1))
    torch.testing.assert_close(outputs.detach(), expected, rtol=1e-12, atol=1e-12)


def test_so_many_are_known_and_they_go_with_their_cell(prepared: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MOST", 4)
    own = Own()
    for steps in range(1, 8):
        for _ in range(2):
            dynamic_rnn(own, torch.zeros(BATCH, steps, UNITS, dtype=torch.float64))
    assert len(known(own)) == 4
    prepared.clear()
    dynamic_rnn(own, torch.zeros(BATCH, 7, UNITS, dtype=torch.float64))  # the latest are known
    assert not prepared
    gone = weakref.ref(own)
    before = len(cache._known._kept)
    del own
    gc.collect()
    assert gone() is None
    assert len(cache._known._kept) < before
