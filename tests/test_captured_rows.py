"""Tensors of a batch that a step has in an attribute or a closure, as the memory of an attention, one row each."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

import unspool
from tests.by_hand import BATCH, LENGTHS, TIME, check
from unspool.engine.plans import cache
from unspool.structure import flatten

DEPTH, UNITS, PLACES = 3, 5, 7


def memory_of(rows: int = BATCH, places: int = PLACES) -> Tensor:
    return torch.randn(rows, places, DEPTH, dtype=torch.float64, requires_grad=True)


class Attending(nn.Module):
    """A step of an attention over whatever it is told to look at."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.mix = nn.Linear(UNITS, DEPTH).double(), nn.Linear(2 * DEPTH + UNITS, UNITS).double()
        self.memory: Any = None
        self.padding: Any = None
        self.kept: dict[str, Tensor] = {}

    def attend(self, memory: Tensor, x: Tensor, h: Tensor, padding: Tensor | None = None) -> tuple[Any, Tensor]:
        scores = torch.einsum("rpd,rd->rp", memory, self.query(h))
        if padding is not None:
            scores = scores.masked_fill(padding, -1e9)
        weights = torch.softmax(scores, 1)
        h = torch.tanh(self.mix(torch.cat([x, torch.einsum("rp,rpd->rd", weights, memory), h], 1)))
        return (h, weights), h

    def forward(self, x: Tensor, h: Tensor) -> tuple[Any, Tensor]:
        return self.attend(self.memory, x, h, self.padding)


def padding_of(rows: int = BATCH) -> Tensor:
    return torch.arange(PLACES)[None] >= torch.randint(1, PLACES + 1, (rows, 1))


Made = tuple[Callable[..., Any], nn.Module, list[Tensor]]
"""A step, what its weights are in, and the tensors that it has besides."""


def in_an_attribute() -> Made:
    module = Attending()
    module.memory, module.padding = memory_of(), padding_of()
    return module, module, [module.memory]


def in_a_closure() -> Made:
    module, memory = Attending(), memory_of()
    return lambda x, h: module.attend(memory, x, h), module, [memory]


def in_a_dict() -> Made:
    module = Attending()
    module.kept["encoded"] = memory_of()
    return lambda x, h: module.attend(module.kept["encoded"], x, h), module, [module.kept["encoded"]]


def in_a_buffer() -> Made:
    module = Attending()
    module.register_buffer("encoded", memory_of().detach())
    return lambda x, h: module.attend(module.get_buffer("encoded"), x, h), module, []


def of_which_rows_have_numbers() -> Made:
    """A speaker's number for each row, and the table that it is looked up in."""
    module = Attending()
    table = nn.Embedding(9, DEPTH).double()
    module.add_module("table", table)
    speakers = torch.randint(9, (BATCH,))

    def step(x: Tensor, h: Tensor) -> tuple[Any, Tensor]:
        return module.attend(table(speakers)[:, None], x, h)

    return step, module, []


def of_whole_rows() -> Made:
    """Sizes are those of the memory, which are the batch's."""
    module, memory = Attending(), memory_of()

    def step(x: Tensor, h: Tensor) -> tuple[Any, Tensor]:
        rows, places = memory.shape[0], memory.size(1)
        return module.attend(memory.view(rows * places, DEPTH).tanh().view(rows, places, DEPTH), x, h)

    return step, module, [memory]


class Keeping(Attending):
    """Keeps what it computed last, with the graph behind it, and reads none of it before it is written again."""

    def forward(self, x: Tensor, h: Tensor) -> tuple[Any, Tensor]:
        self.last = torch.sin(h) * h
        (_, weights), h = self.attend(self.memory, x, self.last)
        self.weights = weights
        return (h, self.weights), h


def beside_what_is_kept() -> Made:
    module = Keeping()
    module.memory = memory_of()
    return module, module, [module.memory]


CASES = [
    in_an_attribute,
    in_a_closure,
    in_a_dict,
    in_a_buffer,
    of_which_rows_have_numbers,
    of_whole_rows,
    beside_what_is_kept,
]


@pytest.mark.parametrize("make", CASES)
def test_a_tensor_of_the_batch_goes_row_by_row(make: Callable[[], Made]) -> None:
    torch.manual_seed(0)
    step, module, captured = make()
    inputs = torch.randn(BATCH, TIME, DEPTH, dtype=torch.float64)
    state = torch.randn(BATCH, UNITS, dtype=torch.float64)
    check(unspool.cell(step), step, inputs, state, [*captured, *module.parameters()])


def test_batches_of_any_size_share_a_plan() -> None:
    torch.manual_seed(0)
    module = Attending()
    cell = unspool.cell(module)

    def planned(rows: int, places: int = PLACES) -> int:
        module.memory, before = memory_of(rows, places), cache.traces
        x, h = torch.randn(rows, TIME, DEPTH).double(), torch.zeros(rows, UNITS).double()
        (outputs, _), _ = unspool.dynamic_rnn(cell, x, None, h)
        one = module(x[:, 0], h)[0][0]
        torch.testing.assert_close(outputs[:, 0], one, rtol=1e-12, atol=1e-12)  # rounding alone
        return cache.traces - before

    assert planned(4) == 2  # once with the memory for a tensor of the cell's own
    assert [planned(rows) for rows in (4, 6, 2, 1)] == [0] * 4
    assert planned(4, places=3) == 1
    assert [planned(rows, places) for rows, places in ((5, PLACES), (5, 3), (2, 3), (2, PLACES))] == [0] * 4


def test_memories_of_lengths_in_turns_find_their_plans_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the guard of the latest call, without another look at all that the step reaches."""
    module = Attending()
    cell = unspool.cell(module)
    x, h = torch.zeros(2, 1, DEPTH).double(), torch.zeros(2, UNITS).double()

    def run(places: int) -> Tensor:
        module.memory = memory_of(2, places)
        return unspool.dynamic_rnn(cell, x, None, h)[0][1]

    assert run(3).shape == (2, 1, 3)
    assert run(5).shape == (2, 1, 5)
    with monkeypatch.context() as patch:
        patch.setattr(cache, "fingerprint_of", None)
        for places in (3, 5, 5, 3):
            torch.testing.assert_close(run(places)[:, 0], module(x[:, 0], h)[0][1], rtol=1e-12, atol=1e-12)
    module.query = nn.Linear(UNITS, DEPTH).double()  # which is not what the guard knows
    torch.testing.assert_close(run(3)[:, 0], module(x[:, 0], h)[0][1], rtol=1e-12, atol=1e-12)


def test_memories_of_many_lengths_are_planned_each() -> None:
    """More of them than a cell may have plans for numbers that change."""
    module = Attending()
    cell = unspool.cell(module)
    for places in range(1, cache.MOST_VARIANTS + 4):
        module.memory = memory_of(2, places).detach()
        x, h = torch.zeros(2, 1, DEPTH).double(), torch.zeros(2, UNITS).double()
        with torch.no_grad():
            unspool.dynamic_rnn(cell, x, None, h)  # a warning, that it runs in the plain loop, would be an error


def test_shapes_without_end_are_left_to_the_plain_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MOST_SHAPES", 3)
    module = Attending()
    cell = unspool.cell(module)
    x, h = torch.zeros(2, 1, DEPTH).double(), torch.zeros(2, UNITS).double()
    reasons: list[str] = []
    for places in range(1, 5):
        module.memory = memory_of(2, places).detach()
        reasons.append(str(unspool.explain(cell, x, None, h).reason))
    assert reasons[0] == "None"
    assert "more than 3 shapes" in reasons[-1]


PACKED = torch.tensor([3, 6, 1, 5])


class ByHand(Attending):
    """A step that is not planned: it asks for a value."""

    def forward(self, x: Tensor, h: Tensor) -> tuple[Any, Tensor]:
        return super().forward(x, h if float(h.detach().sum()) < 1e9 else -h)


def _decoder() -> tuple[Any, Tensor]:
    mechanism = unspool.LuongAttention(UNITS)
    memory = memory_of()
    mechanism.setup_memory(memory, [PLACES, 2, 4, 1])
    return unspool.AttentionWrapper(unspool.GRUCell(UNITS), mechanism), memory


def _attending(module: Attending) -> tuple[Any, Tensor]:
    module.memory = memory_of()
    return unspool.cell(module, state_size=UNITS), module.memory


@pytest.mark.filterwarnings("ignore::unspool.PerformanceWarning")
@pytest.mark.parametrize(
    "make",
    [_decoder, lambda: _attending(Attending()), lambda: _attending(ByHand())],
    ids=["of a mechanism", "of a step", "of a step that is not planned"],
)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_rows_of_a_packed_sequence_keep_their_own(make: Callable[[], tuple[Any, Tensor]], bidirectional: bool) -> None:
    """Whose rows are sorted by length, which those of a memory are not."""
    torch.manual_seed(0)
    cell, memory = make()
    layer = unspool.RNN(cell, bidirectional=cell if bidirectional else False)
    x = torch.randn(BATCH, TIME, DEPTH, dtype=torch.float64, requires_grad=True)
    packed = pack_padded_sequence(x, PACKED, batch_first=True, enforce_sorted=False)
    sources = [x, memory]

    def found(given: Any, lengths: Any) -> list[Tensor]:
        outputs, state = layer(given, lengths=lengths)
        leaves = [outputs] if isinstance(outputs, Tensor | PackedSequence) else outputs
        padded = [pad_packed_sequence(each, True)[0] if lengths is None else each for each in leaves]
        results = [each for each in (*padded, *flatten(state)) if each.is_floating_point()]
        loss = sum(each.square().sum() for each in results)
        gradients = torch.autograd.grad(loss, sources, retain_graph=True)  # that of the keys of a memory
        return [*results, *gradients]

    for one, other in zip(found(packed, None), found(x, PACKED), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)  # the order of additions


def test_gradients_of_gradients_reach_the_memory() -> None:
    torch.manual_seed(0)
    module = Attending()
    memory, x = memory_of(2, 2), torch.randn(2, 2, DEPTH, dtype=torch.float64, requires_grad=True)

    def run(memory: Tensor, x: Tensor) -> Tensor:
        module.memory = memory
        return unspool.dynamic_rnn(unspool.cell(module), x, [2, 1], torch.zeros(2, UNITS).double())[1]

    assert torch.autograd.gradgradcheck(run, (memory, x))


def test_a_memory_of_other_rows_is_an_error_of_the_step() -> None:
    module = Attending()
    module.memory = memory_of(BATCH + 1)
    x, h = torch.zeros(BATCH, TIME, DEPTH).double(), torch.zeros(BATCH, UNITS).double()
    with pytest.raises(RuntimeError, match="size"):
        unspool.dynamic_rnn(unspool.cell(module), x, LENGTHS, h)


def test_a_matrix_with_as_many_rows_as_the_batch_stays_a_matrix() -> None:
    matrix = torch.randn(BATCH, BATCH, dtype=torch.float64, requires_grad=True)

    def step(x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.tanh(x + h @ matrix)
        return h, h

    inputs = torch.randn(BATCH, TIME, BATCH, dtype=torch.float64)
    state = torch.randn(BATCH, BATCH, dtype=torch.float64)
    check(unspool.cell(step), step, inputs, state, [matrix])


def test_memories_are_given_back() -> None:
    """A plan keeps nothing of the batch that it was made for."""
    module = Attending()
    cell = unspool.cell(module)
    module.memory = memory_of()
    x, h = torch.zeros(BATCH, TIME, DEPTH).double(), torch.zeros(BATCH, UNITS).double()
    unspool.dynamic_rnn(cell, x, None, h)[1].sum().backward()
    gone = weakref.ref(module.memory)
    module.memory = None
    gc.collect()
    assert gone() is None
