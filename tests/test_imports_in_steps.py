"""Modules that a step imports at its first run, and packages that lie wherever Python looks for them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import unspool
from unspool.engine.reasons import Code

OWN = "factor = {factor}\ndef scaled(t):\n    return factor * t\n"
CACHED = """
from functools import lru_cache
@lru_cache(256)
def recipe(pattern):
    return len(pattern)
def scaled(t):
    return recipe("ab") * t
"""


def written(patch: pytest.MonkeyPatch, folder: Path, name: str, text: str, *, record: bool = False) -> None:
    """A module in a folder on Python's path, which nobody has imported; an installer leaves a record of it."""
    (folder / f"{name}.py").write_text(text)
    if record:
        notes = folder / f"{name}-1.0.dist-info"
        notes.mkdir()
        (notes / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (notes / "RECORD").write_text(f"{name}.py,,\n{name}-1.0.dist-info/RECORD,,\n")
    patch.syspath_prepend(str(folder))
    patch.delitem(sys.modules, name, raising=False)


def run(cell: Any) -> tuple[Tensor, Tensor]:
    return unspool.dynamic_rnn(cell, torch.ones(2, 3, 4), initial_state=torch.zeros(2, 4))


def test_a_step_that_imports_at_its_first_run_is_planned_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    written(monkeypatch, tmp_path, "scaling_of_a_user", OWN.format(factor=2.0))

    def step(x: Tensor, h: Tensor) -> Any:
        import scaling_of_a_user

        h = torch.tanh(scaling_of_a_user.scaled(x) + h)
        return h, h

    cell = unspool.cell(step)
    try:
        with unspool.strict():
            first = run(cell)
        # What it has imported is guarded, like what it had before.
        sys.modules["scaling_of_a_user"].factor = 3.0  # type: ignore[attr-defined]
        with unspool.strict():
            second = run(cell)
    finally:
        del sys.modules["scaling_of_a_user"]
    h = {2.0: torch.zeros(2, 4), 3.0: torch.zeros(2, 4)}
    for _ in range(3):
        h = {factor: torch.tanh(factor + each) for factor, each in h.items()}
    # One tanh, which compiled cores compute with errors of 2.6 units in the last place.
    torch.testing.assert_close((first[1], second[1]), (h[2.0], h[3.0]), rtol=0, atol=1e-6)


def test_a_module_that_is_never_found_is_looked_for_and_the_step_planned() -> None:
    def step(x: Tensor, h: Tensor) -> Any:
        try:
            import nobody_has_this_module
        except ImportError:
            h = torch.tanh(x + h)
        else:
            h = nobody_has_this_module.step(x, h)
        return h, h

    assert unspool.explain(unspool.cell(step), torch.ones(2, 3, 4), initial_state=torch.zeros(2, 4)).planned


@pytest.mark.parametrize("record", [True, False], ids=["installed", "the user's own"])
def test_a_package_with_an_installers_record_is_taken_as_it_is(
    record: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    name = "recipes_installed" if record else "recipes_of_a_user"
    written(monkeypatch, tmp_path, name, CACHED, record=record)
    recipes = __import__(name)

    def step(x: Tensor, h: Tensor) -> Any:
        h = torch.tanh(recipes.scaled(x) + h)
        return h, h

    explanation = unspool.explain(unspool.cell(step), torch.ones(2, 3, 4), initial_state=torch.zeros(2, 4))
    del sys.modules[name]
    if record:
        assert explanation.planned, explanation.reason
    else:  # the cache of a function holds what no guard sees
        assert explanation.reason is not None
        assert explanation.reason.code is Code.UNGUARDED
        assert "recipe, a functools._lru_cache_wrapper" in explanation.reason.message
