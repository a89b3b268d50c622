"""The gallery as a whole: its public list, and its page."""

from __future__ import annotations

import os
import sys
from pathlib import Path

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


def test_it_is_an_import_of_its_own(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, unspool\nassert not any(name.startswith('unspool.gallery') for name in sys.modules)\n"
    )
    status, _, errors = nursery("import torch", ROOT).run(program, tmp_path, {**os.environ}, timeout=60)
    assert status == 0, errors
    assert "unspool.gallery" in sys.modules  # here
