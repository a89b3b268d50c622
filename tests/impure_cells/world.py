"""Steps that read or change the world around the program."""

from __future__ import annotations

import io
import os
import pathlib
import tempfile
import time
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.cell_changes.table import made
from tests.impure_cells.table import Cells, Impure, impure


@impure
def reads_a_file(patch: pytest.MonkeyPatch) -> Cells:
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "gain")
        path.write_text("0.5")
        yield Impure(made(lambda self, t: t * float(path.read_text())))


@impure
def reads_an_open_file(patch: pytest.MonkeyPatch) -> Cells:
    text = io.StringIO("123456789")
    yield Impure(made(lambda self, t: t * float(text.read(1))), text.tell)


@impure
def writes_a_file(patch: pytest.MonkeyPatch) -> Cells:
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "notes")
        path.touch()

        def act(self: Any, t: Tensor) -> Tensor:
            with path.open("a") as file:
                file.write("a step\n")
            return torch.tanh(t)

        yield Impure(made(act), path.read_text)


@impure
def lists_a_folder(patch: pytest.MonkeyPatch) -> Cells:
    with tempfile.TemporaryDirectory() as folder:
        yield Impure(made(lambda self, t: t * (1 + len(os.listdir(folder)))))


@impure
def writes_the_environment(patch: pytest.MonkeyPatch) -> Cells:
    patch.setenv("USER_STEPS", "")

    def act(self: Any, t: Tensor) -> Tensor:
        os.environ["USER_STEPS"] += "s"
        return torch.tanh(t)

    yield Impure(made(act), lambda: os.environ["USER_STEPS"])


@impure
def seeds_torch(patch: pytest.MonkeyPatch) -> Cells:
    """Every step draws the same: a plan that draws ahead would not."""

    def act(self: Any, t: Tensor) -> Tensor:
        torch.manual_seed(3)
        return t * torch.rand(3, dtype=t.dtype)

    yield Impure(made(act), lambda: hash(tuple(torch.get_rng_state().tolist())))


@impure
def sets_a_flag_of_torch(patch: pytest.MonkeyPatch) -> Cells:
    before = torch.get_default_dtype()

    def act(self: Any, t: Tensor) -> Tensor:
        torch.set_default_dtype(torch.float64)
        return torch.tanh(t)

    try:
        yield Impure(made(act), torch.get_default_dtype)
    finally:
        torch.set_default_dtype(before)


@impure
def measures_time_beside_the_numbers(patch: pytest.MonkeyPatch) -> Cells:
    def act(self: Any, t: Tensor) -> Tensor:
        start = time.perf_counter()
        t = torch.tanh(t)
        self.times.append(time.perf_counter() - start)
        return t

    yield Impure(cell := made(act, times=[]), lambda: len(cell.times))


@impure
def raises_after_a_while(patch: pytest.MonkeyPatch) -> Cells:
    """An exception that the step itself catches, by a counter."""
    levels = [0.5, 0.7]

    def act(self: Any, t: Tensor) -> Tensor:
        try:
            return t * levels.pop()
        except IndexError:
            return t

    yield Impure(made(act), lambda: list(levels))
