"""`unspool.cell`: functions and modules that people have already, as cells."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import unspool
from tests.by_hand import BATCH, LENGTHS, TIME, by_hand, check
from tests.own_steps import DEPTH, UNITS, Pair, Step, inputs, zeros
from unspool.engine.plans import cache

FORMS: dict[str, tuple[dict[str, str], Any, Any]] = {
    "x, h -> out, h": ({}, lambda x, h, n: (2 * h, n(x, h)), 1),
    "x, h -> h": ({"returns": "state"}, lambda x, h, n: (n(x, h),) * 2, 1),
    "h, x -> h": ({"takes": "state, input", "returns": "state"}, lambda x, h, n: (n(x, h),) * 2, 1),
    "x, (h, c) -> (h, c)": ({"returns": "state"}, lambda x, s, n: _lstm_like(x, s, n, "h"), 2),
    "x, h, c -> h, c": ({"takes": "input, *state", "returns": "*state"}, lambda x, s, n: _lstm_like(x, s, n, "h"), 2),
    "x, h, c -> out, h, c": (
        {"takes": "input, *state", "returns": "output, *state"},
        lambda x, s, n: _lstm_like(x, s, n, "difference"),
        2,
    ),
    "x, h, c -> h, c, out": (
        {"takes": "input, *state", "returns": "*state, output"},
        lambda x, s, n: _lstm_like(x, s, n, "difference"),
        2,
    ),
    "x, h -> h, out": ({"returns": "state, output"}, lambda x, h, n: (2 * h, n(x, h)), 1),
    "x, h -> a, b, h": ({"returns": "*output, state"}, lambda x, h, n: ((2 * h, x * 3), n(x, h)), 1),
}
"""Options for each form of `Step`, the same step as `(x, state) -> (output, state)`, and how many states it has."""


def _lstm_like(x: Any, state: Any, new: Any, output: str) -> Any:
    h, c = state
    both = (new(x, h), c + h)
    return (both[0] if output == "h" else h - c), both


@pytest.mark.parametrize("form", FORMS)
def test_a_module_in_any_order_of_arguments_and_results(form: str) -> None:
    options, plain, states = FORMS[form]
    step = Step(form)
    cell = unspool.cell(step, **options)
    assert list(cell.parameters()) == list(step.parameters())
    state = zeros() if states == 1 else (zeros(), zeros())
    check(cell, lambda x, s: plain(x, s, step.new), inputs(), state, list(step.parameters()))


@pytest.mark.parametrize("kind", [tuple, list, lambda parts: Pair(*parts)], ids=["tuple", "list", "namedtuple"])
def test_a_gathered_state_is_in_its_own_container(kind: Any) -> None:
    step = Step("x, h, c -> h, c")
    cell = unspool.cell(step, takes="input, *state", returns="*state")
    state = kind([zeros(), zeros()])
    _, final = unspool.dynamic_rnn(cell, inputs(), LENGTHS, state)
    assert type(final) is type(state)


def test_functions_train_the_weights_they_read() -> None:
    """In closures, in modules of theirs, and through bound methods; gradients of gradients as well."""
    step = Step("")
    head = nn.Linear(UNITS, 2, dtype=torch.float64)

    def function(x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = step.new(x, h)
        return head(h), h

    weights = [*step.parameters(), *head.parameters()]
    check(unspool.cell(function), function, inputs(), zeros(), weights)
    check(unspool.cell(step.forward), step, inputs(), zeros(), list(step.parameters()))
    x, h = inputs().requires_grad_(), zeros()
    found: list[Any] = []
    for run in (unspool.dynamic_rnn, by_hand):
        first = unspool.cell(function) if run is unspool.dynamic_rnn else function
        outputs, state = run(first, x, LENGTHS, h)
        once = torch.autograd.grad(outputs.square().sum() + state.sum(), [x, *weights], create_graph=True)
        found.append(torch.autograd.grad(sum(each.square().sum() for each in once), [x, *weights]))
    torch.testing.assert_close(*found, rtol=1e-9, atol=1e-9)


def test_a_model_may_have_a_cell_of_its_own_method() -> None:
    class Model(Step):
        def __init__(self) -> None:
            super().__init__("")
            self.cell = unspool.cell(self.forward)

    model = Model()
    assert len(list(model.parameters())) == 2
    assert not list(model.cell.parameters())  # they are the model's
    model.train().to(torch.float64)
    assert set(model.state_dict()) == {"mix.weight", "mix.bias"}
    outputs, _ = unspool.dynamic_rnn(model.cell, inputs(), LENGTHS, zeros())
    outputs.sum().backward()
    assert model.mix.weight.grad is not None


# -- as a module, and how plans are kept ------------------------------------------------------------------------------


def test_a_cell_of_a_module_is_moved_copied_saved_and_pickled_with_it() -> None:
    cell = unspool.cell(Step("")).float()
    assert next(cell.parameters()).dtype == torch.float32
    assert set(cell.state_dict()) == {"step.mix.weight", "step.mix.bias"}
    x, h = inputs().float(), zeros().float()
    expected, _ = unspool.dynamic_rnn(cell, x, LENGTHS, h)
    for other in (copy.deepcopy(cell), pickle.loads(pickle.dumps(cell))):
        outputs, _ = unspool.dynamic_rnn(other, x, LENGTHS, h)
        assert torch.equal(outputs, expected)
        assert next(other.parameters()) is not next(cell.parameters())
    made = unspool.cell(**{**cell.get_config(), "step": cell.step})
    assert torch.equal(unspool.dynamic_rnn(made, x, LENGTHS, h)[0], expected)
    assert not cell.eval().step.training


def test_a_cell_made_anew_for_every_call_is_not_traced_again() -> None:
    """Its plan is kept by the module or the function that it is made of, until that is gone."""
    step, x, h = Step(""), inputs(), zeros()

    def function(x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        return h, h + x.sum(1, keepdim=True)

    for make in (lambda: unspool.cell(step), lambda: unspool.cell(step.forward), lambda: unspool.cell(function)):
        unspool.dynamic_rnn(make(), x, LENGTHS, h)
        traced = cache.traces
        for _ in range(3):
            unspool.dynamic_rnn(make(), x, LENGTHS, h)
        assert cache.traces == traced


def test_what_a_cell_is_made_of_is_not_kept_alive() -> None:
    seen: list[weakref.ref[Any]] = []
    for _ in range(2):
        step, head = Step(""), nn.Linear(UNITS, 2, dtype=torch.float64)

        def function(x: Tensor, h: Tensor, step: Any = step, head: Any = head) -> Any:
            return head(h), step.new(x, h)

        for each in (step, function, step.forward):
            for _ in range(2):
                outputs, state = unspool.dynamic_rnn(unspool.cell(each), inputs(), LENGTHS, zeros())
                outputs.sum().backward()
        seen += [weakref.ref(step), weakref.ref(function), weakref.ref(head)]
        del step, head, function, outputs, state, each
    gc.collect()
    assert [each() for each in seen] == [None] * 6


def test_explain_and_warnings_name_what_a_cell_is_made_of() -> None:
    def my_step(x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        return h, h * float(x.sum())

    x, h = inputs(), zeros()
    assert str(unspool.explain(unspool.cell(Step("")), x, None, h)).startswith("Step runs by plan")
    assert str(unspool.explain(unspool.cell(my_step), x, None, h)).startswith("my_step runs in the plain loop")
    with pytest.warns(unspool.PerformanceWarning, match="my_step runs in the plain loop"):
        unspool.dynamic_rnn(unspool.cell(my_step), x, None, h)


def test_stacks_and_wrappers_take_them() -> None:
    step = Step("x, h -> h")
    own = unspool.cell(step, returns="state")
    stack = unspool.MultiRNNCell([unspool.ResidualWrapper(unspool.cell(lambda x, h: (x, h + x))), own])
    x, state = inputs(), (zeros(DEPTH), zeros())

    def both(x: Tensor, s: Any) -> Any:
        h = step(2 * x, s[1])
        return h, (s[0] + x, h)

    check(stack, both, x, state, list(step.parameters()))


def test_autocast_gives_outputs_the_dtype_that_it_computes_in() -> None:
    step = Step("x, h -> h").float()

    def both(x: Tensor, h: Tensor) -> Any:
        return step.mix(torch.cat([x, h], 1)), step(x, h)

    x, h = inputs().float().requires_grad_(), zeros().float()
    with torch.autocast("cpu", torch.bfloat16):
        outputs, state = unspool.dynamic_rnn(unspool.cell(both), x, LENGTHS, h)
    assert (outputs.dtype, state.dtype) == (torch.bfloat16, torch.float32)
    (gradient,) = torch.autograd.grad(outputs.float().square().sum() + state.sum(), x, create_graph=True)
    torch.autograd.grad(gradient.square().sum(), x)


# -- other loops ------------------------------------------------------------------------------------------------------


def test_raw_rnn_takes_them() -> None:
    step = Step("x, h -> h")
    cell = unspool.cell(lambda x, h: ((step(x, h), h > 0), step(x, h)))
    x, h = inputs(), zeros()

    def loop_fn(time: int, output: Any, state: Any, loop_state: Any) -> Any:
        finished = torch.tensor([time >= length for length in LENGTHS])
        return finished, x[:, min(time, TIME - 1)], h if output is None else state, output, None

    emits, state, _ = unspool.raw_rnn(cell, loop_fn)
    outputs, expected = unspool.dynamic_rnn(cell, x, LENGTHS, h)
    torch.testing.assert_close(state, expected)
    for one, other in zip(emits, outputs, strict=True):
        torch.testing.assert_close(one.stack().transpose(0, 1), other)

    def none(time: int, *_: Any) -> Any:
        return torch.ones(BATCH, dtype=torch.bool), x[:, 0], h, None, None

    emits, _, _ = unspool.raw_rnn(cell, none)
    assert [each.dtype for each in emits] == [torch.float64, torch.bool]
    with pytest.raises(ValueError, match="has None, so that loop_fn must give a template"):
        unspool.raw_rnn(unspool.cell(lambda x, h: (None, h)), none)


def test_a_state_of_unknown_size_is_saved_by_its_names() -> None:
    shelf: Any = type("Shelf", (dict,), {"state": dict.__getitem__, "save_state": dict.__setitem__})()
    shelf.update(h=zeros(), c=zeros())
    cell = unspool.cell(Step("x, (h, c) -> (h, c)"), returns="state")
    _, state = unspool.static_state_saving_rnn(cell, list(inputs().unbind(1)), shelf, ("h", "c"))
    assert torch.equal(shelf["c"], state[1])


def test_decoding_needs_an_output_size() -> None:
    helper = unspool.TrainingHelper(inputs(), [TIME] * BATCH)
    with pytest.raises(ValueError, match="cell does not know the size of its output, which decoding needs"):
        unspool.BasicDecoder(unspool.cell(Step("")), helper, zeros())
    decoder = unspool.BasicDecoder(unspool.cell(Step(""), output_size=UNITS), helper, zeros())
    outputs, _, _ = unspool.dynamic_decode(decoder)
    assert outputs.rnn_output.shape == (BATCH, TIME, UNITS)


# -- once a sequence --------------------------------------------------------------------------------------------------


class Dropped(nn.Module):
    """A weight that a method masks, which is called what its author liked."""

    def __init__(self) -> None:
        super().__init__()
        self.raw = nn.Parameter(torch.randn(UNITS, UNITS, dtype=torch.float64))
        self.masks = 0

    def sample_mask(self) -> None:
        self.masks += 1
        self.weight = self.raw * (torch.arange(UNITS) != self.masks)

    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        return torch.tanh(x + h @ self.weight)


@pytest.mark.parametrize("batch_axis", [0, 1])
def test_weights_that_are_made_once_a_sequence(batch_axis: int) -> None:
    step = Dropped()

    def one(x: Tensor, h: Tensor) -> Tensor:
        return step(x, h if batch_axis == 0 else h.T).movedim(0, batch_axis)

    cell = unspool.cell(one, returns="state", batch_axis=batch_axis, start_sequence=step.sample_mask)
    state, x = zeros(UNITS).movedim(0, batch_axis), inputs(UNITS)
    for masks in (1, 2):
        outputs, final = unspool.dynamic_rnn(cell, x, LENGTHS, state)
        assert step.masks == masks
        expected = by_hand(lambda x, h: (one(x, h).movedim(batch_axis, 0), one(x, h)), x, LENGTHS, state, batch_axis)
        torch.testing.assert_close((outputs, final), expected)
        (gradient,) = torch.autograd.grad(outputs.sum(), [step.raw], retain_graph=True)
        (wanted,) = torch.autograd.grad(expected[0].sum(), [step.raw])
        torch.testing.assert_close(gradient, wanted)
        assert unspool.explain(cell, x, LENGTHS, state).planned
        step.masks = masks


# -- mistakes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: unspool.cell(3), TypeError, "step must be a function or a module, but is 3"),
        (lambda: unspool.cell(nn.Linear), TypeError, "step is the class Linear, not a module made from it"),
        (lambda: unspool.cell(unspool.GRUCell(3)), TypeError, "step is a cell already"),
        (lambda: unspool.cell(print, -1), ValueError, "state_size must be fully defined"),
        (lambda: unspool.cell(print, output_size="3"), ValueError, "output_size must be fully defined"),
        (lambda: unspool.cell(print, takes="state"), ValueError, r"takes must be 'input, state' or 'state, input'"),
        (lambda: unspool.cell(print, returns="output"), ValueError, r"returns must be .* or 'state', .* 'output'"),
        (lambda: unspool.cell(print, returns="*output, *state"), ValueError, "with a star before one of them or none"),
        (lambda: unspool.cell(print, takes=3), TypeError, "takes and returns must be strings, but are 3"),
        (lambda: unspool.cell(print, start_sequence=3), TypeError, "start_sequence must be a function, but is 3"),
        (lambda: unspool.cell(print, batch_axis="1"), ValueError, "batch_axis must be an int or a structure of ints"),
    ],
)
def test_mistakes_of_making_one(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(
    ("cell", "state", "message"),
    [
        (unspool.cell(lambda x, h: h), zeros(), "step returned a Tensor.*write returns='state'"),
        (unspool.cell(lambda x, h: (h, h, h)), zeros(), "step returned a tuple of 3, but returns='output, state'"),
        (unspool.cell(lambda x, *s: s, takes="input, *state"), zeros(), "spreads the state, but it is a Tensor"),
    ],
)
def test_mistakes_of_a_step(cell: Any, state: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        unspool.dynamic_rnn(cell, inputs(), None, state)


def test_an_output_from_an_empty_state_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="takes the output from the state, which is empty"):
        unspool.dynamic_rnn(unspool.cell(lambda x, s: s, returns="state"), inputs(), None, ())
