"""What cannot be planned runs in the plain loop, with the same result and a reason on record."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.user_cells import USER_CELLS
from tests.zoo import ZOO, inputs_for
from unspool import (
    DropoutWrapper,
    EmbeddingWrapper,
    GRUCell,
    LSTMCell,
    PerformanceWarning,
    RNNCell,
    dynamic_rnn,
    explain,
    static_rnn,
)
from unspool.engine import Request, reasons
from unspool.engine.execute import plain
from unspool.engine.plans import making
from unspool.engine.reasons import CannotPlanError
from unspool.engine.run import prepare
from unspool.structure import flatten, map_structure


class Step(RNNCell):
    """A GRU whose state goes through a function of the caller's."""

    def __init__(self, change: Callable[..., Tensor], units: int = 4, depth: int = 3) -> None:
        super().__init__()
        self.state_size = self.output_size = units
        self.mix = nn.Linear(depth + units, units)
        self.change = change

    def forward(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        state = self.change(self, torch.tanh(self.mix(torch.cat([inputs, state], 1))))
        return state, state


def reason(cell: Any, inputs: Tensor | None = None, state: Any = None) -> str:
    """Why the engine leaves a cell to the plain loop."""
    inputs = torch.randn(5, 3, 3) if inputs is None else inputs
    state = cell.zero_state(inputs.shape[1], torch.float32) if state is None else state
    with pytest.raises(CannotPlanError) as caught:
        prepare(Request(cell, inputs, None, state, torch.float32))
    return str(caught.value)


def equals_the_plain_loop(cell: Any, inputs: Tensor | None = None, **options: Any) -> None:
    inputs = torch.randn(5, 3, 3) if inputs is None else inputs
    state = cell.zero_state(inputs.shape[1], torch.float32)
    found = dynamic_rnn(cell, inputs, initial_state=state, time_major=True, **options)
    expected = plain.run(cell, inputs, None, state, torch.float32)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)


def centred(cell: Any, h: Tensor) -> Tensor:
    return h - h.mean(0)


def side_by_side(cell: Any, h: Tensor) -> Tensor:
    both, rows = torch.cat([h, h.square()], 0), h.shape[0]
    return both[:rows] + both[rows:]


def branching(cell: Any, h: Tensor) -> Tensor:
    return h * 2 if h.sum() > 0 else -h


def noting(cell: Any, h: Tensor) -> Tensor:
    cell.seen = h
    return h


def by_length(cell: Any, h: Tensor) -> Tensor:
    return h / len(h)


def through_numpy(cell: Any, h: Tensor) -> Tensor:
    return h + torch.from_numpy(h.detach().numpy().copy())


def selecting(cell: Any, h: Tensor) -> Tensor:
    return h + h[h > 0].sum()


REFUSED = {
    "rows that are averaged": (centred, "mean works across rows, in `"),
    "rows that are appended": (side_by_side, "cat appends rows to rows, in `"),
    "a branch on values": (branching, "control flow or shapes depend on the values of tensors, in `return h"),
    "an attribute that every step sets": (noting, "the step writes seen, and never reads it"),
    "the number of rows": (by_length, "the step depends on the number of rows"),
    "NumPy": (through_numpy, "the step cannot be traced"),
    "a selection by values": (selecting, "depend on the values of tensors|cannot be traced"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_step_does_that_is_not_planned(name: str) -> None:
    change, expected = REFUSED[name]
    found = reason(Step(change))
    assert re.search(expected, found), found
    equals_the_plain_loop(Step(change))


def test_a_buffer_that_every_step_changes() -> None:
    class Counting(Step):
        def __init__(self) -> None:
            super().__init__(lambda cell, h: h + cell.count.add_(1))
            self.register_buffer("count", torch.zeros(()))

    assert "the step changes count in place" in reason(Counting())
    one, other = Counting(), Counting()
    other.load_state_dict(one.state_dict())
    inputs = torch.randn(3, 5, 3)
    found, _ = dynamic_rnn(one, inputs, dtype=torch.float32)
    expected, _ = static_rnn(other, list(inputs.unbind(1)), dtype=torch.float32)
    torch.testing.assert_close(found, torch.stack(expected, 1))
    assert one.count == other.count == 5


def test_batch_normalisation_in_training() -> None:
    cell = Step(lambda cell, h: F.batch_norm(h, None, None, training=True))
    assert "batch_norm" in reason(cell)
    equals_the_plain_loop(cell)


@pytest.mark.parametrize("kind", ["forward_pre_hook", "forward_hook", "full_backward_hook", "full_backward_pre_hook"])
def test_hooks_see_every_step(kind: str) -> None:
    cell, seen = Step(lambda cell, h: h), list[Any]()
    getattr(cell.mix, f"register_{kind}")(lambda *arguments: seen.append(arguments))
    assert "mix has hooks" in reason(cell)
    outputs, _ = dynamic_rnn(cell, torch.randn(2, 5, 3, requires_grad=True), dtype=torch.float32)
    outputs.sum().backward()
    assert len(seen) == 5


def test_hooks_on_all_modules() -> None:
    cell, seen = GRUCell(4, input_size=3), list[Any]()
    handle = nn.modules.module.register_module_forward_hook(lambda module, *_: seen.append(module))
    try:
        assert "hooks on all modules" in reason(cell)
        dynamic_rnn(cell, torch.randn(2, 5, 3), dtype=torch.float32)
    finally:
        handle.remove()
    assert seen == [cell] * 5


def test_a_compiled_cell() -> None:
    compiled: Any = torch.compile(GRUCell(4, input_size=3), backend="eager")
    assert "compiled by torch.compile" in reason(compiled)


# torch's own rules for forward mode still use torch.jit.
forward_mode = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")


@forward_mode
def test_transforms_of_torch_func() -> None:
    cell, inputs = LSTMCell(4, input_size=3).double(), torch.randn(2, 5, 3, dtype=torch.float64)

    def loss(x: Tensor) -> Tensor:
        return dynamic_rnn(cell, x, [5, 3], dtype=torch.float64)[0].sin().sum()

    x = inputs.clone().requires_grad_()
    (expected,) = torch.autograd.grad(loss(x), x)
    torch.testing.assert_close(torch.func.grad(loss)(inputs), expected, rtol=1e-10, atol=1e-12)
    _, tangent = torch.func.jvp(loss, (inputs,), (torch.ones_like(inputs),))
    torch.testing.assert_close(tangent, expected.sum(), rtol=1e-10, atol=1e-12)
    batch = torch.randn(3, 2, 5, 3, dtype=torch.float64)
    mapped = torch.func.vmap(lambda x: dynamic_rnn(cell, x, dtype=torch.float64)[0])(batch)
    looped = torch.stack([dynamic_rnn(cell, x, dtype=torch.float64)[0] for x in batch])
    torch.testing.assert_close(mapped, looped, rtol=1e-10, atol=1e-12)


@forward_mode
def test_forward_mode_differentiation() -> None:
    cell, inputs = LSTMCell(4, input_size=3).double(), torch.randn(2, 5, 3, dtype=torch.float64)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(inputs, torch.ones_like(inputs))
        outputs, _ = dynamic_rnn(cell, dual, dtype=torch.float64)
        tangent = torch.autograd.forward_ad.unpack_dual(outputs).tangent
    x = inputs.clone().requires_grad_()
    (expected,) = torch.autograd.grad(dynamic_rnn(cell, x, dtype=torch.float64)[0].sum(), x)
    assert tangent is not None
    torch.testing.assert_close(tangent.sum(), expected.sum(), rtol=1e-10, atol=1e-12)


def test_an_ensemble_of_cells_by_vmap() -> None:
    """vmap over the weights of several cells gives what a Python loop over the cells gives, gradients included."""
    torch.manual_seed(0)
    cells = [LSTMCell(4, input_size=3).double() for _ in range(3)]
    parameters, _ = torch.func.stack_module_state(cells)  # pyright: ignore[reportArgumentType]
    inputs = torch.randn(2, 5, 3, dtype=torch.float64)

    class Loop(nn.Module):
        def __init__(self, cell: nn.Module) -> None:
            super().__init__()
            self.cell = cell

        def forward(self, x: Tensor) -> Tensor:
            return dynamic_rnn(self.cell, x, [5, 2], dtype=torch.float64)[0]

    loop = Loop(cells[0])

    def loss(weights: dict[str, Tensor]) -> Tensor:
        named = {f"cell.{name}": weight for name, weight in weights.items()}
        return torch.func.functional_call(loop, named, (inputs,)).sin().sum()

    losses = torch.func.vmap(loss)(parameters)
    gradients = torch.func.vmap(torch.func.grad(loss))(parameters)
    for number, cell in enumerate(cells):
        expected = Loop(cell)(inputs).sin().sum()
        torch.testing.assert_close(losses[number], expected, rtol=1e-10, atol=1e-12)
        found = torch.autograd.grad(expected, list(cell.parameters()))
        for (name, _), gradient in zip(cell.named_parameters(), found, strict=True):
            torch.testing.assert_close(gradients[name][number], gradient, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("lengths", [None, [3, 1]], ids=["full", "lengths"])
@pytest.mark.parametrize("name", ["lstm", "gru", "stack", "embedding", "nested"])
def test_gradients_of_gradients(name: str, lengths: Any) -> None:
    torch.manual_seed(4)
    cell, inputs = ZOO[name]().double(), inputs_for(name, 2, 3)
    state = map_structure(lambda leaf: torch.randn_like(leaf), cell.zero_state(2, torch.float64))
    dynamic_rnn(cell, inputs, lengths, state)
    sources = [leaf for leaf in flatten(inputs) if leaf.is_floating_point()] + flatten(state) + list(cell.parameters())
    sources = [source.detach().requires_grad_() for source in sources[:4]]

    def run(*changes: Tensor) -> list[Tensor]:
        leaves = iter(changes)
        x = map_structure(lambda leaf: next(leaves) if leaf.is_floating_point() else leaf, inputs)
        start = map_structure(lambda leaf: next(leaves, leaf), state)
        outputs, final = dynamic_rnn(cell, x, lengths, start)
        return [*flatten(outputs), *flatten(final)]

    floating = sum(leaf.is_floating_point() for leaf in flatten(inputs)) + len(flatten(state))
    assert torch.autograd.gradgradcheck(run, sources[:floating])


def test_gradients_of_gradients_of_the_weights() -> None:
    torch.manual_seed(5)
    cell, inputs = LSTMCell(2, input_size=2).double(), torch.randn(2, 3, 2, dtype=torch.float64)
    outputs, _ = dynamic_rnn(cell, inputs, [3, 2], dtype=torch.float64)
    gradients = torch.autograd.grad(outputs.sin().sum(), list(cell.parameters()), create_graph=True)
    penalty = torch.stack([gradient.square().sum() for gradient in gradients]).sum()
    found = torch.autograd.grad(penalty, list(cell.parameters()))

    listed, _ = static_rnn(cell, list(inputs.unbind(1)), dtype=torch.float64, sequence_length=[3, 2])
    gradients = torch.autograd.grad(torch.stack(listed, 1).sin().sum(), list(cell.parameters()), create_graph=True)
    penalty = torch.stack([gradient.square().sum() for gradient in gradients]).sum()
    expected = torch.autograd.grad(penalty, list(cell.parameters()))
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("lengths", [None, [4, 1, 3]], ids=["full", "lengths"])
def test_gradients_of_gradients_see_the_same_draws(lengths: Any) -> None:
    """The gradient that has a gradient is the one that has none."""
    user = USER_CELLS["dropout_zoneout"]
    cell, inputs, state = user.make(), user.inputs(3, 4).requires_grad_(), user.state(3)
    outputs, _ = dynamic_rnn(cell, inputs, lengths, state)
    (expected,) = torch.autograd.grad(outputs.sin().sum(), inputs, retain_graph=True)
    (found,) = torch.autograd.grad(outputs.sin().sum(), inputs, create_graph=True)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("cell", [lambda: LSTMCell(8, input_size=6), lambda: GRUCell(8, input_size=6)])
def test_autocast_gives_what_the_plain_loop_gives(cell: Callable[[], Any], dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    made, inputs = cell(), torch.randn(5, 3, 6, requires_grad=True)
    state = made.zero_state(3, torch.float32)

    def run(loop: Callable[..., Any]) -> list[Tensor]:
        with torch.autocast("cpu", dtype=dtype):
            outputs, final = loop()
        loss = outputs.float().sin().sum()
        return [outputs, *flatten(final), *torch.autograd.grad(loss, [inputs, *made.parameters()])]

    found = run(lambda: dynamic_rnn(made, inputs, initial_state=state, time_major=True))
    expected = run(lambda: plain.run(made, inputs, None, state, torch.float32))
    assert [each.dtype for each in found] == [each.dtype for each in expected]
    # Both compute products in half precision, whose rounding is 2**-8, in another order.
    torch.testing.assert_close(found, expected, rtol=0.02, atol=0.02)
    outside, _ = dynamic_rnn(made, inputs, initial_state=state, time_major=True)
    assert not torch.equal(outside, found[0])  # the plan for autocast is another one


def test_the_reason_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    class Averaging(Step):
        pass

    cell = Averaging(lambda cell, h: h - h.mean(0))
    with caplog.at_level(logging.INFO, "unspool"):
        for _ in range(3):
            dynamic_rnn(cell, torch.randn(2, 4, 3), dtype=torch.float32)
    messages = [record.getMessage() for record in caplog.records if "Averaging" in record.getMessage()]
    assert len(messages) == 1
    assert "runs in the plain loop, one step after another: mean works across rows" in messages[0]


def test_an_error_of_the_cell_is_its_own() -> None:
    cell = EmbeddingWrapper(GRUCell(4), 10, 3)
    dynamic_rnn(cell, torch.zeros(2, 3, 1, dtype=torch.int64), dtype=torch.float32)
    with pytest.raises(IndexError, match=r"an id is not in \[0, 10\): there are 10 classes"):
        dynamic_rnn(cell, torch.full((2, 3, 1), 10), dtype=torch.float32)


def test_too_many_changes_of_attributes_are_left_to_the_plain_loop() -> None:
    """A number that changes at every call must not cost a trace at every call."""
    cell = Step(lambda cell, h: h * cell.scale)
    inputs = torch.randn(2, 4, 3)
    for number in range(20):
        cell.scale = 1 + number / 10
        outputs, _ = dynamic_rnn(cell, inputs, dtype=torch.float32)
        expected, _ = static_rnn(cell, list(inputs.unbind(1)), dtype=torch.float32)
        torch.testing.assert_close(outputs, torch.stack(expected, 1), rtol=1e-6, atol=1e-6)
    assert "changed more than" in reason(cell)


def test_a_variational_dropout_runs_in_the_plain_loop() -> None:
    cell = DropoutWrapper(GRUCell(4, input_size=3), 0.5, variational_recurrent=True, input_size=3, dtype=torch.float32)
    assert "the step changes the cell: _masks" in reason(cell)


def test_tracing_leaves_no_marks_on_the_cell() -> None:
    """What a step notes down, in attributes or in a list it closes over, is what real steps note down."""
    seen: list[Any] = []
    cell = Step(lambda cell, h: seen.append(h) or h)
    dynamic_rnn(cell, torch.randn(2, 4, 3), dtype=torch.float32)
    assert len(seen) == 4
    assert all(type(each) is Tensor for each in seen)
    parameters = dict(cell.named_parameters())
    assert all(type(each) is nn.Parameter for each in parameters.values())


def test_a_fault_of_the_engine_is_not_blamed_on_the_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(traced: Any) -> Any:
        raise ValueError("no such thing\nsecond line")

    monkeypatch.setattr(making, "Plan", fail)
    cell, inputs = LSTMCell(3, initializer=nn.init.ones_), torch.randn(2, 4, 5)  # a cell that no other test has planned
    told = explain(cell, inputs, dtype=torch.float32)
    assert told.reason is not None
    assert str(told.reason).startswith("the engine fails on the step; please report it: ValueError: no such thing")
    outputs, _ = dynamic_rnn(cell, inputs, dtype=torch.float32)
    expected, _ = static_rnn(cell, list(inputs.unbind(1)), dtype=torch.float32)
    torch.testing.assert_close(outputs, torch.stack(list(expected), 1))


def test_the_users_file_is_read_for_advice_only_where_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    def again(cell: Any, h: Tensor) -> Tensor:
        return h * 3 if h.sum() > 0 else -h

    class Branching(Step):
        """Of which nothing has been said yet."""

    read: list[str] = []
    monkeypatch.setattr(reasons, "as_selection", lambda file, number: read.append(file))
    cell = Branching(again)
    with pytest.warns(PerformanceWarning, match="torch.where"):
        equals_the_plain_loop(cell)
    assert len(read) == 1
    equals_the_plain_loop(cell)
    assert len(read) == 1
