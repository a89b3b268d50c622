"""`unspool.cell`: what such a cell says of its sizes, and what steps are given and put out."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import unspool
from tests.by_hand import BATCH, LENGTHS, TIME, by_hand, check
from tests.own_steps import DEPTH, UNITS, Pair, Step, inputs, zeros
from tests.profiles import cases
from unspool.structure import flatten, map_structure

# -- sizes ------------------------------------------------------------------------------------------------------------


def test_with_a_state_size_no_initial_state_is_needed() -> None:
    step = Step("x, (h, c) -> (h, c)")
    cell = unspool.cell(step, (UNITS, UNITS), returns="state")
    given = inputs()
    outputs, state = unspool.dynamic_rnn(cell, given, LENGTHS, dtype=torch.float64)
    start = cell.zero_state(BATCH, torch.float64)
    assert [leaf.shape for leaf in start] == [(BATCH, UNITS)] * 2
    expected = unspool.dynamic_rnn(cell, given, LENGTHS, start)
    torch.testing.assert_close((outputs, state), expected, rtol=0, atol=0)


def test_an_output_size_is_checked() -> None:
    cell = unspool.cell(Step(""), output_size=UNITS + 1)
    with pytest.raises(ValueError, match=r"the cell's output has shape \[4, 5\], but cell.output_size says \[4, 6\]"):
        unspool.dynamic_rnn(cell, inputs(), None, zeros())


@pytest.mark.parametrize("loop", ["dynamic_rnn", "static_rnn", "explain"])
def test_without_a_state_size_an_initial_state_is_needed(loop: str) -> None:
    given = inputs() if loop != "static_rnn" else list(inputs().unbind(1))
    with pytest.raises(ValueError, match=r"initial_state is needed.*give it, or give unspool\.cell its state_size"):
        getattr(unspool, loop)(unspool.cell(Step("")), given, dtype=torch.float64)
    stack = unspool.MultiRNNCell([unspool.GRUCell(DEPTH), unspool.cell(Step(""))])
    with pytest.raises(ValueError, match="initial_state is needed"):
        getattr(unspool, loop)(stack, given)


def test_a_zero_state_of_unknown_size_is_a_value_error() -> None:
    with pytest.raises(ValueError, match=r"size is needed here.*give unspool\.cell its size"):
        unspool.cell(Step("")).zero_state(2, torch.float32)


@pytest.mark.parametrize("length", [0, TIME])
def test_what_an_empty_loop_puts_out_is_found_without_a_trace_of_it(length: int) -> None:
    """No step runs: one is run on one row, and everything is as it was."""

    class Noisy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.count: Tensor
            self.register_buffer("count", torch.zeros(()))
            self.calls = 0

        def forward(self, x: Tensor, h: Tensor) -> Any:
            self.calls += 1
            self.count.add_(1)
            return {"h": h + torch.rand_like(h) * self.count, "flag": h[:, 0] > 0, "none": None}, h

    noisy, x = Noisy(), torch.randn(BATCH, length, DEPTH)
    before = torch.get_rng_state()
    outputs, state = unspool.dynamic_rnn(unspool.cell(noisy), x, [0] * BATCH, torch.ones(BATCH, UNITS))
    assert (noisy.calls, float(noisy.count)) == (0, 0.0)
    assert torch.equal(before, torch.get_rng_state())
    assert (outputs["h"].shape, outputs["flag"].dtype) == ((BATCH, length, UNITS), torch.bool)
    assert outputs["none"] is None
    assert not outputs["h"].any()
    assert torch.equal(state, torch.ones(BATCH, UNITS))
    if length:
        steps = list(x.unbind(1))
        listed, _ = unspool.static_rnn(unspool.cell(noisy), steps, state, sequence_length=[0] * BATCH)
        assert (len(listed), listed[0]["flag"].dtype, listed[0]["none"]) == (length, torch.bool, None)
        assert noisy.calls == 0


def test_an_empty_loop_of_a_step_that_holds_a_memory_of_the_batch() -> None:
    memory = torch.randn(BATCH, 7, UNITS, dtype=torch.float64)
    cell = unspool.cell(lambda x, h: ((memory * h[:, None]).sum(2), h))
    outputs, _ = unspool.dynamic_rnn(cell, inputs(), [0] * BATCH, zeros())
    assert outputs.shape == (BATCH, TIME, 7)


def test_an_empty_loop_does_not_make_the_weights_of_lazy_layers() -> None:
    class Lazy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.read = nn.LazyLinear(UNITS)

        def forward(self, x: Tensor, h: Tensor) -> Any:
            return (h, self.read(x)), h

    step = Lazy()
    outputs, _ = unspool.dynamic_rnn(unspool.cell(step), torch.zeros(BATCH, 0, DEPTH), None, torch.zeros(BATCH, 2))
    assert [leaf.shape for leaf in outputs] == [(BATCH, 0, 2), (BATCH, 0, UNITS)]
    assert isinstance(step.read.weight, nn.UninitializedParameter)


def test_an_empty_loop_of_a_step_that_looks_at_values_runs_it_on_zeros() -> None:
    def step(x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        return (h.argmax(1) if float(x.sum()) == 0 else h), h

    outputs, _ = unspool.dynamic_rnn(unspool.cell(step), torch.zeros(0, 3, 2), None, torch.zeros(0, 4))
    assert (outputs.shape, outputs.dtype) == ((0, 3), torch.int64)


@pytest.mark.parametrize("wrapper", [lambda c: unspool.OutputProjectionWrapper(c, 3), unspool.HighwayWrapper])
def test_who_needs_an_output_size_says_so(wrapper: Any) -> None:
    with pytest.raises(ValueError, match=r"is not known: give unspool\.cell its output_size"):
        unspool.dynamic_rnn(wrapper(unspool.cell(Step(""))), inputs(), None, zeros())
    stack = unspool.MultiRNNCell([unspool.cell(Step("")), unspool.GRUCell(3)])
    with pytest.raises(ValueError, match=r"is not known: give unspool\.cell its output_size"):
        unspool.dynamic_rnn(stack, inputs(), None, (zeros(), zeros(3)))


def test_a_cell_by_its_looks_needs_no_zero_state_where_it_is_given_one() -> None:
    class Bare:
        state_size = output_size = UNITS

        def __call__(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
            h = torch.tanh(h + x.sum(1, keepdim=True))
            return h, h

    check(Bare(), Bare(), inputs(), zeros(), [])
    x, h = inputs(), zeros()
    unspool.bidirectional_dynamic_rnn(Bare(), Bare(), x, LENGTHS, h, h)
    steps = list(x.unbind(1))
    unspool.stack_bidirectional_rnn([Bare()], [Bare()], steps, [h], [h])
    with pytest.raises(TypeError, match="'zero_state' or 'get_initial_state' is required"):
        unspool.dynamic_rnn(Bare(), x, dtype=torch.float64)
    with pytest.raises(TypeError, match=r"'cell_bw' .*'zero_state' or 'get_initial_state' is required"):
        unspool.bidirectional_dynamic_rnn(Bare(), Bare(), x, None, h, dtype=torch.float64)


# -- outputs ----------------------------------------------------------------------------------------------------------


def test_only_the_state_is_wanted() -> None:
    step = Step("x, h -> h")

    def nothing(x: Tensor, h: Tensor) -> tuple[None, Tensor]:
        return None, step(x, h)

    outputs, _ = unspool.dynamic_rnn(unspool.cell(nothing), inputs(), LENGTHS, zeros())
    assert outputs is None
    check(unspool.cell(nothing), nothing, inputs(), zeros(), list(step.parameters()))


def test_extra_outputs_of_any_structure_and_dtype() -> None:
    step = Step("x, h -> h")

    def several(x: Tensor, h: Tensor) -> Any:
        h = step(x, h)
        choice = h.argmax(1)
        return {"h": h, "flags": [h > 0, None], "pick": Pair(choice, h.float().sum(1)), "half": h[:, :2].half()}, h

    cell = unspool.cell(several)
    check(cell, several, inputs(), zeros(), list(step.parameters()))
    outputs, _ = unspool.dynamic_rnn(cell, inputs(), LENGTHS, zeros())
    kinds = {leaf.dtype for leaf in flatten(outputs) if leaf is not None}
    assert kinds == {torch.float64, torch.bool, torch.int64, torch.float32, torch.float16}
    assert not outputs["flags"][0][1].any()
    assert not outputs["pick"].h[2, LENGTHS[2] :].any()


def test_outputs_of_both_directions() -> None:
    step = Step("x, h -> h")
    fw, bw = (unspool.cell(lambda x, h: (None, step(x, h))) for _ in range(2))
    x, h = inputs(), zeros()
    (none, nothing), (_, last) = unspool.bidirectional_dynamic_rnn(fw, bw, x, LENGTHS, h, h)
    assert none is nothing is None
    turned = torch.stack([torch.cat([row[:n].flip(0), row[n:]]) for row, n in zip(x, LENGTHS, strict=True)])
    torch.testing.assert_close(last, by_hand(lambda x, h: (None, step(x, h)), turned, LENGTHS, h)[1])
    whole = unspool.cell(step, returns="state")
    joined, _, _ = unspool.static_bidirectional_rnn(whole, whole, list(x.unbind(1)), h, h, sequence_length=LENGTHS)
    assert joined[0].shape == (BATCH, 2 * UNITS)
    none, _, _ = unspool.static_bidirectional_rnn(fw, bw, list(x.unbind(1)), h, h, sequence_length=LENGTHS)
    assert none == [None] * TIME
    flags = unspool.cell(lambda x, h: (h[:, 0] > 0, h))
    with pytest.raises(ValueError, match="no axis along which they could be joined"):
        unspool.static_bidirectional_rnn(flags, flags, list(x.unbind(1)), h, h)


def test_a_step_whose_output_changes_is_an_error() -> None:
    def step(x: Tensor, h: Tensor) -> Any:
        return (h if float(x[0, 0]) < 2 else (h, h)), h

    x = torch.arange(4.0).reshape(1, 4, 1)
    with (
        pytest.raises(ValueError, match="the cell's output is a tuple of 2, but its first output is an int"),
        pytest.warns(unspool.PerformanceWarning),
    ):
        unspool.dynamic_rnn(unspool.cell(step), x, [4], torch.zeros(1, 2))


@pytest.mark.parametrize(
    ("output", "error", "message"),
    [
        (lambda h: 1.0, TypeError, "the cell's output must be made of tensors, but has a float"),
        (lambda h: h.sum(), ValueError, r"has shape \[\], but must have a row for each of 4"),
        (lambda h: h.sum(0), ValueError, r"has shape \[5\], but must have a row for each of 4"),
    ],
)
def test_an_output_without_rows_is_an_error(output: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        unspool.static_rnn(
            unspool.cell(lambda x, h: (output(h), h)), list(inputs().unbind(1)), zeros(), sequence_length=LENGTHS
        )


LEAF = st.sampled_from(["h", "flag", "count", "none"])
STRUCTURES = st.recursive(
    LEAF,
    lambda parts: st.one_of(
        st.lists(parts, min_size=1, max_size=3),
        st.tuples(parts, parts),
        st.dictionaries(st.sampled_from("abc"), parts, min_size=1, max_size=3),
    ),
    max_leaves=5,
)


@settings(max_examples=cases(8, 60), deadline=None)
@given(STRUCTURES)
@example([])
def test_outputs_of_drawn_structures(structure: Any) -> None:
    step = Step("x, h -> h")

    def drawn(x: Tensor, h: Tensor) -> Any:
        h = step(x, h)
        leaves = {"h": h, "flag": h[:, 0] > 0, "count": h.argmin(1), "none": None}
        return map_structure(lambda name: leaves[name], structure), h

    check(unspool.cell(drawn), drawn, inputs(), zeros(), list(step.parameters()))


# -- inputs without a depth -------------------------------------------------------------------------------------------


def test_inputs_without_a_depth_beside_others() -> None:
    step = Step("x, h -> h")

    def timed(given: Any, h: Tensor) -> Any:
        fresh = step(given["x"], h)
        h = torch.exp(-given["dt"])[:, None] * h + fresh
        return h * given["flag"][:, None], torch.where(given["flag"][:, None], h, torch.zeros_like(h))

    given = {
        "x": inputs(),
        "dt": torch.rand(BATCH, TIME, dtype=torch.float64),
        "flag": torch.rand(BATCH, TIME) > 0.5,
    }
    check(unspool.cell(timed), timed, given, zeros(), list(step.parameters()))


def test_inputs_without_a_depth_alone() -> None:
    table = nn.Embedding(7, UNITS, dtype=torch.float64)

    def reads(token: Tensor, h: Tensor) -> Any:
        h = torch.tanh(0.5 * h + table(token))
        return h.argmax(1), h

    check(unspool.cell(reads), reads, torch.randint(7, (BATCH, TIME)), zeros(), list(table.parameters()))
    deltas = torch.rand(BATCH, TIME, dtype=torch.float64)
    check(unspool.cell(lambda dt, h: (h, h * dt)), lambda dt, h: (h, h * dt), deltas, zeros(1)[:, 0], [])


def test_spread_inputs() -> None:
    def step(x: Tensor, dt: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        return x.sum(1), h * dt[:, None] + x.sum(1, keepdim=True)

    given = (inputs(), torch.rand(BATCH, TIME, dtype=torch.float64))
    check(unspool.cell(step, takes="*input, state"), lambda x, h: step(*x, h), given, zeros(), [])
