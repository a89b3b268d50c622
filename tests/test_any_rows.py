"""A step that asks for the number of rows is refused at once, with its line, and runs in the plain loop."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.row_steps import UNITS, Step, planned, rows_of
from unspool import dynamic_rnn
from unspool.engine.execute import plain
from unspool.engine.reasons import CannotPlanError


def row_by_row(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    rows: list[Tensor] = []
    for b in range(x.shape[0]):
        rows.append(torch.tanh(x[b] + h[b] @ cell.w))
    return torch.stack(rows)


def caught(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    try:
        rows = int(x.shape[0])
    except Exception:
        rows = 1
    return torch.tanh(x + h) * rows


def alone(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    if x.shape[0] == 1:
        return torch.tanh(x - h)
    return torch.tanh(x + h)


def alone_and_caught(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    try:
        return torch.tanh(x - h) if x.shape[0] < 2 else torch.sin(x + h)
    except Exception:
        return torch.tanh(x + h)


ASKING: dict[str, tuple[Callable[..., Any], str]] = {
    "a loop over range": (row_by_row, "in `for b in range"),
    "an int": (lambda cell, x, h: torch.tanh(x + h) * int(x.shape[0]), "in `.*int"),
    "a float": (lambda cell, x, h: torch.tanh(x + h) * float(x.shape[0]), "in `.*float"),
    "a comparison": (lambda cell, x, h: torch.tanh(x + h) if x.shape[0] == 3 else x + h, "in `.*== 3"),
    "a remainder": (lambda cell, x, h: torch.tanh(x + h) if x.shape[0] % 2 else x + h, "in `.*% 2"),
    "len": (lambda cell, x, h: torch.tanh(x + h) * len(x), "in `.*len"),
    "list": (lambda cell, x, h: torch.tanh(torch.stack(list(x)) + h), "in `.*list"),
    "unbind": (lambda cell, x, h: torch.tanh(torch.stack(x.unbind(0)) + h), "in `.*unbind"),
    "tolist": (lambda cell, x, h: torch.tanh(torch.tensor(x.tolist(), dtype=x.dtype) + h), "in `.*tolist"),
    "a comprehension": (lambda cell, x, h: torch.stack([torch.tanh(row) for row in x]) + h, "in `.*for row in x"),
    "zip": (lambda cell, x, h: torch.stack([a + b.tanh() for a, b in zip(x, h, strict=True)]), "in `.*zip"),
    "split": (lambda cell, x, h: torch.tanh(torch.cat(x.split(1)) + h), "in `.*split"),
    "chunk": (lambda cell, x, h: torch.tanh(torch.cat(x.chunk(x.shape[0])) + h), "in `.*chunk"),
    "halves": (lambda cell, x, h: torch.tanh(torch.cat(x.chunk(2)) + h), "in `.*chunk"),
    "an error that the step catches": (caught, "in `rows = int"),
    "one row": (alone, "in `if x.shape"),
    "not one row": (lambda cell, x, h: torch.tanh(x + h) if x.shape[0] != 1 else x - h, "in `.*!= 1"),
    "the numbers of one row": (lambda cell, x, h: torch.tanh(x + h) if x.numel() > UNITS else x - h, "in `.*numel"),
    "the shape of one row": (lambda cell, x, h: x - h if x.shape == (1, UNITS) else torch.tanh(x + h), "in `.*shape"),
    "one row, caught": (alone_and_caught, "in `.*< 2"),
}


@pytest.mark.parametrize("name", ASKING)
def test_a_step_that_asks_for_the_number_of_rows_is_refused_at_once(name: str) -> None:
    """Its trace goes no further than the question, which for a loop over the rows would take minutes."""
    step, place = ASKING[name]
    with pytest.raises(CannotPlanError):  # the first trace of a process has torch import what it needs
        planned(Step(alone))
    began = time.process_time()
    asked = "depends? on the (number of rows|values of tensors)"  # a list of numbers has both
    with pytest.raises(CannotPlanError, match=f"{asked}.*{place}"):
        planned(Step(step))
    assert time.process_time() - began < 5


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("name", ASKING)
def test_and_it_gives_what_the_plain_loop_gives(name: str, rows: int) -> None:
    torch.manual_seed(0)
    step, _ = ASKING[name]
    if step is caught or (name == "halves" and rows == 1):  # one row has no halves, and 1 is no number of 3 rows
        return
    cell = Step(step)
    dynamic_rnn(cell, rows_of(3, 2), initial_state=rows_of(3))  # with another number of rows
    x, h = rows_of(2, rows), rows_of(rows)
    expected = plain.run(cell, x, None, h, torch.float64)
    found = dynamic_rnn(cell, x, initial_state=h, time_major=True)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_a_number_of_rows_that_a_step_computes_with_is_refused() -> None:
    class Numbered(Step):
        def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
            numbers = torch.arange(x.shape[0], dtype=x.dtype)
            new = torch.tanh(x + h * numbers[:, None])
            return new, new

    with pytest.raises(CannotPlanError, match=r"arange computes with the number of rows, in `numbers = torch.arange"):
        planned(Numbered(alone))


def checked(cell: Any, x: Tensor, h: Tensor) -> Tensor:
    assert x.shape[0] == h.shape[0]
    assert x.shape == h.shape
    assert x.shape[0] > 0
    assert x.numel()
    if not x.shape[0] or x.shape[-1] != UNITS or x.dim() != 2:
        raise ValueError(f"x has shape {x.shape}")
    return torch.tanh(x + h.reshape(x.shape[0], -1, 2).flatten(1))


def test_what_holds_for_every_number_of_rows_may_be_asked() -> None:
    planned(Step(checked))
