"""Recorded calls share memory: what a backward pass needs stays, what nobody needs is given back."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from tests.emulator import Emulated
from tests.recorded_calls import assert_close, expected, found, inputs_of, loop, loss, lstm, recording
from unspool import BasicLSTMCell, EmbeddingWrapper, dynamic_rnn
from unspool.engine.execute import autograd
from unspool.engine.execute.recorded import lease, recordings
from unspool.engine.execute.recorded.recordings import Recordings
from unspool.engine.memory.budget import Budget


@pytest.fixture
def machine() -> Iterator[Emulated]:
    with recording() as found:
        yield found


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


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> weakref.WeakSet[Recordings]:
    """Those that are made in a test, as long as they live."""
    own, make = weakref.WeakSet[Recordings](), Recordings.__init__

    def noted(self: Recordings, *arguments: Any) -> None:
        make(self, *arguments)
        own.add(self)

    monkeypatch.setattr(Recordings, "__init__", noted)
    return own


def test_recordings_used_long_ago_make_room(
    machine: Emulated, made: weakref.WeakSet[Recordings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recordings, "_budgets", {torch.device("cpu"): Budget(9000)})
    monkeypatch.setattr(recordings, "SEGMENTS", 0)
    own, several = lstm(), (3, 4, 5, 6, 7)
    for steps in several:
        for _ in range(2):
            with torch.no_grad():
                loop(own, inputs_of(1, steps))
    assert machine.recorded == len(several)
    held = [each for each in made if each.holds]
    assert 1 < len(held) < len(several)
    assert sum(each.size for each in held) <= 9000
    for steps in several:  # and are made anew
        assert_close(found(own, steps, steps=steps), expected(own, steps, steps=steps))


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


def test_recordings_go_with_their_cell(machine: Emulated, made: weakref.WeakSet[Recordings]) -> None:
    own = lstm()
    for seed in range(3):
        found(own, seed)
    assert made
    del own
    gc.collect()
    assert not made


def test_what_is_changed_in_place_before_backward_is_an_error(machine: Emulated) -> None:
    own = lstm()
    for seed in range(3):
        found(own, seed)
    inputs = inputs_of(0).detach()
    outputs, state = loop(own, inputs)
    inputs.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss(outputs, state, 0).backward()


def test_a_call_of_another_thread_at_once_after_it_leaves_residuals(
    machine: Emulated, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, forward, others = lstm(), Recordings.forward, [inputs_of(7)]
    for seed in range(3):
        found(own, seed)

    def interrupted(self: Recordings, *arguments: Any) -> Any:
        result = forward(self, *arguments)
        if others:
            other = threading.Thread(target=loop, args=(own, others.pop()))
            other.start()
            other.join()
        return result

    monkeypatch.setattr(Recordings, "forward", interrupted)
    inputs = inputs_of(0)
    total = loss(*loop(own, inputs), 0)
    assert_close(list(torch.autograd.grad(total, [inputs, *own.parameters()])), expected(own, 0)[3:])


def test_copies_are_given_back_after_backward_though_losses_are_kept(
    machine: Emulated, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, leases, losses, end = lstm(), list[lease.Lease](), list[Any](), lease.Lease.end
    monkeypatch.setattr(lease.Lease, "end", lambda self: (leases.append(self), end(self))[1])
    for seed in range(5):
        total = loss(*loop(own, inputs_of(seed)), seed) + loss(*loop(own, inputs_of(seed + 1)), seed + 1)
        total.backward()
        losses.append(total)
    found(own, 0)
    assert len(leases) > 5
    assert [each for each in leases if each._own is not None] == []


def test_gradients_of_weights_count(machine: Emulated, monkeypatch: pytest.MonkeyPatch) -> None:
    own = EmbeddingWrapper(BasicLSTMCell(4, input_size=4), embedding_classes=5000, embedding_size=4)
    monkeypatch.setattr(recordings, "LEAST", 80_000)  # less than the table's
    ids = torch.randint(0, 5, (5, 3, 1))
    for _ in range(4):
        dynamic_rnn(own, ids, dtype=torch.float32, time_major=True)[0].sum().backward()
    assert machine.recorded == 0
    with torch.no_grad():
        for _ in range(3):
            dynamic_rnn(own, ids, dtype=torch.float32, time_major=True)
    assert machine.recorded == 1


@pytest.mark.parametrize("which", ["forward", "backward"])
def test_recordings_make_room_for_a_pass_that_finds_no_memory(
    which: str, machine: Emulated, made: weakref.WeakSet[Recordings], monkeypatch: pytest.MonkeyPatch
) -> None:
    own, other = lstm(), lstm(5)
    for seed in range(3):
        found(own, seed)
    held, failures = [each for each in made if each.holds], list[bool]()
    kind = autograd.Backward if which == "backward" else None
    ran = autograd.forward if kind is None else kind.run

    def full(*arguments: Any) -> Any:
        if any(each.holds for each in held):
            failures.append(True)
            raise torch.OutOfMemoryError("there is no memory left")
        return ran(*arguments)

    monkeypatch.setattr(autograd if kind is None else kind, "forward" if kind is None else "run", full)
    assert_close(found(other, 1), expected(other, 1))
    assert failures == [True]
    assert not any(each.holds for each in held)


def test_where_nothing_is_held_memory_is_missing(machine: Emulated, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> Any:
        raise torch.OutOfMemoryError("there is no memory left")

    monkeypatch.setattr(recordings, "_budgets", dict[torch.device, Budget]())
    monkeypatch.setattr(autograd, "forward", full)
    with pytest.raises(torch.OutOfMemoryError, match="no memory left"):
        found(lstm(), 0)
