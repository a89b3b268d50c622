"""The facts of `raw_rnn` that no equivalence with another loop can show."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from tests.cells import Plus1
from unspool import GRUCell, LSTMCell, TensorArray, raw_rnn

B = 3


def counting(finished: Any, *, emit: Any = None, template: Any = None, loop_state: Any = None) -> Any:
    """A loop function on zeros; `finished(time)` and `emit(time)` say what it answers."""
    calls: list[int] = []

    def loop_fn(time: int, output: Any, state: Any, current: Any) -> Any:
        calls.append(time)
        if output is None:
            assert (time, state, current) == (0, None, None)
            return finished(0), torch.zeros(B, 5), torch.zeros(B, 5), template, loop_state
        out = output if emit is None else emit(time)
        return finished(time), torch.zeros(B, 5), state, out, None if current is None else current + time

    loop_fn.calls = calls  # pyright: ignore[reportFunctionMemberAccess]
    return loop_fn


def at(*times: int) -> Any:
    return lambda time: torch.tensor([time >= each for each in times])


def test_the_cell_runs_once_less_than_loop_fn() -> None:
    cell, loop_fn = Plus1(), counting(at(2, 0, 3))
    emits, state, loop_state = raw_rnn(cell, loop_fn)
    assert loop_fn.calls == [0, 1, 2, 3]
    assert cell.calls == 3
    assert emits.stack().shape == (3, B, 5)  # as long as it ran, time-major
    assert emits.stack()[:, :, 0].T.tolist() == [[1, 1, 0], [0, 0, 0], [1, 1, 1]]
    assert state[:, 0].tolist() == [2, 0, 3]
    assert loop_state is None


def test_a_row_that_finished_once_stays_finished() -> None:
    def finished(time: int) -> Tensor:
        return torch.tensor([time == 1, time >= 3, time >= 3])  # row 0 says True once, then False again

    emits, state, _ = raw_rnn(Plus1(), counting(finished))
    assert emits.stack()[:, 0, 0].tolist() == [1, 0, 0]
    assert state[:, 0].tolist() == [1, 3, 3]


def test_one_bool_may_finish_all_rows() -> None:
    emits, state, _ = raw_rnn(Plus1(), counting(lambda time: time >= 2))
    assert emits.size() == 2
    assert state[:, 0].tolist() == [2, 2, 2]


def test_all_rows_finished_at_once_runs_nothing() -> None:
    cell = GRUCell(5)
    loop_fn = counting(at(0, 0, 0))
    emits, state, _ = raw_rnn(cell, loop_fn)
    assert loop_fn.calls == [0]
    assert emits.size() == 0
    assert emits.stack().shape == (0, B, 5)
    assert torch.equal(state, torch.zeros(B, 5))
    assert cell.built


def test_what_is_emitted_need_not_be_the_output() -> None:
    template = {"id": torch.tensor(0), "map": torch.zeros(2, 3)}

    def emit(time: int) -> Any:
        return {"id": torch.full((B,), time), "map": torch.full((B, 2, 3), float(time))}

    emits, _, _ = raw_rnn(Plus1(), counting(at(2, 1, 3), emit=emit, template=template))
    assert emits["id"].stack().dtype == torch.int64
    assert emits["id"].stack().T.tolist() == [[1, 2, 0], [1, 0, 0], [1, 2, 3]]
    assert emits["map"].stack().shape == (3, B, 2, 3)


def test_a_loop_state_is_carried_past_every_row_and_none_keeps_it() -> None:
    _, _, loop_state = raw_rnn(Plus1(), counting(at(1, 3, 2), loop_state=torch.tensor(0)))
    assert loop_state == 1 + 2 + 3

    def sometimes(time: int, output: Any, state: Any, current: Any) -> Any:
        start = torch.zeros(B, 5) if output is None else state
        kept = {0: "first", 2: "second"}.get(time)
        return at(3, 3, 3)(time), torch.zeros(B, 5), start, output, kept

    assert raw_rnn(Plus1(), sometimes)[2] == "second"


def test_later_loop_states_are_ignored_if_there_was_none_at_first() -> None:
    seen: list[Any] = []

    def loop_fn(time: int, output: Any, state: Any, current: Any) -> Any:
        seen.append(current)
        start = torch.zeros(B, 5) if output is None else state
        return at(2, 2, 2)(time), torch.zeros(B, 5), start, output, None if time == 0 else "ignored"

    assert raw_rnn(Plus1(), loop_fn)[2] is None
    assert seen == [None, None, None]


def test_a_tensor_array_in_the_loop_state_grows() -> None:
    def loop_fn(time: int, output: Any, state: Any, current: Any) -> Any:
        array = TensorArray(torch.float32) if current is None else current
        start = torch.zeros(B, 5) if output is None else state
        return at(4, 4, 4)(time), torch.zeros(B, 5), start, output, array.write(time, torch.tensor(float(time)))

    assert raw_rnn(Plus1(), loop_fn)[2].stack().tolist() == [0, 1, 2, 3, 4]


def test_numpy_is_accepted_at_every_call() -> None:
    def loop_fn(time: int, output: Any, state: Any, loop_state: Any) -> Any:
        start = np.zeros((B, 5), np.float32) if output is None else state
        return np.array([time >= 2] * B), np.zeros((B, 5), np.float32), start, output, None

    emits, _, _ = raw_rnn(Plus1(), loop_fn)
    assert emits.stack().shape == (2, B, 5)


def test_under_autocast_states_and_emits_keep_their_dtype() -> None:
    cell = LSTMCell(4, num_proj=5, input_size=5)

    def loop_fn(time: int, output: Any, state: Any, loop_state: Any) -> Any:
        start = cell.zero_state(B, torch.float32) if output is None else state
        return at(2, 2, 2)(time), torch.ones(B, 5), start, output, None

    with torch.autocast("cpu", torch.bfloat16):
        emits, state, _ = raw_rnn(cell, loop_fn)
    assert emits.stack().dtype == state.h.dtype == torch.float32


def test_sampling_until_an_end_of_sequence_token() -> None:
    """The job `raw_rnn` is for: each row decides by its own output when it ends."""
    torch.manual_seed(0)
    cell, readout, embedding = LSTMCell(8), torch.nn.Linear(8, 4), torch.nn.Embedding(4, 5)
    end, limit = 0, 20

    def loop_fn(time: int, output: Any, state: Any, loop_state: Any) -> Any:
        if output is None:
            start = torch.full((B,), 1)
            return torch.zeros(B, dtype=torch.bool), embedding(start), cell.zero_state(B, "float32"), start[0], None
        ids = torch.multinomial(readout(output).softmax(1), 1)[:, 0]
        return (ids == end) | (time >= limit), embedding(ids), state, ids, None

    ids = raw_rnn(cell, loop_fn)[0].stack().T
    for row in ids.tolist():
        ends = [k for k, token in enumerate(row) if token == end]
        assert not any(row[ends[0] :]) if ends else len(row) == limit
