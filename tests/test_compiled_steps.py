"""Steps with something odd in them, each by a compiled loop: what few cells have, and what was once compiled wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.comparison import plain_loop, results, wanting_gradients
from tests.emitting import assert_compiled, assert_equals_interpreter, interpreter
from unspool import Checkpoint, Keep, Recompute, RNNCell, dynamic_rnn
from unspool.engine import Options, Request
from unspool.engine.emit.cpp.loop import row_by_row
from unspool.engine.ir.program import Value
from unspool.engine.reasons import Code, Reason
from unspool.engine.run import prepare

pytestmark = pytest.mark.compiled

UNITS, STEPS = 4, 5


class Step(RNNCell):
    """A step of one function of the cell, the input and the state, with weights for it to use."""

    def __init__(self, step: Callable[..., Tensor]) -> None:
        super().__init__()
        self.state_size = self.output_size = UNITS
        self.step = step
        self.w = nn.Parameter(torch.randn(UNITS, UNITS, dtype=torch.float64) / 2)
        self.b = nn.Parameter(torch.randn(UNITS, dtype=torch.float64))
        self.none = nn.Parameter(torch.randn(0, UNITS, dtype=torch.float64))

    def forward(self, x: Tensor, h: Tensor) -> Any:
        h = self.step(self, x, h)
        return h, h


def check(cell: RNNCell) -> dict[str, Any]:
    """With lengths and without: the numbers and the gradients of the interpreter, from compiled loops."""
    found: dict[str, Any] = {}
    torch.manual_seed(0)
    inputs = torch.randn(3, STEPS, UNITS, dtype=torch.float64).requires_grad_()
    state = wanting_gradients(cell.zero_state(3, torch.float64))
    for lengths in ([STEPS, 0, 2], None):
        assert_compiled(cell, inputs, lengths, state, torch.float64)
        found = results(dynamic_rnn_of, cell, torch.float64, lengths, inputs, state)
        with interpreter():
            expected = results(dynamic_rnn_of, cell, torch.float64, lengths, inputs, state)
        assert_equals_interpreter(found, expected)
    return found


def dynamic_rnn_of(cell: Any, inputs: Any, lengths: Any, state: Any, dtype: torch.dtype) -> Any:
    return dynamic_rnn(cell, inputs, lengths, state, dtype)


def pairs(t: Tensor) -> Tensor:
    return t.view(-1, 2, 2)


STEPS_OF = {
    "where the largest is": lambda c, x, h: torch.tanh(x + h @ c.w + (h @ c.w).argmax(-1, keepdim=True)),
    "where the largest of a sum is": lambda c, x, h: torch.tanh(h + (x.relu() + h.abs()).argmax(1)[:, None]),
    "where the largest across a row is": lambda c, x, h: torch.tanh(
        h + (x * h)[:, :, None].expand(-1, -1, 3).transpose(1, 2).argmax(1)
    ),
    "where the largest of one is": lambda c, x, h: torch.tanh(h + x[:, :1].argmax(1)[:, None]),
    "sums of vectors": lambda c, x, h: torch.tanh((h[:, :, None] * x[:, None, :]).sum(1) + h),
    "products of columns and rows": lambda c, x, h: torch.tanh(
        (h[:, :, None] @ x[:, None, :]).sum(2) + torch.bmm(x[:, :, None], h[:, None, :]).amax(1)
    ),
    "minus a negative number": lambda c, x, h: torch.tanh(x + h @ c.w) * -torch.full_like(h, -0.5),
    "a number minus a negative number": lambda c, x, h: torch.tanh(x + h) - (-0.5 - torch.full_like(h, -0.25)),
    "a product of constants and rows": lambda c, x, h: torch.tanh(
        x + torch.bmm(torch.ones(x.shape[0], 2, 2, dtype=x.dtype), pairs(h)).flatten(1)
    ),
    "a product of rows and constants": lambda c, x, h: torch.tanh(
        x + torch.bmm(pairs(h), torch.full_like(pairs(h), 0.5)).flatten(1)
    ),
    "a product of a number and a vector": lambda c, x, h: torch.tanh(
        x + torch.bmm(h.sum(1)[:, None, None], x[:, None]).squeeze(1)
    ),
    "a product of two numbers": lambda c, x, h: torch.tanh(
        x + torch.bmm(h.sum(1)[:, None, None], torch.tanh(h).mean(1)[:, None, None]).squeeze(1)
    ),
    "a product of constants and a matrix": lambda c, x, h: torch.tanh(x + h + torch.full_like(h, 0.5) @ c.w),
    "the sign of NaN": lambda c, x, h: torch.sign(h * torch.nan) + torch.tanh(x + h),
    "the signs of zeros": lambda c, x, h: torch.atan2(torch.expm1(0 * x), -1 + 0 * h) + torch.log1p(0 * h),
    "truth values as numbers": lambda c, x, h: torch.tanh(
        x + ((h > 0) == 2).to(h.dtype) + 3 * ((h > 0) < 2).to(h.dtype)
    ),
    "whole numbers that overflow": lambda c, x, h: torch.tanh(
        x + ((10 * h).to(torch.int8) * 30 + 100).to(h.dtype) / 99
    ),
    "an empty piece": lambda c, x, h: torch.tanh(torch.cat([x, torch.tanh(h[:, UNITS:])], 1) + h),
    "an empty product": lambda c, x, h: torch.tanh(x + h + h[:, UNITS:] @ c.none),
    "an empty product of inputs": lambda c, x, h: torch.tanh(x + h + x[:, UNITS:] @ c.none),
    "bounds that cross": lambda c, x, h: torch.tanh(x + h.clamp(0.5, -0.5)),
    "a step beyond both ends": lambda c, x, h: torch.lerp(h, x, -0.7) / 2 + torch.lerp(h, x, 1.7) / 4,
    "pieces in the opposite order": lambda c, x, h: torch.tanh(x + torch.cat(h.split(1, 1)[::-1], 1)),
    "some of many pieces": lambda c, x, h: torch.tanh(x + h.unbind(1)[0][:, None] * h.unbind(1)[3][:, None]),
    "a state in another's place": lambda c, x, h: torch.cat([h[:, 2:], h[:, :2]], 1),
    "products of products": lambda c, x, h: torch.tanh(x + torch.tanh(torch.tanh(h @ c.w) @ c.w.t()) @ c.w + c.b),
    "a product and what it is of": lambda c, x, h: (h @ c.w + h) / 4 + torch.tanh(x),
    "a product added to itself": lambda c, x, h: torch.tanh(x + (h @ c.w) + (h @ c.w)),
    "one product twice": lambda c, x, h: torch.tanh((h @ c.w + x) + (h @ c.w) * 0.5),
    "a product that a bias repeats": lambda c, x, h: torch.tanh((h @ c.w[:, :1]) + c.b + x),
    "a norm of two axes": lambda c, x, h: h / (1 + pairs(h).norm(dim=(1, 2))[:, None]) + torch.tanh(x) / 2,
    "a variance of one number": lambda c, x, h: torch.tanh(x + h[:, :1].var(1, correction=0, keepdim=True) + h),
    "softmax of one number": lambda c, x, h: torch.tanh(x + h[:, :1].softmax(1) * h),
    "softmax of minus infinity": lambda c, x, h: torch.tanh(
        x + h.masked_fill(h > 0.1, -torch.inf).clamp(min=-1e300).softmax(1) + h
    ),
    "one row of a matrix": lambda c, x, h: torch.tanh(x + h * c.w[2] + c.w[:, 1]),
    "logarithms of probabilities": lambda c, x, h: F.log_softmax(x + h, 1) / 4,
}


@pytest.mark.parametrize("name", STEPS_OF)
def test_equals_the_interpreter(name: str) -> None:
    torch.manual_seed(0)
    check(Step(STEPS_OF[name]))


class Continued(RNNCell):
    """Has lines that end with a backslash."""

    def __init__(self) -> None:
        super().__init__()
        self.state_size = self.output_size = UNITS
        self.w = nn.Parameter(torch.randn(UNITS, UNITS, dtype=torch.float64) / 2)

    def forward(self, x: Tensor, h: Tensor) -> Any:
        # fmt: off
        h = h @ self.w + \
            x
        h = torch.tanh(h) + h.sum(1, keepdim=True) / 9 + \
            0.5
        # fmt: on
        return h, h


class Twice(RNNCell):
    """Puts out its state, and the same once more, and the state that it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.state_size, self.output_size = UNITS, (UNITS, UNITS, UNITS)

    def forward(self, x: Tensor, h: Tensor) -> Any:
        new = torch.tanh(x + h)
        return (new, new, h), new


class Nothing(RNNCell):
    """Has a state without elements beside another, and a state that is always zero."""

    def __init__(self) -> None:
        super().__init__()
        self.state_size, self.output_size = (UNITS, 0, UNITS), UNITS

    def forward(self, x: Tensor, state: Any) -> Any:
        h, nothing, zero = state
        h = torch.tanh(x + h + zero)
        return h, (h, torch.tanh(nothing), torch.zeros_like(zero))


class Swapping(RNNCell):
    """Two states change places at every step."""

    def __init__(self) -> None:
        super().__init__()
        self.state_size, self.output_size = (UNITS, UNITS, torch.Size([2, 2])), UNITS

    def forward(self, x: Tensor, state: Any) -> Any:
        one, other, pair = state
        return one + pair.flatten(1), (other, one + x, torch.tanh(pair.transpose(1, 2) + pair.sum((1, 2), True)))


class Matching(RNNCell):
    """Each part of the state asks by a matrix of its own: what is kept of that is read by sums over rows alone."""

    def __init__(self) -> None:
        super().__init__()
        self.state_size = self.output_size = UNITS
        self.ask = nn.Parameter(torch.randn(2, 2, 8, dtype=torch.float64) / 2)
        self.key = nn.Linear(UNITS, 8).double()

    def forward(self, x: Tensor, h: Tensor) -> Any:
        parts = pairs(h)
        asked = torch.einsum("bki,kio->bko", parts, self.ask)
        score = (asked * self.key(x).unsqueeze(1)).sum(2, keepdim=True)
        h = torch.tanh(parts * score + pairs(x)).flatten(1)
        return h, h


@pytest.mark.parametrize("make", [Continued, Nothing, Swapping, Matching])
def test_cells_equal_the_interpreter(make: Callable[[], RNNCell]) -> None:
    torch.manual_seed(0)
    check(make())


def test_outputs_may_be_the_same() -> None:
    found = check(Twice())
    assert torch.equal(found["outputs 0"], found["outputs 1"])
    assert torch.equal(found["outputs 0"][:, :-1], found["outputs 2"][:, 1:])


WIDER: dict[str, Callable[[Tensor], Tensor]] = {
    "columns": lambda x: torch.cat([x, torch.full_like(x, torch.nan)], 2)[..., :UNITS],
    "steps": lambda x: torch.stack([x, torch.full_like(x, torch.nan)], 1).flatten(0, 1)[::2],
    "one row": lambda x: x[:1, :1].expand_as(x),
    "columns of one step": lambda x: torch.cat([x, x], 2)[:1, :, UNITS:].expand_as(x),
}
"""Rows as parts of something wider, and the same rows again and again."""


@pytest.mark.parametrize("name", WIDER)
def test_rows_may_be_part_of_something_wider(name: str) -> None:
    """Inputs, and gradients of outputs: the same numbers as from rows one after another."""
    torch.manual_seed(0)
    cell = Step(lambda own, x, h: torch.tanh(x @ own.w + h * own.b))
    rows, gradient = (WIDER[name](torch.randn(STEPS, 3, UNITS, dtype=torch.float64)) for _ in range(2))

    def trained(x: Tensor, d: Tensor) -> list[Tensor]:
        x = x.detach().requires_grad_()
        outputs, state = dynamic_rnn(cell, x, time_major=True)
        return [outputs, state, *torch.autograd.grad(outputs, [x, cell.w, cell.b], d)]

    for one, other in zip(trained(rows, gradient), trained(rows.contiguous(), gradient.contiguous()), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(("name", "copied"), [("columns", False), ("one row", False), ("turned", True)])
def test_rows_are_copied_only_if_they_have_to_be(name: str, copied: bool) -> None:
    x = torch.randn(STEPS, 3, UNITS)
    rows = x.transpose(0, 2).flatten(1).t() if name == "turned" else WIDER[name](x).flatten(0, 1)
    found = row_by_row(rows, Value("x", (UNITS,), torch.float32, axis=0))
    assert (found.data_ptr() != rows.data_ptr()) == copied
    assert torch.equal(found, rows)


class Largest(RNNCell):
    """Puts out where the largest of a row's inputs is, after a product."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.state_size, self.output_size = 1, 1
        self.register_buffer("one", torch.eye(size, dtype=torch.float64))

    def forward(self, x: Tensor, h: Tensor) -> Any:
        where = (x @ self.one).argmax(-1, keepdim=True).double()
        return where, h + where


@pytest.mark.parametrize("size", [1, 2, 7, 63, 64, 65, 200])
def test_of_several_largest_the_first_is_found(size: int) -> None:
    draw = torch.Generator().manual_seed(size)
    rows = torch.randint(-2, 3, (40, size), generator=draw).double()  # most have several largest ones
    with torch.no_grad():
        found, _ = dynamic_rnn(Largest(size), rows[:, None], dtype=torch.float64)
    assert torch.equal(found[:, 0, 0].long(), rows.argmax(-1))


@pytest.mark.parametrize("size", [2, 64, 130])
def test_nan_comes_first(size: int) -> None:
    rows = torch.zeros(4, size, dtype=torch.float64)
    rows[0, size // 2] = torch.nan
    rows[1, -1] = torch.nan
    rows[2] = -torch.inf
    rows[3] = torch.nan

    class Read(RNNCell):
        state_size, output_size = 1, 1

        def forward(self, x: Tensor, h: Tensor) -> Any:
            where = x.argmax(-1, keepdim=True).double()
            return where, h + where

    with torch.no_grad():
        found, _ = dynamic_rnn(Read(), rows[:, None], dtype=torch.float64)
    assert torch.equal(found[:, 0, 0].long(), rows.argmax(-1))


MASKS: dict[str, Callable[[Tensor], Tensor]] = {
    "amax": lambda z: z.amax(1, keepdim=True),
    "amin": lambda z: z.amin(1, keepdim=True),
    "largest norm": lambda z: torch.linalg.vector_norm(z, torch.inf, 1, keepdim=True),
    "own mask": lambda z: (z * (z == z.amax(1, keepdim=True))).sum(1, keepdim=True),
    "own mask of differences": lambda z: torch.where(z - z.amax(1, keepdim=True) >= 0, z, 0).sum(1, keepdim=True),
}


@pytest.mark.parametrize("memory", [Keep(), Recompute(), Checkpoint(every=2)], ids=str)
@pytest.mark.parametrize("name", MASKS)
def test_a_maximum_is_found_again_where_one_phase_is_compiled_and_the_other_is_not(
    name: str, memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Norms are rounded in one way by C++, in another by torch: a maximum of either is not among the other's."""

    def step(cell: Any, x: Tensor, h: Tensor) -> Tensor:
        return torch.tanh(h + MASKS[name](F.layer_norm(x.repeat(1, 9) * cell.wide, (9 * UNITS,))))

    cell = Step(step)
    cell.wide = nn.Parameter(torch.randn(9 * UNITS, dtype=torch.float64))
    inputs = torch.randn(16, STEPS, UNITS, dtype=torch.float64).requires_grad_()
    state = torch.randn(16, UNITS, dtype=torch.float64).requires_grad_()
    call, _ = prepare(Request(cell, inputs.transpose(0, 1), None, state, torch.float64, Options(memory=memory)))
    forward = call.schedule.forward
    compiled = forward.parts(call.layout.mean_rows, None).emitter
    # Undone after the test: cells of the same making share a plan, and two of the policies its phases.
    monkeypatch.setitem(forward._failed, compiled, Reason(Code.ASKED, "the test says so"))
    monkeypatch.setattr(forward, "_chosen", {})
    monkeypatch.setattr(forward, "_latest", None)
    assert forward.parts(call.layout.mean_rows, None).emitter is not compiled

    def run(cell: Any, inputs: Any, lengths: Any, state: Any, dtype: torch.dtype) -> Any:
        return dynamic_rnn(cell, inputs, lengths, state, dtype, memory=memory)

    expected = results(plain_loop, cell, torch.float64, None, inputs, state)
    assert_equals_interpreter(results(run, cell, torch.float64, None, inputs, state), expected)
