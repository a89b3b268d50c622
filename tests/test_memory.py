"""What is kept for backward, to the byte, and that it never changes a gradient."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.utils.checkpoint
from torch import Tensor

from tests.user_cells import RANDOM, USER_CELLS
from tests.zoo import ZOO, inputs_for
from unspool import (
    Checkpoint,
    GRUCell,
    Keep,
    LSTMCell,
    Recompute,
    RNNCell,
    bidirectional_dynamic_rnn,
    dynamic_rnn,
    explain,
    stack_bidirectional_dynamic_rnn,
)
from unspool.engine.execute.parts import Bound, Steps, Values
from unspool.engine.memory.residual_store import ResidualStore
from unspool.structure import flatten, map_structure

POLICIES = [Keep(), Recompute(), Checkpoint(every=1), Checkpoint(every=3), Checkpoint(every=100)]
STEPS, ROWS, DEPTH, UNITS = 10, 4, 3, 5
LENGTHS = [10, 0, 3, 7]


def bytes_saved(cell: Any, lengths: Any = None, **options: Any) -> int:
    """What a loop saves for backward, inputs, outputs and weights aside."""
    inputs = torch.randn(STEPS, ROWS, DEPTH, dtype=torch.float64, requires_grad=True)
    state = cell.zero_state(ROWS, torch.float64)
    saved: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: saved.append(tensor) or tensor, lambda x: x):
        outputs, _ = dynamic_rnn(cell, inputs, lengths, state, time_major=True, **options)
    given = [inputs, *flatten(state), *flatten(outputs), *cell.parameters()]
    ours = {each.untyped_storage().data_ptr() for each in given}
    storages = {each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for each in saved}
    return sum(size for pointer, size in storages.items() if pointer not in ours)


NUMBER = 8
"""The bytes of a float64."""


@pytest.mark.parametrize("chunk", [1, 4, 32])
def test_recompute_keeps_the_states_that_are_no_outputs(chunk: int) -> None:
    """Of an LSTM only `c`: `h` is the output. Of a GRU nothing at all."""
    lstm, gru = LSTMCell(UNITS, input_size=DEPTH).double(), GRUCell(UNITS, input_size=DEPTH).double()
    options = {"memory": Recompute(), "parallel_iterations": chunk}
    assert bytes_saved(lstm, **options) == STEPS * ROWS * UNITS * NUMBER
    assert bytes_saved(lstm, LENGTHS, **options) == sum(LENGTHS) * UNITS * NUMBER
    assert bytes_saved(gru, **options) == 0


def test_recompute_keeps_all_of_a_state_that_is_not_an_output() -> None:
    cell = LSTMCell(UNITS, input_size=DEPTH, state_is_tuple=False).double()
    assert bytes_saved(cell, memory=Recompute()) == STEPS * ROWS * 2 * UNITS * NUMBER


def test_keep_keeps_the_states_and_as_much_as_the_products() -> None:
    """The products of an LSTM are four gates wide; their sum is kept, or the gates themselves."""
    cell = LSTMCell(UNITS, input_size=DEPTH).double()
    assert bytes_saved(cell, memory=Keep()) == STEPS * ROWS * (2 + 4) * UNITS * NUMBER
    assert bytes_saved(cell, LENGTHS, memory=Keep()) == sum(LENGTHS) * (2 + 4) * UNITS * NUMBER


class Summing(RNNCell):
    """A step that multiplies its state with a sum over all of it."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.state_size = self.output_size = units

    def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.tanh(h + x[:, :1]) * torch.sigmoid(torch.exp(h).sum(1, keepdim=True))
        return h, h


@pytest.mark.parametrize(("units", "sums"), [(16, 1), (4, 0)], ids=["many", "few"])
def test_keep_keeps_a_sum_over_many_numbers(units: int, sums: int) -> None:
    """A number for sixteen is worth it; the sigmoid of it will do."""
    assert bytes_saved(Summing(units), memory=Keep()) == NUMBER * STEPS * ROWS * (units + sums)


class Through(RNNCell):
    """A step that uses its state through one operation alone."""

    def __init__(self, used: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.state_size = self.output_size = UNITS
        self.used = used
        self.weight = torch.nn.Parameter(torch.ones(UNITS, dtype=torch.float64))

    def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = self.used(x[:, :1], h) * self.weight
        return h, h


@pytest.mark.parametrize(
    ("used", "row_bytes"),
    [
        (lambda x, h: torch.where(x > 0, 0.0, h), NUMBER * UNITS),
        (lambda x, h: torch.where(h > 0, x, 0.0), UNITS),
        (lambda x, h: x * h.sum(1, keepdim=True), NUMBER),
    ],
    ids=["selected", "compared", "summed"],
)
def test_keep_keeps_what_is_used_of_a_state(used: Any, row_bytes: int) -> None:
    """Not the state and what is computed of it again: that is kept in its stead, if it is no larger."""
    cell = Through(used)
    assert bytes_saved(cell, memory=Keep()) == STEPS * ROWS * row_bytes
    explanation = explain(cell, torch.zeros(ROWS, STEPS, DEPTH, dtype=torch.float64, requires_grad=True))
    assert explanation.memory.chosen.what == "1 activation"


@pytest.mark.parametrize("every", [1, 3, 4, 10, 50])
def test_checkpoint_keeps_every_nth_state(every: int) -> None:
    cell = LSTMCell(UNITS, input_size=DEPTH).double()
    states = -(-STEPS // every)
    memory = Checkpoint(every=every)
    # The first of them is the initial state, which is the caller's.
    assert bytes_saved(cell, memory=memory, parallel_iterations=2) == (states - 1) * ROWS * 2 * UNITS * NUMBER
    running = [sum(length > start for length in LENGTHS) for start in range(0, max(LENGTHS), every)]
    assert bytes_saved(cell, LENGTHS, memory=memory) == sum(running) * 2 * UNITS * NUMBER


def test_a_cpu_keeps_products_by_default() -> None:
    cell = LSTMCell(UNITS, input_size=DEPTH).double()
    assert bytes_saved(cell) == bytes_saved(cell, memory=Keep())


def test_swap_memory_does_nothing_on_a_cpu() -> None:
    cell = LSTMCell(UNITS, input_size=DEPTH).double()
    assert bytes_saved(cell, swap_memory=True) == bytes_saved(cell)


def gradients(cell: Any, inputs: Any, state: Any, lengths: Any, **options: Any) -> list[Any]:
    torch.manual_seed(7)
    outputs, final = dynamic_rnn(cell, inputs, lengths, state, time_major=True, **options)
    leaves = [leaf for leaf in [*flatten(outputs), *flatten(final)] if leaf.requires_grad]
    loss = torch.stack([(leaf * leaf.detach().cos()).sum().double() for leaf in leaves]).sum()
    sources = [leaf for leaf in [*flatten(inputs), *flatten(state), *cell.parameters()] if leaf.requires_grad]
    return [*leaves, *torch.autograd.grad(loss, sources, allow_unused=True)]


@pytest.mark.parametrize("lengths", [None, [7, 0, 2, 7, 4]], ids=["full", "lengths"])
@pytest.mark.parametrize("name", ["lstm", "gru", "stack", "nested", *RANDOM, "dict_state_dtypes", "ntm", "conv_lstm"])
def test_every_policy_gives_the_same_gradients(name: str, lengths: Any) -> None:
    torch.manual_seed(0)
    dtype = torch.float64
    if name in ZOO:
        cell, inputs = ZOO[name]().double(), inputs_for(name, 5, 7)
        state = map_structure(torch.randn_like, cell.zero_state(5, torch.float64))
    else:
        user = USER_CELLS[name]
        cell, inputs, state, dtype = user.make(), user.inputs(5, 7), user.state(5), user.dtype
    inputs = map_structure(lambda leaf: leaf.transpose(0, 1).requires_grad_(leaf.is_floating_point()), inputs)
    state = map_structure(lambda leaf: leaf.requires_grad_(leaf.is_floating_point()), state)
    # Only the order of sums differs: one part in 1e10 leaves room for it in float64, one in 1e5 in float32.
    tight = {"rtol": 1e-10, "atol": 1e-12} if name != "dict_state_dtypes" else {"rtol": 1e-5, "atol": 1e-6}
    expected = gradients(cell, inputs, state, lengths, dtype=dtype, memory=Keep())
    for memory in POLICIES:
        for chunk in (2, 32):
            found = gradients(
                cell, inputs, state, lengths, dtype=dtype, memory=memory, parallel_iterations=chunk, swap_memory=True
            )
            torch.testing.assert_close(found, expected, **tight)


def test_backward_twice_through_a_kept_graph() -> None:
    cell, inputs = LSTMCell(4, input_size=3).double(), torch.randn(2, 6, 3, dtype=torch.float64, requires_grad=True)
    for memory in POLICIES:
        outputs, _ = dynamic_rnn(cell, inputs, dtype=torch.float64, memory=memory)
        first = torch.autograd.grad(outputs.sum(), inputs, retain_graph=True)
        second = torch.autograd.grad(outputs.sum(), inputs)
        torch.testing.assert_close(first, second, rtol=0, atol=0)


def test_torch_can_checkpoint_and_offload_a_loop() -> None:
    cell, inputs = LSTMCell(4, input_size=3).double(), torch.randn(3, 7, 3, dtype=torch.float64, requires_grad=True)
    sources = [inputs, *cell.parameters()]
    for memory in POLICIES:

        def run(x: Tensor, memory: Any = memory) -> Tensor:
            return dynamic_rnn(cell, x, [7, 2, 5], dtype=torch.float64, memory=memory)[0]

        expected = torch.autograd.grad(run(inputs).sin().sum(), sources)
        checkpointed = torch.utils.checkpoint.checkpoint(run, inputs, use_reentrant=False)
        assert isinstance(checkpointed, Tensor)
        torch.testing.assert_close(torch.autograd.grad(checkpointed.sin().sum(), sources), expected)
        with torch.autograd.graph.save_on_cpu():
            offloaded = run(inputs)
        torch.testing.assert_close(torch.autograd.grad(offloaded.sin().sum(), sources), expected)


def test_outputs_may_be_changed_in_place_where_they_are_not_needed() -> None:
    cell, inputs = LSTMCell(4, input_size=3), torch.randn(2, 6, 3)
    outputs, _ = dynamic_rnn(cell, inputs, dtype=torch.float32, memory=Keep())
    outputs.mul_(0.5).sum().backward()
    outputs, _ = dynamic_rnn(cell, inputs, dtype=torch.float32, memory=Recompute())
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        outputs.mul_(0.5).sum().backward()


def test_the_bidirectional_loops_take_a_policy() -> None:
    inputs = torch.randn(2, 6, 3)
    fw, bw = LSTMCell(4), LSTMCell(4)
    expected, _ = bidirectional_dynamic_rnn(fw, bw, inputs, dtype=torch.float32)
    found, _ = bidirectional_dynamic_rnn(fw, bw, inputs, dtype=torch.float32, memory=Checkpoint(every=2))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
    outputs, *_ = stack_bidirectional_dynamic_rnn([fw], [bw], inputs, dtype=torch.float32, memory=Recompute())
    torch.testing.assert_close(outputs, torch.cat(expected, 2), rtol=0, atol=1e-6)


@pytest.mark.parametrize("memory", [Keep, "keep", 3, True])
def test_memory_must_be_a_policy(memory: Any) -> None:
    cell = LSTMCell(4)
    with pytest.raises(TypeError, match=r"memory must be Keep\(\), Recompute\(\), Checkpoint\(every=N\) or None"):
        dynamic_rnn(cell, torch.randn(2, 6, 3), dtype=torch.float32, memory=memory)
    assert not cell.built  # before any work is done


def test_a_policy_is_not_positional() -> None:
    loop: Any = dynamic_rnn
    with pytest.raises(TypeError, match="positional"):
        loop(LSTMCell(4), torch.randn(2, 6, 3), None, None, torch.float32, None, False, False, None, Keep())


@pytest.mark.parametrize(("every", "error"), [(0, ValueError), (-1, ValueError), (2.5, TypeError), ("3", TypeError)])
def test_checkpoints_are_a_positive_number_of_steps_apart(every: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="every must be"):
        Checkpoint(every=every)


def test_history_gives_back_the_last_list_first() -> None:
    history = ResidualStore()
    for number in range(3):
        history.keep([torch.full((2,), number), torch.full((1,), -number)])
    history.keep([])
    reading = ResidualStore.reading(history.lengths, history.saved())
    assert reading.take() == []
    assert [each.tolist() for each in reading.take()] == [[2, 2], [-2]]
    assert [each.tolist() for each in reading.take()] == [[1, 1], [-1]]


@pytest.mark.skipif(torch.cuda.is_available(), reason="pinned memory can be had")
def test_without_pinned_memory_there_is_one_warning() -> None:
    history = ResidualStore()
    with pytest.warns(RuntimeWarning, match="swap_memory: no pinned host memory"):
        assert history._host_memory(torch.zeros(3)).shape == (3,)
    history._host_memory(torch.zeros(3))  # a second warning would be an error


def test_history_does_not_keep_a_large_tensor_for_a_small_part_of_it() -> None:
    large = torch.zeros(100, 100)
    history = ResidualStore()
    history.keep([large[:, :3]])
    assert history.saved()[0].untyped_storage().nbytes() == 100 * 3 * 4
    history = ResidualStore()
    history.keep([large[:50], large[50:]])
    assert {each.untyped_storage().data_ptr() for each in history.saved()} == {large.untyped_storage().data_ptr()}


@pytest.mark.parametrize("memory", POLICIES, ids=str)
def test_what_backward_computes_of_a_chunk_is_gone_before_the_next(
    memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[int] = []
    made: list[weakref.ref[Tensor]] = []
    run = Bound.run

    def watched(bound: Bound, known: Values, carried: Any, steps: Steps) -> Any:
        if not steps.reverse:
            return run(bound, known, carried, steps)
        left.append(sum(each() is not None for each in made))
        new, values = run(bound, known, carried, steps)
        made[:] = [weakref.ref(values[node]) for node in bound.parts.split.core.outputs if values[node] is not None]
        return new, values

    monkeypatch.setattr(Bound, "run", watched)
    cell, inputs = LSTMCell(UNITS, input_size=DEPTH), torch.randn(STEPS, ROWS, DEPTH, requires_grad=True)
    outputs, _ = dynamic_rnn(cell, inputs, time_major=True, parallel_iterations=2, memory=memory)
    outputs.sum().backward()
    assert len(left) >= STEPS // 2
    assert set(left) == {0}
