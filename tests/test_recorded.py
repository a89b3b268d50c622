"""Calls that are repeated are recorded: whatever happens between them, every call has its own numbers and gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from tests.emulator import Emulated
from tests.emulator.cells import problem
from tests.emulator.recorder import EmulatedRecorder
from tests.recorded_calls import (
    BATCH,
    POLICIES,
    assert_close,
    expected,
    found,
    inputs_of,
    loop,
    loss,
    lstm,
    recording,
)
from tests.test_cuda_loop import operations_of
from unspool import BasicLSTMCell, EmbeddingWrapper, cell, dynamic_rnn
from unspool.engine import Memory
from unspool.engine.execute import plain
from unspool.engine.execute.recorded import recorded_call, recordings
from unspool.engine.fallbacks import PerformanceWarning
from unspool.engine.memory.copying import copy_all


@pytest.fixture
def machine() -> Iterator[Emulated]:
    with recording() as found:
        yield found


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


def test_what_keeps_changing_is_recorded_only_so_often(machine: Emulated) -> None:
    own, kept = lstm(), list[Any]()
    with torch.no_grad():
        for _ in range(recordings.TRIES + 3):
            own.kernel.data = own.kernel.detach() * 1.01
            kept.append(own.kernel.detach())  # or its memory would be the next one's
            for seed in range(2):
                assert_close([loop(own, inputs_of(seed))[0]], expected_outputs(own, seed))
    assert machine.recorded == recordings.TRIES


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
    for seed in range(recordings.TRIES + 2):
        assert_close(found(own, seed), expected(own, seed))
    assert machine.repeated == 0


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


@pytest.mark.parametrize("why", ["large", "random", "lengths"])
def test_calls_that_are_not_recorded(machine: Emulated, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    own: Any = cell(lambda x, h: (torch.tanh(x + torch.dropout(h, 0.5, True)),) * 2, state_size=4)
    if why != "random":
        own = lstm()
    if why == "large":
        monkeypatch.setattr(recordings, "LEAST", 100)
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


def test_zeros_that_nobody_gave_are_not_made_again(machine: Emulated) -> None:
    own, inputs = lstm(), inputs_of(0)
    for _ in range(3):
        found(own, 0)
    machine.silent = True
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        loop(own, inputs)
    names = {each.name for each in seen.events() or ()}
    assert "aten::copy_" in names
    assert not names & {"aten::zeros", "aten::zero_", "aten::fill_"}


def test_given_states_and_none_take_turns_in_one_recording(machine: Emulated) -> None:
    own, inputs = lstm(), inputs_of(1)
    state = own.zero_state(BATCH, torch.float64)
    given = type(state)(*(leaf + 0.5 for leaf in state))
    with torch.no_grad():
        for turn in [None, given, None, None, given, given, None]:
            expected_outputs = plain.run(own, inputs, None, state if turn is None else turn, torch.float64)[0]
            outputs, _ = dynamic_rnn(own, inputs, initial_state=turn, dtype=torch.float64, time_major=True)
            torch.testing.assert_close(outputs, expected_outputs, rtol=1e-12, atol=1e-12)
    assert machine.recorded == 1
    assert machine.repeated == 6


def test_an_interrupted_copy_leaves_no_zeros_that_are_none(machine: Emulated, monkeypatch: pytest.MonkeyPatch) -> None:
    own, inputs = lstm(), inputs_of(1)
    state = own.zero_state(BATCH, torch.float64)

    def outputs(first: Any = None) -> Tensor:
        with torch.no_grad():
            return dynamic_rnn(own, inputs, initial_state=first, dtype=torch.float64, time_major=True)[0]

    def interrupted(*tensors: Any) -> None:
        copy_all(*tensors)
        raise KeyboardInterrupt

    before, *_ = [outputs() for _ in range(3)]
    given = type(state)(*(leaf + 0.5 for leaf in state))
    monkeypatch.setattr(recorded_call, "copy_all", interrupted)
    with pytest.raises(KeyboardInterrupt):
        outputs(given)
    monkeypatch.undo()
    assert_close([outputs()], [before])


def test_gradients_of_what_began_with_zeros_may_come_late_or_twice(machine: Emulated) -> None:
    own = lstm()
    for _ in range(3):
        found(own, 0)
    outputs, _ = loop(own, inputs_of(1))
    loop(own, inputs_of(2))  # which takes the memory of the call before
    first = torch.autograd.grad(outputs.sum(), own.kernel, retain_graph=True)
    again = torch.autograd.grad(outputs.sum(), own.kernel)
    outputs, _ = plain.run(own, inputs_of(1), None, own.zero_state(BATCH, torch.float64), torch.float64)
    wanted = torch.autograd.grad(outputs.sum(), own.kernel)
    assert_close([*first, *again], [*wanted, *wanted])


def test_performance_warnings_are_as_without(machine: Emulated, recwarn: pytest.WarningsRecorder) -> None:
    own = lstm()
    for seed in range(4):
        found(own, seed)
    assert not [each for each in recwarn.list if each.category is PerformanceWarning]


def test_what_backward_cannot_record_is_tried_once(machine: Emulated, monkeypatch: pytest.MonkeyPatch) -> None:
    own, tries, record = lstm(), list[bool](), EmulatedRecorder.record

    def fails_second(self: EmulatedRecorder, function: Any) -> Any:
        if self._made:  # forward has been recorded
            tries.append(True)
            raise RuntimeError("operation not permitted when stream is capturing")
        return record(self, function)

    monkeypatch.setattr(EmulatedRecorder, "record", fails_second)
    for seed in range(8):
        assert_close(found(own, seed), expected(own, seed))
    assert len(tries) == 1


class Exponential(nn.Module):
    """Has a weight that an operation makes which waits for the device."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = nn.Parameter(torch.zeros(4, 4, dtype=torch.float64))

    def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.tanh(x + h @ torch.matrix_exp(self.generator))
        return h, h


def test_what_may_wait_for_the_device_is_not_recorded(machine: Emulated) -> None:
    own = cell(Exponential(), state_size=4)
    for seed in range(3):
        dynamic_rnn(own, inputs_of(seed), dtype=torch.float64, time_major=True)[0].sum().backward()
    assert machine.recorded == 0


def test_nothing_is_recorded_where_somebody_says_so(machine: Emulated) -> None:
    own = lstm()
    with recordings.unrecorded():
        for seed in range(4):
            assert_close(found(own, seed), expected(own, seed))
    assert machine.recorded == 0
    found(own, 0)
    found(own, 1)
    assert machine.recorded == 1
