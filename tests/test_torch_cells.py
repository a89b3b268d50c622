"""torch's own cells, taken as they are."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import unspool
from tests.by_hand import BATCH, LENGTHS, TIME, by_hand, check
from unspool.engine.plans import cache
from unspool.engine.plans.fast_path import Latest

DEPTH, UNITS = 3, 5
KINDS: dict[str, Any] = {
    "LSTMCell": nn.LSTMCell,
    "GRUCell": nn.GRUCell,
    "RNNCell": nn.RNNCell,
    "relu": lambda *sizes, **options: nn.RNNCell(*sizes, nonlinearity="relu", **options),
    "no bias": lambda *sizes, **options: nn.LSTMCell(*sizes, bias=False, **options),
}


def make(name: str, depth: int = DEPTH) -> Any:
    torch.manual_seed(0)
    return KINDS[name](depth, UNITS, dtype=torch.float64)


def step_of(cell: Any) -> Any:
    def step(x: Tensor, state: Any) -> Any:
        new = cell(x, state)
        return (new[0] if isinstance(cell, nn.LSTMCell) else new), new

    return step


def random_state(cell: Any) -> Any:
    states = tuple(torch.randn(BATCH, UNITS, dtype=torch.float64) for _ in range(2))
    return states if isinstance(cell, nn.LSTMCell) else states[0]


X = torch.randn(BATCH, TIME, DEPTH, dtype=torch.float64)


@pytest.mark.parametrize("name", KINDS)
def test_they_compute_what_torch_computes_with_every_gradient(name: str) -> None:
    cell = make(name)
    check(cell, step_of(cell), X, random_state(cell), list(cell.parameters()))


@pytest.mark.parametrize("name", ["LSTMCell", "GRUCell"])
def test_they_start_from_zeros_of_their_weights_dtype(name: str) -> None:
    cell = make(name)
    outputs, state = unspool.dynamic_rnn(cell, X, LENGTHS)
    zeros = torch.zeros(BATCH, UNITS, dtype=torch.float64)
    expected = by_hand(step_of(cell), X, LENGTHS, (zeros, zeros) if name == "LSTMCell" else zeros)
    torch.testing.assert_close((outputs, state), expected, rtol=1e-10, atol=1e-10)
    assert outputs.dtype == torch.float64


@pytest.mark.parametrize("name", ["LSTMCell", "GRUCell", "RNNCell"])
def test_a_second_call_takes_the_fast_path(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hits: list[bool] = []
    again = Latest.again

    def counted(self: Latest, *arguments: Any) -> Any:
        found = again(self, *arguments)
        hits.append(found is not None)
        return found

    monkeypatch.setattr(Latest, "again", counted)
    cell = make(name)
    unspool.dynamic_rnn(cell, X, LENGTHS)
    traced = cache.traces
    for _ in range(3):
        unspool.dynamic_rnn(cell, X, LENGTHS)
    assert hits[-3:] == [True] * 3
    assert cache.traces == traced


def test_they_are_not_kept_alive() -> None:
    seen: list[weakref.ref[Any]] = []
    for name in ("LSTMCell", "GRUCell"):
        cell = make(name)
        for _ in range(2):
            outputs, state = unspool.dynamic_rnn(cell, X, LENGTHS)
            outputs.sum().backward()
        seen.append(weakref.ref(cell))
        del cell, outputs, state
    gc.collect()
    assert [each() for each in seen] == [None, None]


def test_all_loops_take_them() -> None:
    fw, bw = make("LSTMCell"), make("GRUCell")
    (one, other), (state_fw, state_bw) = unspool.bidirectional_dynamic_rnn(fw, bw, X, LENGTHS)
    turned = torch.stack([torch.cat([row[:n].flip(0), row[n:]]) for row, n in zip(X, LENGTHS, strict=True)])
    zeros = torch.zeros(BATCH, UNITS, dtype=torch.float64)
    torch.testing.assert_close((one, state_fw), by_hand(step_of(fw), X, LENGTHS, (zeros, zeros)))
    torch.testing.assert_close(state_bw, by_hand(step_of(bw), turned, LENGTHS, zeros)[1])
    steps = list(X.unbind(1))
    joined, _, _ = unspool.static_bidirectional_rnn(fw, bw, steps, sequence_length=LENGTHS)
    torch.testing.assert_close(torch.stack(joined, 1), torch.cat([one, other], 2))
    tops = [make("GRUCell", 2 * UNITS) for _ in range(2)]
    deep, _, _ = unspool.stack_bidirectional_dynamic_rnn([fw, tops[0]], [bw, tops[1]], X, sequence_length=LENGTHS)
    flat, _, _ = unspool.stack_bidirectional_rnn([fw, tops[0]], [bw, tops[1]], steps, sequence_length=LENGTHS)
    torch.testing.assert_close(torch.stack(flat, 1), deep)
    shelf: Any = type("Shelf", (dict,), {"state": dict.__getitem__, "save_state": dict.__setitem__})(h=zeros, c=zeros)
    _, state = unspool.static_state_saving_rnn(fw, steps, shelf, ("h", "c"))
    assert torch.equal(shelf["c"], state[1])

    def loop_fn(time: int, output: Any, state: Any, loop_state: Any) -> Any:
        finished = torch.tensor([time >= length for length in LENGTHS])
        return finished, X[:, min(time, TIME - 1)], (zeros, zeros) if output is None else state, output, None

    emits, _, _ = unspool.raw_rnn(fw, loop_fn)
    torch.testing.assert_close(emits.stack().transpose(0, 1), one)


def test_stacks_and_wrappers_take_them() -> None:
    lower, upper = make("LSTMCell"), make("GRUCell", UNITS)
    stack = unspool.MultiRNNCell([lower, unspool.ResidualWrapper(upper)])
    assert (stack.state_size, stack.output_size) == (((UNITS, UNITS), UNITS), UNITS)

    def both(x: Tensor, state: Any) -> Any:
        h, c = lower(x, state[0])
        top = upper(h, state[1])
        return top + h, ((h, c), top)

    check(stack, both, X, (random_state(lower), random_state(upper)), list(stack.parameters()))
    outputs, _ = unspool.dynamic_rnn(stack, X, LENGTHS, dtype=torch.float64)
    assert outputs.shape == (BATCH, TIME, UNITS)
    with pytest.warns(UserWarning, match="the same cell object more than once"):
        shared = unspool.MultiRNNCell([upper, upper])
    assert len(list(shared.parameters())) == 4


def test_hooks_on_one_in_a_stack_are_its_own() -> None:
    stacks = [unspool.MultiRNNCell([make("GRUCell")]) for _ in range(2)]
    calls: list[int] = []
    stacks[0].cells[0].register_forward_hook(lambda *_: calls.append(1))
    for stack in stacks[1:]:
        unspool.dynamic_rnn(stack, X, dtype=torch.float64)
    unspool.dynamic_rnn(make("GRUCell"), X)
    assert not calls


def test_decoders_take_them() -> None:
    helper = unspool.TrainingHelper(X, LENGTHS)
    cell = make("GRUCell")
    decoder = unspool.BasicDecoder(cell, helper, random_state(cell))
    outputs, _, _ = unspool.dynamic_decode(decoder)
    assert outputs.rnn_output.shape == (BATCH, TIME, UNITS)


def test_cell_makes_one_of_them() -> None:
    lstm = make("LSTMCell")
    cell = unspool.cell(lstm)
    assert cell.state_size == (UNITS, UNITS)
    assert list(cell.parameters()) == list(lstm.parameters())
    torch.testing.assert_close(unspool.dynamic_rnn(cell, X, LENGTHS), unspool.dynamic_rnn(lstm, X, LENGTHS))


def test_states_in_another_order_are_a_type_error() -> None:
    h, c = random_state(make("LSTMCell"))
    with pytest.raises(
        TypeError, match=r"LSTMCell: the state must be a tuple \(h, c\), as torch has it, but is an LSTMS"
    ):
        unspool.dynamic_rnn(make("LSTMCell"), X, None, unspool.LSTMStateTuple(c, h))


@pytest.mark.parametrize("inputs", [X[..., 0], X[..., None], (X, X)])
def test_inputs_that_are_no_matrix_are_a_value_error(inputs: Any) -> None:
    with pytest.raises(ValueError, match=r"GRUCell: inputs .*, but expected ndim=2: \[batch, depth\]"):
        unspool.dynamic_rnn(make("GRUCell"), inputs)


def test_subclasses_with_a_step_of_their_own_are_no_cells_yet() -> None:
    class Own(nn.GRUCell):
        def forward(self, input: Tensor, hx: Tensor | None = None) -> Any:
            return super().forward(input, hx), 3

    class Renamed(nn.GRUCell):
        pass

    with pytest.raises(TypeError, match=r"is not an RNNCell.*unspool\.cell makes a cell of it"):
        unspool.dynamic_rnn(Own(DEPTH, UNITS), X.float())
    outputs, _ = unspool.dynamic_rnn(Renamed(DEPTH, UNITS), X.float(), LENGTHS)
    assert outputs.shape == (BATCH, TIME, UNITS)
