"""Plans: what lands where, what they depend on, and how long they live."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import unspool
from tests.cells import Duck
from tests.user_cells import USER_CELLS
from tests.zoo import ZOO, inputs_for
from unspool import (
    AttentionWrapper,
    LSTMCell,
    LuongAttention,
    MultiRNNCell,
    Recompute,
    RNNCell,
    dynamic_rnn,
    static_rnn,
)
from unspool.engine import Options, Request, run
from unspool.engine.execute.call import Call
from unspool.engine.execute.phase import Phase
from unspool.engine.ir.program import Kind, lower_part
from unspool.engine.plans import cache, making
from unspool.engine.plans.plan import Plan
from unspool.engine.run import prepare
from unspool.loops.arguments import begin
from unspool.structure import map_structure


def call_of(cell: Any, inputs: Any, state: Any, dtype: torch.dtype = torch.float64, **options: Any) -> Call:
    """What a loop would run on time-major inputs."""
    begin(cell, map_structure(lambda leaf: leaf[0], inputs), state)
    return prepare(Request(cell, inputs, None, state, dtype, Options(**options)))[0]


def instructions(plan: Plan, phase: Phase) -> tuple[int, ...]:
    """How many are in before, core and after."""
    return tuple(
        len(lower_part(getattr(phase.split, part), plan.labels).instructions) for part in ("before", "core", "after")
    )


COUNTS = {
    "layer_norm_lstm": ((9, 27, 0), (59, 27, 24)),
    "peephole_projection": ((8, 22, 0), (51, 18, 21)),
    "dict_state_dtypes": ((2, 20, 2), (20, 16, 7)),
    "embedding_ids": ((6, 12, 0), (22, 15, 10)),
    "output_head": ((3, 12, 6), (47, 10, 5)),
    "weight_normed": ((2, 3, 0), (7, 3, 5)),
    "conv_lstm": ((1, 12, 0), (28, 10, 4)),
    "attention_memory": ((4, 16, 1), (29, 17, 12)),
    "ntm": ((2, 33, 0), (56, 56, 7)),
    "dropout_zoneout": ((11, 18, 0), (41, 15, 6)),
    "softmax_mixture": ((8, 14, 0), (27, 17, 13)),
    "scalar_state": ((4, 2, 0), (3, 2, 10)),
    "minimal_gru": ((2, 10, 0), (14, 11, 4)),
    "nn_gru_copy": ((3, 14, 0), (23, 12, 9)),
    "inplace": ((7, 20, 1), (29, 24, 10)),
    "detach_and_no_grad": ((3, 10, 1), (17, 3, 9)),
    "custom_function": ((3, 9, 0), (14, 8, 7)),
    "stacked": ((9, 44, 0), (83, 42, 30)),
    "lstm_two_linears": ((3, 12, 0), (29, 10, 5)),
    "tied": ((2, 6, 1), (14, 6, 7)),
    "multi_head": ((3, 10, 1), (17, 10, 6)),
    "nas_like": ((5, 22, 0), (56, 19, 11)),
    "torch_lstm_cell": ((3, 12, 1), (29, 10, 6)),
    "top_k": ((4, 5, 0), (10, 5, 5)),
}
"""Instructions before, in and after the loop, forward and in the adjoint that recomputes, with all gradients wanted."""


@pytest.mark.parametrize("name", COUNTS)
def test_what_lands_before_in_and_after_the_loop(name: str) -> None:
    """`prepare` would raise if the plain loop had to run it. A change that improves a number changes the table."""
    user = USER_CELLS[name]
    inputs = map_structure(
        lambda leaf: leaf.transpose(0, 1).requires_grad_(leaf.is_floating_point()), user.inputs(3, 4)
    )
    plan = call_of(user.make(), inputs, user.state(3), user.dtype).plan
    adjoint = plan.recompute.adjoint
    assert adjoint is not None
    assert (instructions(plan, plan.recompute.forward), instructions(plan, adjoint)) == COUNTS[name]


def test_every_user_cell_but_three_is_planned() -> None:
    """The three change themselves at every step, or look at values to decide what to do."""
    assert set(USER_CELLS) - set(COUNTS) == {"locked_dropout", "branching", "clockwork"}


@pytest.mark.parametrize("name", ZOO)
def test_every_built_in_cell_is_planned(name: str) -> None:
    cell = ZOO[name]().double()
    inputs = map_structure(lambda leaf: leaf.transpose(0, 1), inputs_for(name, 3, 4))
    call_of(cell, inputs, cell.zero_state(3, torch.float64))


@pytest.mark.parametrize("memory", ["keep", "recompute"])
@pytest.mark.parametrize("name", ["LSTMCell", "two linears"])
def test_the_core_of_an_lstm(name: str, memory: str) -> None:
    """One product each way, and at most twelve instructions in the adjoint's core, however the cell is written."""
    cell = LSTMCell(4, input_size=3).double() if name == "LSTMCell" else USER_CELLS["lstm_two_linears"].make()
    inputs = torch.randn(4, 2, 3 if name == "LSTMCell" else USER_CELLS["lstm_two_linears"].inputs(2, 4).shape[-1])
    state = cell.zero_state(2, torch.float64)
    schedule = getattr(call_of(cell, inputs.double(), state).plan, memory)
    assert schedule.forward.core.count(Kind.PRODUCT) == 1
    assert schedule.adjoint.core.count(Kind.PRODUCT) == 1
    assert len(schedule.adjoint.core.instructions) <= 12


def test_one_plan_for_every_number_of_steps_and_rows() -> None:
    cell = LSTMCell(4, input_size=3)
    before = cache.traces
    calls = [
        call_of(cell, torch.randn(steps, rows, 3), cell.zero_state(rows, torch.float32), torch.float32)
        for steps, rows in [(10, 64), (10_000, 1), (10, 1), (7, 5)]
    ]
    assert cache.traces - before <= 1  # none, if an equal cell has been here before
    assert len({id(call.plan) for call in calls}) == 1


def test_equal_cells_share_a_plan_and_unequal_ones_do_not() -> None:
    def plan(units: int, bias: float) -> Plan:
        cell = LSTMCell(units, input_size=3, forget_bias=bias)
        cells.append(cell)
        return call_of(cell, torch.randn(2, 2, 3), cell.zero_state(2, torch.float32), torch.float32).plan

    cells: list[Any] = []
    first = plan(5, 0.25)
    assert plan(5, 0.25) is first
    assert plan(5, 0.5) is not first
    assert plan(6, 0.25) is not first


@pytest.mark.filterwarnings("ignore:MultiRNNCell was given the same cell object")
def test_one_cell_in_two_places_is_planned_with_the_weights_of_both() -> None:
    cell = unspool.GRUCell(3, input_size=3, dtype=torch.float64)
    stack, x = unspool.MultiRNNCell([cell, cell]), torch.randn(2, 4, 3, dtype=torch.float64)
    with unspool.strict():
        outputs, _ = unspool.dynamic_rnn(stack, x, dtype=torch.float64)
    steps, _ = unspool.static_rnn(stack, list(x.unbind(1)), dtype=torch.float64)
    for one, other in zip(
        [outputs, *torch.autograd.grad(outputs.sum(), list(cell.parameters()))],
        [torch.stack(steps, 1), *torch.autograd.grad(torch.stack(steps, 1).sum(), list(cell.parameters()))],
        strict=True,
    ):
        torch.testing.assert_close(one, other)


def test_a_plan_is_dropped_with_its_cell(plans: list[Plan]) -> None:
    cell = LSTMCell(7, input_size=3, forget_bias=0.123)
    held = len(plans)
    plan = weakref.ref(call_of(cell, torch.randn(2, 2, 3), cell.zero_state(2, torch.float32), torch.float32).plan)
    kept_cell = weakref.ref(cell)
    assert plan() is not None
    del plans[held:]  # the session's own list
    del cell
    gc.collect()
    assert kept_cell() is None
    assert plan() is None


def test_a_plan_does_not_keep_weights_or_inputs() -> None:
    cell = LSTMCell(4, input_size=3)
    inputs = torch.randn(2, 2, 3)
    dynamic_rnn(cell, inputs, dtype=torch.float32)
    watched = [weakref.ref(inputs), weakref.ref(cell.kernel)]
    cell.kernel = nn.Parameter(torch.zeros(7, 16))
    del inputs
    gc.collect()
    assert [each() for each in watched] == [None, None]


@pytest.mark.parametrize("cell", [LSTMCell(4), MultiRNNCell([LSTMCell(4), LSTMCell(3)])], ids=["flat", "nested"])
def test_a_call_like_the_last_one_is_seen_at_a_glance(cell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[Any] = []

    class Noted(making.Fingerprint):
        def __init__(self, cell: Any) -> None:
            looks.append(cell)
            super().__init__(cell)

    dynamic_rnn(cell, torch.randn(2, 5, 3), dtype=torch.float32)
    monkeypatch.setattr(making, "Fingerprint", Noted)
    found, _ = dynamic_rnn(cell, torch.ones(3, 7, 3), dtype=torch.float32)
    assert not looks
    cell.note = 3
    again, _ = dynamic_rnn(cell, torch.ones(3, 7, 3), dtype=torch.float32)
    assert looks
    assert torch.equal(found, again)


class Named(RNNCell):
    """Takes any dict of two states, and adds the one called b."""

    def __init__(self) -> None:
        super().__init__()
        self.state_size, self.output_size = {"a": 3, "b": (3,)}, 3

    def forward(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        inner = state["b"][0] if isinstance(state["b"], tuple) else state["b"]["c"]
        return x + state["a"] - inner, state


def test_other_containers_around_the_same_tensors_are_another_call() -> None:
    cell, inputs, a, b = Named(), torch.randn(2, 4, 3), torch.randn(2, 3), torch.randn(2, 3)
    for _ in range(2):
        for state in ({"a": a, "b": (b,)}, {"a": a, "b": {"c": b}}):
            outputs, final = dynamic_rnn(cell, inputs, initial_state=state)
            torch.testing.assert_close(outputs, inputs + (a - b)[:, None])
            assert type(final["b"]) is type(state["b"])


def test_one_memory_for_two_mechanisms_may_become_two() -> None:
    torch.manual_seed(0)
    first, second = LuongAttention(4), LuongAttention(4)
    cell = AttentionWrapper(LSTMCell(4), [first, second], attention_layer_size=[4, 4])
    inputs, memories = torch.randn(2, 3, 3), torch.randn(2, 2, 5, 4)
    for given in ((0, 0), (0, 1), (1, 1), (1, 0)):
        for mechanism, k in zip((first, second), given, strict=True):
            mechanism.setup_memory(memories[k])
        outputs, _ = dynamic_rnn(cell, inputs, dtype=torch.float32)
        state, expected = cell.zero_state(2, torch.float32), list[Tensor]()
        for step in inputs.unbind(1):
            output, state = cell(step, state)
            expected.append(output)
        torch.testing.assert_close(outputs, torch.stack(expected, 1), rtol=1e-5, atol=1e-6)


def test_threads_plan_and_run_the_same_cell() -> None:
    cell = MultiRNNCell([LSTMCell(4, forget_bias=0.75), LSTMCell(3)])
    inputs = torch.randn(2, 6, 3)
    dynamic_rnn(cell, inputs, dtype=torch.float32)
    expected, _ = dynamic_rnn(cell, inputs, dtype=torch.float32)
    results: list[Any] = []

    def work(number: int) -> None:
        for wanted in (True, False):
            x = inputs.clone().requires_grad_(wanted)
            outputs, _ = dynamic_rnn(cell, x, [6, 6] if number % 2 else None, dtype=torch.float32)
            outputs.sum().backward()
            results.append((outputs, x.grad))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 8
    gradients = [gradient for _, gradient in results if gradient is not None]
    for outputs, _ in results:
        torch.testing.assert_close(outputs, expected, rtol=0, atol=1e-6)
    for gradient in gradients:
        torch.testing.assert_close(gradient, gradients[0], rtol=0, atol=1e-6)


def test_a_cell_that_is_no_module_is_planned_too() -> None:
    duck = Duck()
    call_of(duck, torch.randn(3, 2, 3), duck.zero_state(2, torch.float32), torch.float32)


def _products(work: Callable[[], Any]) -> tuple[Any, list[tuple[int, ...]]]:
    """What `work` returns, and the rows, the inner size and the columns of its matrix products.

    By the profiler, which only looks on: a mode of torch's would have it run in the plain loop.
    """
    with torch.profiler.profile(record_shapes=True, acc_events=True) as profile:
        result = work()
    found: list[tuple[int, ...]] = []
    for event in profile.events() or []:
        if event.name in ("aten::mm", "aten::addmm"):
            left, right = [shape for shape in event.input_shapes if len(shape) == 2][-2:]
            found.append((*left, right[1]))
    return result, found


def test_work_follows_the_lengths() -> None:
    """Depths that tell the products apart: the rows of each kind, over all steps, are the sum of the lengths."""
    depth, units, lengths = 3, 5, [9, 0, 4, 4, 1, 7]
    cell = LSTMCell(units, input_size=depth)
    inputs = torch.randn(6, 12, depth, requires_grad=True)
    dynamic_rnn(cell, inputs, lengths, dtype=torch.float32, memory=Recompute())  # plans
    (outputs, _), forward = _products(
        lambda: dynamic_rnn(cell, inputs, lengths, dtype=torch.float32, parallel_iterations=4)
    )
    _, backward = _products(outputs.sum().backward)

    def rows(products: list[tuple[int, ...]], inner: int, width: int) -> int:
        return sum(rows for rows, *shape in products if shape == [inner, width])

    total = sum(lengths)
    assert rows(forward, depth, 4 * units) == total  # before: x @ W
    assert rows(forward, units, 4 * units) == total  # core: h @ R
    assert rows(backward, 4 * units, units) == total  # core of the adjoint
    assert rows(backward, 4 * units, depth) == total  # after: the gradient of the inputs
    assert sum(inner for rows, inner, width in backward if width == 4 * units) == total  # after: the weights'
    assert len([each for each in forward if each[1:] == (units, 4 * units)]) == max(lengths)


def test_without_gradients_no_history_is_kept() -> None:
    cell = LSTMCell(4, input_size=3)
    saved: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: saved.append(tensor) or tensor, lambda x: x):
        with torch.no_grad():
            outputs, _ = dynamic_rnn(cell, torch.randn(2, 6, 3), dtype=torch.float32)
        frozen, _ = dynamic_rnn(LSTMCell(4, trainable=False), torch.randn(2, 6, 3), dtype=torch.float32)
    assert not saved
    assert outputs.grad_fn is None
    assert frozen.grad_fn is None


def test_inputs_with_one_gradient_have_it_in_memory_of_their_own() -> None:
    class Sum(RNNCell):
        state_size = output_size = 3

        def forward(self, inputs: tuple[Tensor, Tensor], state: Tensor) -> tuple[Tensor, Tensor]:
            state = torch.tanh(inputs[0] + inputs[1] + state)
            return state, state

    one, other = (torch.randn(5, 2, 3, requires_grad=True) for _ in range(2))
    outputs, _ = dynamic_rnn(Sum(), (one, other), dtype=torch.float32, time_major=True)
    found = torch.autograd.grad(outputs.sum(), (one, other))
    assert torch.equal(*found)
    assert found[0].data_ptr() != found[1].data_ptr()


class Bare:
    """A cell that is no module, compares by value, and has slots alone."""

    __slots__ = ("__weakref__", "output_size", "scale", "state_size")

    def __init__(self, scale: float) -> None:
        self.state_size = self.output_size = 3
        self.scale = scale

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bare) and self.scale == other.scale

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def zero_state(self, batch_size: int, dtype: torch.dtype) -> Tensor:
        return torch.zeros(batch_size, 3, dtype=dtype)

    def __call__(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.tanh(x + self.scale * h)
        return h, h


def test_a_cell_need_not_be_hashable() -> None:
    inputs = torch.randn(2, 4, 3)
    for cell in (Bare(0.5), Bare(0.7)):
        for _ in range(2):
            outputs, _ = dynamic_rnn(cell, inputs, dtype=torch.float32)
            expected, _ = static_rnn(cell, list(inputs.unbind(1)), dtype=torch.float32)
            torch.testing.assert_close(outputs, torch.stack(expected, 1), rtol=1e-6, atol=1e-6)
        assert unspool.explain(cell, inputs, dtype=torch.float32).planned
    assert unspool.explain(Bare(0.5), inputs, dtype=torch.float32).planned


def test_a_call_like_the_one_before_is_prepared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []
    start = run._started  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(run, "_started", lambda call, options: started.append(options) or start(call, options))
    cell, inputs = LSTMCell(3, input_size=2), torch.randn(4, 5, 2)

    def calls(**options: Any) -> int:
        before = len(started)
        outputs, state = dynamic_rnn(cell, inputs, **options)
        assert torch.equal(outputs[1, -1], state.h[1])
        return len(started) - before

    assert [calls() for _ in range(3)] == [1, 0, 0]
    assert [calls(memory=Recompute()) for _ in range(3)] == [1, 0, 0]
    assert [calls(parallel_iterations=2), calls(scope="other"), calls()] == [1, 1, 0]
    monkeypatch.setenv("UNSPOOL_EMIT", "CUDA graph")
    assert [calls(), calls()] == [1, 0]
    inputs = torch.randn(4, 6, 2)
    assert [calls(), calls()] == [1, 0]
    assert [calls(sequence_length=[1, 6, 2, 3]) for _ in range(2)] == [1, 1]  # most have lengths of their own
    with torch.no_grad():
        cell.kernel.add_(1)
    assert calls() == 0
    cell.kernel.requires_grad_(False)
    assert calls() == 1
