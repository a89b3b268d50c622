"""Lengths that only a device knows: sorted there, read there by kernels, and nothing waits for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from tests.comparison import assert_same, loss_of, plain_loop, results, shared, wanting_gradients
from tests.device_lengths import by_lengths, keep_on_device
from tests.emitting import interpreter
from tests.emulator import emulated
from tests.emulator.cells import UNITS, problem
from tests.seen_operations import SeenOperations
from tests.user_cells import RANDOM, USER_CELLS
from unspool import Checkpoint, Keep, LSTMCell, OutputProjectionWrapper, Recompute, RNNCell, cell, dynamic_rnn, tracers
from unspool.engine.emit.cuda.loop.division import Units
from unspool.engine.emit.cuda.loop.tiles import Tiling

aten: Any = torch.ops.aten
WHOLE = Tiling(rows=2, warps=2)
DIVIDED = Tiling(Units(UNITS, 16), rows=8, warps=2)


class WaitsError(AssertionError):
    """The host would have waited for a device."""


class NoWaiting(TorchDispatchMode):
    """Fails on operations whose results the host looks at, or whose shapes depend on values."""

    WAIT = (
        aten._local_scalar_dense.default,
        aten.nonzero.default,
        aten.masked_select.default,
        aten.is_nonzero.default,
        aten.equal.default,
        aten.unique_dim.default,
    )

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in self.WAIT:
            raise WaitsError(str(func))
        if func is aten.index.Tensor and any(each is not None and each.dtype == torch.bool for each in args[1]):
            raise WaitsError(f"{func} by truths")
        return func(*args, **(kwargs or {}))


class Counted(TorchDispatchMode):
    """Counts operations that compute something: no views, and no memory that nothing is written to."""

    FREE = (
        "view",
        "t",
        "transpose",
        "expand",
        "slice",
        "select",
        "unsqueeze",
        "detach",
        "unbind",
        "empty",
        "empty_like",
    )

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func.overloadpacket.__name__ not in self.FREE
        return func(*args, **(kwargs or {}))


class NoLooking(TorchFunctionMode):
    """Fails on methods by which the host looks at values, some of which a dispatcher does not see on a CPU."""

    LOOK = {Tensor.item, Tensor.tolist, Tensor.cpu, Tensor.__bool__, Tensor.__int__, Tensor.__index__, Tensor.__float__}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in self.LOOK:
            raise WaitsError(str(func))
        return func(*args, **(kwargs or {}))


@pytest.fixture(autouse=True)
def lengths_stay_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    keep_on_device(monkeypatch)


@pytest.mark.parametrize("lengths", [[4, 0, 2], [0, 1, 0], [0, 0, 0], [4, 4, 4], [1, 2, 9]])
@pytest.mark.parametrize("options", [{}, dict(parallel_iterations=2)])
def test_divided_cells_equal_the_plain_loop(lengths: list[int], options: dict[str, Any]) -> None:
    own, inputs, state = problem("lstm", torch.float64)
    within = [min(each, 4) for each in lengths]  # as long lengths are clamped on a device
    expected = results(plain_loop, own, torch.float64, within, inputs, state)
    with emulated(tiling=DIVIDED) as emitter:
        assert_same(results(by_lengths(**options), own, torch.float64, lengths, inputs, state), expected)
        assert emitter.emulated.launches


@pytest.fixture(autouse=True)
def memory_holds_no_numbers() -> Iterator[None]:
    """What has never been written to is NaN, or the largest number, which is no index."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def test_memory_holds_no_numbers() -> None:
    assert torch.empty(2).isnan().all()
    assert torch.empty(2, dtype=torch.int64).min() > 1 << 60


@pytest.mark.parametrize("name", sorted({*USER_CELLS} - {*RANDOM}))
def test_user_cells_equal_the_plain_loop(name: str) -> None:
    own, dtype, inputs, state = shared(name)
    lengths = [7, 0, 3, 3, 1]
    expected = results(plain_loop, own, dtype, lengths, inputs, state)
    with emulated(tiling=WHOLE):
        assert_same(results(by_lengths(parallel_iterations=5), own, dtype, lengths, inputs, state), expected)


@pytest.mark.parametrize("memory", [Recompute(), Checkpoint(every=3)])
def test_every_policy_takes_them(memory: Any) -> None:
    own, inputs, state = problem("gru", torch.float64)
    expected = results(plain_loop, own, torch.float64, [4, 0, 2], inputs, state)
    with emulated(tiling=DIVIDED):
        assert_same(results(by_lengths(memory=memory), own, torch.float64, [4, 0, 2], inputs, state), expected)


def test_what_is_in_the_padding_is_in_no_result() -> None:
    def root(x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        new = torch.sqrt(h + torch.nn.functional.linear(torch.log(x), weight).exp())
        return new @ weight, new

    torch.manual_seed(0)
    weight = torch.randn(3, 3, dtype=torch.float64).requires_grad_()
    own = cell(root, state_size=3, output_size=3)
    inputs, state = torch.rand(3, 5, 3, dtype=torch.float64) + 0.5, torch.rand(3, 3, dtype=torch.float64)
    lengths = [3, 0, 1]
    for row, length in enumerate(lengths):
        inputs[row, length:] = torch.nan
    given = (own, torch.float64, lengths, inputs.requires_grad_(), state.requires_grad_())
    clean = [results(loop, *given) for loop in (plain_loop, by_lengths())]
    with emulated(tiling=WHOLE):
        outputs, final = by_lengths(parallel_iterations=2)(own, given[3], lengths, given[4], torch.float64)
        found = torch.autograd.grad(loss_of(outputs, final), [weight, given[3], given[4]])
    assert all(each.isfinite().all() for each in (outputs, final, *found))
    torch.testing.assert_close(outputs, clean[0]["outputs 0"])
    torch.testing.assert_close(found[2], clean[0]["gradient of state 0"])


@pytest.mark.parametrize("steps", [2, 5])
def test_what_is_computed_after_the_core_and_summed_is_computed_of_rows_that_run(steps: int) -> None:
    """The core leaves nothing of rows that have ended. Their gradients are zero, not what these are multiplied by."""

    def headed(x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        new = torch.tanh(x + h @ weight)
        return torch.sigmoid(new @ first) @ second + (new @ second) @ first, new

    torch.manual_seed(0)
    weight, first, second = (torch.randn(3, 3, dtype=torch.float64).requires_grad_() for _ in range(3))
    own = cell(headed, state_size=3, output_size=3)
    inputs, state = torch.randn(3, 5, 3, dtype=torch.float64), torch.randn(3, 3, dtype=torch.float64)
    sources = [weight, first, second, inputs.requires_grad_(), state.requires_grad_()]

    def gradients(loop: Callable[..., Any]) -> Sequence[Tensor]:
        return torch.autograd.grad(loss_of(*loop(own, inputs, [3, 0, 1], state, torch.float64)), sources)

    expected = gradients(plain_loop)
    with emulated(tiling=WHOLE):
        torch.testing.assert_close(gradients(by_lengths(parallel_iterations=steps)), expected)


@pytest.mark.parametrize("projected", [False, True])
@pytest.mark.parametrize("lengths", [[3, 0, 1], [0, 0, 0], [5, 5, 5]])
def test_gradients_of_outputs_past_the_end_are_in_no_result(projected: bool, lengths: list[int]) -> None:
    """They are of zeros: whether a core reads them, which has no such rows, or a sum over rows."""
    torch.manual_seed(0)
    own: Any = LSTMCell(4, input_size=2)
    if projected:
        own = OutputProjectionWrapper(own, 3)
        own.build(2)
    own = own.double()
    inputs = torch.randn(3, 5, 2, dtype=torch.float64).requires_grad_()
    sources = [inputs, *own.parameters()]
    past = torch.arange(5) >= torch.tensor(lengths)[:, None]

    def gradients(loop: Callable[..., Any], number: float = 0.0) -> Sequence[Tensor]:
        outputs, _ = loop(own, inputs, lengths, own.zero_state(3, torch.float64), torch.float64)
        assert outputs[past].eq(0).all()
        given = torch.linspace(-1, 1, outputs.numel(), dtype=torch.float64).view(outputs.shape)
        return torch.autograd.grad([outputs], sources, [given.masked_fill(past[..., None], number)])

    expected = gradients(plain_loop) if any(lengths) else [torch.zeros_like(each) for each in sources]
    with emulated(tiling=WHOLE):
        for number in (0.0, 3.0, torch.nan):
            found = gradients(by_lengths(), number)
            torch.testing.assert_close(found, expected)
            assert found[0][past].eq(0).all()


def test_a_sum_of_outputs_has_gradients() -> None:
    """That of each output is then one number, seen many times."""
    own, inputs, state = problem("lstm", torch.float64)

    def gradients(loop: Callable[..., Any]) -> Sequence[Tensor]:
        outputs, _ = loop(own, inputs, [4, 0, 2], state, torch.float64)
        return torch.autograd.grad(outputs.sum(), [inputs, *state, *own.parameters()])

    expected = gradients(plain_loop)
    with emulated(tiling=DIVIDED):
        torch.testing.assert_close(gradients(by_lengths()), expected)


def test_nothing_waits_for_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    harmless = (tracers.DeviceContext, NoWaiting, NoLooking)  # modes before which no loop need be shown step by step
    monkeypatch.setattr(tracers, "DeviceContext", harmless)
    own, inputs, state = problem("lstm", torch.float32)
    lengths = torch.tensor([4, 0, 2])

    def train() -> list[Tensor]:
        outputs, final = dynamic_rnn(own, inputs, lengths, state, torch.float32)
        gradients = [torch.ones_like(each) for each in (outputs, *final)]
        sources = [inputs, *state, *own.parameters()]
        return list(torch.autograd.grad([outputs, *final], sources, gradients))

    with emulated(tiling=DIVIDED) as emitter:
        expected = train()  # planned, and compiled
        with NoWaiting(), NoLooking():
            found = train()
        assert emitter.emulated.launches == 4
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


def test_lengths_cost_few_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Around a kernel each of them takes as long as a step of it."""
    monkeypatch.setattr(tracers, "DeviceContext", (tracers.DeviceContext, Counted))
    own, inputs, state = problem("lstm", torch.float32)

    def infer(lengths: Tensor | None) -> None:
        with torch.no_grad():
            dynamic_rnn(own, inputs, lengths, state, torch.float32)

    def train(lengths: Tensor | None) -> None:
        outputs, final = dynamic_rnn(own, inputs, lengths, state, torch.float32)
        torch.autograd.grad([loss_of(outputs, final)], [inputs, *state, *own.parameters()])

    def operations(call: Callable[[Tensor | None], None], lengths: Tensor | None) -> int:
        call(lengths)  # planned, and compiled
        with Counted() as counted:
            call(lengths)
        return counted.count

    with emulated(tiling=DIVIDED):
        lengths = torch.tensor([4, 0, 2])
        assert operations(infer, lengths) - operations(infer, None) <= 13
        assert operations(train, lengths) - operations(train, None) <= 23


def test_what_is_kept_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracers, "DeviceContext", (tracers.DeviceContext, SeenOperations))
    own, inputs, state = problem("lstm", torch.float32, batch=16)  # values begin where they may lie side by side

    def run_it() -> None:
        dynamic_rnn(own, inputs, torch.tensor([4, 0, 2, 1] * 4), state, torch.float32)

    with emulated(tiling=DIVIDED):
        run_it()  # planned, and compiled
        with SeenOperations() as seen:
            run_it()
    assert not {"clone", "copy_"} & {*seen.names}


@pytest.mark.parametrize("memory", [Keep(), Recompute(), Checkpoint(every=2)])
def test_what_backward_computes_is_not_computed_of_zeros(memory: Any) -> None:
    """Nothing was written of rows that have ended, and zero has no logarithm."""

    def grows(x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        new = (h @ weight).log() + x.exp()
        return new.log() @ weight, new

    torch.manual_seed(0)
    weight = (torch.rand(3, 3, dtype=torch.float64) + 1).requires_grad_()
    own = cell(grows, state_size=3, output_size=3)
    inputs, state = torch.rand(3, 5, 3, dtype=torch.float64) + 0.5, torch.rand(3, 3, dtype=torch.float64) + 0.5
    sources = [weight, inputs.requires_grad_(), state.requires_grad_()]

    def gradients(loop: Callable[..., Any]) -> Sequence[Tensor]:
        return torch.autograd.grad(loss_of(*loop(own, inputs, [3, 0, 1], state, torch.float64)), sources)

    expected = gradients(plain_loop)
    with emulated(tiling=WHOLE):
        for steps in (2, 5):
            torch.testing.assert_close(gradients(by_lengths(memory=memory, parallel_iterations=steps)), expected)


def test_the_modes_of_these_tests_see_who_waits() -> None:
    lengths = torch.tensor([2, 1])
    for look in (lengths.max().item, lengths.tolist, lengths.nonzero, lengths.cpu, lambda: lengths[lengths > 1]):
        with pytest.raises(WaitsError), NoWaiting(), NoLooking():
            look()


def test_what_other_emitters_run_waits_for_lengths_once() -> None:
    own, inputs, state = problem("lstm", torch.float64)
    expected = results(plain_loop, own, torch.float64, [4, 0, 2], inputs, state)
    with interpreter():
        assert_same(results(by_lengths(), own, torch.float64, [4, 0, 2], inputs, state), expected)


def test_gradients_of_gradients_may_wait() -> None:
    own, inputs, state = problem("rnn", torch.float64)
    lengths = torch.tensor([4, 0, 2])

    def second() -> Tensor:
        outputs, _ = dynamic_rnn(own, inputs, lengths, state, torch.float64)
        (first,) = torch.autograd.grad(loss_of(outputs), [inputs], create_graph=True)
        return torch.autograd.grad(loss_of(first), [state])[0]

    with interpreter():
        expected = second()
    with emulated(tiling=DIVIDED):
        torch.testing.assert_close(second(), expected)


class LooksUp(RNNCell):
    """A row of a table, by an index that is an input or a state."""

    def __init__(self, *, of_state: bool) -> None:
        super().__init__()
        self.state_size, self.output_size = (torch.Size([4]), torch.Size([])), 4
        self.of_state = of_state
        self.table = nn.Parameter(torch.linspace(-1.0, 1.0, 28).double().view(7, 4))
        self.weight = nn.Parameter(torch.eye(4).double() / 2)

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        h, place = state
        h = torch.tanh(h @ self.weight + self.table[place if self.of_state else x])
        return h, (h, (place + 1) % 7)


@pytest.mark.parametrize("of_state", [False, True])
@pytest.mark.parametrize("lengths", [[1, 1, 1], [0, 0, 0], [5, 0, 2]])
@pytest.mark.parametrize("memory", [Keep(), Recompute(), Checkpoint(every=2)])
def test_indices_of_rows_that_have_ended_are_in_range(lengths: list[int], memory: Any, of_state: bool) -> None:
    """Also in chunks in which nobody runs, where torch would stop a GPU for an index from nowhere."""
    own = LooksUp(of_state=of_state)
    inputs = torch.full((3, 5), -100)  # as padding often is
    for row, length in enumerate(lengths):
        inputs[row, :length] = torch.arange(length) % 7
    first = wanting_gradients((torch.randn(3, 4).double(), torch.tensor([0, 3, 6])))
    expected = results(plain_loop, own, torch.float64, lengths, inputs, first)
    loop = by_lengths(parallel_iterations=2, memory=memory)
    with emulated(tiling=WHOLE) as emitter:
        assert_same(results(loop, own, torch.float64, lengths, inputs, first), expected)
    assert emitter.cores
