"""An explanation as text, picture and HTML."""

from __future__ import annotations

import io
from typing import Any
from xml.etree import ElementTree

import pytest
import torch
from rich.console import Console
from torch import Tensor

import unspool
from tests.explaining import explain_user_cell, lstm
from unspool import LSTMCell, explain

SHOWN = ["lstm_two_linears", "conv_lstm", "dropout_zoneout", "stacked", "peephole_projection", "inplace", "branching"]


@pytest.mark.parametrize("name", SHOWN)
def test_the_text_has_a_fixed_width_and_no_colours(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    text = str(explain_user_cell(name))
    assert text.isascii()
    assert text.isprintable() or set(text) - set(filter(str.isprintable, text)) == {"\n"}
    assert all(len(line) <= 100 and line == line.rstrip() for line in text.splitlines())


@pytest.mark.parametrize("name", SHOWN)
def test_picture_and_html_are_well_formed(name: str) -> None:
    explanation = explain_user_cell(name)
    svg = ElementTree.fromstring(explanation.svg())
    assert svg.tag == "{http://www.w3.org/2000/svg}svg"
    html = ElementTree.fromstring(explanation._repr_html_())
    assert html.find("{http://www.w3.org/2000/svg}svg") is not None
    words = " ".join(html.itertext())
    for product in explanation.products:
        assert product.shapes in words
    for line in explanation.lines:
        assert line.text in words


def test_what_the_user_wrote_is_escaped() -> None:
    class Marked(unspool.RNNCell):
        state_size = output_size = 2

        def forward(self, x: Tensor, h: Tensor) -> Any:
            h = torch.where(h < x, x & h, h) if False else torch.minimum(x, h) + len("[bold]<b>&")
            return h, h

    explanation = explain(Marked(), torch.zeros(2, 5, 2), dtype=torch.float32)
    assert 'len("[bold]<b>&")' in " ".join(str(explanation).split())
    assert "&lt;b&gt;&amp;" in explanation._repr_html_()
    ElementTree.fromstring(explanation._repr_html_())


def test_rich_prints_it_with_its_own_console() -> None:
    console = Console(file=io.StringIO(), record=True, width=100)
    console.print(lstm())
    assert "Matrix products" in console.export_text()


def test_a_picture_of_many_steps_shows_some() -> None:
    explanation = explain(LSTMCell(8), torch.zeros(2, 5000, 3), dtype=torch.float32)
    words = [each.strip() for each in ElementTree.fromstring(explanation.svg()).itertext()]
    assert "x₅₀₀₀" in words
    assert len(explanation.svg()) < 40_000
