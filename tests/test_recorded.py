"""Calls that are repeated are recorded: whatever happens between them, every call has its own numbers and gradients."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.emulator import Emulated, emulated
from tests.emulator.cells import problem
from tests.test_cuda_loop import operations_of
from unspool import BasicLSTMCell, Checkpoint, EmbeddingWrapper, Keep, Recompute, cell, dynamic_rnn
from unspool.engine import Memory, run
from unspool.engine.emit.cuda.loop.tiles import Tiling
from unspool.engine.execute import plain
from unspool.engine.execute.recorded import calls, lease
from unspool.engine.execute.recorded.calls import Recorded
from unspool.engine.fallbacks import PerformanceWarning
from unspool.engine.memory.budget import Budget
from unspool.loops import arguments

POLICIES = [Keep(), Recompute(), Checkpoint(every=2)]
BATCH, STEPS = 3, 5


@pytest.fixture
def machine() -> Iterator[Emulated]:
    """What records calls; its memory is poisoned until a recording runs."""
    found = Emulated()
    found.records = True
    with emulated(found, Tiling(None, 4, 1)):
        yield found


def lstm(units: int = 4) -> Any:
    torch.manual_seed(units)
    own = BasicLSTMCell(units, input_size=4)
    with torch.no_grad():
        own.bias.normal_()
    return own.double()


def inputs_of(seed: int, steps: int = STEPS) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(steps, BATCH, 4, generator=generator, dtype=torch.float64).requires_grad_()


def loop(own: Any, inputs: Tensor, memory: Memory | None = None) -> tuple[Tensor, Any]:
    return dynamic_rnn(own, inputs, dtype=torch.float64, time_major=True, memory=memory)


def loss(outputs: Tensor, state: Any, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed + 100)
    terms = [outputs, state.c, state.h]
    return sum(
        ((each * torch.randn(each.shape, generator=generator, dtype=torch.float64)).sum() for each in terms),
        torch.zeros((), dtype=torch.float64),
    )


def expected(own: Any, seed: int, memory: Memory | None = None, steps: int = STEPS) -> list[Tensor]:
    """Outputs and gradients by the loop that runs each cell step by step."""
    inputs, state, outputs = inputs_of(seed, steps), own.zero_state(BATCH, torch.float64), list[Tensor]()
    for each in inputs:
        output, state = own(each, state)
        outputs.append(output)
    stacked = torch.stack(outputs)
    gradients = torch.autograd.grad(loss(stacked, state, seed), [inputs, *own.parameters()])
    return [stacked.detach(), state.c.detach(), state.h.detach(), *gradients]


def found(own: Any, seed: int, memory: Memory | None = None, steps: int = STEPS) -> list[Tensor]:
    inputs = inputs_of(seed, steps)
    outputs, state = loop(own, inputs, memory)
    gradients = torch.autograd.grad(loss(outputs, state, seed), [inputs, *own.parameters()])
    return [outputs.detach(), state.c.detach(), state.h.detach(), *gradients]


def assert_close(one: list[Tensor], other: list[Tensor]) -> None:
    for own, reference in zip(one, other, strict=True):
        torch.testing.assert_close(own, reference, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("memory", POLICIES, ids=str)
def test_every_call_has_numbers_and_gradients_of_its_own(machine: Emulated, memory: Memory) -> None:
    own = lstm()
    several = [found(own, seed, memory) for seed in range(6)]  # all of them are kept
    assert machine.recorded == 2
    assert machine.repeated == 5 + 4  # forward from the second call on, backward from the third
    for seed, each in enumerate(several):
        assert_close(each, expected(own, seed))


def test_calls_without_gradients_are_recorded_too(machine: Emulated) -> None:
    own = lstm()
    with torch.no_grad():
        several = [loop(own, inputs_of(seed))[0] for seed in range(4)]
    with torch.inference_mode():
        inferred = loop(own, inputs_of(3))[0]
    assert machine.recorded == 1
    assert machine.repeated == 4
    for seed, each in enumerate([*several, inferred]):
        assert_close([each], expected(own, min(seed, 3))[:1])


def test_backward_passes_may_come_in_any_order(machine: Emulated) -> None:
    own = lstm()
    for seed in range(3):
        found(own, seed)
    inputs = [inputs_of(seed) for seed in range(4)]
    losses = [loss(*loop(own, each), seed) for seed, each in enumerate(inputs)]
    for seed in (2, 3, 0, 1):
        gradients = torch.autograd.grad(losses[seed], [inputs[seed], *own.parameters()])
        assert_close(list(gradients), expected(own, seed)[3:])


def test_a_graph_that_is_retained_keeps_its_residuals(machine: Emulated) -> None:
    own = lstm()
    for seed in range(3):
        found(own, seed)
    inputs = inputs_of(0)
    total = loss(*loop(own, inputs), 0)
    first = torch.autograd.grad(total, inputs, retain_graph=True)
    found(own, 1)
    assert_close(list(first), list(torch.autograd.grad(total, inputs)))
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(total, inputs)


def test_a_call_whose_backward_pass_is_over_is_not_copied(machine: Emulated, monkeypatch: pytest.MonkeyPatch) -> None:
    own, copied = lstm(), list[int]()
    ended = lease.Lease.end
    monkeypatch.setattr(
        lease.Lease,
        "end",
        lambda self: (ended(self), copied.append(self._own is not None)),  # type: ignore[misc]
    )
    total = torch.zeros(())
    for seed in range(5):  # the last loss, and with it the last graph, lives until the next
        total = loss(*loop(own, inputs_of(seed)), seed)
        total.backward()
    assert copied == [False] * 3
    pending = loop(own, inputs_of(5))[0]
    found(own, 6)
    assert copied == [False] * 4 + [True]
    assert pending.requires_grad


def test_steps_of_an_optimizer_are_seen(machine: Emulated) -> None:
    own = lstm()
    optimizer = torch.optim.SGD(own.parameters(), lr=0.1)
    for seed in range(5):
        reference = expected(own, seed)
        assert_close(found(own, seed), reference)
        for weight, gradient in zip(own.parameters(), reference[4:], strict=True):
            weight.grad = gradient
        optimizer.step()
    assert machine.recorded == 2


def test_other_weights_are_recorded_anew(machine: Emulated) -> None:
    own = lstm()
    for seed in range(3):
        found(own, seed)
    own.kernel = nn.Parameter(own.kernel.detach() * 2)
    for seed in range(3):
        assert_close(found(own, seed), expected(own, seed))
    assert machine.recorded == 4


def test_a_pending_backward_pass_leaves_later_recordings_alone(machine: Emulated) -> None:
    own, machine.place = lstm(), "a stream"
    for seed in range(3):
        found(own, seed)
    inputs = [inputs_of(seed) for seed in range(2)]
    pending = loss(*loop(own, inputs[0]), 0)
    machine.place = "another stream"
    for seed in range(3):
        found(own, seed)
    waiting = loss(*loop(own, inputs[1]), 1)
    machine.place, before = "a stream", machine.repeated  # backward runs where forward ran
    gradients = torch.autograd.grad(pending, [inputs[0], *own.parameters()])
    assert_close(list(gradients), expected(own, 0)[3:])
    assert machine.repeated == before + 1
    machine.place = "another stream"
    gradients = torch.autograd.grad(waiting, [inputs[1], *own.parameters()])
    assert_close(list(gradients), expected(own, 1)[3:])


def test_what_keeps_changing_is_recorded_only_so_often(machine: Emulated) -> None:
    own, kept = lstm(), list[Any]()
    with torch.no_grad():
        for _ in range(calls.TRIES + 3):
            own.kernel.data = own.kernel.detach() * 1.01
            kept.append(own.kernel.detach())  # or its memory would be the next one's
            for seed in range(2):
                assert_close([loop(own, inputs_of(seed))[0]], expected_outputs(own, seed))
    assert machine.recorded == calls.TRIES


def expected_outputs(own: Any, seed: int) -> list[Tensor]:
    with torch.enable_grad():
        return expected(own, seed)[:1]


def test_numbers_of_steps_are_recorded_side_by_side(machine: Emulated) -> None:
    own = lstm()
    for steps in (3, 5, 3, 5, 3, 5):
        assert_close(found(own, steps, steps=steps), expected(own, steps, steps=steps))
    assert machine.recorded == 4


def test_what_lies_otherwise_is_another_call(machine: Emulated) -> None:
    own = lstm()
    for _ in range(3):
        inputs = inputs_of(1).detach().transpose(0, 1).contiguous().transpose(0, 1)
        assert not inputs.is_contiguous()
        with torch.no_grad():
            assert_close([loop(own, inputs)[0]], expected_outputs(own, 1))
            assert_close([loop(own, inputs_of(1))[0]], expected_outputs(own, 1))


def test_each_choice_of_gradients_has_a_recording(machine: Emulated) -> None:
    own = lstm()
    for _ in range(3):
        inputs = inputs_of(0)
        outputs, state = loop(own, inputs)
        total = loss(outputs, state, 0)
        some = torch.autograd.grad(total, own.kernel, retain_graph=True)
        assert_close(list(some), [expected(own, 0)[4]])
        every = torch.autograd.grad(total, [inputs, *own.parameters()])
        assert_close(list(every), expected(own, 0)[3:])
    inputs = inputs_of(0)
    (last,) = torch.autograd.grad(loop(own, inputs)[1].c.sum(), inputs)  # no gradient comes to the outputs
    assert last.abs().sum() > 0


def test_gradients_of_gradients_are_those_of_the_plain_loop(machine: Emulated) -> None:
    own = lstm()
    for seed in range(3):
        found(own, seed)
    both = list[Tensor]()
    for way in (lambda each: loop(own, each)[0], lambda each: torch.stack(steps_of(own, each))):
        inputs = inputs_of(0)
        (first,) = torch.autograd.grad(way(inputs).pow(2).sum(), inputs, create_graph=True)
        both += torch.autograd.grad(first.pow(2).sum(), inputs)
    torch.testing.assert_close(*both, rtol=1e-10, atol=1e-10)


def steps_of(own: Any, inputs: Tensor) -> list[Tensor]:
    state, outputs = own.zero_state(BATCH, torch.float64), list[Tensor]()
    for each in inputs:
        output, state = own(each, state)
        outputs.append(output)
    return outputs


def test_whoever_packs_what_is_saved_gets_it(machine: Emulated) -> None:
    own, packed = lstm(), list[Tensor]()
    for seed in range(3):
        found(own, seed)
    before = machine.repeated
    with torch.autograd.graph.saved_tensors_hooks(lambda each: (packed.append(each), each)[1], lambda each: each):
        outputs, _ = loop(own, inputs_of(0))
    assert machine.repeated == before
    assert len(packed) > 3
    assert outputs.requires_grad


def test_what_is_changed_in_place_before_backward_is_an_error(machine: Emulated) -> None:
    own = lstm()
    for seed in range(3):
        found(own, seed)
    inputs = inputs_of(0).detach()
    outputs, state = loop(own, inputs)
    inputs.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss(outputs, state, 0).backward()


def test_nothing_is_recorded_while_somebody_captures(machine: Emulated) -> None:
    own = lstm()
    machine.place = None
    for seed in range(4):
        assert_close(found(own, seed), expected(own, seed))
    assert machine.recorded == 0


def test_another_stream_has_its_own(machine: Emulated) -> None:
    own = lstm()
    for seed in range(6):
        machine.place = "a stream" if seed < 3 else "another"
        assert_close(found(own, seed), expected(own, seed))
    assert machine.recorded == 4


def test_what_cannot_be_recorded_runs_as_before(machine: Emulated) -> None:
    own = lstm()
    machine.refuses = "operation not permitted when stream is capturing"
    for seed in range(calls.TRIES + 2):
        assert_close(found(own, seed), expected(own, seed))
    assert machine.repeated == 0


LENGTHS = [[5, 2, 1], [0, 4, 4], [3, 5, 5], [0, 0, 2], [1, 1, 1], [0, 0, 0]]


@pytest.fixture
def on_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lengths are as if they were on a GPU."""
    monkeypatch.setattr(run, "stays_on_device", lambda lengths, device: True)
    monkeypatch.setattr(arguments, "check_lengths_fit", lambda lengths, steps: None)


def by_lengths(own: Any, inputs: Tensor, lengths: Any, memory: Memory | None = None) -> Any:
    return dynamic_rnn(own, inputs, torch.tensor(lengths), dtype=torch.float64, time_major=True, memory=memory)


def ragged(own: Any, seed: int, lengths: list[int], memory: Memory | None = None) -> list[Tensor]:
    inputs = inputs_of(seed)
    outputs, state = by_lengths(own, inputs, lengths, memory)
    gradients = torch.autograd.grad(loss(outputs, state, seed), [inputs, *own.parameters()])
    return [outputs.detach(), state.c.detach(), state.h.detach(), *gradients]


def expected_of(own: Any, seed: int, lengths: list[int]) -> list[Tensor]:
    """The same by the loop that runs every row to its end."""
    inputs = inputs_of(seed)
    outputs, state = plain.run(own, inputs, torch.tensor(lengths), own.zero_state(BATCH, torch.float64), torch.float64)
    total = loss(outputs, state, seed)
    sources = [inputs, *own.parameters()]
    gradients = [torch.zeros_like(each) for each in sources]
    if any(lengths):
        gradients = list(torch.autograd.grad(total, sources))
    return [outputs.detach(), state.c.detach(), state.h.detach(), *gradients]


@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize("memory", POLICIES, ids=str)
def test_lengths_on_a_device_are_those_of_each_call(machine: Emulated, memory: Memory) -> None:
    own = lstm()
    for seed, lengths in enumerate(LENGTHS):
        assert_close(ragged(own, seed, lengths, memory), expected_of(own, seed, lengths))
    assert machine.recorded == 2
    assert machine.repeated == 5 + 4


@pytest.mark.usefixtures("on_device")
def test_lengths_wait_for_their_backward_pass_too(machine: Emulated) -> None:
    own = lstm()
    for seed in range(3):
        ragged(own, seed, LENGTHS[seed])
    inputs = [inputs_of(seed) for seed in range(4)]
    given = [torch.tensor(each) for each in LENGTHS[:4]]
    losses = list[Tensor]()
    for seed, (each, lengths) in enumerate(zip(inputs, given, strict=True)):
        losses.append(loss(*dynamic_rnn(own, each, lengths, dtype=torch.float64, time_major=True), seed))
        lengths.fill_(1)  # after the call they are the caller's
    for seed in (2, 3, 0, 1):
        gradients = torch.autograd.grad(losses[seed], [inputs[seed], *own.parameters()])
        assert_close(list(gradients), expected_of(own, seed, LENGTHS[seed])[3:])


@pytest.mark.usefixtures("on_device")
def test_each_choice_of_gradients_knows_the_lengths(machine: Emulated) -> None:
    own = lstm()
    for seed, lengths in enumerate(LENGTHS[:5]):
        inputs = inputs_of(seed)
        total = loss(*by_lengths(own, inputs, lengths), seed)
        reference = expected_of(own, seed, lengths)[3:]
        some = torch.autograd.grad(total, own.kernel, retain_graph=True)
        assert_close(list(some), [reference[1]])
        assert_close(list(torch.autograd.grad(total, [inputs, *own.parameters()])), reference)
    assert machine.repeated > 4 + 3


@pytest.mark.usefixtures("on_device")
def test_calls_with_lengths_and_without_are_recorded_side_by_side(machine: Emulated) -> None:
    own = lstm()
    for seed in range(6):
        if seed % 2:
            assert_close(found(own, seed), expected(own, seed))
        else:
            assert_close(ragged(own, seed, LENGTHS[seed]), expected_of(own, seed, LENGTHS[seed]))
    assert machine.recorded == 4


def test_a_weight_that_lies_otherwise_in_the_same_place_is_recorded_anew(machine: Emulated) -> None:
    own = cell(nn.RNNCell(4, 4)).double()
    weight = next(each for name, each in own.named_parameters() if name.endswith("weight_hh"))
    with torch.no_grad():
        for turn in range(4):
            if turn == 2:
                place = weight.data_ptr()
                weight.data = weight.data.t()
                assert weight.data_ptr() == place
            outputs, _ = dynamic_rnn(own, inputs_of(1), dtype=torch.float64, time_major=True)
            plainly, _ = plain.run(own, inputs_of(1), None, torch.zeros(BATCH, 4, dtype=torch.float64), torch.float64)
            torch.testing.assert_close(outputs, plainly, rtol=1e-12, atol=1e-12)
    assert machine.recorded == 2


def test_recordings_used_long_ago_make_room(machine: Emulated, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "_budgets", {torch.device("cpu"): Budget(9000)})
    own, several, others = lstm(), (3, 4, 5, 6, 7), living()
    for steps in several:
        for _ in range(2):
            with torch.no_grad():
                loop(own, inputs_of(1, steps))
    assert machine.recorded == len(several)
    held = [each for each in living() if each.holds and not any(each is other for other in others)]
    assert 1 < len(held) < len(several)
    assert sum(each.size for each in held) <= 9000
    for steps in several:  # and are made anew
        assert_close(found(own, steps, steps=steps), expected(own, steps, steps=steps))


@pytest.mark.parametrize("why", ["large", "random", "lengths"])
def test_calls_that_are_not_recorded(machine: Emulated, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    own: Any = cell(lambda x, h: (torch.tanh(x + torch.dropout(h, 0.5, True)),) * 2, state_size=4)
    if why != "random":
        own = lstm()
    if why == "large":
        monkeypatch.setattr(calls, "LEAST", 100)
    lengths = [5, 2, 1] if why == "lengths" else None
    for seed in range(3):
        dynamic_rnn(own, inputs_of(seed), lengths, dtype=torch.float64, time_major=True)
    assert machine.recorded == 0


def test_an_index_out_of_range_in_a_recording_is_said(machine: Emulated) -> None:
    own = EmbeddingWrapper(BasicLSTMCell(4, input_size=4), embedding_classes=5, embedding_size=4)
    ids = torch.tensor([[[1], [2], [3]], [[0], [1], [2]]])
    with torch.no_grad():
        for _ in range(3):
            dynamic_rnn(own, ids, dtype=torch.float32, time_major=True)
        assert machine.repeated == 2
        ids[1, 1] = 7
        with pytest.raises(IndexError, match="not in"):
            dynamic_rnn(own, ids, dtype=torch.float32, time_major=True)


def test_threads_may_repeat_one_recording(machine: Emulated) -> None:
    own, wrong = lstm(), list[Any]()
    references = [expected(own, seed) for seed in range(4)]
    for seed in range(3):
        found(own, seed)

    def work(seed: int) -> None:
        for _ in range(3):
            try:
                assert_close(found(own, seed), references[seed])
            except AssertionError as error:
                wrong.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert wrong == []


def test_recordings_go_with_their_cell(machine: Emulated) -> None:
    own = lstm()
    for seed in range(3):
        found(own, seed)
    before = len(living())
    del own
    assert len(living()) < before


def living() -> list[Recorded]:
    gc.collect()
    return [each for each in gc.get_objects() if type(each) is Recorded]  # others' __class__ may be anything, and warn


def test_a_repeated_call_is_few_operations(machine: Emulated) -> None:
    own, _, _ = problem("lstm", torch.float32)
    inputs = torch.zeros(2, 3, 4)

    def train() -> None:
        torch.autograd.grad(dynamic_rnn(own, inputs, time_major=True)[0].sum(), own.kernel)

    for _ in range(3):
        train()
    machine.silent = True  # what a graph does is no operation of torch's
    with torch.no_grad():
        for _ in range(3):
            dynamic_rnn(own, inputs, time_major=True)
        assert operations_of(lambda: dynamic_rnn(own, inputs, time_major=True)) <= 10
    assert operations_of(train) <= 20


def test_performance_warnings_are_as_without(machine: Emulated, recwarn: pytest.WarningsRecorder) -> None:
    own = lstm()
    for seed in range(4):
        found(own, seed)
    assert not [each for each in recwarn.list if each.category is PerformanceWarning]
