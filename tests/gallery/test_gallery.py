"""The gallery as a whole: its public list, and its page."""

from __future__ import annotations

import os
import re
import runpy
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.nursery import nursery
from unspool import RNNCell, gallery

ROOT = Path(__file__).parents[2]


def test_every_cell_is_listed_and_is_a_cell() -> None:
    assert len(gallery.__all__) >= 40
    assert gallery.__all__ == sorted(gallery.__all__)
    assert all(issubclass(getattr(gallery, name), RNNCell) for name in gallery.__all__)


def test_the_page_shows_every_cell_and_no_other() -> None:
    page = (ROOT / "docs" / "gallery.md").read_text()
    shown = [line.split("`")[1] for line in page.splitlines() if line.startswith("| `")]
    assert sorted(shown) == gallery.__all__


@cache
def script() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs" / "images" / "gallery.py"))


def test_the_page_is_what_its_script_writes() -> None:
    page = (ROOT / "docs" / "gallery.md").read_text()
    assert script()["page"](script()["measured"]()) == page, "run python -m docs.images.gallery"


def test_the_page_has_a_picture_of_every_cell_and_no_other() -> None:
    pictures = sorted(each.stem for each in (ROOT / "docs" / "images" / "gallery").iterdir())
    assert pictures == gallery.__all__


@pytest.mark.compiled
@pytest.mark.parametrize("name", ["ConvGRUCell", "MGUCell", "RSSMCell"])
def test_a_picture_of_the_page_is_what_explain_draws(name: str) -> None:
    pinned = re.search(r"^torch==(\d+\.\d+)", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    if pinned is None or not torch.__version__.startswith(f"{pinned[1]}."):
        pytest.skip("another torch may take a step apart differently")
    picture = (ROOT / "docs" / "images" / "gallery" / f"{name}.svg").read_text()
    assert script()["picture"](name) == picture, "run python -m docs.images.gallery"


def test_the_page_shows_what_was_measured() -> None:
    """With a report of which all cells but one have the same numbers, and one could not be compared."""
    loop, emitters = {"1 thread": 4.0, "2 threads": 25.0}, {"forward": "c++", "backward": "c++"}
    ours = {"first_ms": 700.0, "about": emitters}
    cases = {
        f"{name}, {shape}, {threads}": {"dynamic_rnn": ours, "Python loop": {"ratio": ratio}}
        for name in gallery.__all__
        for shape in script()["SHAPES"]
        for threads, ratio in loop.items()
    }
    for title in cases:
        if title.startswith("MGUCell"):
            cases[title] = {"dynamic_rnn": {"first_ms": 2800.0, "about": {}}, "Python loop": {"ratio": 1.0}}
        if title.startswith("DNCCell"):
            cases[title] = {"dynamic_rnn": ours, "Python loop": {"ratio": None}}
    page = script()["page"]({"environment": {"device": "a CPU", "torch": "2.0"}, "cases": cases})
    assert "| `SRUCell` | A simple recurrent unit with a highway around it | 4.0, 25 | 4.0, 25 | 0.7 s |" in page
    assert re.search(r"\| `DNCCell` \| .* \|  \|  \|  \|", page)
    assert f"The median of {len(gallery.__all__) - 1} cells is 4.0, 25 with 32 rows" in page
    assert "All but `MGUCell` (plain loop, plain loop) are compiled" in page
    assert "takes 0.7 s (median), and 2.8 s at most" in " ".join(page.split())


def test_it_is_an_import_of_its_own(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, unspool\nassert not any(name.startswith('unspool.gallery') for name in sys.modules)\n"
    )
    status, _, errors = nursery("import torch", ROOT).run(program, tmp_path, {**os.environ}, timeout=60)
    assert status == 0, errors
    assert "unspool.gallery" in sys.modules  # here
