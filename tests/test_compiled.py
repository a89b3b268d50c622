"""Cells in compiled loops: the numbers of the interpreter, which all other tests of the engine are about."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.comparison import Run, data_for, loss_of, results, wanting_gradients
from tests.emitting import assert_compiled, assert_equals_interpreter, interpreter
from tests.profiles import SOAK
from tests.user_cells import USER_CELLS, LSTMTwoLinears, MultiHead
from tests.zoo import ZOO, inputs_for
from unspool import Checkpoint, GRUCell, Keep, LSTMCell, Recompute, dynamic_rnn, explain
from unspool.engine import Memory, Options, Request
from unspool.engine.emit.cpp import emitter
from unspool.engine.run import prepare
from unspool.structure import flatten, map_structure

pytestmark = pytest.mark.compiled

STEPS = 7
FEW, MANY = 5, 33
"""Rows: with few, products of the inputs are computed for many steps at once; with many, at every step."""
LENGTHS = [7, 0, 3, 3, 1]
POLICIES = [Keep(), Recompute(), Checkpoint(every=3)]

UNPLANNED = {
    "locked_dropout": "the step changes the cell: mask",
    "branching": "the step's control flow or shapes depend on the values of tensors",
    "clockwork": "the step changes the cell: time",
}
"""Cells that the plain loop runs, with what `explain` says of them."""

INTERPRETED = {}
"""Cells whose forward cores have no form in C++, with what `explain` says of them."""

EVERYTHING = SOAK
"""Whether cells of the zoo, which have much in common, are run in all ways too."""

CELLS = [name for name in (*USER_CELLS, *ZOO) if name not in {*UNPLANNED, *INTERPRETED}]


@pytest.fixture(autouse=True)
def _two_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """How many rows are many depends on the number of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    monkeypatch.setattr(emitter, "NEAR", 0)  # the weights here are so small that few rows would be many too
    yield
    torch.set_num_threads(before)


@dataclass(frozen=True)
class Case:
    """A cell, and what it runs on."""

    cell: Any
    dtype: torch.dtype
    inputs: Any
    lengths: Any
    state: Any

    def results(self, memory: Memory | None = None, loss: Any = loss_of) -> dict[str, Any]:
        """Outputs, final states and every gradient."""
        return results(_loop(memory), self.cell, self.dtype, self.lengths, self.inputs, self.state, loss)

    def check(self, memory: Memory | None = None, loss: Any = loss_of) -> dict[str, Any]:
        """Asserts that compiled loops run it, and that they compute what the interpreter does; returns that."""
        assert_compiled(self.cell, self.inputs, self.lengths, self.state, self.dtype, memory=memory)
        found = self.results(memory, loss)
        with interpreter():
            expected = self.results(memory, loss)
        assert_equals_interpreter(found, expected)
        return found

    def start(self, memories: Any) -> None:
        """Lets compilers begin, and does not wait for them."""
        lengths = None if self.lengths is None else torch.tensor(self.lengths)
        inputs = map_structure(lambda leaf: leaf.transpose(0, 1), self.inputs)
        for memory in memories:
            call, _ = prepare(Request(self.cell, inputs, lengths, self.state, self.dtype, Options(memory=memory)))
            forward = call.plan.inference.forward if memory.reruns else call.schedule.forward
            for each in (forward, call.schedule.forward, call.schedule.adjoint):
                if each is not None:
                    each.parts(call.layout.mean_rows, call.emitter)


def _loop(memory: Memory | None) -> Run:
    def run(cell: Any, inputs: Any, lengths: Any, state: Any, dtype: torch.dtype) -> tuple[Any, Any]:
        return dynamic_rnn(cell, inputs, lengths, state, dtype, memory=memory)

    return run


def made(name: str, dtype: torch.dtype, batch: int, lengths: Any) -> Case:
    """A cell of a user or of the zoo."""
    torch.manual_seed(0)
    if name in USER_CELLS:
        cell = USER_CELLS[name].make()
        inputs, state = data_for(USER_CELLS[name], batch, STEPS)
    else:
        cell, inputs = ZOO[name](), wanting_gradients(inputs_for(name, batch, STEPS))
        with interpreter():
            dynamic_rnn(cell, map_structure(lambda leaf: leaf[:, :0], inputs), dtype=torch.float64)  # builds it
        cell = cell.double()
        state = map_structure(torch.randn_like, cell.zero_state(batch, torch.float64))
    if dtype == torch.float32:
        cell = cell.float()
        inputs, state = (
            map_structure(lambda leaf: leaf.float() if leaf.is_floating_point() else leaf, each)
            for each in (inputs, state)
        )
    return Case(cell, dtype, wanting_gradients(inputs), lengths, wanting_gradients(state))


@cache
def started(name: str, dtype: torch.dtype = torch.float64) -> Case:
    """A case that compilers work on: one plan for all that it is run with.

    In float64 with few rows, some of which end early; in float32 with many that do not.
    """
    single = dtype == torch.float32
    case = made(name, dtype, MANY if single else FEW, None if single else LENGTHS)
    case.start(_policies(name, dtype))
    return case


def _policies(name: str, dtype: torch.dtype) -> list[Any]:
    return POLICIES if EVERYTHING or (dtype == torch.float64 and name in USER_CELLS) else POLICIES[:1]


IN_FLOAT32 = ["basic_rnn", "gru", "lstm-everything", "stack", "residual-fn", "embedding", "highway-uncoupled", "nested"]
"""Cells of the zoo that together have all its operations."""

WIDE = ["ntm", "stacked", "dict_state_dtypes", "dropout_zoneout"]
RUNS = [(name, torch.float64) for name in CELLS]
RUNS += [(name, torch.float32) for name in CELLS if EVERYTHING or name in USER_CELLS or name in IN_FLOAT32]


def _name(each: Any) -> str:
    return str(each).removeprefix("torch.")


# -- every cell --------------------------------------------------------------------------------------------------------


@pytest.mark.drawn
@pytest.mark.parametrize(("name", "dtype"), RUNS, ids=_name)
def test_equals_the_interpreter(name: str, dtype: torch.dtype) -> None:
    """Under all policies, but for the zoo."""
    case = started(name, dtype)
    started(*RUNS[(RUNS.index((name, dtype)) + 1) % len(RUNS)])  # so that compilers work while it is traced
    for memory in _policies(name, dtype):
        case.check(memory)


@pytest.mark.parametrize("name", WIDE)
def test_equals_the_interpreter_with_many_rows_of_full_length(name: str) -> None:
    made(name, torch.float64, MANY, None).check()


@pytest.mark.parametrize("name", UNPLANNED)
def test_cells_without_a_plan(name: str) -> None:
    case = made(name, torch.float64, FEW, LENGTHS)
    explanation = explain(case.cell, case.inputs, case.lengths, case.state, case.dtype)
    assert explanation.emitter is None
    assert str(explanation.reason).startswith(UNPLANNED[name])


@pytest.mark.parametrize("name", INTERPRETED)
def test_cells_that_have_no_form_in_cpp_are_interpreted(name: str) -> None:
    case = made(name, torch.float64, FEW, LENGTHS)
    explanation = explain(case.cell, case.inputs, case.lengths, case.state, case.dtype)
    assert explanation.emitter == "interpreted"
    assert explanation.forward is not None
    assert dict(explanation.forward.passed_over)["c++"].startswith(INTERPRETED[name])
    found = case.results()
    with interpreter():
        assert_equals_interpreter(found, case.results())


def test_the_environment_lets_cores_be_interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    """And this is what everything else here is compared with."""
    case = started("nn_gru_copy")
    with interpreter():
        expected = case.results()
    monkeypatch.setenv("UNSPOOL_EMIT", "interpreted")
    explanation = explain(case.cell, case.inputs, case.lengths, case.state, case.dtype)
    assert explanation.backward is not None
    assert (explanation.emitter, explanation.backward.emitter) == ("interpreted", "interpreted")
    found = case.results()
    assert all(torch.equal(found[name], value) for name, value in expected.items())


# -- threads -----------------------------------------------------------------------------------------------------------

LARGE = {
    "lstm": lambda: LSTMCell(256, input_size=16),
    "gru": lambda: GRUCell(256, input_size=16),
    "heads": lambda: MultiHead(16, 4, 96),
}
"""Cells whose products are worth several threads even with one row, and with several products after each other."""


@cache
def _large_cell(name: str, dtype: torch.dtype) -> Any:
    torch.manual_seed(0)
    return LARGE[name]().to(dtype)


def large(name: str, batch: int, dtype: torch.dtype) -> Case:
    cell = _large_cell(name, dtype)
    torch.manual_seed(batch)
    inputs = torch.randn(batch, STEPS, 16, dtype=dtype)
    state = map_structure(torch.randn_like, cell.zero_state(batch, dtype))
    return Case(cell, dtype, wanting_gradients(inputs), None, wanting_gradients(state))


@pytest.mark.parametrize("batch", [1, 2, 3, 7, 33])
@pytest.mark.parametrize(
    ("name", "dtype"), [("lstm", torch.float64), ("gru", torch.float32), ("heads", torch.float64)], ids=_name
)
def test_any_number_of_threads_gives_the_same(name: str, dtype: torch.dtype, batch: int) -> None:
    """With fewer rows than threads, each has a share of the columns of products; else each has rows of its own."""
    case = large(name, batch, dtype)
    lengths = [STEPS, 0, *(1 + k % STEPS for k in range(batch - 2))][:batch]
    for each in (case, replace(case, lengths=lengths)):
        with interpreter():
            expected = each.results()
        for threads in (1, 2, 4):
            torch.set_num_threads(threads)
            assert_compiled(each.cell, each.inputs, each.lengths, each.state, dtype)
            found = each.results()
            assert_equals_interpreter(found, expected)
            # Threads that would read what another is just writing would not do so every time.
            for _ in range(3):
                again = each.results()
                assert all(torch.equal(again[name], value) for name, value in found.items())


# -- what comes in, and what is wanted ---------------------------------------------------------------------------------

VARIOUS = ["layer_norm_lstm", "nas_like", "ntm", "softmax_mixture", "dict_state_dtypes", "attention_memory", "inplace"]
"""Cells with reductions, comparisons, views, several products, several dtypes and several states."""


def scattered(leaf: Tensor) -> Tensor:
    """The same numbers, each far from the next, and from the beginning of its memory."""
    wide = leaf.new_full((*(2 * size + 1 for size in reversed(leaf.shape)), 3), 7)
    view = wide.permute(*reversed(range(leaf.dim())), leaf.dim())[(*[slice(1, None, 2)] * leaf.dim(), 1)]
    return view.copy_(leaf)


@pytest.mark.parametrize("name", VARIOUS)
def test_inputs_and_states_may_lie_anyhow(name: str) -> None:
    case = started(name)
    inputs, state = (_changed(each, scattered) for each in (case.inputs, case.state))
    found = replace(case, inputs=inputs, state=state).check()
    assert_equals_interpreter(found, case.results())


def _changed(structure: Any, change: Any) -> Any:
    """Each of its tensors after a change, as leaves that want gradients."""
    return wanting_gradients(map_structure(lambda leaf: change(leaf.detach()), structure))


def test_inputs_may_be_one_step_many_times() -> None:
    case = started("nn_gru_copy")
    replace(case, inputs=_changed(case.inputs, lambda leaf: leaf[:, :1].expand(-1, STEPS, -1))).check()


def in_the_middle(leaf: Tensor) -> Tensor:
    """The same numbers one after another, but not from the beginning of their memory."""
    return torch.cat([leaf, leaf])[len(leaf) :]


@pytest.mark.parametrize("change", [scattered, in_the_middle])
def test_weights_may_lie_anyhow(change: Any) -> None:
    case = made("lstm_two_linears", torch.float64, FEW, LENGTHS)
    expected = case.results()
    for linear in (case.cell.of_x, case.cell.of_h):
        linear.weight, linear.bias = (nn.Parameter(change(each.detach())) for each in (linear.weight, linear.bias))
    assert_equals_interpreter(case.check(), expected)


class Sliced(LSTMTwoLinears):
    """Has all its weights in one matrix, of which it takes rows and columns."""

    def __init__(self, units: int) -> None:
        super().__init__(units, units)
        self.all = nn.Parameter(torch.randn(3 * units, 5 * units) / units)

    def forward(self, x: Tensor, state: Any) -> Any:
        h, c = state
        n = h.shape[1]
        i, f, g, o = (x @ self.all[:n, :-n] + h @ self.all[n:-n, n:] + self.all[-1, : 4 * n]).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c) @ self.all[-n:, :n]
        return h, (h, c)


def test_matrices_may_be_pieces_of_others() -> None:
    torch.manual_seed(0)
    drawn = [torch.randn(FEW, *shape, dtype=torch.float64) for shape in ((STEPS, 4), (4,), (4,))]
    inputs, *state = wanting_gradients(drawn)
    Case(Sliced(4).double(), torch.float64, inputs, LENGTHS, tuple(state)).check()


LOSSES = {
    "of the final state": lambda outputs, final: loss_of(final),
    "of the outputs": lambda outputs, final: loss_of(outputs),
    "of one step": lambda outputs, final: loss_of(map_structure(lambda leaf: leaf[:, 3], outputs)),
    "of one row": lambda outputs, final: loss_of(map_structure(lambda leaf: leaf[3], outputs)),
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", VARIOUS)
def test_results_that_nobody_used(name: str, loss: str) -> None:
    started(name).check(loss=LOSSES[loss])


@pytest.mark.parametrize("lengths", [[0, 0, 7, 0, 0], [1, 1, 1, 1, 0], [7, 7, 7, 7, 7], [6, 5, 3, 2, 1]])
@pytest.mark.parametrize("name", VARIOUS)
def test_rows_of_many_lengths(name: str, lengths: list[int]) -> None:
    """A row without steps hands on its state, and its gradient, as they are."""
    case = replace(started(name), lengths=lengths)
    found = case.check()
    for row in (row for row, length in enumerate(lengths) if length == 0):
        for k, leaf in enumerate(flatten(case.state)):
            assert torch.equal(found[f"final state {k}"][row], leaf[row])
        assert not found["outputs 0"][row].any()


@pytest.mark.parametrize("number", [torch.nan, torch.inf, -torch.inf, 1e30])
@pytest.mark.parametrize("name", [*VARIOUS, "lstm_two_linears"])
def test_numbers_out_of_the_ordinary_go_where_the_interpreter_takes_them(name: str, number: float) -> None:
    """In one step of one row, and in the state of another."""
    case = started(name)

    def poison(leaf: Tensor) -> Tensor:
        if not leaf.is_floating_point():
            return leaf
        leaf = leaf.clone()
        place = leaf[(0, 2) if leaf.shape[:2] == (FEW, STEPS) else 3].view(-1)[:1]
        place.copy_(torch.tensor(number, dtype=torch.float64))  # infinite where it is too large
        return leaf

    replace(case, inputs=_changed(case.inputs, poison), state=_changed(case.state, poison)).check()


@pytest.mark.parametrize("name", VARIOUS)
def test_padding_has_no_influence(name: str) -> None:
    case = started(name)
    padding = torch.arange(STEPS) >= torch.tensor(LENGTHS)[:, None]

    def poison(leaf: Tensor) -> Tensor:
        return leaf.masked_fill(padding.reshape(FEW, STEPS, *[1] * (leaf.dim() - 2)), torch.nan)

    found, expected = replace(case, inputs=_changed(case.inputs, poison)).results(), case.results()
    assert all(torch.equal(found[name], value) for name, value in expected.items())


@pytest.mark.parametrize("name", VARIOUS)
def test_what_is_given_stays_as_it_is(name: str) -> None:
    """And so does what came out, whatever runs later."""
    case = started(name)
    given = [*flatten(case.inputs), *flatten(case.state), *case.cell.parameters()]
    copies = [each.detach().clone() for each in given]
    found = case.results()
    before = {name: value.detach().clone() for name, value in found.items()}
    replace(case, inputs=_changed(case.inputs, lambda leaf: leaf + 1)).results()
    assert all(torch.equal(found[name], value) for name, value in before.items())
    assert all(map(torch.equal, given, copies))
