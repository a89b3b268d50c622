"""Steps that print, log, or note down what they see."""

from __future__ import annotations

import io
import logging
import sys
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.cell_changes.table import made, module
from tests.impure_cells.table import Cells, Impure, impure, noted, shown


@impure
def prints(patch: pytest.MonkeyPatch) -> Cells:
    out = io.StringIO()

    def act(self: Any, t: Tensor) -> Tensor:
        print("a step", file=out)
        return torch.tanh(t)

    yield Impure(made(act), out.getvalue)


@impure
def prints_to_standard_output(patch: pytest.MonkeyPatch) -> Cells:
    out = io.StringIO()

    def act(self: Any, t: Tensor) -> Tensor:
        print("a step")
        return torch.tanh(t)

    patch.setattr(sys, "stdout", out)
    yield Impure(made(act), out.getvalue)


@impure
def logs(patch: pytest.MonkeyPatch) -> Cells:
    log, records = logging.getLogger("user.steps"), list[str]()
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record.getMessage())
    log.addHandler(handler)
    log.setLevel(logging.INFO)

    def act(self: Any, t: Tensor) -> Tensor:
        log.info("a step")
        return torch.tanh(t)

    try:
        yield Impure(made(act), lambda: list(records))
    finally:
        log.removeHandler(handler)


@impure
def warns(patch: pytest.MonkeyPatch) -> Cells:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")

        def act(self: Any, t: Tensor) -> Tensor:
            warnings.warn("a step", stacklevel=1)
            return torch.tanh(t)

        yield Impure(made(act), lambda: [str(each.message) for each in seen or () if each.category is UserWarning])


@impure
def tensors_in_a_list(patch: pytest.MonkeyPatch) -> Cells:
    def act(self: Any, t: Tensor) -> Tensor:
        self.notes.append(t)
        return torch.tanh(t)

    yield Impure(cell := made(act, notes=[]), lambda: noted(cell.notes))


@impure
def tensors_in_a_list_of_a_closure(patch: pytest.MonkeyPatch) -> Cells:
    notes: list[Tensor] = []

    def act(self: Any, t: Tensor) -> Tensor:
        notes.append(t.detach())
        return torch.tanh(t)

    yield Impure(made(act), lambda: noted(notes))


@impure
def tensors_in_a_global_list(patch: pytest.MonkeyPatch) -> Cells:
    own = module(patch, "user_own", "NOTES = []\ndef act(self, t):\n    NOTES.append(t.detach())\n    return t")
    yield Impure(made(own.act), lambda: noted(own.NOTES))


@impure
def attribute_in_backward(patch: pytest.MonkeyPatch) -> Cells:
    """Only code that runs backward writes it, and reads it."""

    class Counted(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, t: Tensor, cell: Any) -> Tensor:
            ctx.cell = cell
            return t.clone()

        @staticmethod
        def backward(ctx: Any, d: Tensor) -> Any:
            ctx.cell.last = 2.0
            return d * ctx.cell.last, None

    def act(self: Any, t: Tensor) -> Tensor:
        return torch.tanh(Counted.apply(t, self))

    yield Impure(cell := made(act, last=None), lambda: cell.last)


@impure
def tensor_in_an_attribute(patch: pytest.MonkeyPatch) -> Cells:
    def act(self: Any, t: Tensor) -> Tensor:
        self.last = t.detach()
        return torch.tanh(t)

    yield Impure(cell := made(act, last=None), lambda: shown(cell.last))


@impure
def tensor_in_an_attribute_that_is_new(patch: pytest.MonkeyPatch) -> Cells:
    def act(self: Any, t: Tensor) -> Tensor:
        self.last = t.detach()
        return torch.tanh(t)

    yield Impure(cell := made(act), lambda: shown(getattr(cell, "last", None)))


@impure
def number_in_an_attribute(patch: pytest.MonkeyPatch) -> Cells:
    """The same at every step, and still not there before the first."""

    def act(self: Any, t: Tensor) -> Tensor:
        self.width = t.shape[1]
        return torch.tanh(t)

    yield Impure(cell := made(act), lambda: getattr(cell, "width", None))


@impure
def attribute_is_deleted(patch: pytest.MonkeyPatch) -> Cells:
    def act(self: Any, t: Tensor) -> Tensor:
        if hasattr(self, "first"):
            del self.first
            return t
        return torch.tanh(t)

    yield Impure(cell := made(act, first=True), lambda: hasattr(cell, "first"))


@impure
def attribute_of_an_input(patch: pytest.MonkeyPatch) -> Cells:
    seen: list[Tensor] = []

    class Cell(made(lambda self, t: t).__class__):  # type: ignore[misc]
        def forward(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
            seen.append(x)
            x.noted = True  # type: ignore[attr-defined]
            return super().forward(x, h)

    yield Impure(Cell(), lambda: [hasattr(each, "noted") for each in seen])


@impure
def gradient_hook(patch: pytest.MonkeyPatch) -> Cells:
    """Called in backward, once a step."""
    norms: list[Any] = []

    def act(self: Any, t: Tensor) -> Tensor:
        if t.requires_grad:
            t.register_hook(lambda gradient: norms.append(shown(gradient)))
        return torch.tanh(t)

    yield Impure(made(act), lambda: list(norms))
